"""What every refusal of bad input has in common."""

import pytest

import weakprox as wp


def refused(call, argument, *words):
    """The call raises an InputError about the argument that says what came and is wanted."""
    with pytest.raises(wp.InputError) as caught:
        call()
    error = caught.value
    assert error.argument == argument
    assert str(error).startswith(f"{argument}: got ")
    assert "; wanted " in str(error)
    for word in words:
        assert word in str(error)

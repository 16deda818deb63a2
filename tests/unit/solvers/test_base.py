"""Copies of the state of solvers."""

from dataclasses import FrozenInstanceError, dataclass

import pytest

from weakprox.solvers.base import replace


@dataclass(frozen=True)
class State:
    count: int
    name: str = "first"


def test_a_copy_with_other_values():
    old = State(1)
    new = replace(old, count=2)
    assert (old, new) == (State(1), State(2))
    with pytest.raises(FrozenInstanceError):
        new.count = 3


def test_fields_that_do_not_exist():
    with pytest.raises(TypeError, match="State has no field counts, names"):
        replace(State(1), names="a", counts=2)

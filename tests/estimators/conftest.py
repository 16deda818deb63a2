"""Most tests of models are not about the settings that these choose."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _short(short_searches):
    pass

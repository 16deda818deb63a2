"""Settings shared by all tests: everything random is fixed."""

import os

import hypothesis
import pytest
import torch
from registry import SEED, generator

torch.set_num_threads(1)  # the matrices are tiny: threads would only wait for each other

hypothesis.settings.register_profile(
    "fixed", derandomize=SEED == 0, deadline=None, database=None, max_examples=80
)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def rng():
    return generator(20190416)


def pytest_collection_modifyitems(config, items):
    """Keep the k-th of n shares of the tests where WEAKPROX_TEST_SHARE is "k/n".

    Tests marked `portable`, in which a rounding more or less counts, are in every share.
    """
    share = os.environ.get("WEAKPROX_TEST_SHARE")
    if share is None:
        return
    k, n = (int(x) for x in share.split("/"))
    kept = [x for i, x in enumerate(items) if i % n == k or "portable" in x.keywords]
    config.hook.pytest_deselected(items=[x for x in items if x not in set(kept)])
    items[:] = kept

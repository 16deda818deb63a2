"""Settings shared by all tests: everything random is fixed."""

import gc
import os
from collections import defaultdict
from functools import partialmethod
from pathlib import Path

import hypothesis
import pytest
import torch
from registry import SEED, THOROUGH, generator

os.environ.setdefault("WEAKPROX_COMPILE", "always")  # whatever an earlier run has stored
torch.set_num_threads(1)  # the matrices are tiny: threads would only wait for each other
gc.disable()  # until everything is imported: nothing of that is garbage

hypothesis.settings.register_profile(
    "fixed", derandomize=SEED == 0, deadline=None, database=None, max_examples=80
)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def rng():
    return generator(20190416)


@pytest.fixture(scope="session")
def searches():
    """Where searches for settings may use less data: module or class, name, less, as it is."""
    from weakprox.estimators import _stability, covariance, imputer, links
    from weakprox.selection import _observed_path, denoise

    once = partialmethod(denoise.NoisyMatrix.search, repeats=1)
    short = (
        (denoise.NoisyMatrix, "search", once),
        (_observed_path, "FOLDS", 2),
        (_stability, "REPEATS", 4),
        (_stability, "MOST_REPEATS", 8),
        (_stability, "STARTS", 10),
        (covariance, "REPEATS", 2),
        (imputer, "ROUNDS", 1),
        (links, "ROUNDS", 1),
    )
    return [(where, name, less, vars(where)[name]) for where, name, less in short]


@pytest.fixture(scope="module")
def short_searches(searches):
    """Search for settings by less data, in modules that are hardly about the choice.

    Not if WEAKPROX_TEST_THOROUGH is set, as `make test-all` does.
    """
    with pytest.MonkeyPatch.context() as patch:
        for where, name, less, _ in () if THOROUGH else searches:
            patch.setattr(where, name, less)
        yield


@pytest.fixture
def thorough(searches, monkeypatch):
    """Search as users do, in tests of what is chosen there."""
    for where, name, _, usual in searches:
        monkeypatch.setattr(where, name, usual)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Search for garbage from now on, but not among modules and tests, which stay."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


GRIDS = ("backends", "contracts", "reference", "unit")  # folders with grids of all terms
LARGE, ONE_IN = 8, 12  # variants of a test from which one in so many is run


def _in_grid(path):
    return any(path.is_relative_to(Path(__file__).parent / folder) for folder in GRIDS)


def _thinned(items):
    """One in twelve variants of tests that run over a large grid of terms.

    The first differs from test to test, so that together they see every pair of terms.
    """
    grids, large = defaultdict(list), {x for x in {item.path for item in items} if _in_grid(x)}
    for item in items:
        if item.path in large:
            grids[item.path, getattr(item, "originalname", item.name)].append(item)
    left_out = set()
    for (_, name), found in grids.items():
        if len(found) > LARGE:
            first = sum(map(ord, name)) % ONE_IN
            left_out |= {x for i, x in enumerate(found) if i % ONE_IN != first}
    return left_out


def pytest_collection_modifyitems(config, items):
    """Choose the tests to run.

    One in twelve variants of the largest grids and none that are marked `long`, or all if
    WEAKPROX_TEST_ALL is set (as `make test-all` does) or few files are asked for. Where
    WEAKPROX_TEST_SHARE is "k/n", only the k-th of n shares; tests marked `portable`, in which
    a rounding more or less counts, are in every share.
    """
    whole = os.environ.get("WEAKPROX_TEST_ALL") or len({x.path for x in items}) < 20
    long = {x for x in items if "long" in x.keywords}
    left_out = set() if whole else _thinned(items) | long
    share = os.environ.get("WEAKPROX_TEST_SHARE")
    if share is not None:
        k, n = (int(x) for x in share.split("/"))
        left_out |= {
            x for i, x in enumerate(items) if i % n != k and "portable" not in x.keywords
        }
    if left_out:
        config.hook.pytest_deselected(items=sorted(left_out, key=lambda x: x.nodeid))
        items[:] = [x for x in items if x not in left_out]

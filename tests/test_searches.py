"""Searches of tests: by less data, except where all tests are asked for."""

from pathlib import Path

import pytest
from registry import THOROUGH


@pytest.mark.usefixtures("short_searches")
def test_searches_are_short_unless_all_tests_run(searches):
    for where, name, less, usual in searches:
        assert vars(where)[name] is (usual if THOROUGH else less)


@pytest.mark.usefixtures("short_searches", "thorough")
def test_some_searches_are_always_those_of_users(searches):
    assert all(vars(where)[name] is usual for where, name, _, usual in searches)


def test_all_tests_search_thoroughly():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    assert "test-all: export WEAKPROX_TEST_THOROUGH := 1" in makefile

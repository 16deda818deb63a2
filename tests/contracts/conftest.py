"""The map of costs, whose cells are problems for contracts too."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "map.py"


@pytest.fixture(scope="session")
def cost():
    """The benchmark as a module."""
    found = importlib.util.spec_from_file_location("cost_map", PATH)
    module = importlib.util.module_from_spec(found)
    sys.modules["cost_map"] = module  # which its dataclasses look up
    found.loader.exec_module(module)
    return module

"""No cliffs: neighbouring problems need similar numbers of decompositions."""

import importlib.util
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "map.py"


@pytest.fixture(scope="module")
def cost():
    """The benchmark as a module."""
    found = importlib.util.spec_from_file_location("cost_map", PATH)
    module = importlib.util.module_from_spec(found)
    sys.modules["cost_map"] = module  # which its dataclasses look up
    found.loader.exec_module(module)
    return module


def test_no_cell_is_far_above_its_neighbours(cost):
    assert cost.cliffs(cost.quick()) == []


def test_a_cliff_would_be_seen(cost):
    cell = {**vars(cost.Cell()), "panel": "forms", "status": "CERTIFIED", "svds": 5}
    rows = [dict(cell) for _ in range(6)]
    assert cost.cliffs(rows) == []
    assert len(cost.cliffs([*rows, cell | {"svds": 29}])) == 1
    assert len(cost.cliffs([*rows, cell | {"status": "FINISHED"}])) == 1

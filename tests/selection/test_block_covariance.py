"""Richard, Savalle & Vayatis 2012 in small: both terms together beat either alone."""

import sys
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    for name in ("common", "block_covariance"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import block_covariance

    return block_covariance


@pytest.mark.long
def test_both_terms_beat_either_alone(script):
    table = {}
    for row in script.rows(quick=True):
        table.setdefault(row.method, []).append(row.score)
    both = np.mean(table.pop(script.BOTH))
    assert set(table) == {"sample covariance", script.TRACE, script.ENTRIES}
    for method, scores in table.items():
        assert both <= np.mean(scores), method

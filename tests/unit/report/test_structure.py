"""Components, largest entries and residuals against their definitions."""

import numpy as np
import pytest

from weakprox.linalg.lowrank import LowRank
from weakprox.plots._cells import as_rows
from weakprox.report import structure
from weakprox.report.structure import Labels

GENES = [f"gene {i}" for i in range(30)]
ROWS, COLUMNS = Labels("row", GENES), Labels("column", None)


def low_rank(rng, m=30, d=20, rank=3):
    U, _ = np.linalg.qr(rng.standard_normal((m, rank)))
    V, _ = np.linalg.qr(rng.standard_normal((d, rank)))
    return LowRank(U, np.array([2.0, 5.0, 3.0]), V.T)


def test_components_are_singular_triplets_with_their_largest_loads():
    X = low_rank(np.random.default_rng(0))
    found = structure.components(X, X.sqnorm, ROWS, COLUMNS)
    assert [one["number"] for one in found] == [1, 2, 3]
    assert [one["singular_value"] for one in found] == [5.0, 3.0, 2.0]
    assert [one["share"] for one in found] == pytest.approx([25 / 38, 9 / 38, 4 / 38])
    first, loads = X.U[:, 1], dict(found[0]["rows"])
    largest = np.argsort(-np.abs(first))[:5]
    assert list(loads) == [GENES[i] for i in largest]
    assert loads[GENES[largest[0]]] == pytest.approx(abs(first[largest[0]]))
    sign = np.sign(first[largest[0]])
    column, load = found[0]["columns"][0]
    j = int(column.removeprefix("column ")) - 1
    assert load == pytest.approx(sign * X.Vt[1, j])
    assert abs(load) == np.abs(X.Vt[1]).max()


def test_a_zero_estimate_has_no_components_or_entries():
    X = LowRank(np.zeros((3, 1)), np.zeros(1), np.zeros((1, 2)))
    assert structure.components(X, 0.0, Labels("row", None), COLUMNS) == []
    assert structure.largest_entries(as_rows("X", X), None, ROWS, COLUMNS) == []


def test_largest_entries_over_slices(monkeypatch):
    X = np.random.default_rng(1).standard_normal((30, 20))
    M = X + 0.5
    monkeypatch.setattr("weakprox.plots._cells.CHUNK_BYTES", 8 * 20 * 7)  # seven rows each
    estimate = as_rows("X", X)
    found = structure.largest_entries(estimate, as_rows("M", M).minus(estimate), ROWS, COLUMNS)
    size = np.sort(np.abs(X).ravel())[::-1]
    assert [abs(one["estimate"]) for one in found] == size[: structure.MOST_ENTRIES].tolist()
    i, j = np.unravel_index(np.argmax(np.abs(X)), X.shape)
    assert (found[0]["row"], found[0]["column"]) == (GENES[i], f"column {j + 1}")
    assert all(one["residual"] == pytest.approx(0.5) for one in found)


def test_scatter_pairs_estimates_with_their_residuals(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 20))
    left = 3.0 * X
    left[0, 0] = np.nan
    x, y = structure.scatter(as_rows("X", X), as_rows("M", left))
    assert x.size == 30 * 20 - 1
    np.testing.assert_allclose(y, 3.0 * x, rtol=1e-3)
    monkeypatch.setattr(structure, "MOST_POINTS", 100)
    x, y = structure.scatter(as_rows("X", X), as_rows("M", left))
    assert 50 < x.size <= 100
    np.testing.assert_allclose(y, 3.0 * x, rtol=1e-3)


@pytest.mark.parametrize("shape", [(300, 120), (120, 300), (150, 150)])
def test_the_spectrum_of_noise(shape):
    N = 0.7 * np.random.default_rng(3).standard_normal(shape)
    seen = structure.residual_spectrum(as_rows("N", N))
    law = structure.noise_spectrum(shape, 0.7)
    np.testing.assert_allclose(seen, np.linalg.svd(N, compute_uv=False))
    assert np.abs(seen - law).max() < 0.03 * law[0]


def test_no_spectrum_of_missing_or_many_entries(monkeypatch):
    holes = np.full((4, 3), np.nan)
    assert structure.residual_spectrum(as_rows("M", holes)) is None
    monkeypatch.setattr(structure, "SPECTRUM_BELOW", 2)
    assert structure.residual_spectrum(as_rows("M", np.ones((4, 3)))) is None


def test_long_labels_are_cut():
    assert Labels("row", ["x" * 60])[0] == "x" * 47 + "…"

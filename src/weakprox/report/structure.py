"""The structure of an estimate: components, entries and residuals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.plots._cells import SUPPORT, Rows
from weakprox.selection.noise import mp_quantile

Values = np.ndarray[Any, np.dtype[np.float64]]

MOST_COMPONENTS = 8
MOST_LOADS = 5  # rows, and columns, that are named for a component
MOST_ENTRIES = 12
MOST_POINTS = 2000  # points of the scatter of residuals: more would cover each other
SPECTRUM_BELOW = 1000  # smaller side up to which all singular values take about a second
LONGEST = 48  # characters of a label in a table


class Labels:
    """Names of rows or columns: the labels, or numbers that begin at 1."""

    def __init__(self, kind: str, labels: Sequence[Any] | None) -> None:
        self._kind, self._labels = kind, labels

    def __getitem__(self, index: int) -> str:
        if self._labels is None:
            return f"{self._kind} {index + 1}"
        name = str(self._labels[index])
        return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def components(X: LowRank, whole: float, rows: Labels, columns: Labels) -> list[dict[str, Any]]:
    """The leading singular triplets, with the rows and columns of largest loads.

    Signs are such that the largest load of a row is positive. Shares are of `whole`, the sum
    of squares of the estimate, which may have more triplets than X.
    """
    U, s, Vt = (np.asarray(to_numpy(part), dtype=float) for part in (X.U, X.s, X.Vt))
    order = np.argsort(-s, kind="stable")
    found = []
    for number, k in enumerate(order[:MOST_COMPONENTS], start=1):
        if s[k] <= 0.0:
            break
        sign = np.sign(U[np.argmax(np.abs(U[:, k])), k])
        found.append(
            {
                "number": number,
                "singular_value": s[k],
                "share": s[k] ** 2 / whole,
                "rows": _loads(sign * U[:, k], rows),
                "columns": _loads(sign * Vt[k], columns),
            }
        )
    return found


def _loads(vector: Values, labels: Labels) -> list[tuple[str, float]]:
    size = np.abs(vector)
    leading = np.argsort(-size, kind="stable")[:MOST_LOADS]
    return [(labels[i], float(vector[i])) for i in leading if size[i] > SUPPORT * size.max()]


def largest_entries(
    estimate: Rows, residual: Rows | None, rows: Labels, columns: Labels
) -> list[dict[str, Any]]:
    """The entries of largest size, with their residuals if there are data."""
    best: list[tuple[float, int, int]] = []
    for one in estimate.slices(0, estimate.shape[0]):
        part = estimate.read(one)
        size = np.abs(part).ravel()
        count = min(MOST_ENTRIES, size.size)
        for flat in np.argpartition(-size, count - 1)[:count]:
            i, j = divmod(int(flat), part.shape[1])
            best.append((float(part[i, j]), one.start + i, j))
        best = sorted(best, key=lambda entry: (-abs(entry[0]), *entry[1:]))[:MOST_ENTRIES]
    found = []
    for value, i, j in best:
        if value == 0.0:
            break
        entry = {"row": rows[i], "column": columns[j], "estimate": value}
        if residual is not None:
            left = float(residual.read(slice(i, i + 1))[0, j])
            entry["residual"] = left if math.isfinite(left) else None  # not observed
        found.append(entry)
    return found


def scatter(estimate: Rows, residual: Rows) -> tuple[Values, Values]:
    """Estimates and residuals of entries: all of them, or as many at random as can be seen."""
    m, d = estimate.shape
    picked = np.arange(m * d)
    if picked.size > MOST_POINTS:
        picked = np.unique(np.random.default_rng(0).integers(0, m * d, MOST_POINTS))
    row, column = np.divmod(picked, d)
    pairs = []
    for one in estimate.slices(0, m):
        here = (row >= one.start) & (row < one.stop)
        if here.any():
            place = row[here] - one.start, column[here]
            pairs.append((estimate.read(one)[place], residual.read(one)[place]))
    x, y = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    seen = np.isfinite(x) & np.isfinite(y)
    return _rounded(x[seen]), _rounded(y[seen])


def _rounded(values: Values) -> Values:
    """Five digits: enough to draw, and pages stay small."""
    return np.array([float(f"{value:.5g}") for value in values])


def residual_spectrum(residual: Rows) -> Values | None:
    """All singular values; None if they are costly or entries are missing."""
    m, d = residual.shape
    if min(m, d) > SPECTRUM_BELOW or max(m, d) > 10 * SPECTRUM_BELOW:
        return None
    whole = residual.read(slice(0, m))
    return decompositions.svdvals(whole) if np.isfinite(whole).all() else None


def noise_spectrum(shape: tuple[int, int], noise: float) -> Values:
    """Singular values to expect of pure noise: quantiles of the Marchenko-Pastur law."""
    small, large = min(shape), max(shape)
    shares = (np.arange(small, 0, -1) - 0.5) / small
    return np.asarray(noise * np.sqrt(large * mp_quantile(small / large, shares)))

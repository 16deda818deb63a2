"""Observed entries of a matrix on workers: their residuals and gradients."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from weakprox.distributed.chunks import checked_shape, float_of, picked
from weakprox.distributed.engine import each, fetch, keep, shared, tree
from weakprox.distributed.work import added, greatest
from weakprox.errors import InputError, ShapeError

CHUNK = 4_000_000  # observations that one task reads


class Entries:
    """Observed entries in chunks: rows, columns and values, at least one a dask array.

    Sums over entries of X need a matrix of this shape in this process.
    """

    def __init__(
        self, rows: Any, cols: Any, values: Any, shape: tuple[int, int], weights: Any = None
    ) -> None:
        import dask.array as da

        named = {"values": values, "rows": rows, "cols": cols}
        self.weighted = weights is not None
        if self.weighted:
            named["weights"] = weights
        arrays = {
            name: array if isinstance(array, da.Array) else da.from_array(np.asarray(array))
            for name, array in named.items()
        }
        self.shape = shape
        self.count = checked_shape("values", arrays["values"], 1)[0]
        self.dtype = float_of("values", arrays["values"].dtype)
        for name in ("rows", "cols"):
            if arrays[name].dtype.kind not in "iu":
                raise InputError(name, f"dtype {arrays[name].dtype}", "integers")
        for name in ("rows", "cols", *(["weights"] if self.weighted else [])):
            if (size := checked_shape(name, arrays[name], 1)[0]) != self.count:
                raise ShapeError(name, f"{size} entries", f"{self.count}")
        self._starts = list(range(0, self.count, CHUNK))
        columns = [array.rechunk(CHUNK).to_delayed() for array in arrays.values()]
        alike = [(shape, self.dtype)] * len(self._starts)
        self.parts = keep(each(placed, alike, *columns))
        seen = fetch([tree(greatest, each(examined, self.parts))], self.parts)[0]
        for i, name in enumerate(("rows", "cols")):
            size, low, high = shape[i], -seen[2 + 2 * i], seen[3 + 2 * i]
            if low < 0 or high >= size:
                given = f"indices from {low:.0f} to {high:.0f}"
                raise InputError(name, given, f"0 to {size - 1}")
        if seen[0]:
            raise InputError("values", "NaN or infinite entries", "finite numbers")
        if seen[6]:
            raise InputError("weights", "entries <= 0", "positive numbers: leave others out")
        self.largest = float(seen[1])

    def __truediv__(self, unit: float) -> Entries:
        """The entries in another unit."""
        other = copy(self)
        other.parts = keep(each(divided, self.parts, [unit] * len(self.parts)))
        other.largest = self.largest / unit
        return other

    def counts(self) -> Any:
        """Number of observations of each entry of the matrix, as a vector."""
        sizes = [self.shape] * len(self.parts)
        return fetch([tree(added, each(counted, self.parts, sizes))], self.parts)[0]

    def squares(self, X: Any, batch: Any) -> float:
        """Sum of squared residuals at X over a batch (a slice, or positions)."""
        return float(self._summed(squared, X, batch))

    def pushed(self, X: Any, batch: Any) -> Any:
        """Residuals at X over a batch, summed per entry: m x d."""
        return np.reshape(self._summed(pushed, X, batch), self.shape)

    def _summed(self, what: Any, X: Any, batch: Any) -> Any:
        parts: list[Any] = self.parts
        within: list[Any] = [slice(None)] * len(parts)
        if not isinstance(batch, slice):
            chosen = picked(batch, self._starts, self.count)
            parts, within = [parts[i] for i in chosen.chunks], chosen.within
        tasks = each(what, parts, [shared(X)] * len(parts), within)
        return fetch([tree(added, tasks)], self.parts)[0]


def placed(
    kind: tuple[tuple[int, int], Any], values: Any, rows: Any, cols: Any, *weights: Any
) -> Any:
    """One chunk: rows, columns, flat positions, values, and weights if there are any."""
    shape, dtype = kind
    i, j = (np.asarray(index).astype(np.int64) for index in (rows, cols))
    others = (np.asarray(x).astype(float) for x in weights)
    return i, j, i * shape[1] + j, np.asarray(values).astype(dtype), *others


def examined(part: Any) -> Any:
    """Whether a value is not finite, the largest, the range of indices, and bad weights."""
    i, j, _, values, *weights = part
    wrong = any(not (np.isfinite(x).all() and x.min() > 0.0) for x in weights)
    bad = not np.isfinite(values).all()
    most = 0.0 if bad else float(np.abs(values).max())
    ends = (-i.min(), i.max(), -j.min(), j.max())
    return np.array([bad, most, *ends, wrong], dtype=float)


def divided(part: Any, unit: float) -> Any:
    """The chunk in another unit."""
    return (*part[:3], part[3] / part[3].dtype.type(unit), *part[4:])


def counted(part: Any, shape: tuple[int, int]) -> Any:
    """Number of observations of each entry."""
    return np.bincount(part[2], minlength=shape[0] * shape[1])


def squared(part: Any, X: Any, within: Any) -> float:
    """Sum of squared residuals."""
    r = np.ravel(X)[part[2][within]] - part[3][within]
    return float(np.sum(r * r, dtype=float))


def pushed(part: Any, X: Any, within: Any) -> Any:
    """Residuals, summed per entry of the matrix."""
    cells = part[2][within]
    r = np.ravel(X)[cells] - part[3][within]
    return np.bincount(cells, weights=r, minlength=X.size)

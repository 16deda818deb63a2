"""Terms of finite sums on workers, in chunks: noisy copies, measurements, observed entries."""

from __future__ import annotations

import math
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from weakprox.distributed.engine import Task, each, fetch, keep, shared, tree
from weakprox.distributed.work import added, greatest, loaded
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import all_finite, sqnorm, wide

CHUNK_BYTES = 64 << 20  # bytes of copies or measurements that one task reads
GRAM_BYTES = 8 << 20  # bytes of measurements that are converted to rows of a matrix at once
CHUNK = 4_000_000  # observations that one task reads

Indices = np.ndarray[Any, np.dtype[np.int64]]
Part = tuple[Any, int, float]  # mean, number of copies, sum of squared distances to the mean


def checked_shape(name: str, array: Any, ndim: int) -> tuple[int, ...]:
    """Return the shape of a dask array; raise if axes are empty, unknown or too many."""
    if any(math.isnan(n) for n in array.shape):
        wanted = "known lengths: call compute_chunk_sizes() on it first"
        raise ShapeError(name, f"shape {array.shape}", wanted)
    if array.ndim != ndim or 0 in array.shape:
        raise ShapeError(name, f"shape {array.shape}", f"{ndim} axes, none of them empty")
    return tuple(int(n) for n in array.shape)


def float_of(name: str, dtype: Any) -> np.dtype[Any]:
    """The dtype to compute in; raises if the entries are not real numbers."""
    dtype = np.dtype(dtype).newbyteorder("=")  # blocks are converted
    if dtype in (np.float32, np.float64):
        return dtype  # type: ignore[no-any-return]
    if dtype.kind not in "iub":
        raise InputError(name, f"dtype {dtype}", "float32, float64 or integers")
    return np.dtype(np.float64)


def stand_in(data: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of the same shape and dtype that takes the memory of one number."""
    return np.broadcast_to(np.zeros((), data.dtype), data.shape)


def cut(count: int, size: int) -> list[slice]:
    """Slices of at most this size that cover `count` terms."""
    return [slice(i, min(i + size, count)) for i in range(0, count, size)]


class Picked(NamedTuple):
    """Terms by chunk; `order` restores the order in which they were drawn."""

    chunks: list[int]
    within: list[Indices]
    order: Indices

    def arranged(self, parts: list[Any]) -> Any:
        """Join the chunks' results, one per term, in the order of drawing."""
        together = np.concatenate(parts)
        out = np.empty_like(together)
        out[self.order] = together
        return out

    def dealt(self, values: Any) -> list[Any]:
        """Split one value per term by chunk."""
        ends = np.cumsum([len(part) for part in self.within])
        return np.split(np.asarray(values)[self.order], ends[:-1])


def picked(indices: Any, starts: list[int], count: int) -> Picked:
    """Sort terms (a slice or integers, perhaps repeated) by chunks that begin at `starts`."""
    wanted = np.arange(count)[indices] if isinstance(indices, slice) else np.asarray(indices)
    chunk = np.searchsorted(starts, wanted, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    used = np.unique(chunk)
    within = [wanted[order][chunk[order] == i] - starts[i] for i in used]
    return Picked([int(i) for i in used], within, order)


class Copies:
    """A dask array of shape (n, m, d) in any chunks, rechunked to whole copies."""

    def __init__(self, name: str, samples: Any) -> None:
        self.count, *shape = checked_shape(name, samples, 3)
        self.shape = (shape[0], shape[1])
        self.dtype = float_of(name, samples.dtype)
        self.name = name
        size = max(1, CHUNK_BYTES // (shape[0] * shape[1] * self.dtype.itemsize))
        self.starts = list(range(0, self.count, size))
        chunks = samples.rechunk((size, -1, -1)).to_delayed().ravel()
        self._chunks = keep(each(loaded, chunks, [self.dtype] * len(chunks)))

    def moments(self, unit: float, drawn: Any = None) -> Part:
        """Mean, size and scatter of all copies or those drawn, divided by the unit first."""
        chunks: list[Any] = self._chunks
        weights: list[Any] = [None] * len(chunks)
        if drawn is not None:
            weights = np.split(np.bincount(drawn, minlength=self.count), self.starts[1:])
            used = [i for i, part in enumerate(weights) if part.any()]
            chunks, weights = ([x[i] for i in used] for x in (chunks, weights))
        tasks = each(reduced, chunks, weights, [unit] * len(chunks))
        found = fetch([tree(merged, tasks)], self._chunks)[0]
        if found is None:
            raise InputError(self.name, "NaN or infinite entries", "finite numbers")
        return found  # type: ignore[no-any-return]


def reduced(block: Any, times: Any, unit: float) -> Part | None:
    """Moments of one chunk, with multiplicities of its copies; None if not finite."""
    if times is not None:
        drawn = np.flatnonzero(times)
        block, times = block[drawn], times[drawn]
    if not all_finite(block):
        return None
    block = block if unit == 1.0 else block / block.dtype.type(unit)
    times = np.ones(len(block), dtype=int) if times is None else times
    size = int(times.sum())
    mean = np.zeros(block.shape[1:], block.dtype)
    for one, weight in zip(block, times, strict=True):
        mean += one * (weight / size)
    pairs = zip(block, times, strict=True)
    return mean, size, sum(float(weight) * sqnorm(one - mean) for one, weight in pairs)


def merged(parts: list[Part | None]) -> Part | None:
    """Merge moments of different copies by the stable pairwise update."""
    whole = parts[0]
    for part in parts[1:]:
        if whole is None or part is None:
            return None
        shift, size = part[0] - whole[0], whole[1] + part[1]
        scatter = whole[2] + part[2] + sqnorm(shift) * whole[1] * part[1] / size
        whole = whole[0] + shift * (part[1] / size), size, scatter
    return whole


class Column(NamedTuple):
    """An array of all chunks of measurements, one after the other."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    slices: list[slice]
    parts: list[Task]


class Measured:
    """n linear functionals of X in chunks; X is sent to the workers, sums are returned.

    The members of `weakprox.losses.measurements` are implemented by calls of each chunk.
    """

    bytes_each = 0  # in this process

    def __init__(
        self, parts: list[Task], sizes: list[int], order: Picked | None = None
    ) -> None:
        self._parts, self._sizes, self.count = parts, sizes, sum(sizes)
        self._starts = [0, *np.cumsum(self._sizes[:-1]).tolist()]
        self._order = order or picked(slice(None), self._starts, self.count)

    @classmethod
    def of(cls, form: Any, name: str, *arrays: Any) -> tuple[Measured, tuple[int, int]]:
        """Make measurements of dask arrays by `form`, chunk by chunk; also return X's shape."""
        axes = 3 if len(arrays) == 1 else 2
        shapes = [checked_shape(name, array, axes) for array in arrays]
        dtypes = {float_of(name, array.dtype) for array in arrays}
        if len(dtypes) > 1:
            raise InputError(name, " and ".join(map(str, dtypes)), "arrays of one dtype")
        if len({shape[0] for shape in shapes}) > 1:
            given = " and ".join(str(shape[0]) for shape in shapes)
            raise ShapeError(name, f"{given} rows", "equally many")
        dtype, count = dtypes.pop(), shapes[0][0]
        each_bytes = sum(int(np.prod(shape[1:])) for shape in shapes) * dtype.itemsize
        size = max(1, CHUNK_BYTES // each_bytes)
        columns = []
        for array in arrays:
            blocks = array.rechunk((size, *([-1] * (axes - 1)))).to_delayed().ravel()
            columns.append(each(loaded, blocks, [dtype] * len(blocks)))
        parts = keep(each(form, *columns))
        if not all(fetch(each(_finite, parts), parts)):
            raise InputError(name, "NaN or infinite entries", "finite numbers")
        sizes = [min(size, count - i) for i in range(0, count, size)]
        wanted = shapes[0][1:] if axes == 3 else (shapes[0][1], shapes[1][1])
        return cls(parts, sizes), (wanted[0], wanted[1])

    def apply(self, X: Any) -> Any:
        return self._order.arranged(self._asked("apply", [shared(X)] * len(self._parts)))

    def adjoint(self, weights: Any) -> Any:
        tasks = self._calls("adjoint", self._parts, self._order.dealt(weights))
        return fetch([tree(added, tasks)], self._parts)[0]

    def sqnorms(self) -> Any:
        return self._order.arranged(self._asked("sqnorms"))

    def take(self, indices: Any) -> Measured:
        """A selection, in the order of the indices, also on the workers."""
        if not np.array_equal(self._order.order, np.arange(self.count)):
            indices = np.argsort(self._order.order)[indices]
        chosen = picked(indices, self._starts, self.count)
        used = [self._parts[i] for i in chosen.chunks]
        parts = keep(self._calls("take", used, chosen.within))
        return Measured(parts, [len(part) for part in chosen.within], chosen)

    def in_float64(self) -> None:
        """Return None: the arrays stay as they are."""

    def scaled(self, factors: Any) -> Measured:
        parts = keep(self._calls("scaled", self._parts, self._order.dealt(factors)))
        return Measured(parts, self._sizes, self._order)

    def flat(self) -> Any:
        """The n x md matrix in this process."""
        return self._order.arranged(self._asked("flat"))

    def gram(self) -> Any:
        """Sum of vec(A_i) vec(A_i)' in float64."""
        return fetch([tree(added, each(_gram, self._parts))], self._parts)[0]

    def stated(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arrays of all chunks, by name, as `losses.measurements` has them."""
        first = vars(fetch([self._parts[0]], self._parts)[0])
        slices = [slice(*ends) for ends in pairwise([*self._starts, self.count])]
        return {}, {
            name: Column(name, (self.count, *array.shape[1:]), array.dtype, slices, self._parts)
            for name, array in first.items()
        }

    def _asked(self, method: str, *columns: Any) -> list[Any]:
        return fetch(self._calls(method, self._parts, *columns), self._parts)

    @staticmethod
    def _calls(method: str, parts: list[Task], *columns: Any) -> list[Task]:
        """Tasks that call a method of each chunk."""
        return each(_call, parts, [method] * len(parts), *columns)


def _call(part: Any, method: str, *arguments: Any) -> Any:
    return getattr(part, method)(*arguments)


def _gram(part: Any) -> Any:
    flat = part.flat()
    step = max(1, GRAM_BYTES // (8 * flat.shape[1]))
    rows = (wide(flat[i : i + step]) for i in range(0, len(flat), step))
    return added([some.T @ some for some in rows])


def _finite(part: Any) -> bool:
    return all(all_finite(array) for array in vars(part).values())


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
    """Return if a value is not finite, the largest, the indices' range, and bad weights."""
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

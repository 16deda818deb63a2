"""Linear measurements on workers, chunk by chunk, each chunk in its own form."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.distributed.chunks import Picked, checked_shape, float_of, picked
from weakprox.distributed.engine import Task, each, fetch, keep, shared, tree
from weakprox.distributed.work import added, loaded
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import all_finite, wide

CHUNK_BYTES = 64 << 20  # measurements that one task reads
GRAM_BYTES = 8 << 20  # of them, converted to rows of a matrix at once


class Measured:
    """n linear functionals of X in chunks; X is sent to the workers, sums are returned.

    Implements the members of `weakprox.losses.measurements` by calling each chunk.
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

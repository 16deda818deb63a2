"""Losses of observed entries."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, issparse

from weakprox.arguments import nonnegative, one_of
from weakprox.display import counted
from weakprox.distributed import as_dask_array, is_dask
from weakprox.distributed.engine import fetch
from weakprox.distributed.observations import sorted_on_workers
from weakprox.distributed.terms import Entries
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, namespace, to_numpy, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import inputs
from weakprox.losses.entry_losses import (
    EntryLoss,
    entry_loss,
    entry_prox,
    is_squared,
    rescaled,
    threshold_of,
)
from weakprox.losses.long_files import IN_MEMORY, LongObservations, recoded
from weakprox.losses.observed import Effects, Intercepts, Observed
from weakprox.passes.blocks import BlockPattern, Positions, Vector
from weakprox.passes.pattern import DENSE, Pattern, masked, pattern
from weakprox.protocols import LossCapabilities, LossProx, StatedLoss
from weakprox.resources.memory import as_bytes, limited, room, shown_bytes

INTERCEPTS: tuple[Intercepts, ...] = ("none", "rows", "columns", "both")
SETTLED = 1e-11  # distance of intercepts from the best ones at which G has its tangent
EXPANDED = 1 << 28  # size of X up to which zeros are listed, or entries counted


class Completion:
    r"""Observed entries only, :math:`G(X) = \sum_{(i,j)} w_{ij}\, \ell(v_{ij}, x_{ij})`.

    Parameters
    ----------
    rows, cols : integer arrays of shape (n,)
        Indices of the observed entries; repeated pairs count each time.
    values : array of shape (n,)
        Observed values. If any of the three, or the weights, is a dask array or a column of
        a dask frame, the observations stay on its workers; X does not.
    shape : (int, int)
        Shape of X.
    loss : {"squared", "logistic", "poisson"} or EntryLoss
        Half the squared error (default), the logistic loss of two classes, half the
        deviance of counts with log-mean X, `Huber(k)`, or your own.
    weights : array of shape (n,), optional
        Positive weights of the observations.
    intercepts : {"none", "rows", "columns", "both"}
        Intercepts that are added to X and fitted with it, without a penalty or with
        `intercept_ridge`. G is then the minimum over them.
    intercept_ridge : float
        Weight of half the sum of the squared intercepts of rows and columns. The mean has
        no penalty.
    scaling : {"none", "counts"} or pair of arrays
        Positive diagonals :math:`D_r, D_c`: X is :math:`D_r L D_c`, where L is added to the
        intercepts. "counts" takes the square roots of the mean of one and the number of
        observations in a row or column, relative to its average, so that rows and columns
        with many observations are penalised more.
    reduction : {"sum", "mean"}
        Sum of the losses (default) or their mean over observations.
    sigma : float, optional
        Gradient noise of one term, estimated if not given.
    """

    samples_cancel = False
    is_finite_sum = True

    def __init__(
        self,
        rows: Any,
        cols: Any,
        values: Array,
        shape: tuple[int, int],
        *,
        loss: Literal["squared", "logistic", "poisson"] | EntryLoss = "squared",
        weights: Array | None = None,
        intercepts: Intercepts = "none",
        intercept_ridge: float = 0.0,
        scaling: Any = "none",
        reduction: Literal["sum", "mean"] = "sum",
        sigma: float | None = None,
    ) -> None:
        self._set(shape, loss, intercepts, intercept_ridge, reduction, sigma)
        given = (rows, cols, values, weights)
        rows, cols, values, weights = (as_dask_array(x) for x in given)
        if any(is_dask(x) for x in (rows, cols, values, weights)):
            self._place(rows, cols, values, weights, scaling)
            return
        if str(getattr(values, "dtype", "")) == "bool":  # two classes
            values = np.asarray(values, dtype=float)
        self._values, self.size = inputs.as_sized("values", values, 1)
        self.n_terms = int(self._values.shape[0])
        row, col = self._index("rows", rows, 0), self._index("cols", cols, 1)
        found, order = pattern(row, col, self.shape)
        xp = namespace(self._values)
        self._values = self.loss.check(xp.asarray(self._values[order], copy=True))
        self._weights = self._weighed(weights, order, self._per_entry)
        self._observe(found, scaling)

    def _set(
        self,
        shape: tuple[int, int],
        loss: Any = "squared",
        intercepts: Intercepts = "none",
        intercept_ridge: float = 0.0,
        reduction: Literal["sum", "mean"] = "sum",
        sigma: float | None = None,
    ) -> None:
        """Check the settings, as in the constructor."""
        self.shape = inputs.as_shape(shape)
        self.loss = entry_loss(loss)
        self.intercepts: Intercepts = one_of("intercepts", intercepts, INTERCEPTS)
        self.intercept_ridge = nonnegative("intercept_ridge", intercept_ridge)
        self.reduction: Literal["sum", "mean"] = one_of("reduction", reduction, ("sum", "mean"))
        self.sigma = inputs.constant("sigma", sigma)
        self.scaling = "none"  # "counts", or "arrays" that were given
        self._far: Entries | None = None  # observations that are stored on workers
        self._observed: Observed | None = None
        self.row_ids: Any = None  # of a long table
        self.column_ids: Any = None

    @classmethod
    def _in_blocks(
        cls,
        found: BlockPattern,
        values: Vector,
        weights: Vector | None,
        size: float,
        dtype: Any,
        scaling: Any = "none",
        **settings: Any,
    ) -> Completion:
        """The loss of observations in blocks of rows that are not in memory."""
        self = cls.__new__(cls)
        self._set(found.shape, **settings)
        self._values, self.size, self.n_terms = values, size, found.size
        self._weights = None if weights is None else weights * self._per_entry
        self._observe(found, scaling)
        self.reference = _broadcast(self.shape, np.zeros(0, dtype))
        return self

    @classmethod
    def of_mask(cls, mask: Any, values: Any, intercepts: Intercepts = "none") -> Completion:
        """Squared errors of the True entries of an array of booleans.

        It takes less memory than lists of positions if at least a quarter of the entries are
        True.

        Parameters
        ----------
        mask : array of bool of the shape of X
            The observed entries. It is not copied.
        values : array of shape (n,)
            Observed values, by rows. Those in float64 are not copied.
        intercepts : {"none", "rows", "columns", "both"}
            As in the constructor.
        """
        given, mask = tuple(np.shape(mask)), np.asarray(mask)
        if mask.ndim != 2 or mask.dtype != bool:
            raise InputError("mask", f"{mask.dtype} of shape {given}", "booleans of two axes")
        if np.count_nonzero(mask) != len(values):
            wanted = f"{np.count_nonzero(mask)}, one for each True entry"
            raise ShapeError("values", counted(len(values), "entry", "entries"), wanted)
        if np.count_nonzero(mask) < DENSE * mask.size:
            rows, columns = np.nonzero(mask)
            return cls(rows, columns, values, mask.shape, intercepts=intercepts)
        self = cls.__new__(cls)
        self._set(mask.shape, intercepts=intercepts)
        self._values, self.size = inputs.as_sized("values", values, 1)
        self._values, self.n_terms = self.loss.check(self._values), len(values)
        self._weights = None
        self._observe(masked(mask), "none")
        return self

    @property
    def _per_entry(self) -> float:
        """Weight of one observation, beside its own."""
        return 1.0 / self.n_terms if self.reduction == "mean" else 1.0

    def _observe(self, found: Positions, scaling: Any) -> None:
        """Collect the observations, and compute the constants of their loss."""
        left, right = self._scalings(scaling, found)
        weights = self._per_entry if self._weights is None else self._weights
        effects = self.intercepts, self.intercept_ridge
        data = Observed(found, wide(self._values), self.loss, weights, *effects, left, right)
        factors = data.pattern.reference[:0]
        if arrays.is_numpy(self._values):
            bends: Any = np.broadcast_to(1.0, self._values.shape)
        else:
            bends = wide(self._values) * 0.0 + 1.0
        if left is not None and right is not None:
            factors = data.sampled(left[:, None] ** 0, right[:, None] ** 0)
            bends = factors * factors
        if arrays.is_numpy(bends) and isinstance(weights, float) and left is None:
            bends = np.broadcast_to(weights, bends.shape)
        else:
            bends = bends * weights
        largest, smallest, places = found.repeated(bends)
        self._repeats = places < self.n_terms  # some entries are observed several times
        smallest = smallest if places == math.prod(self.shape) else 0.0
        bend = self.loss.smoothness
        self._scale = float(self.n_terms)
        # if the curvature is unbounded, its size for counts near their mean, which is no bound
        self.smoothness = largest * (max(1.0, self.size) if bend is None else bend)
        self.term_smoothness = self._scale * self.smoothness
        if bend is not None:  # a term has one observation, an entry perhaps several
            self.term_smoothness = self._scale * bend * float(namespace(bends).max(bends))
        full = is_squared(self.loss) and self.intercepts == "none"
        self.strong_convexity = smallest if full else 0.0
        self._observed = replace(data, smoothness=None if bend is None else self.smoothness)
        self.reference = _broadcast(self.shape, self._values)

    @property
    def capabilities(self) -> LossCapabilities:
        """Losses are not negative, and depend on the observed entries only."""
        here = self._far is None and not isinstance(self._values, Vector)
        plain = here and self.intercepts == "none" and self.scaling == "none"
        return LossCapabilities(
            prox=self.prox if plain and not self._repeats else None,
            infimum=0.0,
            smoothness_at=self.smoothness_at if self.loss.smoothness is None else None,
            tangent=None if self.intercepts == "none" else self.tangent,
            in_float64=self.in_float64,
            in_unit=self.in_unit if threshold_of(self.loss) is not None else None,
            size=lambda: self.size,
            data=self.data,
            observed=self.observed,
            gathered=self.gathered if isinstance(self._values, Vector) else None,
            stated=self._stated,
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it, with the dual point on the observed entries."""
        numbers: dict[str, Any] = {"reduction": self.reduction}
        if self._far is not None:
            return StatedLoss("Completion", numbers, self._fetched, entry=self.loss)
        if self._weights is not None:
            numbers["weights"] = True
        if self.intercepts != "none":
            numbers |= {"intercepts": self.intercepts, "ridge": self.intercept_ridge}
        if self.observed().left is not None:
            numbers["scaling"] = self.scaling
        free = self.intercepts == "none"
        return StatedLoss(
            "Completion",
            numbers,
            self._listed,
            entry=self.loss,
            dual=self._dual,
            intercepts=None if free else self.effects,
        )

    def _fetched(self) -> dict[str, Any]:
        """The observations on workers, in this process."""
        assert self._far is not None
        parts = [fetch([task], self._far.parts)[0] for task in self._far.parts]
        cells, values = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
        order = np.argsort(cells, kind="stable")
        rows, cols = np.divmod(cells[order], self.shape[1])
        return {"rows": rows, "cols": cols, "values": values[order]}

    def _listed(self) -> dict[str, Any]:
        """The observations by rows and columns, their weights and the factors of entries."""
        data = self.observed()
        P = data.pattern
        found = {"rows": P.rows, "cols": P.columns, "values": self._values}
        if self._weights is not None:
            found["weights"] = data.weights
        if data.left is not None:
            found |= {"row_scaling": data.left, "col_scaling": data.right}
        return {name: to_numpy(x) for name, x in found.items()}

    def _dual(self, X: Array | LowRank) -> Array:
        """The feasible dual point of X on the observed entries."""
        data, x = self.observed(), self.entries(X)
        effects = data.fitted(x)
        return data.feasible(data.dual(x, effects), data.curvature(x, effects))

    def prox(self) -> LossProx:
        """The proximal map, which moves the observed entries only."""
        P, xp = self.observed().pattern, namespace(self._values)
        places = P.rows * self.shape[1] + P.columns
        weights = self._per_entry if self._weights is None else self._weights

        def proximal(A: Array, weight: float) -> Array:
            flat = xp.reshape(xp.asarray(A, copy=True), (-1,))
            values = xp.astype(self._values, flat.dtype)
            found = entry_prox(self.loss, values, weights, flat[places], weight)
            flat[places] = xp.astype(found, flat.dtype)  # weights may be in float64
            return xp.reshape(flat, self.shape)

        return proximal

    def gathered(self) -> Completion:
        """The same loss with all observations in memory, if they fit."""
        data = self.observed()
        P, needed = data.pattern, IN_MEMORY * self.n_terms
        if needed > room():
            given = f"{self.n_terms} of them in blocks, which the other terms do not support"
            wanted = f"no penalty, NuclearNorm or NuclearBall, or {shown_bytes(needed)} of room"
            raise InputError("values", given, wanted)
        found = pattern(np.asarray(P.rows), np.array(P.columns), self.shape)[0]
        other = copy.copy(self)
        other._values = np.asarray(self._values).astype(self.reference.dtype)
        other._weights = None if self._weights is None else np.asarray(self._weights)
        scaling: Any = "none"
        if data.left is not None and data.right is not None:
            scaling = (1.0 / data.left, 1.0 / data.right)
        other._observe(found, scaling)
        other.scaling = self.scaling
        return other

    def observed(self) -> Observed:
        """The observations, in the form for proofs and for solvers that keep X in factors."""
        if self._observed is None:
            far = self._far
            assert far is not None
            found, values, weights = sorted_on_workers(far, partial(recoded, self.loss))
            options: dict[str, Any] = {"reduction": self.reduction}
            blocks = (found, values, weights, self.size, far.dtype)
            self._observed = Completion._in_blocks(*blocks, **options)._observed
        assert self._observed is not None
        return self._observed

    def effects(self, X: Any) -> Effects:
        """Best intercepts at X, an array or a `LowRank`: mean, rows, columns."""
        data = self.observed()
        if isinstance(X, LowRank) and tuple(X.shape) == self.shape:
            return data.effects(X)
        return data.fitted(self.entries(X))

    def predict(self, X: Any, rows: Any, cols: Any) -> Array:
        """Predictions at these entries: those of L and the intercepts.

        For the logistic loss these are log-odds, for the Poisson loss logarithms of means.
        """
        data, effects = self.observed(), self.effects(X)
        row = to_numpy(_checked_index("rows", rows, self.shape[0]))
        col = to_numpy(_checked_index("cols", cols, self.shape[1], len(row)))
        if isinstance(X, LowRank):
            return data.predicted(X, effects, row, col)
        found = np.asarray(to_numpy(X), float)[row, col]
        for factor, index in ((data.left, row), (data.right, col)):
            found = found if factor is None else found * to_numpy(factor)[index]
        found = found + effects.mean
        return found + to_numpy(effects.rows)[row] + to_numpy(effects.columns)[col]

    def entries(self, X: Any) -> Array:
        """Entries of X at the observations, with the scalings."""
        data = self.observed()
        shape = tuple(getattr(X, "shape", ()))
        if shape != self.shape:
            raise ShapeError("X", f"shape {shape}", f"{self.shape}, or a LowRank of it")
        if isinstance(X, LowRank):
            return data.entries(X)
        if isinstance(data.values, Vector):
            raise InputError("X", "an array, and observations in blocks", "a LowRank")
        found = wide(namespace(X).take(namespace(X).reshape(X, (-1,)), self._cells))
        return found * self._factors() if data.left is not None else found

    def _factors(self) -> Array:
        """Product of both scalings at each observation."""
        data = self.observed()
        assert data.left is not None
        assert data.right is not None
        P = data.pattern
        return data.left[P.rows] * data.right[P.columns]

    @property
    def _cells(self) -> Array:
        """Positions of the observations in a flattened X."""
        P = self.observed().pattern
        xp = namespace(P.columns)
        return xp.astype(P.rows, xp.int64) * self.shape[1] + xp.astype(P.columns, xp.int64)

    def _place(self, rows: Any, cols: Any, values: Any, weights: Any, scaling: Any) -> None:
        """Keep the observations on dask's workers.

        Methods that store X read chunks of them, for plain squared losses. For other losses,
        and for matrices too large for that, there are only blocks of rows.
        """
        far = Entries(rows, cols, values, self.shape, weights)
        self.n_terms = far.count
        most = float(np.finfo(far.dtype).max)
        self.size = inputs.check_size("values", far.largest, (self.n_terms,), most)
        self._values, self._weights = np.zeros(0, far.dtype), None
        plain = is_squared(self.loss) and self.intercepts == "none"
        plain = plain and weights is None and _is_none(scaling)
        if not plain or math.prod(self.shape) > EXPANDED:
            found, self._values, own = sorted_on_workers(far, partial(recoded, self.loss))
            self._weights = None if own is None else own * self._per_entry
            self._observe(found, scaling)
            self.reference = _broadcast(self.shape, np.zeros(0, far.dtype))
            return
        self._far = far
        counts, per_entry = far.counts(), self._per_entry
        self._scale = self.n_terms * per_entry
        self.smoothness = per_entry * float(counts.max())
        self.strong_convexity = per_entry * float(counts.min())
        self.term_smoothness = self._scale
        self.reference = _broadcast(self.shape, self._values)

    def _index(self, name: str, index: Any, axis: int) -> Array:
        """Return checked indices, in the namespace and on the device of the values."""
        found = _checked_index(name, index, self.shape[axis], self.n_terms)
        if arrays.is_numpy(self._values):
            found = to_numpy(found)
            return found if found.dtype in (np.int32, np.int64) else found.astype(np.int64)
        values = namespace(self._values)
        found = found if namespace(found) is values else values.asarray(to_numpy(found))
        found = values.asarray(found, device=arrays.device_of(self._values))
        return values.astype(found, values.int64)

    def _weighed(self, weights: Any, order: Any, per_entry: float) -> Array | None:
        """Return checked weights in the order of the pattern; None if all are one."""
        if weights is None:
            return None
        given = inputs.as_sized("weights", weights, 1)[0]
        if given.shape[0] != self.n_terms:
            count = counted(given.shape[0], "entry", "entries")
            raise ShapeError("weights", count, f"{self.n_terms}")
        if not float(namespace(given).min(given)) > 0.0:
            raise InputError("weights", "entries <= 0", "positive numbers: leave others out")
        return wide(arrays.like(to_numpy(given), self._values))[order] * per_entry

    def _scalings(self, scaling: Any, found: Positions) -> tuple[Array | None, Array | None]:
        """Return 1/D_r and 1/D_c as vectors; None if both are one."""
        if _is_none(scaling):
            return None, None
        self.scaling = "counts" if isinstance(scaling, str) else "arrays"
        if isinstance(scaling, str):
            one_of("scaling", scaling, ("none", "counts"))
            counts = (found.row_counts, found.column_counts)
            sizes = [np.sqrt(0.5 * (1.0 + count / count.mean())) for count in counts]
        else:
            if not isinstance(scaling, (tuple, list)) or len(scaling) != 2:
                given = type(scaling).__name__
                raise InputError("scaling", given, "'none', 'counts' or two arrays")
            sizes = [wide(to_numpy(inputs.as_sized("scaling", part, 1)[0])) for part in scaling]
        for size, limit in zip(sizes, self.shape, strict=True):
            if size.shape != (limit,) or not bool((size > 0).all()):
                given = f"an array of shape {size.shape}"
                raise InputError("scaling", given, f"{limit} positive numbers")
        left, right = (arrays.like(1.0 / size, wide(self._values)) for size in sizes)
        return left, right

    def part(
        self, kept: Any = None, *, intercept_ridge: float | None = None, scaling: Any = None
    ) -> Completion:
        """The same loss of some observations, perhaps with another ridge or scaling.

        Parameters
        ----------
        kept : array of bool of shape (n,), optional
            The observations to keep, in the order of `observed()`: by rows, then by columns.
        intercept_ridge, scaling : optional
            As in the constructor; by default those of this loss.
        """
        data, other = self.observed(), copy.copy(self)
        if isinstance(data.values, Vector) and (kept is not None or self._far is not None):
            given = "a part of observations that are not in memory"
            raise InputError("kept", given, "observations in memory")
        ridge = self.intercept_ridge if intercept_ridge is None else intercept_ridge
        other.intercept_ridge = nonnegative("intercept_ridge", ridge)
        if scaling is None:
            scaling = "none"
            if data.left is not None and data.right is not None:
                scaling = (1.0 / to_numpy(data.left), 1.0 / to_numpy(data.right))
        found = data.pattern
        if kept is not None:
            chosen = np.asarray(kept)
            if chosen.shape != (self.n_terms,) or not chosen.any():
                given = f"an array of shape {chosen.shape}"
                wanted = f"booleans of shape ({self.n_terms},), one of them True at least"
                raise InputError("kept", given, wanted)
            if isinstance(found, Pattern) and found.listed is None:
                return self._masked_part(chosen, other, scaling)
            keep = np.flatnonzero(chosen)
            if not arrays.is_numpy(self._values):
                xp, device = namespace(self._values), arrays.device_of(self._values)
                keep = xp.asarray(keep, device=device)
            other._values = self._values[keep]
            other.n_terms = int(keep.shape[0])
            rows, columns = found.rows[keep], found.columns[keep]
            found = pattern(rows, columns, self.shape)[0]
            if self._weights is not None:
                grown = self.n_terms / other.n_terms if self.reduction == "mean" else 1.0
                other._weights = self._weights[keep] * grown
        other._observe(found, scaling)
        return other

    def _masked_part(self, chosen: Any, other: Completion, scaling: Any) -> Completion:
        """`part` of a pattern with a mask, without lists of positions."""
        P: Any = self.observed().pattern
        mask, count, start = P.mask.copy(), int(np.count_nonzero(chosen)), 0
        other._values, other.n_terms = np.empty(count, self._values.dtype), count
        for rows, part, cells in P.strips():
            kept = chosen[part]
            mask[rows].reshape(-1)[cells[np.flatnonzero(~kept)]] = False
            some = self._values[part][np.flatnonzero(kept)]
            other._values[start : start + len(some)] = some
            start += len(some)
        if self._weights is not None:
            grown = self.n_terms / count if self.reduction == "mean" else 1.0
            other._weights = self._weights[chosen] * grown
        found = masked(mask)
        if not found.is_dense:
            places = np.nonzero(mask)
            found = pattern(places[0], places[1], self.shape)[0]
        other._observe(found, scaling)
        return other

    @classmethod
    def from_parquet(
        cls,
        source: Any,
        row: str,
        col: str,
        value: str,
        *,
        weight: str | None = None,
        shape: tuple[int, int] | None = None,
        max_memory: int | str | None = None,
        folder: Any = None,
        **options: Any,
    ) -> Completion:
        """Observations from a long table in Parquet files, which may be larger than memory.

        If a run on them fits in memory, they are read; otherwise they are sorted by rows into
        unnamed files, and passes read one block of rows after the other. The files take about
        20 bytes for each observation, and those of a run up to 100 more. For such observations
        `FactoredProximal` is the only method.

        Parameters
        ----------
        source : path, or sequence of paths
            Parquet files, or a folder of them.
        row, col, value : str
            Names of the columns with ids of rows, ids of columns, and observed values.
        weight : str, optional
            Name of the column with weights.
        shape : (int, int), optional
            Shape of X, if ids are indices from 0. By default ids are integers, text or dates,
            and kept in `row_ids` and `column_ids`, in increasing order.
        max_memory : int or str, optional
            Memory that this process may use, in bytes or as text such as "4GB".
        folder : path, optional
            For the files; by default the directory for temporary files.
        **options
            As for `Completion`, except `weights`.
        """
        from weakprox.storage.long import LongFiles

        if "weights" in options:
            raise InputError("weights", "an array", "the name of a column, as `weight`")
        names = (row, col, value, *(() if weight is None else (weight,)))
        for argument, name in zip(("row", "col", "value", "weight"), names, strict=False):
            if not isinstance(name, str):
                raise InputError(argument, repr(name), "the name of a column")
        place = None if folder is None else os.fspath(folder)
        if place is not None and not os.path.isdir(place):
            raise InputError("folder", repr(place), "an existing folder")
        loss = entry_loss(options.get("loss", "squared"))
        with limited(None if max_memory is None else as_bytes("max_memory", max_memory)):
            files = LongFiles.of(source, names[:2], names[2:])
            size = None if shape is None else inputs.as_shape(shape)
            table = LongObservations.of(files, size)
            if table.fits():
                rows, cols, values, weights = table.whole()
                found = cls(rows, cols, values, table.shape, weights=weights, **options)
            else:
                dtype = np.float32 if files.single else np.float64
                found = cls._in_blocks(*table.in_files(loss, place), dtype, **options)
        found.row_ids, found.column_ids = table.ids(0), table.ids(1)
        return found

    @classmethod
    def from_dense(cls, M: Any, **options: Any) -> Completion:
        """Observed entries of a matrix that is NaN, or masked, elsewhere."""
        if isinstance(M, np.ma.MaskedArray):
            M = np.where(np.ma.getmaskarray(M), np.nan, np.asarray(M, float))
        M = inputs.floating(inputs.as_array("M", M, 2))
        rows, cols = np.nonzero(~np.isnan(to_numpy(M)))
        if rows.size == 0:
            raise InputError("M", "no observed entry", "at least one entry not NaN")
        return cls(rows, cols, M[rows, cols], tuple(M.shape), **options)

    @classmethod
    def from_sparse(
        cls, M: Any, *, zeros: Literal["missing", "observed"] = "missing", **options: Any
    ) -> Completion:
        """Entries of a SciPy sparse matrix.

        With `zeros="missing"` these are the stored ones, including explicit zeros. With
        "observed" the others count as zeros that were observed.
        """
        if not issparse(M) or M.nnz == 0:
            raise InputError("M", type(M).__name__, "a sparse matrix with stored entries")
        if one_of("zeros", zeros, ("missing", "observed")) == "observed":
            size = math.prod(M.shape)
            if size > EXPANDED:
                given = f"'observed' for a matrix of {size:.1e} entries"
                raise InputError("zeros", given, "'missing', or losses.Denoising(M)")
            rows, cols = np.divmod(np.arange(size), M.shape[1])
            return cls(rows, cols, inputs.floating(M.toarray()).reshape(-1), M.shape, **options)
        coo = coo_array(M)
        return cls(coo.row, coo.col, coo.data, tuple(coo.shape), **options)

    def __repr__(self) -> str:
        share = self.n_terms / math.prod(self.shape)
        told = [f"{counted(self.n_terms, 'entry', 'entries')}, {share:.1%} of {self.shape}"]
        if not is_squared(self.loss):
            told.append(repr(self.loss))
        if self.intercepts != "none":
            ridge = f", ridge {self.intercept_ridge:g}" if self.intercept_ridge else ""
            told.append(f"intercepts={self.intercepts!r}{ridge}")
        return f"Completion({', '.join(told)})"

    def in_unit(self, unit: float) -> Completion:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        other = copy.copy(self)
        other._values, other.size = self._values / unit, self.size / unit
        other._far = None if self._far is None else self._far / unit
        other.loss = rescaled(self.loss, unit)
        other.sigma = None if self.sigma is None else self.sigma / unit
        if self._observed is not None:
            values = self._observed.values / unit
            other._observed = replace(self._observed, values=values, loss=other.loss)
        return other

    def in_float64(self) -> Completion | None:
        """The same loss computed in float64; None if observations are on workers."""
        if self._far is not None:
            return None
        other = copy.copy(self)
        other._values = wide(self._values)
        other.reference = _broadcast(self.shape, other._values)
        return other

    @property
    def chunk(self) -> int:
        """Indices are small, so any batch fits."""
        return 1 << 62

    def draw(self, rng: np.random.Generator, size: int) -> Any:
        """Positions in the list of observations, with replacement."""
        if self.intercepts != "none":
            wanted = "a method that takes all observations at once, such as the default"
            raise InputError("solver", "one that draws samples, with intercepts", wanted)
        return rng.integers(0, self.n_terms, size)

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        if self._far is not None:
            return (self._far,)
        data = self.observed()
        if isinstance(data.pattern, BlockPattern) and not data.pattern.blocks.here:
            return (data.pattern.pointers, data.pattern.column_counts)
        own = [x.entries if isinstance(x, Vector) else x for x in (self._values, self._weights)]
        others = [x for x in (own[1], data.left, data.right) if x is not None]
        return (data.pattern.pointers, data.pattern.columns, own[0], *others)

    def everything(self) -> Any:
        """All observations."""
        return slice(None)

    def _at(self, X: Array, batch: Any) -> tuple[Array, Array, Array]:
        """Predictions, observations and weights of a batch, for an X that is stored."""
        data, xp = self.observed(), namespace(X)
        if self.intercepts != "none":  # a batch is all observations
            x = self.entries(X)
            return data.at(x, data.fitted(x)), data.values, data.weights
        cells = self._cells[batch]
        x = wide(xp.take(xp.reshape(X, (-1,)), cells))
        if data.left is not None:
            x = x * self._factors()[batch]
        weights = data.weights if self._weights is None else self._weights[batch]
        return x, data.values[batch], weights

    def value(self, X: Array, batch: Any) -> float:
        """Mean of the terms."""
        if self._far is not None:
            return 0.5 * self._scale * self._far.squares(X, batch) / self._length(batch)
        if self.intercepts != "none":
            x = self.entries(X)
            return self.observed().value(x, self.observed().fitted(x))
        x, y, w = self._at(X, batch)
        return self._scale * arrays.total(w * self.loss.value(y, x)) / int(x.shape[0])

    def grad(self, X: Array, batch: Any) -> Array:
        """Mean of the terms' gradients, which is zero off the observed entries."""
        if self._far is not None:
            summed = self._far.pushed(X, batch) * (self._scale / self._length(batch))
            return np.asarray(summed, dtype=X.dtype)
        slopes = self._slopes(X, batch)
        weights = to_numpy(slopes) * (self._scale / int(slopes.shape[0]))
        return self._at_cells(X, weights, batch)

    def tangent(self, X: Array) -> tuple[float, Array]:
        """Value and gradient at X of an affine function below G, with any intercepts.

        It is the tangent if the best intercepts were found. Otherwise the dual point of the
        intercepts that were found is made feasible, and the value is that of its bound.
        """
        data, x = self.observed(), self.entries(X)
        effects = data.fitted(x)
        q, value = data.dual(x, effects), data.value(x, effects)
        if data.off(q, effects) > SETTLED:
            q = data.feasible(q, data.curvature(x, effects))
            lower, rounding = data.bound(q, effects)
            value = lower - rounding - arrays.inner(q, x)
        slopes = -1.0 * (q if data.left is None else q * self._factors())
        return value, self._at_cells(X, to_numpy(slopes), self.everything())

    def _at_cells(self, X: Array, slopes: Any, batch: Any) -> Array:
        """The matrix with these numbers, in host memory, summed at their entries of X."""
        cells, size = to_numpy(self._cells[batch]), math.prod(self.shape)
        grad = np.bincount(cells, weights=slopes, minlength=size).reshape(self.shape)
        return namespace(X).asarray(grad, dtype=X.dtype, device=arrays.device_of(X))

    def smoothness_at(self, X: Array) -> float:
        """Largest second derivative of G in one entry of X."""
        data, x = self.observed(), self.entries(X)
        bends = data.curvature(x, data.fitted(x))
        if data.left is not None:
            bends = bends * self._factors() ** 2
        return float(data.pattern.repeated(bends)[0])

    def _slopes(self, X: Array, batch: Any) -> Array:
        """Derivative of each term of a batch in its entry of X, without the scale n."""
        x, y, w = self._at(X, batch)
        slopes = w * self.loss.derivative(y, x)
        if self.observed().left is not None:
            slopes = slopes * self._factors()[batch]
        return slopes

    def _length(self, batch: Any) -> int:
        return self.n_terms if isinstance(batch, slice) else len(batch)

    def spread(self, X: Array, batch: Any) -> float:
        """Sample variance of one term's gradient at X."""
        size, far = self._length(batch), self._far
        squares = far.squares(X, batch) if far else arrays.sqnorm(self._slopes(X, batch))
        second = self._scale**2 * squares / size
        centred = second - arrays.sqnorm(self.grad(X, batch))
        return max(0.0, centred) * size / max(1, size - 1)


def _checked_index(name: str, index: Any, limit: int, count: int | None = None) -> Array:
    """Return indices below the limit; `count` of them if it is given."""
    if isinstance(index, (list, np.ndarray)) and np.asarray(index).dtype.kind in "UO":
        wanted = "integers from 0; MatrixCompletion().fit(rows, cols, values) takes ids"
        raise InputError(name, "text or objects", wanted)
    found = inputs.as_array(name, index, 1)
    xp = namespace(found)
    if not xp.isdtype(found.dtype, "integral"):
        raise InputError(name, f"dtype {found.dtype}", "integers")
    if count is not None and found.shape[0] != count:
        raise ShapeError(name, counted(found.shape[0], "entry", "entries"), f"{count}")
    low, high = int(xp.min(found)), int(xp.max(found))
    if low < 0 or high >= limit:
        wanted = f"0 to {limit - 1}"
        if low == 1 and high == limit:
            wanted += ": indices count from 0, so subtract 1"
        raise InputError(name, f"indices from {low} to {high}", wanted)
    return found


def _is_none(scaling: Any) -> bool:
    return isinstance(scaling, str) and scaling == "none"


def _broadcast(shape: tuple[int, int], values: Array) -> Array:
    """Return zeros of this shape that take no memory."""
    xp = namespace(values)
    zero = xp.zeros((1, 1), dtype=values.dtype, device=arrays.device_of(values))
    return xp.broadcast_to(zero, shape)

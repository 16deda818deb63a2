"""Observed entries in any form that `fit` accepts: ids of any kind, tables, sparse matrices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array, issparse
from sklearn.utils.validation import validate_data

from weakprox.display import counted
from weakprox.errors import InputError, ShapeError

Vector = np.ndarray[Any, np.dtype[Any]]
DENSE_IDS = 4  # largest size of the table for integer ids, as a multiple of their number


@dataclass(frozen=True)
class Ids:
    """The ids of rows or columns by index; `plain` ids are the indices themselves."""

    names: Vector
    plain: bool = False

    @classmethod
    def indices(cls, count: int) -> Ids:
        """The indices 0, 1, ... themselves."""
        return cls(np.arange(count), plain=True)

    @classmethod
    def of(cls, argument: str, values: Any) -> tuple[Ids, Vector]:
        """The different ids among these, sorted if they can be, and the index of each."""
        given = labels(argument, values)
        if given.dtype == object:
            table: dict[Any, int] = {}
            try:
                codes = np.fromiter((table.setdefault(x, len(table)) for x in given), np.int64)
            except TypeError:
                unhashable = "ids that are not hashable"
                raise InputError(argument, unhashable, "hashable ids") from None
            found = list(table)
            try:  # the order must not depend on how the ids are stored
                order = sorted(range(len(found)), key=found.__getitem__)
                ordered = all(found[i] < found[k] for i, k in pairwise(order))
            except TypeError:
                ordered = False
            if not ordered:  # such as sets, of which some are not comparable
                return cls(_objects(found)), codes
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            return cls(_objects(found[k] for k in order)), place[codes]
        if given.dtype.kind in "iu" and given.size and int(given.min()) >= 0:
            largest = int(given.max())
            if largest < DENSE_IDS * given.size + 1024:
                seen = np.zeros(largest + 1, dtype=bool)
                seen[given] = True
                place = np.cumsum(seen) - 1
                return cls(np.flatnonzero(seen)), place[given]
        names, codes = np.unique(given, return_inverse=True)
        return cls(names), codes.astype(np.int64)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {name: k for k, name in enumerate(self.names.tolist())}

    def find(self, argument: str, values: Any) -> Vector:
        """Indices of these ids, -1 for unknown ones."""
        given = labels(argument, values)
        if self.plain:
            return self._as_indices(argument, given)
        kinds = [_kind(given), _kind(self.names)]
        if "object" in kinds:
            return np.array([self._get(x) for x in given.tolist()], dtype=np.int64)
        if kinds[0] != kinds[1]:
            raise InputError(argument, f"ids that are {kinds[0]}", f"{kinds[1]}, as in fit")
        if not len(self.names):
            return np.full(given.shape, -1)
        place = np.minimum(np.searchsorted(self.names, given), len(self.names) - 1)
        return np.where(self.names[place] == given, place, -1)

    def _get(self, name: Any) -> int:
        try:
            return self._table.get(name, -1)
        except TypeError:  # not hashable, so that it cannot be known
            return -1

    def _as_indices(self, argument: str, given: Vector) -> Vector:
        wanted = "integers >= 0"
        if _kind(given) != "numbers" or given.dtype.kind == "b":
            raise InputError(argument, f"dtype {given.dtype}", wanted)
        whole = given.astype(np.int64)
        if not np.array_equal(whole, given):
            raise InputError(argument, "numbers that are not integral", wanted)
        if whole.size and int(whole.min()) < 0:
            raise InputError(argument, f"indices down to {whole.min()}", wanted)
        return np.where(whole < len(self.names), whole, -1)

    def joined(self, others: Ids) -> tuple[Ids, Vector]:
        """These ids followed by those of `others` that are new; indices of all of `others`."""
        found = np.array([self._get(x) for x in others.names.tolist()], dtype=np.int64)
        new = np.flatnonzero(found < 0)
        at = found.copy()
        at[new] = len(self) + np.arange(len(new))
        same = _kind(self.names) == _kind(others.names) != "object"
        if same:
            names: Vector = np.concatenate([self.names, others.names[new]])
            same = bool(np.all(names[:-1] < names[1:]))
        if not same:  # found by a table, since there is no order
            names = _objects([*self.names.tolist(), *others.names[new].tolist()])
        return Ids(names), at


def labels(argument: str, values: Any) -> Vector:
    """Ids as an array with one axis; those of mixed kinds as objects."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(argument, "a masked array", "an array")
    if not isinstance(values, np.ndarray):
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise InputError(argument, repr(values), "an array of ids")
        values = _listed(values.tolist() if hasattr(values, "tolist") else list(values))
    if values.ndim != 1:
        raise ShapeError(argument, f"shape {values.shape}", "one axis")
    missing = False
    if values.dtype.kind == "f":
        missing = bool(np.isnan(values).any())
    elif values.dtype.kind in "mM":
        missing = bool(np.isnat(values).any())
    elif values.dtype == object:
        missing = any(x is None or x != x for x in values.tolist())
    if missing:
        raise InputError(argument, "missing ids (NaN or None)", "an id for each observation")
    return np.asarray(values)


def _listed(values: list[Any]) -> Vector:
    """An array of numbers or of strings, else of objects: NumPy would convert a mixture."""
    types = {type(x) for x in values}
    if types <= {str} or all(issubclass(kind, (int, float, np.number)) for kind in types):
        return np.asarray(values, dtype=None if values else float)
    return _objects(values)


def _objects(values: Iterable[Any]) -> Vector:
    listed = list(values)
    found = np.empty(len(listed), dtype=object)
    found[:] = listed
    return found


def _kind(values: Vector) -> str:
    known = {"O": "object", "m": "times", "M": "times", "U": "text", "S": "text"}
    return known.get(values.dtype.kind, "numbers")


class Observations(NamedTuple):
    """Entries of a matrix by indices, with the ids of rows and columns."""

    rows: Vector
    columns: Vector
    values: Vector
    row_ids: Ids
    column_ids: Ids


def read_observations(
    model: Any,
    X: Any,
    cols: Any,
    values: Any,
    names: tuple[Any, Any, Any],
    *,
    fitted: Ids | None = None,
) -> Observations:
    """Read observations in any of the forms that `fit` takes.

    `names` are the columns of a long table. With `fitted` column ids, the columns of a
    matrix are those of the fit.
    """
    if any(name is not None for name in names):
        row, col, value = names
        return _from_lists(*columns_of(X, row=row, col=col, value=value))
    if values is not None:
        return _from_lists(X, cols, values)
    axes = np.ndim(X) if isinstance(X, (list, tuple)) else getattr(X, "ndim", 2)
    if axes == 1 and cols is not None:
        wanted = "ids of rows, ids of columns and values, or a matrix"
        raise InputError("values", "None, with rows and cols", wanted)
    return _from_matrix(model, X, fitted)


def _from_lists(rows: Any, cols: Any, values: Any) -> Observations:
    if cols is None:
        raise InputError("cols", "None, with values", "ids of columns")
    row_ids, row = Ids.of("rows", rows)
    column_ids, column = Ids.of("cols", cols)
    found = _numbers(values)
    for name, index in (("cols", column), ("values", found)):
        if index.shape != row.shape:
            raise ShapeError(name, f"shape {index.shape}", f"{row.shape}, as rows")
    if not row.size:
        raise ShapeError("rows", "no observation", "one at least")
    return Observations(row, column, found, row_ids, column_ids)


def columns_of(table: Any, **names: Any) -> list[Any]:
    """Columns of a long table (a frame, or anything with named columns), by argument."""
    found = []
    for argument, name in names.items():
        if name is None:
            every = {3: "three", 4: "four"}[len(names)]
            raise InputError(argument, "None", f"the name of a column; give all {every}")
        try:
            found.append(table[name])
        except Exception:  # each library has its own error
            wanted = "the name of a column of the table"
            raise InputError(argument, repr(name), wanted) from None
    return found


def _from_matrix(model: Any, X: Any, fitted: Ids | None) -> Observations:
    """Read a matrix: the stored entries, or those of a dense one that are not NaN."""
    index, columns = getattr(X, "index", None), getattr(X, "columns", None)
    if isinstance(X, np.ma.MaskedArray):
        X = np.where(np.ma.getmaskarray(X), np.nan, np.ma.getdata(X).astype(float))
    read: Any = {"accept_sparse": ("coo", "csr", "csc"), "ensure_all_finite": "allow-nan"}
    try:
        X = validate_data(model, X, reset=fitted is None, dtype=np.float64, **read)
    except ValueError as refusal:
        if columns is None or "could not convert" not in str(refusal):
            raise
        names = ", ".join(repr(name) for name in list(columns)[:5])
        wanted = "a matrix of numbers, or for a long table the names of its columns: "
        wanted += "fit(frame, row=..., col=..., value=...)"
        raise InputError("X", f"a frame with text; its columns are {names}", wanted) from None
    m, d = X.shape
    if issparse(X):
        entries = coo_array(X)
        row, column, values = entries.row, entries.col, _numbers(entries.data)
    else:
        row, column = np.nonzero(~np.isnan(X))
        values = X[row, column]
    if not len(row) and fitted is None:
        raise InputError("X", "no observed entry", "one at least")
    row_ids = Ids.indices(m)
    if index is not None and not callable(index):  # a pandas frame
        row_ids, order = Ids.of("rows", index)
        if len(row_ids) < m:
            raise InputError("X", "an index with repeated labels", "one label for each row")
        row = order[row]
    column_ids = fitted
    if column_ids is None:
        column_ids = Ids.indices(d)
        if columns is not None and not issparse(X):
            column_ids, order = Ids.of("cols", columns)
            column = order[column]
    elif columns is not None and not column_ids.plain:
        column = column_ids.find("cols", columns)[column]
    row, column = row.astype(np.int64), column.astype(np.int64)
    return Observations(row, column, values, row_ids, column_ids)


def _numbers(values: Any) -> Vector:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    try:
        found = np.asarray(values)
        found = found.astype(np.float32 if found.dtype == np.float32 else np.float64)
    except (TypeError, ValueError):
        raise InputError("values", "entries that are not numbers", "numbers") from None
    if not np.isfinite(found).all():
        wanted = "finite numbers; leave out missing entries"
        raise InputError("values", "NaN or infinite entries", wanted)
    return found


def read_pairs(rows: Any, cols: Any, row_ids: Ids, column_ids: Ids) -> tuple[Vector, Vector]:
    """Indices of ids in an array of pairs or in two arrays, -1 for unknown ones."""
    if cols is None:
        if hasattr(rows, "to_numpy"):
            rows = rows.to_numpy()
        if isinstance(rows, np.ndarray):
            if rows.ndim != 2 or rows.shape[1] != 2:
                raise ShapeError("pairs", f"shape {rows.shape}", "(n, 2), or two arrays")
            rows, cols = rows[:, 0], rows[:, 1]
        else:
            try:
                listed = [tuple(pair) for pair in rows]
            except TypeError:
                raise InputError(
                    "pairs", "entries of another kind", "pairs, or two arrays"
                ) from None
            if any(len(pair) != 2 for pair in listed):
                raise ShapeError("pairs", "entries of another length", "pairs, or two arrays")
            rows, cols = _listed([a for a, _ in listed]), _listed([b for _, b in listed])
    row, column = row_ids.find("rows", rows), column_ids.find("cols", cols)
    if row.shape != column.shape:
        raise ShapeError("cols", counted(column.size, "id"), f"{row.size}, as rows")
    return row, column

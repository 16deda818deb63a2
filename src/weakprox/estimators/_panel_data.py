"""Panels in any form that `fit` accepts: units x periods with treated cells, wide or long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._entries import Ids, Vector, columns_of, labels
from weakprox.losses import Completion
from weakprox.losses.filled import Filled

PIECE = 4096  # rows that are checked at once
BLOCK = 256  # rows that are processed at once, so that temporary arrays are short
# arguments that name the columns of a long table
COLUMNS = ("unit", "time", "outcome", "treatment")


@dataclass(frozen=True)
class Places:
    """Cells of a panel in the order of rows, then of columns."""

    starts: Vector  # index of the first cell of each row, and the number of cells
    columns: Vector

    @classmethod
    def of_rows(cls, rows: Vector, columns: Vector, shape: tuple[int, int]) -> Places:
        """Cells in order, given their rows."""
        starts = np.searchsorted(rows, np.arange(shape[0] + 1))
        return cls(starts, columns.astype(_short(shape[1])))

    @classmethod
    def of_flags(cls, flags: Vector) -> Places:
        """The cells that are True."""
        counts, width = np.count_nonzero(flags, axis=1), flags.shape[1]
        columns = np.tile(np.arange(width, dtype=_short(width)), min(BLOCK, len(flags)))
        starts = np.concatenate([[0], np.cumsum(counts)])
        found = np.empty(int(starts[-1]), columns.dtype)
        for low in range(0, len(flags), BLOCK):
            part = flags[low : low + BLOCK]
            out = found[starts[low] : starts[low + len(part)]]
            # positions of cells, not booleans, which are slow as an index
            np.take(columns, np.flatnonzero(part), out=out, mode="clip")
        return cls(starts, found)

    def __len__(self) -> int:
        return len(self.columns)

    def rows(self, low: int = 0, high: int | None = None) -> Vector:
        """Row of each cell of some rows, by default of all."""
        starts = self.starts[low : None if high is None else high + 1]
        return np.repeat(np.arange(low, low + len(starts) - 1, dtype=np.int32), np.diff(starts))

    def of_row(self, row: int) -> slice:
        """Indices of the cells of a row."""
        return slice(int(self.starts[row]), int(self.starts[row + 1]))

    def blocks(self) -> Iterator[tuple[slice, Vector, Vector]]:
        """Indices, rows and columns of the cells, for one block of rows after the other."""
        for low in range(0, len(self.starts) - 1, BLOCK):
            high = min(low + BLOCK, len(self.starts) - 1)
            part = slice(int(self.starts[low]), int(self.starts[high]))
            if part.start < part.stop:
                yield part, self.rows(low, high), self.columns[part]


class Cells(NamedTuple):
    """Observed cells of some rows: their indices, rows, columns, treatment and outcomes."""

    part: slice
    rows: Vector
    columns: Vector
    treated: Vector
    values: Vector


@dataclass(frozen=True)
class PanelData:
    """Observed cells of a panel, by rows, then by columns."""

    places: Places  # unit and period of each observed cell
    free: Vector  # outcomes of the untreated cells
    affected: Vector  # outcomes of the treated cells
    treated: Vector  # whether each of the cells is treated
    treatments: Places  # all treated cells, also those whose outcome is missing
    units: Vector  # labels of units and of periods
    times: Vector
    framed: bool  # whether the data came as a pandas frame

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of units and of periods."""
        return len(self.units), len(self.times)

    def adoption(self) -> Vector:
        """Index of the first treated period of each unit; the number of periods if none."""
        found, some = self.treatments, np.flatnonzero(np.diff(self.treatments.starts))
        m, d = self.shape
        first = np.full(m, d)
        first[some] = found.columns[found.starts[some]]
        return first

    @property
    def rows(self) -> Vector:
        """Unit of each observed cell."""
        return self.places.rows()

    @property
    def columns(self) -> Vector:
        """Period of each observed cell."""
        return self.places.columns

    @property
    def values(self) -> Vector:
        """Outcome of each observed cell, as a new array."""
        found = np.empty(len(self.treated))
        found[np.flatnonzero(self.treated)] = self.affected
        found[np.flatnonzero(~self.treated)] = self.free
        return found

    def loss(self, intercepts: Any) -> Completion:
        """Squared errors of the untreated cells."""
        at = np.flatnonzero(~self.treated)
        columns = self.columns[at].astype(np.int32, copy=False)
        return Completion(self.rows[at], columns, self.free, self.shape, intercepts=intercepts)

    def blocks(self) -> Iterator[Cells]:
        """The observed cells, for one block of rows after the other."""
        done = 0
        for part, rows, columns in self.places.blocks():
            treated, values = self.treated[part], np.empty(part.stop - part.start)
            count = int(np.count_nonzero(treated))
            before = part.start - done
            values[np.flatnonzero(treated)] = self.affected[done : done + count]
            free = self.free[before : before + len(values) - count]
            values[np.flatnonzero(~treated)] = free
            done += count
            yield Cells(part, rows, columns, treated, values)

    def comparable(self) -> tuple[Vector, Vector]:
        """The units and the periods that have an untreated outcome, as booleans."""
        units, times = (np.zeros(size, dtype=bool) for size in self.shape)
        some = np.flatnonzero(np.diff(self.places.starts))
        units[some] = ~np.logical_and.reduceat(self.treated, self.places.starts[some])
        for part, _, columns in self.places.blocks():
            times[columns[np.flatnonzero(~self.treated[part])]] = True
            if times.all():
                break
        return units, times


@dataclass(frozen=True)
class WideData:
    """The data of a wide panel, with two arrays of booleans instead of lists of cells."""

    known: Vector  # whether cells have an outcome
    flags: Vector  # whether they are treated
    free: Vector  # outcomes of the untreated cells
    affected: Vector  # outcomes of the treated cells
    units: Vector
    times: Vector
    framed: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of units and of periods."""
        return len(self.units), len(self.times)

    @property
    def places(self) -> Places:
        """Unit and period of each observed cell, as new arrays."""
        return Places.of_flags(self.known)

    @property
    def treatments(self) -> Places:
        """All treated cells, also those whose outcome is missing, as new arrays."""
        return Places.of_flags(self.flags)

    @property
    def rows(self) -> Vector:
        """Unit of each observed cell, as a new array."""
        return self.places.rows()

    @property
    def columns(self) -> Vector:
        """Period of each observed cell, as a new array."""
        return self.places.columns

    @property
    def treated(self) -> Vector:
        """True for each observed cell that is treated, as a new array."""
        return self.flags[self.known]

    @property
    def values(self) -> Vector:
        """Outcome of each observed cell, as a new array."""
        return np.concatenate([cells.values for cells in self.blocks()])

    def adoption(self) -> Vector:
        """Index of the first treated period of each unit; the number of periods if none."""
        first = np.argmax(self.flags, axis=1)
        return np.where(self.flags[np.arange(len(first)), first], first, self.shape[1])

    def loss(self, intercepts: Any) -> Completion:
        """Squared errors of the untreated cells.

        They are stored as lists if their method uses products with a sparse matrix.
        """
        mask = self.known & ~self.flags
        found = Completion.of_mask(mask, self.free, intercepts)
        P: Any = found.observed().pattern
        if P.listed is not None or Filled.pays(found.observed()):
            return found
        rows, columns = np.nonzero(mask)
        return Completion(rows, columns, self.free, self.shape, intercepts=intercepts)

    def blocks(self) -> Iterator[Cells]:
        """The observed cells, for one block of rows after the other."""
        (m, d), done, before = self.shape, 0, 0
        # rows and columns of a block: divisions of positions would take longer
        high, wide = np.repeat(np.arange(BLOCK), d), np.tile(np.arange(d), BLOCK)
        for low in range(0, m, BLOCK):
            flags = self.flags[low : low + BLOCK].reshape(-1)
            rows, columns, treated = high[: len(flags)], wide[: len(flags)], flags
            if len(self.free) + len(self.affected) < m * d:
                at = np.flatnonzero(self.known[low : low + BLOCK])
                rows, columns, treated = rows[at], columns[at], flags[at]
            values, count = np.empty(len(rows)), int(np.count_nonzero(treated))
            values[np.flatnonzero(treated)] = self.affected[done : done + count]
            start, free = before - done, len(rows) - count
            values[np.flatnonzero(~treated)] = self.free[start : start + free]
            part = slice(before, before + len(rows))
            done, before = done + count, part.stop
            if len(rows):
                yield Cells(part, rows + low, columns, treated, values)

    def comparable(self) -> tuple[Vector, Vector]:
        """The units and the periods that have an untreated outcome, as booleans."""
        units, times = np.empty(self.shape[0], bool), np.zeros(self.shape[1], bool)
        for low in range(0, len(units), BLOCK):
            part = self.known[low : low + BLOCK] & ~self.flags[low : low + BLOCK]
            units[low : low + BLOCK] = part.any(axis=1)
            times |= part.any(axis=0)
        return units, times


def read_panel(Y: Any, treated: Any, names: tuple[Any, Any, Any, Any]) -> PanelData | WideData:
    """Read a wide panel, or a long table if names of its columns are given."""
    if any(name is not None for name in names):
        if treated is not None:
            given = "an array, with names of columns"
            raise InputError("treated", given, "the name of a column, as `treatment`")
        found: PanelData | WideData = _from_table(Y, names)
    else:
        if treated is None:
            wanted = "an array of the shape of Y, or a long table with unit=, time=, ..."
            raise InputError("treated", "None", wanted)
        found = _from_wide(Y, treated)
    if not (found.flags.any() if isinstance(found, WideData) else len(found.treatments)):
        raise InputError("treated", "no treated cell", "one at least")
    if not len(found.free):
        raise InputError("Y", "no untreated outcome", "two at least")
    return found


def _from_wide(Y: Any, treated: Any) -> WideData:
    units, times = _axis(Y, "index"), _axis(Y, "columns")
    for name, own in (("index", units), ("columns", times)):
        other = _axis(treated, name)
        if own is not None and other is not None and not np.array_equal(own, other):
            raise InputError("treated", f"a frame with another {name}", f"the {name} of Y")
    values = _numbers("Y", Y, 2)
    if 0 in values.shape:
        raise ShapeError("Y", f"shape {values.shape}", "one unit and one period at least")
    flags = _flags("treated", treated, 2)
    if flags.shape != values.shape:
        raise ShapeError("treated", f"shape {flags.shape}", f"{values.shape}, that of Y")
    known = np.broadcast_to(True, flags.shape)
    if np.isnan(values.min()):
        known = ~np.isnan(values)
    counts = [int(np.count_nonzero(known & flags))]
    counts.append(int(np.count_nonzero(known)) - counts[0])
    found, done = [np.empty(count) for count in counts], [0, 0]
    for low in range(0, len(values), BLOCK):
        rows = slice(low, low + BLOCK)
        for k, chosen in enumerate((known[rows] & flags[rows], known[rows] & ~flags[rows])):
            # positions of cells, not booleans, which are slow as an index
            some = values[rows].reshape(-1)[np.flatnonzero(chosen)]
            found[k][done[k] : done[k] + len(some)] = some
            done[k] += len(some)
    return WideData(
        known,
        flags,
        found[1],
        found[0],
        np.arange(values.shape[0]) if units is None else units,
        np.arange(values.shape[1]) if times is None else times,
        units is not None,
    )


def _short(count: int) -> Any:
    """The type of indices below this number."""
    return np.uint16 if count <= 1 << 16 else np.int32


def _from_table(table: Any, names: tuple[Any, Any, Any, Any]) -> PanelData:
    """Read a long table: a pandas or polars frame, or anything with named columns."""
    parts = columns_of(table, **dict(zip(COLUMNS, names, strict=True)))
    unit_ids, row = Ids.of("unit", parts[0])
    times, column = _in_order(parts[1])
    values, flags = _numbers("outcome", parts[2], 1), _flags("treatment", parts[3], 1)
    order = np.lexsort((column, row))
    row, column, values, flags = (x[order] for x in (row, column, values, flags))
    again = (np.diff(row) == 0) & (np.diff(column) == 0)
    if again.any():
        at = int(np.argmax(again))
        given = f"two rows for unit {unit_ids.names[row[at]]!s}, time {times[column[at]]!s}"
        raise InputError("Y", given, "one row for each unit and time")
    seen, shape = ~np.isnan(values), (len(unit_ids.names), len(times))
    return PanelData(
        Places.of_rows(row[seen], column[seen], shape),
        values[seen & ~flags],
        values[seen & flags],
        flags[seen],
        Places.of_rows(row[flags], column[flags], shape),
        unit_ids.names,
        times,
        hasattr(table, "iloc"),
    )


def _in_order(times: Any) -> tuple[Vector, Vector]:
    """The different periods, in order, and the index of each."""
    given = labels("time", times)
    try:
        found, codes = np.unique(given, return_inverse=True)
    except TypeError:
        wanted = "numbers, dates or strings of one kind"
        raise InputError("time", "labels that have no order", wanted) from None
    return found, codes


def _axis(X: Any, name: str) -> Vector | None:
    """Labels of a pandas frame; None for anything else."""
    found = getattr(X, name, None)
    return found.to_numpy() if hasattr(X, "iloc") and found is not None else None


def _numbers(argument: str, values: Any, axes: int) -> Vector:
    """Outcomes in float64, NaN where they are missing."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(float), np.nan)
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(argument, "entries that are not numbers", "numbers, or NaN") from None
    _check_axes(argument, found, axes)
    if any(bool(np.isinf(found[low : low + PIECE]).any()) for low in _starts(found)):
        raise InputError(argument, "infinite entries", "finite numbers, or NaN")
    return found


def _starts(x: Vector) -> range:
    """Positions at which the blocks of a long array begin."""
    return range(0, len(x), PIECE)


def _check_axes(argument: str, found: Vector, axes: int) -> None:
    if found.ndim != axes:
        raise ShapeError(argument, counted(found.ndim, "axis", "axes"), f"{axes}")


def _flags(argument: str, values: Any, axes: int) -> Vector:
    """Treated cells as booleans."""
    wanted = "booleans, or 0 and 1"
    try:
        found = np.asarray(values)
        found = found if found.dtype == bool else found.astype(float)
    except (TypeError, ValueError):
        raise InputError(argument, "entries of another kind", wanted) from None
    _check_axes(argument, found, axes)
    if found.dtype != bool and not np.isin(found, (0.0, 1.0)).all():
        raise InputError(argument, "other entries than 0 and 1", wanted)
    return found.astype(bool)  # a copy, since the user may change the original

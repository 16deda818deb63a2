"""Panels in any form that `fit` accepts: units x periods with treated cells, wide or long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._entries import Ids, Vector, columns_of, labels

COLUMNS = ("unit", "time", "outcome", "treatment")  # arguments that name those of a long table


@dataclass(frozen=True)
class PanelData:
    """Observed cells of a panel, by rows, then by columns."""

    rows: Vector  # unit, period and outcome of each observed cell
    columns: Vector
    values: Vector
    treated: Vector  # whether each of these cells is treated
    treated_rows: Vector  # all treated cells, also those whose outcome is missing
    treated_columns: Vector
    units: Vector  # labels of units and of periods
    times: Vector
    framed: bool  # whether the data came as a pandas frame

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of units and of periods."""
        return len(self.units), len(self.times)

    def adoption(self) -> Vector:
        """Index of the first treated period of each unit; the number of periods if none."""
        m, d = self.shape
        first = np.full(m, d)
        # cells are in order, and of those in one row the last one that is written stays
        first[self.treated_rows[::-1]] = self.treated_columns[::-1]
        return first

    def untreated(self) -> tuple[Vector, Vector, Vector]:
        """Unit, period and outcome of each untreated cell."""
        free = np.flatnonzero(~self.treated)
        return self.rows[free], self.columns[free], self.values[free]

    def comparable(self) -> tuple[Vector, Vector]:
        """Which units, and which periods, have an untreated outcome."""
        m, d = self.shape
        free = np.flatnonzero(~self.treated)
        units = np.bincount(self.rows[free], minlength=m) > 0
        return units, np.bincount(self.columns[free], minlength=d) > 0


def read_panel(Y: Any, treated: Any, names: tuple[Any, Any, Any, Any]) -> PanelData:
    """Read a wide panel, or a long table if names of its columns are given."""
    if any(name is not None for name in names):
        if treated is not None:
            given = "an array, with names of columns"
            raise InputError("treated", given, "the name of a column, as `treatment`")
        found = _from_table(Y, names)
    else:
        if treated is None:
            wanted = "an array of the shape of Y, or a long table with unit=, time=, ..."
            raise InputError("treated", "None", wanted)
        found = _from_wide(Y, treated)
    if not found.treated_rows.size:
        raise InputError("treated", "no treated cell", "one at least")
    if found.treated.all():
        raise InputError("Y", "no untreated outcome", "two at least")
    return found


def _from_wide(Y: Any, treated: Any) -> PanelData:
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
    # positions of cells, not booleans, which are slow as an index
    width, small = values.shape[1], np.int32 if values.size < 1 << 31 else np.int64
    seen, gone = (np.flatnonzero(x).astype(small) for x in (~np.isnan(values), flags))
    return PanelData(
        *_places(seen, width),
        values.reshape(-1)[seen],
        flags.reshape(-1)[seen],
        *_places(gone, width),
        np.arange(values.shape[0]) if units is None else units,
        np.arange(values.shape[1]) if times is None else times,
        units is not None,
    )


def _places(at: Vector, width: int) -> tuple[Vector, Vector]:
    """Rows and columns of positions in a flattened array of this width, in 32 bits."""
    rows = at // width
    return rows.astype(np.int32), (at - rows * width).astype(np.int32)


def _from_table(table: Any, names: tuple[Any, Any, Any, Any]) -> PanelData:
    """From a long table: a pandas or polars frame, or anything with named columns."""
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
    seen = ~np.isnan(values)
    return PanelData(
        row[seen],
        column[seen],
        values[seen],
        flags[seen],
        row[flags],
        column[flags],
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
        wanted = "numbers, dates or texts of one kind"
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
    if np.isinf(found).any():
        raise InputError(argument, "infinite entries", "finite numbers, or NaN")
    return found


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
    return found.astype(bool)

"""From the user's table to an event record: times, node labels, period and decays."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.arguments import number, positive
from weakprox.errors import InputError
from weakprox.estimators._hawkes_events import Codes, Events, Vector

DECAYS = 6  # tried at most
SLOWEST = 10.0  # that of the slowest, over the length of the period
QUICK = 0.05  # quantile of the gaps between events that sets the fastest


def record(
    data: np.ndarray[Any, Any],
    nodes: np.ndarray[Any, Any] | None,
    period: Any,
    *,
    start: float | None = None,
) -> tuple[Events, np.ndarray[Any, Any]]:
    """Events of a table whose first column is the time, and the labels of its nodes.

    With `nodes`, only these labels may occur; `start` is where the period begins if it is
    not given.
    """
    times = np.asarray(data[:, 0], dtype=float)
    if not np.all(np.isfinite(times)):
        raise InputError("X", "times that are NaN or infinite", "finite times")
    codes, labels = _coded(data[:, 1:]) if nodes is None else known(data[:, 1:], nodes)
    order = np.argsort(times, kind="stable")
    times, codes = times[order], codes[order]
    begin, end = checked_period(period, times, start)
    return Events(times, codes, len(labels), begin, end), labels


def checked_period(period: Any, times: Vector, start: float | None) -> tuple[float, float]:
    """(start, stop) with every event within."""
    if period is None:
        begin, end = float(times[0] if start is None else start), float(times[-1])
    else:
        try:
            begin, end = period
        except (TypeError, ValueError):
            raise InputError("period", repr(period), "a pair (start, stop)") from None
        begin = number("period", begin, "a pair of finite numbers")
        end = number("period", end, "a pair of finite numbers")
    if not end > begin:
        raise InputError("period", f"{begin:g} to {end:g}", "a stop after the start")
    if times[0] < begin or times[-1] > end:
        given = f"events from {times[0]:g} to {times[-1]:g}, period {begin:g} to {end:g}"
        raise InputError("X", given, "events within the period")
    return begin, end


def _coded(columns: np.ndarray[Any, Any]) -> tuple[Codes, np.ndarray[Any, Any]]:
    """Codes 0, 1, ... of the rows of label columns, and the labels they stand for."""
    if columns.shape[1] == 0:
        return np.zeros(len(columns), np.intp), np.zeros(1)
    each = [np.unique(_plain(column), return_inverse=True) for column in columns.T]
    rows = np.column_stack([codes.ravel() for _, codes in each])
    found, inverse = np.unique(rows, axis=0, return_inverse=True)
    if columns.shape[1] == 1:
        return inverse.ravel().astype(np.intp), each[0][0]
    labels = np.empty(found.shape, dtype=columns.dtype)
    for k, (values, _) in enumerate(each):
        labels[:, k] = values[found[:, k]]
    return inverse.ravel().astype(np.intp), labels


def _plain(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A column of a mixed table as numbers if it is, else as strings: labels get sorted."""
    if column.dtype != object:
        return column
    try:
        return column.astype(float)
    except (TypeError, ValueError):
        if not all(isinstance(label, str) for label in column):
            given = "labels of mixed kinds"
            raise InputError("X", given, "nodes that are all numbers or all strings") from None
        return column.astype(str)


def known(
    columns: np.ndarray[Any, Any], nodes: np.ndarray[Any, Any]
) -> tuple[Codes, np.ndarray[Any, Any]]:
    """Codes of labels among those seen in fit."""
    if columns.shape[1] == 0:
        return np.zeros(len(columns), np.intp), nodes
    table = {_key(label): code for code, label in enumerate(nodes)}
    plain = np.column_stack([_plain(column).astype(object) for column in columns.T])
    keys = [_key(row[0] if nodes.ndim == 1 else row) for row in plain]
    new = next((key for key in keys if key not in table), None)
    if new is not None:
        raise InputError("X", f"events of node {new!r}", "nodes that were seen in fit")
    return np.array([table[key] for key in keys], np.intp), nodes


def _key(label: Any) -> Any:
    """Something hashable that is equal where labels are."""
    if isinstance(label, np.ndarray):
        return tuple(_key(part) for part in label)
    return str(label) if isinstance(label, str) else float(label)


def decays_of(decays: Any, events: Events) -> Vector:
    """Rates given, or a geometric progression that suits the record."""
    if not (isinstance(decays, str) and decays == "auto"):
        if isinstance(decays, str):
            raise InputError("decays", repr(decays), "numbers > 0, or 'auto'")
        found = [positive("decays", decay) for decay in np.atleast_1d(decays)]
        if not found or len(set(found)) < len(found):
            raise InputError("decays", repr(decays), "different numbers > 0, at least one")
        return np.array(sorted(found))
    gaps = np.diff(events.times)
    gaps = gaps[gaps > 0]
    slowest = SLOWEST / events.length
    fastest = max(1.0 / float(np.quantile(gaps, QUICK)) if len(gaps) else slowest, slowest)
    count = min(DECAYS, max(2, 1 + int(np.ceil(np.log10(fastest / slowest)))))
    return np.geomspace(slowest, fastest if fastest > slowest else 10 * slowest, count)

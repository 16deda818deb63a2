"""Event records, their exponential kernel sums, and records read from tables.

Everything is vectorised: sums over the past of an event come from a scan, one pass per
doubling, and sums at other times from the last event of each node before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from weakprox.arguments import is_auto, number, positive
from weakprox.errors import InputError

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

CHUNK = 1 << 22  # entries of (node, time) arrays held at once
PANEL_GROWTH = 4.0  # ratio of the lengths of successive pieces of an integral
DECAYS = 6  # tried at most
SLOWEST = 10.0  # slowest decay, times the length of the period
QUICK = 0.05  # quantile of the gaps between events that sets the fastest decay


@dataclass(frozen=True)
class Events:
    """A record: sorted times and node codes 0..count-1, observed over [start, stop]."""

    times: Vector
    nodes: Codes
    count: int
    start: float
    stop: float

    @property
    def totals(self) -> Vector:
        """Events of each node."""
        return np.bincount(self.nodes, minlength=self.count).astype(float)

    @property
    def length(self) -> float:
        return self.stop - self.start

    def then(self, later: Events) -> Events:
        """Both records as one; the later one follows this one."""
        times = np.concatenate([self.times, later.times])
        nodes = np.concatenate([self.nodes, later.nodes])
        return Events(times, nodes, self.count, self.start, later.stop)


@dataclass(frozen=True)
class Kernel:
    """g(t) = sum of shares_k decays_k exp(-decays_k t), which integrates to 1."""

    decays: Vector
    shares: Vector

    def integral(self, age: Vector) -> Vector:
        """Integral of g from 0 to each age."""
        return -np.expm1(-np.multiply.outer(age, self.decays)) @ self.shares


def running(times: Vector, decay: float) -> Vector:
    """At each of sorted times, the sum over those up to and with it of exp(-decay age).

    R_j = 1 + exp(-decay gap_j) R_{j-1}: a scan of affine maps by doubling.
    """
    factor = np.exp(-decay * np.r_[np.inf, np.diff(times)])
    total, reach = np.ones(len(times)), 1
    while reach < len(times) and factor.any():
        total[reach:] += factor[reach:] * total[:-reach]
        factor[reach:] = factor[reach:] * factor[:-reach]
        factor[:reach] = 0.0
        reach *= 2
    return total


def pulls_of(times: Vector, decays: Vector, at: Vector) -> Matrix:
    """Sums over the events of one group strictly before each time: (decay, time)."""
    last = np.searchsorted(times, at, side="left") - 1
    seen = last >= 0
    age = at[seen] - times[last[seen]]
    found = np.zeros((len(decays), len(at)))
    for k, decay in enumerate(decays):
        state = running(times, float(decay))
        found[k, seen] = decay * state[last[seen]] * np.exp(-decay * age)
    return found


def own_past(events: Events, decays: Vector) -> Matrix:
    """Excitation at each event by earlier events of its own node, (decay, event)."""
    found = np.zeros((len(decays), len(events.times)))
    for node in range(events.count):
        own = events.nodes == node
        found[:, own] = pulls_of(events.times[own], decays, events.times[own])
    return found


def excitation(events: Events, kernel: Kernel, at: Vector) -> Matrix:
    """Kernel sums over each node's earlier events, (node, time)."""
    found = np.zeros((events.count, len(at)))
    for node in range(events.count):
        times = events.times[events.nodes == node]
        found[node] = kernel.shares @ pulls_of(times, kernel.decays, at)
    return found


def exposure(events: Events, kernel: Kernel, start: float, stop: float) -> Vector:
    """Integral over [start, stop] of each node's excitation."""
    past = events.times < stop
    ages = stop - events.times[past]
    before = np.maximum(start - events.times[past], 0.0)
    gained = kernel.integral(ages) - kernel.integral(before)
    counted = np.bincount(events.nodes[past], gained, events.count)
    return np.asarray(counted, dtype=float)


def panels(
    times: Vector, start: float, stop: float, finest: float
) -> Iterator[tuple[Vector, Vector]]:
    """Nodes and weights that integrate smooth functions of the past over [start, stop].

    Between events such functions are sums of decaying exponentials, steep after an event:
    the pieces start short there and grow. Gauss's rule with three points on each.
    """
    inside = np.unique(times[(times > start) & (times < stop)])
    edges = np.r_[start, inside, stop]
    points, weights = np.polynomial.legendre.leggauss(3)
    left, reach = 0.0, finest
    longest = float(np.diff(edges).max())
    while left < longest:
        low = edges[:-1] + left
        high = np.minimum(edges[:-1] + reach, edges[1:])
        low, high = low[high > low], high[high > low]
        half = 0.5 * (high - low)
        nodes = (low + half)[:, None] + half[:, None] * points
        yield nodes.ravel(), (half[:, None] * weights).ravel()
        left, reach = reach, PANEL_GROWTH * reach


def simulate(
    baseline: Vector,
    infectivity: Matrix,
    kernel: Kernel,
    horizon: float,
    rng: np.random.Generator,
    most: int = 10**7,
) -> Events:
    """A record over [0, horizon] with an empty past, generation by generation.

    Every event of node v has Poisson(infectivity[u, v]) children of each node u, whose
    delays have the kernel's density (Hawkes & Oakes 1974).
    """
    count = len(baseline)
    births = rng.poisson(baseline * horizon)
    nodes = np.repeat(np.arange(count), births)
    times = rng.uniform(0.0, horizon, len(nodes))
    all_times, all_nodes, seen = [times], [nodes], len(nodes)
    expected = infectivity.sum(axis=0)
    odds = infectivity / np.where(expected > 0, expected, 1.0)
    ladder = np.cumsum(odds, axis=0)
    while len(times):
        children = rng.poisson(expected[nodes])
        parent = np.repeat(nodes, children)
        which = rng.choice(len(kernel.shares), len(parent), p=kernel.shares)
        delay = rng.exponential(1.0, len(parent)) / kernel.decays[which]
        born = np.repeat(times, children) + delay
        draw = rng.random(len(parent))
        kind = np.minimum((draw > ladder[:, parent]).sum(axis=0), count - 1)
        times, nodes = born[born < horizon], kind[born < horizon]
        all_times.append(times)
        all_nodes.append(nodes)
        seen += len(times)
        if seen > most:
            given = f"a record of more than {most} events"
            raise InputError("horizon", given, "a shorter one")
    times, nodes = np.concatenate(all_times), np.concatenate(all_nodes)
    order = np.argsort(times, kind="stable")
    return Events(times[order], nodes[order].astype(np.intp), count, 0.0, float(horizon))


def record(
    data: np.ndarray[Any, Any],
    nodes: np.ndarray[Any, Any] | None,
    period: Any,
    *,
    start: float | None = None,
) -> tuple[Events, np.ndarray[Any, Any]]:
    """Events of a table whose first column is the time, and the labels of its nodes.

    With `nodes`, only these labels may occur; `start` is the start of the period if no
    period is given.
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
    """A column of a mixed table as numbers if possible, else as strings."""
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
    """A hashable key that is equal for equal labels."""
    if isinstance(label, np.ndarray):
        return tuple(_key(part) for part in label)
    return str(label) if isinstance(label, str) else float(label)


def decays_of(decays: Any, events: Events) -> Vector:
    """The rates given, or a geometric progression from the gaps of the record."""
    if not is_auto(decays):
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

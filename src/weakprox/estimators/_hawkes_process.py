"""Hawkes processes: records of events, their kernel sums, likelihood and contrast.

Everything is vectorised: sums over the past of an event come from a scan, one pass per
doubling, and sums at other times from the last event of each node before them.

With intensities linear in the unknowns, lambda_u = m_u + sum_v A_uv psi_v, the contrast

    sum_u  1/2 int w_u lambda_u^2 dt - sum over events of u of w_u lambda_u

is in expectation, up to a constant, half the w-weighted squared distance to the true
intensities, for any weights that depend on the past only. It is quadratic, with one term per
node. Weights 1/(share of u x pilot's total intensity) make it nearly as efficient as the
likelihood for events in bursts.

In X_uv = A_uv sqrt(N_v / N_u), N the numbers of events, its Hessian is the same for all
nodes and the noise of its gradient about the same in all entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from weakprox.arguments import is_auto, number, positive
from weakprox.errors import InputError
from weakprox.linalg import decompositions
from weakprox.losses import Custom

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

CHUNK = 1 << 22  # entries of (node, time) arrays held at once
PANEL_GROWTH = 4.0  # ratio of the lengths of successive pieces of an integral
DECAYS = 6  # largest number of decays
SLOWEST = 10.0  # slowest decay, times the length of the period
QUICK = 0.05  # quantile of the gaps between events that sets the fastest decay
PRIOR = 0.5  # events at the mean rate added to every baseline, so that none is zero
STEPS = 60  # EM steps of the pilot
POLISH = 30  # EM steps after the fit
FAINT, TINY = 1e-10, 1e-12  # relative and absolute curvature that counts as none
RIDGE = 5e-3  # weight of squares, relative to the mean of the Hessian's diagonal
FINEST = 0.5  # first piece of an integral after an event, in units of the fastest decay
LEAST = 1e-300  # divisor in place of zero


@dataclass(frozen=True)
class Record:
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

    def then(self, later: Record) -> Record:
        """Both records as one; the later one follows this one."""
        times = np.concatenate([self.times, later.times])
        nodes = np.concatenate([self.nodes, later.nodes])
        return Record(times, nodes, self.count, self.start, later.stop)


@dataclass(frozen=True)
class Kernel:
    """g(t) = sum of shares_k decays_k exp(-decays_k t), which integrates to 1."""

    decays: Vector
    shares: Vector

    def integral(self, age: Vector) -> Vector:
        """Integral of g from 0 to each age."""
        return -np.expm1(-np.multiply.outer(age, self.decays)) @ self.shares


def running(times: Vector, decay: float) -> Vector:
    """At each of sorted times, the sum over those up to and with it of exp(-decay age)."""
    # R_j = 1 + exp(-decay gap_j) R_{j-1}: a scan of affine maps by doubling
    factor = np.exp(-decay * np.r_[np.inf, np.diff(times)])
    total, reach = np.ones(len(times)), 1
    while reach < len(times) and factor.any():
        total[reach:] += factor[reach:] * total[:-reach]
        factor[reach:] = factor[reach:] * factor[:-reach]
        factor[:reach] = 0.0
        reach *= 2
    return total


@dataclass(frozen=True)
class Past:
    """Events of one group, with the sums at them by which later sums are computed."""

    times: Vector
    decays: Vector

    @cached_property
    def states(self) -> list[Vector]:
        """At each event, the sum up to and with it, one for each decay."""
        return [running(self.times, float(decay)) for decay in self.decays]

    def pulls(self, at: Vector, side: Literal["left", "right"] = "left") -> Matrix:
        """Sums over the events before each time: (decay, time).

        Events at the time itself count only if `side` is "right".
        """
        last = np.searchsorted(self.times, at, side=side) - 1
        seen = last >= 0
        before = last[seen]
        age = at[seen] - self.times[before]
        found = np.zeros((len(self.decays), len(at)))
        for k, (decay, state) in enumerate(zip(self.decays, self.states, strict=True)):
            found[k, seen] = decay * state[before] * np.exp(-decay * age)
        return found


def own_past(events: Record, decays: Vector) -> Matrix:
    """Excitation at each event by earlier events of its own node, (decay, event)."""
    found = np.zeros((len(decays), len(events.times)))
    for node in range(events.count):
        own = events.nodes == node
        times = events.times[own]
        found[:, own] = Past(times, decays).pulls(times)
    return found


def excitation(events: Record, kernel: Kernel, at: Vector) -> Matrix:
    """Kernel sums over each node's earlier events, (node, time)."""
    return np.array([kernel.shares @ group.pulls(at) for group in pasts(events, kernel)])


def pasts(events: Record, kernel: Kernel) -> list[Past]:
    """The events of each node."""
    nodes = range(events.count)
    return [Past(events.times[events.nodes == node], kernel.decays) for node in nodes]


def exposure(events: Record, kernel: Kernel, start: float, stop: float) -> Vector:
    """Integral over [start, stop] of each node's excitation."""
    past = events.times < stop
    ages = stop - events.times[past]
    before = np.maximum(start - events.times[past], 0.0)
    gained = kernel.integral(ages) - kernel.integral(before)
    counted = np.bincount(events.nodes[past], gained, events.count)
    return np.asarray(counted, dtype=float)


def panels(
    edges: Vector, finest: float
) -> Iterator[tuple[np.ndarray[Any, Any], Matrix, Matrix]]:
    """Points and weights that integrate smooth functions of the past between edges.

    Between events such functions are sums of decaying exponentials, steep after an event:
    the pieces start short there and grow. Each has a Gauss rule with three points. Yields the
    intervals that have a piece of this length, and (interval, point) arrays of ages of the
    points, from the start of the interval, and their weights.
    """
    points, weights = np.polynomial.legendre.leggauss(3)
    lengths = np.diff(edges)
    left, reach = 0.0, finest
    inside = np.arange(len(lengths))
    while True:
        inside = inside[lengths[inside] > left]
        if not len(inside):
            return
        half = 0.5 * (np.minimum(lengths[inside], reach) - left)[:, None]
        yield inside, left + half + half * points, half * weights
        left, reach = reach, PANEL_GROWTH * reach


def simulate(
    baseline: Vector,
    infectivity: Matrix,
    kernel: Kernel,
    horizon: float,
    rng: np.random.Generator,
    most: int = 10**7,
) -> Record:
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
    return Record(times[order], nodes[order].astype(np.intp), count, 0.0, float(horizon))


def record(
    data: np.ndarray[Any, Any],
    nodes: np.ndarray[Any, Any] | None,
    period: Any,
    *,
    start: float | None = None,
) -> tuple[Record, np.ndarray[Any, Any]]:
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
    return Record(times, codes, len(labels), begin, end), labels


def refuse_lists(X: Any) -> None:
    """Raise on one list of times for each node, which is not a table of events."""
    kinds = (list, tuple, np.ndarray)
    rows = isinstance(X, (list, tuple)) and all(isinstance(x, kinds) for x in X)
    if rows and len({len(x) for x in X}) > 1:
        given = f"{len(X)} lists of different lengths"
        wanted = "one row (time, node) for each event: np.column_stack([np.concatenate(X), "
        raise InputError("X", given, wanted + "np.repeat(np.arange(len(X)), [*map(len, X)])])")


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


def decays_of(decays: Any, events: Record) -> Vector:
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


@dataclass(frozen=True)
class Sources:
    """The terms of the intensity at events: source p of node u has its own factor.

    `at` is (source, event), `exposure` its integral over time, (source, node), and
    `length` how long that time is. Source 0 is the baseline, 1 everywhere.
    """

    at: Matrix
    exposure: Matrix
    nodes: Codes
    length: float

    def intensity(self, factors: Matrix) -> Vector:
        """At each event, that of its own node."""
        found = factors.take(self.nodes, axis=1)
        found *= self.at
        return np.asarray(found.sum(axis=0))

    def log_likelihood(self, factors: Matrix) -> float:
        """Sum of log intensities less the integral of all intensities."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.intensity(factors))
        return float(logs.sum() - np.sum(factors * self.exposure))

    def improved(self, factors: Matrix, steps: int) -> Matrix:
        """Factors after EM steps, each multiplied by its share of events over its exposure."""
        count = factors.shape[1]
        rate = np.bincount(self.nodes, minlength=count) / self.length
        rate = np.where(rate > 0, rate, max(rate.sum() / max(1, count), LEAST))
        due = np.maximum(self.exposure, LEAST)
        prior = np.zeros_like(due)
        prior[0] = PRIOR
        due = due + prior / rate
        for _ in range(steps):
            inverse = 1.0 / np.maximum(self.intensity(factors), LEAST)
            claims = [np.bincount(self.nodes, row * inverse, count) for row in self.at]
            factors = (factors * np.array(claims) + prior) / due
        return factors


@dataclass(frozen=True)
class Pilot:
    """A first model: every node reacts to its own past, and alike to that of all nodes."""

    baseline: Vector
    own: Vector
    shared: Vector
    kernel: Kernel


def pilot(events: Record, decays: Vector, *, steps: int = STEPS) -> Pilot:
    """Fit the first model and the shares of the decays by EM."""
    count, n = events.count, len(events.times)
    own = own_past(events, decays)
    every = Past(events.times, decays).pulls(events.times)
    ages = events.stop - events.times
    gained = -np.expm1(-np.multiply.outer(decays, ages))  # (decay, event)
    own_due = np.array([np.bincount(events.nodes, row, count) for row in gained])
    every_due = np.repeat(gained.sum(axis=1)[:, None], count, axis=1)
    rate = events.totals / events.length
    factors = np.array([0.5 * rate, np.full(count, 0.3), 0.2 * events.totals / n])
    shares = np.full(len(decays), 1.0 / len(decays))
    ones, length = np.ones(n), np.full(count, events.length)
    for _ in range(steps):
        at = np.array([ones, shares @ own, shares @ every])
        due = np.array([length, shares @ own_due, shares @ every_due])
        sources = Sources(at, due, events.nodes, events.length)
        inverse = 1.0 / np.maximum(sources.intensity(factors), LEAST)
        pulls = own * factors[1][events.nodes] + every * factors[2][events.nodes]
        claims = shares * (pulls @ inverse)
        factors = sources.improved(factors, 1)
        mixed = claims / np.maximum(own_due @ factors[1] + every_due @ factors[2], LEAST)
        total = max(float(mixed.sum()), LEAST)
        shares, factors[1:] = mixed / total, factors[1:] * total
    return Pilot(factors[0], factors[1], factors[2], Kernel(decays, shares))


@dataclass(frozen=True)
class Contrast:
    """1/2 x_u' gram x_u - slopes_u x_u, summed over nodes u; column 0 is the baseline."""

    gram: Matrix
    slopes: Matrix

    def __add__(self, other: Contrast) -> Contrast:
        """The contrast of two periods together."""
        return Contrast(self.gram + other.gram, self.slopes + other.slopes)

    def without(self, part: Contrast, share: float) -> Contrast:
        """The contrast of a period without a part of it, on the scale of the whole."""
        left = 1.0 / (1.0 - share)
        return Contrast(left * (self.gram - part.gram), left * (self.slopes - part.slopes))


@dataclass(frozen=True)
class Reduced:
    """The contrast of X alone, minimised over the baseline (and the free diagonal).

    With a free diagonal, row u has the Hessian `gram` - own_u own_u' / own_u[u].
    """

    gram: Matrix
    slopes: Matrix
    free: bool

    @classmethod
    def of(cls, contrast: Contrast, free: bool) -> Reduced:
        """Minimise over the baselines and, where they are free, over the diagonal."""
        gram, slopes = contrast.gram, contrast.slopes
        first = gram[0, 0]
        across = gram[0, 1:]
        inner = gram[1:, 1:] - np.outer(across, across) / first
        left = slopes[:, 1:] - np.outer(slopes[:, 0], across) / first
        if free:
            left = left - (np.diag(left) * _inverse(inner))[:, None] * inner
        return cls(inner, left, free)

    @cached_property
    def inverse(self) -> Vector:
        """One over the diagonal of `gram`; 0 for nodes that had no time to excite anything."""
        return _inverse(self.gram)

    def gradient(self, X: Matrix, rows: Any = slice(None)) -> Matrix:
        """Gradient of all terms, or of those of some rows."""
        full = X[rows] @ self.gram
        if self.free:
            own = self.gram[rows]
            due = np.einsum("uv,uv->u", X[rows], own) * self.inverse[rows]
            full = full - due[:, None] * own
        return np.asarray(full - self.slopes[rows])

    def value(self, X: Matrix, rows: Any = slice(None)) -> float:
        """Sum of the terms, or of those of some rows."""
        inner = self.gradient(X, rows) - self.slopes[rows]
        return 0.5 * float(np.sum(X[rows] * inner))

    @cached_property
    def loss(self) -> Custom:
        """As a finite sum over nodes, with its exact constants."""
        count = len(self.gram)
        values = decompositions.eigvalsh(self.gram)
        rounding = 4 * count * np.finfo(float).eps * float(values[-1])
        least = 0.0 if self.free else max(0.0, float(values[0]) - rounding)

        def gradient(X: Matrix, rows: Any) -> Matrix:
            if len(rows) == count:
                return self.gradient(X)
            found = np.zeros_like(X)
            np.add.at(found, rows, self.gradient(X, rows) * (count / len(rows)))
            return found

        def value(X: Matrix, rows: Any) -> float:
            share = count / len(rows)
            return share * self.value(X, rows if share != 1.0 else slice(None))

        most = float(values[-1]) + rounding
        constants: Any = {"smoothness": most, "term_smoothness": count * most}
        constants |= {"strong_convexity": least, "n_terms": count}
        return Custom((count, count), value=value, grad=gradient, **constants)

    def noise(self, events: int) -> float:
        """Approximate standard deviation of an entry of the slopes."""
        return float(np.sqrt(max(float(np.mean(np.diag(self.gram))), TINY) / events))

    @property
    def ridge(self) -> float:
        """A weight of squares that makes everything strongly convex and changes little."""
        return RIDGE * max(float(np.mean(np.diag(self.gram))), TINY)

    @cached_property
    def size(self) -> float:
        """The largest decrease of the contrast, with no penalty but the ridge."""
        least = self.gram + 2 * self.ridge * np.eye(len(self.gram))
        return 0.5 * float(np.sum(self.slopes * np.linalg.solve(least, self.slopes.T).T))

    @property
    def reach(self) -> float:
        """A nuclear norm that no solution exceeds, whatever its penalty.

        Its value is at most that of zero: 1/2 |X|_M^2 <= <slopes, X>, M with the ridge.
        """
        least = float(decompositions.eigvalsh(self.gram)[0]) + 2 * self.ridge
        return 2 * float(np.sqrt(2 * len(self.gram) * max(self.size, 1e-12) / least))


def _inverse(gram: Matrix) -> Vector:
    """One over the diagonal; 0 for nodes that had no time to excite anything."""
    diagonal = np.diag(gram)
    counts = diagonal > FAINT * diagonal.max()
    return np.where(counts, 1.0 / np.where(counts, diagonal, 1.0), 0.0)


def contrasts(events: Record, first: Pilot, edges: Vector, pulls: Matrix) -> list[Contrast]:
    """The contrast over each piece of time between the edges; `pulls` are those at events."""
    scale = np.sqrt(np.maximum(events.totals, 1.0))
    reaction = (first.own + first.shared.sum()) * scale
    baseline = float(first.baseline.sum())
    past = pasts(events, first.kernel)
    found = []
    for start, stop in pairwise(edges):
        last = stop >= events.stop
        chosen = (events.times >= start) & ((events.times < stop) | last)
        inside = np.unique(events.times[(events.times > start) & (events.times < stop)])
        breaks = np.r_[start, inside, stop]
        gram = np.zeros((events.count + 1, events.count + 1))
        step = max(1, CHUNK // (events.count * len(first.kernel.decays)))
        for i in range(0, len(breaks) - 1, step):
            part = breaks[i : i + step + 1]
            gram += _gram(past, first.kernel, part, scale, baseline, reaction)
        at = pulls[:, chosen].T / scale
        rows = np.column_stack([np.ones(len(at)), at]) / (baseline + at @ reaction)[:, None]
        slopes = np.zeros((events.count, events.count + 1))
        np.add.at(slopes, events.nodes[chosen], rows)
        found.append(Contrast(gram, slopes / scale[:, None]))
    return found


def _gram(
    past: list[Past],
    kernel: Kernel,
    breaks: Vector,
    scale: Vector,
    baseline: float,
    reaction: Vector,
) -> Matrix:
    """The part of a contrast's Hessian that belongs to the time between breaks.

    No event lies between two breaks, so that all sums there follow from those just after the
    first of the two.
    """
    starts = breaks[:-1]
    states = np.array([group.pulls(starts, side="right") for group in past])
    # (break, decay, node)
    states = np.ascontiguousarray(states.T) * kernel.shares[:, None] / scale
    gram = np.zeros((len(past) + 1, len(past) + 1))
    for inside, ages, weights in panels(breaks, FINEST / float(kernel.decays.max())):
        faded = np.exp(-ages[..., None] * kernel.decays)  # (interval, point, decay)
        part = (faded @ states[inside]).reshape(-1, len(past))
        rows = np.column_stack([np.ones(len(part)), part])
        weighted = rows * (weights.ravel() / (baseline + part @ reaction))[:, None]
        gram += weighted.T @ rows
    return gram

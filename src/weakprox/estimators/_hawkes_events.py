"""Event records, and what the exponential kernels of a Hawkes process make of them.

Everything is vectorised: sums over the past of an event come from a scan, one pass per
doubling, and sums at other times from the last event of each node before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from weakprox.errors import InputError

Vector: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

CHUNK = 1 << 22  # entries of (node, time) arrays held at once
PANEL_GROWTH = 4.0  # how much longer each piece of an integral is than the one before


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
        """Length of the period."""
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

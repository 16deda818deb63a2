"""Price and radius for a Hawkes model, by leaving out pieces of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weakprox.estimators._hawkes_contrast import Contrast, Reduced
from weakprox.estimators._hawkes_events import Events, Kernel, Matrix, Vector, exposure
from weakprox.estimators._hawkes_likelihood import POLISH, Pilot, Sources

LAMS = (0.0, 0.5, 1.0, 2.0, 4.0)  # tried prices, in units of the noise
SHARES = (0.05, 0.12, 0.25, 0.5, 1.0)  # tried radii, relative to the free solution's
ZERO = 1e-3  # entries of X up to this share of the largest count as zero
FEW = (2.0, 0.25)  # price and share where there is too little to choose by

Solve = Callable[..., Any]  # (reduced, lam, tau, start) -> Result


@dataclass(frozen=True)
class Record:
    """Events with the kernel sums at them, and the pieces of time between edges."""

    events: Events
    kernel: Kernel
    pulls: Matrix  # (node, event)
    edges: Vector

    def piece(self, k: int) -> np.ndarray[Any, Any]:
        """Which events lie in piece k."""
        times, last = self.events.times, k == len(self.edges) - 2
        inside = times >= self.edges[k]
        return np.asarray(inside & ((times < self.edges[k + 1]) | last))

    def sources(
        self, A: Matrix, chosen: np.ndarray[Any, Any], due: Vector, length: float
    ) -> Sources:
        """Baseline, own past and A's pull at the chosen events; `due` is the exposure."""
        nodes, pulls = self.events.nodes[chosen], self.pulls[:, chosen]
        own = pulls[nodes, np.arange(len(nodes))]
        mutual = np.einsum("vn,nv->n", pulls, A[nodes])
        at = np.array([np.ones(len(nodes)), own, mutual])
        exposures = np.array([np.full(len(A), length), due, A @ due])
        return Sources(at, exposures, nodes, length)

    def whole(self, A: Matrix) -> Sources:
        """The same over the whole period."""
        events = self.events
        due = exposure(events, self.kernel, events.start, events.stop)
        return self.sources(A, np.ones(len(events.times), bool), due, events.length)


def unscaled(X: Matrix, events: Events) -> Matrix:
    """A from X = A sqrt(N_v / N_u), without what is below zero or as good as zero."""
    scale = np.sqrt(np.maximum(events.totals, 1.0))
    kept = np.where(ZERO * np.abs(X).max() < X, X, 0.0)
    return kept * scale[:, None] / scale


def first_factors(first: Pilot, free: bool) -> Matrix:
    """Where EM begins: the pilot's baseline and self-excitation, and A as it is."""
    own = np.maximum(first.own, 1e-3) if free else np.zeros_like(first.own)
    return np.array([first.baseline, own, np.ones_like(own)])


def choose(
    record: Record,
    parts: list[Contrast],
    whole: Contrast,
    first: Pilot,
    free: bool,
    grid: list[tuple[float, list[float]]],
    solve: Solve,
) -> dict[str, Any]:
    """Held-out log-likelihood per event of every price, with its ascending radii."""
    events = record.events
    pairs = [(lam, tau) for lam, taus in grid for tau in taus]
    found = np.zeros((len(parts), len(pairs)))
    dues = [
        exposure(events, record.kernel, float(start), float(stop))
        for start, stop in pairwise(record.edges)
    ]
    every = np.sum(dues, axis=0)
    for k, part in enumerate(parts):
        inside, length = record.piece(k), float(record.edges[k + 1] - record.edges[k])
        reduced = Reduced.of(whole.without(part, float(inside.mean())), free)
        previous, X = None, None
        for i, (lam, tau) in enumerate(pairs):
            X = solve(reduced, lam, tau, X if lam == previous else None).X
            previous = lam
            A = unscaled(X, events)
            rest = record.sources(A, ~inside, every - dues[k], events.length - length)
            factors = rest.improved(first_factors(first, free), POLISH)
            found[k, i] = record.sources(A, inside, dues[k], length).log_likelihood(factors)
    found /= len(events.times)
    lams, taus = np.array(pairs).T
    return {"lam": lams, "tau": taus, "log_likelihood": found.sum(axis=0), "folds": found}

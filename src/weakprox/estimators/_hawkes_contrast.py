"""Likelihood of a Hawkes process, and its least-squares contrast.

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

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weakprox.estimators import _hawkes_events as records
from weakprox.estimators._hawkes_events import Codes, Events, Kernel, Matrix, Vector
from weakprox.linalg import decompositions
from weakprox.losses import Custom

PRIOR = 0.5  # events at the mean rate added to every baseline, so that none is zero
STEPS = 60  # EM steps of the pilot
POLISH = 30  # EM steps after the fit
FAINT, TINY = 1e-10, 1e-12  # relative and absolute curvature that counts as none
RIDGE = 5e-3  # weight of squares, relative to the mean of the Hessian's diagonal
FINEST = 0.5  # first piece of an integral after an event, in units of the fastest decay
LEAST = 1e-300  # divisor in place of zero


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
        return np.asarray(np.einsum("pn,pn->n", self.at, factors[:, self.nodes]))

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


def pilot(events: Events, decays: Vector, *, steps: int = STEPS) -> Pilot:
    """Fit the first model and the shares of the decays by EM."""
    count, n = events.count, len(events.times)
    own = records.own_past(events, decays)
    every = records.pulls_of(events.times, decays, events.times)
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

    def gradient(self, X: Matrix, rows: Any = slice(None)) -> Matrix:
        """Gradient of all terms, or of those of some rows."""
        full = X[rows] @ self.gram
        if self.free:
            own = self.gram[rows]
            due = np.einsum("uv,uv->u", X[rows], own) * _inverse(self.gram)[rows]
            full = full - due[:, None] * own
        return np.asarray(full - self.slopes[rows])

    def value(self, X: Matrix, rows: Any = slice(None)) -> float:
        """Sum of the terms, or of those of some rows."""
        inner = self.gradient(X, rows) - self.slopes[rows]
        return 0.5 * float(np.sum(X[rows] * inner))

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

    @property
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


def contrasts(events: Events, first: Pilot, edges: Vector) -> list[Contrast]:
    """The contrast over each piece of time between the edges."""
    scale = np.sqrt(np.maximum(events.totals, 1.0))
    reaction = first.own + first.shared.sum()
    found = []
    for start, stop in pairwise(edges):
        last = stop >= events.stop
        chosen = (events.times >= start) & ((events.times < stop) | last)
        gram = np.zeros((events.count + 1, events.count + 1))
        finest = FINEST / float(first.kernel.decays.max())
        for nodes, weights in records.panels(events.times, start, stop, finest):
            step = max(1, records.CHUNK // events.count)
            for i in range(0, len(nodes), step):
                part = records.excitation(events, first.kernel, nodes[i : i + step])
                total = first.baseline.sum() + reaction @ part
                rows = np.vstack([np.ones(part.shape[1]), part / scale[:, None]])
                gram += (rows * (weights[i : i + step] / total)) @ rows.T
        at = records.excitation(events, first.kernel, events.times[chosen])
        total = first.baseline.sum() + reaction @ at
        rows = np.vstack([np.ones(at.shape[1]), at / scale[:, None]]) / total
        slopes = np.zeros((events.count, events.count + 1))
        np.add.at(slopes, events.nodes[chosen], rows.T)
        found.append(Contrast(gram, slopes / scale[:, None]))
    return found

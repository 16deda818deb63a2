"""The least-squares contrast of a Hawkes process: quadratic, and one term for each node.

With intensities linear in the unknowns, lambda_u = m_u + sum_v A_uv psi_v, the contrast

    sum_u  1/2 int w_u lambda_u^2 dt - sum over events of u of w_u lambda_u

is in expectation, up to a constant, half the w-weighted distance to the true intensities,
for any weights that look at the past only. Weights 1/(share of u x pilot's total
intensity) make it nearly as good as the likelihood where events come in bursts.

In X_uv = A_uv sqrt(N_v / N_u), N the numbers of events, its Hessian is the same for all
nodes and the noise of its gradient about the same in all entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weakprox.estimators._hawkes_events import (
    CHUNK,
    Events,
    Matrix,
    Vector,
    excitation,
    panels,
)
from weakprox.estimators._hawkes_likelihood import Pilot
from weakprox.linalg import decompositions
from weakprox.losses import Custom

FAINT, TINY = 1e-10, 1e-12  # what counts as no curvature, relative and absolute
RIDGE = 5e-3  # weight of squares, relative to the mean of the Hessian's diagonal
FINEST = 0.5  # first piece of an integral after an event, in units of the fastest decay


@dataclass(frozen=True)
class Contrast:
    """1/2 x_u' gram x_u - slopes_u x_u, summed over nodes u; column 0 is the baseline."""

    gram: Matrix
    slopes: Matrix

    def __add__(self, other: Contrast) -> Contrast:
        """Of two periods together."""
        return Contrast(self.gram + other.gram, self.slopes + other.slopes)

    def without(self, part: Contrast, share: float) -> Contrast:
        """Of a period less a part of it, on the scale of the whole."""
        left = 1.0 / (1.0 - share)
        return Contrast(left * (self.gram - part.gram), left * (self.slopes - part.slopes))


@dataclass(frozen=True)
class Reduced:
    """The contrast of X alone, the baseline (and the free diagonal) at their best.

    Row u has Hessian `gram` - own_u own_u' / own_u[u] where the diagonal is free: whatever
    a row's diagonal entry does, the free one undoes.
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
        """Of all terms, or those of some rows."""
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

        return Custom(
            (count, count),
            value=value,
            grad=gradient,
            n_terms=count,
            strong_convexity=least,
            smoothness=float(values[-1]) + rounding,
            term_smoothness=count * (float(values[-1]) + rounding),
        )

    def noise(self, events: int) -> float:
        """Standard deviation of an entry of the slopes, about, given the number of events."""
        return float(np.sqrt(max(float(np.mean(np.diag(self.gram))), TINY) / events))

    @property
    def ridge(self) -> float:
        """A weight of squares that makes everything strongly convex and changes little."""
        return RIDGE * max(float(np.mean(np.diag(self.gram))), TINY)

    @property
    def size(self) -> float:
        """What the contrast can fall by at most, without any penalty but the ridge."""
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
    """One over the diagonal, 0 where a node has had no time to excite anything."""
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
        for nodes, weights in panels(events.times, start, stop, finest):
            step = max(1, CHUNK // events.count)
            for i in range(0, len(nodes), step):
                part = excitation(events, first.kernel, nodes[i : i + step])
                total = first.baseline.sum() + reaction @ part
                rows = np.vstack([np.ones(part.shape[1]), part / scale[:, None]])
                gram += (rows * (weights[i : i + step] / total)) @ rows.T
        at = excitation(events, first.kernel, events.times[chosen])
        total = first.baseline.sum() + reaction @ at
        rows = np.vstack([np.ones(at.shape[1]), at / scale[:, None]]) / total
        slopes = np.zeros((events.count, events.count + 1))
        np.add.at(slopes, events.nodes[chosen], rows.T)
        found.append(Contrast(gram, slopes / scale[:, None]))
    return found

"""Averages of covariance estimates, weighted by samples that were left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.estimators._simple_covariances import Parts
from weakprox.linalg import decompositions
from weakprox.selection.noise import Values
from weakprox.selection.search import unit_near

SMALL = 0.01  # weights below are set to zero
STEPS = 50  # steps of the search for weights, a smooth problem with few unknowns


@dataclass(frozen=True)
class Compared:
    """Estimates of one fold, shape (kinds, p, p), and the covariance of the rows left out."""

    estimates: Values
    unseen: Values
    losses: Values  # of each estimate, infinite if it is not positive definite

    @classmethod
    def of(cls, parts: Sequence[Parts], unseen: Values, *, likely: bool) -> Compared:
        """Compare estimates with rows that were left out."""
        losses = [
            part.log_loss(unseen) if likely else part.distance_loss(unseen) for part in parts
        ]
        estimates = np.array([part.dense for part in parts])
        return cls(estimates, unseen.T @ unseen / len(unseen), np.array(losses))

    def some(self, kinds: Any) -> Compared:
        """These kinds only."""
        return replace(self, estimates=self.estimates[kinds], losses=self.losses[kinds])

    def log_loss(self, weights: Values) -> tuple[float, Values]:
        """Minus twice the log-density under the average, and its slopes by the weights."""
        root = decompositions.cholesky(np.tensordot(weights, self.estimates, 1))
        if root is None:
            return math.inf, np.zeros(len(weights))
        inverse = np.linalg.inv(root)
        inverse = inverse.T @ inverse
        fit = inverse @ self.unseen
        logs = 2.0 * float(np.log(np.diag(root)).sum())
        slope = inverse - fit @ inverse
        return logs + float(np.trace(fit)), np.tensordot(self.estimates, slope, 2)

    def distance_loss(self, weights: Values) -> tuple[float, Values]:
        """Squared distance of the average, and its slopes by the weights."""
        away = np.tensordot(weights, self.estimates, 1) - self.unseen
        return float(np.sum(away**2)), 2.0 * np.tensordot(self.estimates, away, 2)


def averaging_weights(
    folds: Sequence[Compared], prior: Values, *, likely: bool, sets: int = 1
) -> Values:
    r"""Weights of least loss on the folds, shrunk towards prior ones if the folds are noisy.

    Minimises the mean loss plus :math:`t \sum_k w_k \log(w_k / q_k)` over weights that sum to
    one, with q the prior weights and t the standard error of the slopes there: differences
    within the error of the folds do not move the weights. The folds may come from several
    splits of the samples (`sets`). These add no samples, so the standard error is that of one
    split.
    """
    from scipy.optimize import minimize  # slow to import

    losses = [fold.log_loss if likely else fold.distance_loss for fold in folds]
    slopes = np.array([loss(prior)[1] for loss in losses])
    slopes -= slopes.mean(axis=1, keepdims=True)
    unit = unit_near(slopes)  # squares may overflow
    variance = float(np.mean((slopes / unit).var(axis=0, ddof=1)))
    error = unit * math.sqrt(variance * sets / len(folds))
    if not error > 0.0:  # all kinds are equal
        return prior

    def penalised(logits: Any) -> tuple[float, Values]:
        """The sum in units of the error, and its slopes by the logarithms of weights."""
        w = _softmax(logits)
        found = [loss(w) for loss in losses]
        relative = np.log(np.maximum(w, np.finfo(float).tiny) / prior)
        value = float(np.mean([one for one, _ in found])) / error + float(w @ relative)
        slope = np.mean([one for _, one in found], axis=0) / error + relative
        return value, w * (slope - float(w @ slope))

    how: Any = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": STEPS}}
    weights = _softmax(minimize(penalised, np.log(prior), **how).x)
    weights = np.where(weights < SMALL, 0.0, weights)
    return np.asarray(weights / weights.sum())


def averaged(parts: Sequence[Parts], weights: Sequence[float]) -> Parts:
    """The weighted mean of covariances as a covariance of the same form."""
    A = np.vstack([math.sqrt(w) * part.A for part, w in zip(parts, weights, strict=True)])
    if A.shape[0] > A.shape[1]:
        A = np.asarray(np.linalg.qr(A, mode="r"))
    own = sum(w * part.own for part, w in zip(parts, weights, strict=True))
    rest: Any = [
        w * part.sparse
        for part, w in zip(parts, weights, strict=True)
        if part.sparse is not None
    ]
    return Parts(A, np.asarray(own), sum(rest[1:], rest[0]) if rest else None)


def _softmax(logits: Any) -> Values:
    found = np.exp(np.asarray(logits) - np.max(logits))
    return np.asarray(found / found.sum())

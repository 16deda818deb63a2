"""Clusters as mixtures of normal distributions, compared with densities of neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from weakprox.linalg import decompositions
from weakprox.linalg.threads import one_thread
from weakprox.selection.noise import Values

Kind = Literal["spherical", "tied", "full"]
SOME = 500  # samples by which densities are compared
MOST, EACH = 50, 5  # most principal coordinates, and samples for each of them
FOLDS = 4
FEWEST = 6  # samples in the smallest cluster, below which no mixture is tried
ROOM = 2  # samples of a cluster, on average, for each coordinate of its own covariance
CLEAR = 2.0  # standard errors from which a difference of log-densities is clear
FLOOR = 1e-3  # added to variances; the mean variance of coordinates is 1
STEPS, STILL = 25, 1e-4  # steps of EM, and the gain in mean log-density that ends them
NEAREST = 10  # neighbour whose distance sets the width of a kernel
WIDTHS = (-4.0, 2.0)  # range of the logarithm of the factor for squared widths
TINY = 1e-12  # added to squared widths, since samples may be equal


@dataclass(frozen=True)
class Mixture:
    """Shares and means of normal clouds, and what whitens each: a matrix or a number."""

    shares: Values
    means: Values
    whiten: list[Any]

    @classmethod
    def of(cls, X: Values, member: Values, kind: Kind) -> Mixture:
        """The likeliest clouds of a kind, for samples that belong to them by these shares."""
        d, mass = X.shape[1], member.sum(axis=0) + 1e-12
        means = (member.T @ X) / mass[:, None]
        if kind == "spherical":
            within = (member.T @ np.sum(X * X, axis=1)) / mass - np.sum(means * means, axis=1)
            whiten: list[Any] = list(1.0 / np.sqrt(np.maximum(within / d, 0.0) + FLOOR))
        elif kind == "tied":
            C = (X.T @ X - (means.T * mass) @ means) / len(X)
            whiten = [_whitening(C)] * len(mass)
        else:
            parts = zip(member.T, mass, means, strict=True)
            whiten = [_whitening((X.T * r) @ X / w - np.outer(m, m)) for r, w, m in parts]
        return cls(mass / len(X), means, whiten)

    def log_densities(self, X: Values) -> Values:
        """Logarithms of shares times densities, a column for each cloud."""
        found, before, Z = np.empty((len(X), len(self.shares))), None, X
        for c, (share, mean, W) in enumerate(
            zip(self.shares, self.means, self.whiten, strict=True)
        ):
            if np.ndim(W) == 0:
                Z, centre, size = X * W, mean * W, X.shape[1] * math.log(W)
            else:
                Z = Z if W is before else X @ W
                centre, size = mean @ W, float(np.sum(np.log(np.diag(W))))
            before = W
            found[:, c] = math.log(share) + size - 0.5 * np.sum((Z - centre) ** 2, axis=1)
        return np.asarray(found - 0.5 * X.shape[1] * math.log(2.0 * math.pi))

    def log_density(self, X: Values) -> Values:
        """Logarithms of the density of the mixture."""
        return np.asarray(logsumexp(self.log_densities(X), axis=1))


def _clearly_less(one: Values, other: Values) -> bool:
    """Return True if log-densities are less on average by more than CLEAR standard errors."""
    away = other - one
    return bool(away.mean() > CLEAR * away.std() / math.sqrt(len(away)))


def _whitening(C: Values) -> Values:
    """An upper triangular W with W W' the inverse of C + FLOOR I."""
    L = np.linalg.cholesky(C + FLOOR * np.eye(len(C)))
    return np.asarray(solve_triangular(L, np.eye(len(C)), lower=True).T)


def fitted(X: Values, labels: Any, count: int, kind: Kind) -> Mixture:
    """Clouds by the EM algorithm, from the clusters with these labels."""
    mixture, before = Mixture.of(X, np.eye(count)[labels], kind), -math.inf
    for _ in range(STEPS):
        logs = mixture.log_densities(X)
        total = logsumexp(logs, axis=1)
        now = float(total.mean())
        if now < before + STILL:
            break
        mixture, before = Mixture.of(X, np.exp(logs - total[:, None]), kind), now
    return mixture


def neighbor_densities(X: Values) -> Values:
    """Log-densities of samples by normal kernels at all others.

    The width at a sample is its distance to its tenth neighbour times the factor for which
    samples are likeliest. A common width would be too large for most samples if some are far
    from all others.
    """
    n, d = X.shape
    square = np.sum(X * X, axis=1)
    far = np.maximum(square[:, None] + square - 2.0 * X @ X.T, 0.0)
    np.fill_diagonal(far, np.inf)
    last = min(NEAREST, n - 1) - 1
    unit = np.partition(far, last, axis=0)[last] / d + TINY
    log_unit = 0.5 * d * np.log(2.0 * math.pi * unit)

    def at(log_width: float) -> Values:
        logs = logsumexp(-far / (2.0 * math.exp(log_width) * unit) - log_unit, axis=1)
        return np.asarray(logs - 0.5 * d * log_width - math.log(n - 1))

    how: Any = {"bounds": WIDTHS, "method": "bounded", "options": {"xatol": 0.1}}
    return at(float(minimize_scalar(lambda width: -float(at(width).mean()), **how).x))


def coordinates(X: Values) -> Values:
    """Leading principal coordinates, few enough that their covariance can be estimated.

    Their mean variance is 1, or 0 if all samples are equal.
    """
    X = X - X.mean(axis=0)
    X = X / (np.abs(X).max() or 1.0)  # squares must not overflow
    few = max(1, min(X.shape[1], len(X) // EACH, MOST))
    if few < X.shape[1]:
        U, s, _ = decompositions.svd(X)
        X = U[:, :few] * s[:few]
    return np.asarray(X / (math.sqrt(np.mean(X * X)) or 1.0))


def clouds(X: Values, labels: Any, seed: int) -> tuple[Kind | None, Any]:
    """Labels by a mixture that starts from these; None, and these, if neighbours are better.

    The kind of mixture is chosen by the Bayesian information criterion. The mixture must not
    predict the log-densities of held-out samples clearly worse than kernels at the other
    samples, since it is the simpler model. Kernels are round, either in the given coordinates
    or in those in which clusters are.
    """
    count, Z = int(labels.max()) + 1, coordinates(X)
    if count < 2 or np.bincount(labels).min() < FEWEST or not Z.any():
        return None, labels
    some = np.random.default_rng([seed, 2]).permutation(len(Z))[:SOME]
    with one_thread(Z.size):
        kind, mixture = _compared(Z[some], labels[some], count)
        if kind is None:
            return None, labels
        if len(some) < len(Z):
            mixture = fitted(Z, labels, count, kind)
        found = np.argmax(mixture.log_densities(Z), axis=1)
    if len(np.unique(found)) < count:
        return None, labels
    return kind, found.astype(labels.dtype)


def _compared(Z: Values, labels: Any, count: int) -> tuple[Kind | None, Any]:
    """The best kind of mixture, and the mixture; None if neighbours are clearly better."""
    n, d = Z.shape
    W = Mixture.of(Z, np.eye(count)[labels], "tied").whiten[0]
    turned = neighbor_densities(Z @ W) + float(np.sum(np.log(np.diag(W))))
    known = max(neighbor_densities(Z), turned, key=np.mean)
    numbers: dict[Kind, int] = {"spherical": count, "tied": d * (d + 1) // 2}  # of variances
    if n >= ROOM * count * d:
        numbers["full"] = count * d * (d + 1) // 2
    tried = {kind: fitted(Z, labels, count, kind) for kind in numbers}
    logs = {kind: one.log_density(Z) for kind, one in tried.items()}
    price = 0.5 * math.log(n) / n
    best = max(numbers, key=lambda kind: float(logs[kind].mean()) - price * numbers[kind])
    if _clearly_less(logs[best], known):
        return None, None
    held_out = np.empty(n)
    for part in np.array_split(np.arange(n), FOLDS):
        kept = np.delete(np.arange(n), part)
        mixture = fitted(Z[kept], labels[kept], count, best)
        held_out[part] = mixture.log_density(Z[part])
    return (None, None) if _clearly_less(held_out, known) else (best, tried[best])

"""Covariances in closed form: shrunk, with new eigenvalues, or factors and a sparse rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import ArpackError, eigsh

from weakprox.linalg import decompositions
from weakprox.selection.noise import Values

TARGETS = ("identity", "diagonal", "constant correlation")
AMOUNTS = (0.001, 0.002, 0.005, 0.01, 0.02, *(round(0.05 * k, 2) for k in range(1, 21)))
LEAST_OWN = (0.005, 0.05)  # least specific share of a variance: 1/n, limited to this range
POSITIVE = 1e-13  # least pivot of a positive definite matrix, relative to the largest
SPECIFIC = 1e-8  # least share of specific variances by which one can divide
# variables from which Lanczos' method finds one eigenvalue faster, and Woodbury's formula an
# inverse
LARGE = 200
ROOT5 = math.sqrt(5.0)
WIDE = 2  # variables for each sample from which the samples are decomposed instead of S


@dataclass(frozen=True)
class Parts:
    """The covariance A'A + diag(own) + sparse; `sparse` has no diagonal, None for zero."""

    A: Values
    own: Values
    sparse: Values | None = None

    @cached_property
    def dense(self) -> Values:
        """The covariance."""
        C = self.A.T @ self.A
        C[np.diag_indices(len(C))] += self.own
        return C if self.sparse is None else C + self.sparse

    @cached_property
    def rest_root(self) -> Values | None:
        """Cholesky factor of diag(own) + sparse, None if that is not positive definite."""
        assert self.sparse is not None
        C = self.sparse.copy()
        C[np.diag_indices(len(C))] += self.own
        return decompositions.cholesky(C)

    @property
    def thin(self) -> bool:
        """Return True if the inverse is best computed from that of a small matrix."""
        if 2 * len(self.A) > len(self.own):
            return False
        shared = np.einsum("ij,ij->j", self.A, self.A)
        divisible = (self.own > SPECIFIC * shared).all() and self.own.min() > 0.0
        return bool(divisible) and (self.sparse is None or self.rest_root is not None)

    def log_loss(self, unseen: Values) -> float:
        """Mean of minus twice the Gaussian log-density of rows, up to a constant.

        Infinite if the covariance is not positive definite.
        """
        if not self.thin:
            return log_loss(self.dense, unseen)
        # with R R' = diag(own) + sparse, B = A R'^-1 and rows times R'^-1
        if self.sparse is None:
            scale = np.sqrt(self.own)
            B, away = self.A / scale, unseen / scale
        else:
            root = self.rest_root
            assert root is not None
            scale = np.diag(root)
            both = np.concatenate([self.A, unseen]).T
            both = solve_triangular(root, both, lower=True, check_finite=False).T
            B, away = both[: len(self.A)], both[len(self.A) :]
        # det(I + B'B) = det(I + BB'), and the inverse of I + B'B is I - B'(I + BB')^-1 B
        small = B @ B.T
        small[np.diag_indices(len(small))] += 1.0
        inner = np.linalg.cholesky(small)
        along = solve_triangular(inner, B @ away.T, lower=True, check_finite=False)
        squares = float(np.vdot(away, away)) - float(np.vdot(along, along))
        logs = float(np.log(np.diag(inner)).sum()) + float(np.log(scale).sum())
        return squares / len(unseen) + 2.0 * logs

    def inverse(self) -> Values | None:
        """The inverse of the covariance, None if it is not clearly positive definite."""
        if self.sparse is None and self.thin and len(self.own) >= LARGE:
            B = self.A / self.own
            small = B @ self.A.T
            small[np.diag_indices(len(small))] += 1.0
            part = solve_triangular(
                np.linalg.cholesky(small), B, lower=True, check_finite=False
            )
            P: Values = -(part.T @ part)
            P[np.diag_indices(len(P))] += 1.0 / self.own
            return P
        root = _positive_root(self.dense)
        if root is None:
            return None
        return decompositions.inverse(root)

    def distance_loss(self, unseen: Values) -> float:
        """Squared distance to the covariance of rows."""
        return float(np.sum((self.dense - unseen.T @ unseen / len(unseen)) ** 2))


@dataclass(frozen=True)
class Sample:
    """A sample covariance S = Z'Z/n; `degrees` is n, less one if the mean was estimated."""

    Z: Values
    degrees: int

    @cached_property
    def S(self) -> Values:
        """The mean of z z' over the rows of Z."""
        return self.Z.T @ self.Z / len(self.Z)

    @cached_property
    def variances(self) -> Values:
        """The diagonal of S, a copy."""
        return np.diag(self.S).copy()

    @property
    def least_own(self) -> Values:
        """The least specific variances, which keep the inverse of an estimate bounded."""
        share = min(max(LEAST_OWN[0], 1.0 / len(self.Z)), LEAST_OWN[1])
        return share * self.variances

    @cached_property
    def spectrum(self) -> tuple[Values, Values]:
        """Eigenvalues of S, the largest first, and eigenvectors as rows.

        With few samples, only as many vectors as there are samples; the other values are zero.
        """
        count, size = self.Z.shape
        if WIDE * count > size:
            values, vectors = decompositions.eigh(self.S)
            return np.maximum(values[::-1], 0.0), vectors.T[::-1]
        _, s, vectors = decompositions.svd(self.Z)
        return np.concatenate([s**2 / count, np.zeros(size - count)]), vectors

    def unchanged(self) -> Parts:
        """S itself."""
        return Parts(self.Z / math.sqrt(len(self.Z)), np.zeros(len(self.S)))

    def shrunk(self, target: str, amount: float) -> Parts:
        """(1 - amount) S + amount F, F the target."""
        v, d = self.target_parts(target)
        rows: list[Any] = [math.sqrt(1.0 - amount) * self.unchanged().A]
        rows += [math.sqrt(amount) * v[None]] if v.any() else []
        A = np.vstack(rows) if amount < 1.0 or len(rows) > 1 else np.zeros((0, len(v)))
        return Parts(A, amount * d)

    @property
    def ledoit_wolf(self) -> float:
        """The shrinkage towards the identity of least expected squared error, estimated.

        The formula of Ledoit & Wolf, "A well-conditioned estimator for large-dimensional
        covariance matrices" (2004): the variance of S over its distance from the target.
        """
        S, squares = self.S, self.Z**2
        length = float(np.vdot(S, S))
        distance = length - float(np.trace(S)) ** 2 / len(S)
        variance = float(np.sum(squares.sum(axis=1) ** 2)) / len(squares) - length
        variance /= len(squares)
        return min(1.0, max(0.0, variance / distance)) if distance > 0.0 else 1.0

    def target_parts(self, target: str) -> tuple[Values, Values]:
        """v and d of the target v v' + diag(d).

        "identity" gives every variable the mean variance and no correlation; "diagonal" its
        own variance. "constant correlation" gives every pair the mean correlation (Ledoit &
        Wolf, "Honey, I shrunk the sample covariance matrix", 2004), if that is not negative.
        """
        variances = self.variances
        size = len(variances)
        if target == "identity":
            return np.zeros(size), np.full(size, float(variances.mean()))
        if target == "diagonal":
            return np.zeros(size), variances
        scale = np.sqrt(variances)
        inverse = _inverse(scale)
        varying = int(np.count_nonzero(scale))
        pairs = float(inverse @ self.S @ inverse) - varying
        mean = max(0.0, pairs / max(1, varying * (varying - 1)))
        return math.sqrt(mean) * scale, (1.0 - mean) * variances

    def nonlinear(self) -> Parts:
        """The eigenvectors of S with eigenvalues shrunk one by one."""
        values, vectors = self.spectrum
        d = shrunk_eigenvalues(values, self.degrees)
        least = float(d.min())
        more = np.flatnonzero(d > least)
        if more.max(initial=-1) >= len(
            vectors
        ):  # also where S is zero, of which there is no basis
            vectors = decompositions.eigh(self.S)[1].T[::-1]
        A = np.sqrt(d[more] - least)[:, None] * vectors[more]
        return Parts(A, np.full(len(d), least))

    def factors(self, rank: int, errors: float) -> Parts:
        """`rank` principal components, and the rest of S soft-thresholded off its diagonal.

        The threshold is in standard errors of an entry of the rest (Fan, Liao & Mincheva,
        "Large covariance estimation by thresholding principal orthogonal complements", 2013).
        It is infinite for a diagonal rest; rank 0 means thresholding alone. If the
        thresholded rest is indefinite, its off-diagonal part is reduced until it is not.
        """
        values, vectors = self.spectrum
        A = np.sqrt(values[:rank])[:, None] * vectors[:rank]
        own = np.maximum(self.variances - np.sum(A * A, axis=0), self.least_own)
        if math.isinf(errors):
            return Parts(A, own)
        rest = self.S - A.T @ A
        scale = np.sqrt(own)
        cut = errors / math.sqrt(len(self.Z)) * np.outer(scale, scale)
        sparse = rest - np.clip(rest, -cut, cut)
        np.fill_diagonal(sparse, 0.0)
        inverse = _inverse(scale)
        relative = sparse * np.outer(inverse, inverse)
        found = Parts(A, own, sparse * _reduction(_about_lowest(relative)))
        if found.rest_root is None:
            lowest = float(decompositions.eigvalsh(relative)[0])
            found = Parts(A, own, sparse * _reduction(lowest))
        return found


def _inverse(scale: Values) -> Values:
    """1 / scale, 0 for variables that do not vary."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)


def _reduction(lowest: float) -> float:
    """Factor, at most 1, that brings this eigenvalue just above -1."""
    return min(1.0, (1.0 - LEAST_OWN[0]) / -lowest) if lowest < 0.0 else 1.0


def _about_lowest(C: Values) -> float:
    """The smallest eigenvalue of a symmetric matrix, of a large one approximately."""
    if len(C) >= LARGE:
        first = np.random.default_rng(0).standard_normal(len(C))
        how: Any = {"which": "SA", "tol": LEAST_OWN[0] / 5, "v0": first}
        try:
            return float(eigsh(C, k=1, return_eigenvectors=False, **how)[0])
        except ArpackError:
            pass
    return float(decompositions.eigvalsh(C)[0])


def shrunk_eigenvalues(values: Values, degrees: int) -> Values:
    """Optimal eigenvalues for the eigenvectors of a sample covariance, largest first.

    The formula of Ledoit & Wolf, "Analytical nonlinear shrinkage of large-dimensional
    covariance matrices" (2020): the density of sample eigenvalues and its Hilbert transform
    are estimated by a kernel whose bandwidth is proportional to the eigenvalue. Zero
    eigenvalues, of which there are many with fewer samples than variables, get one value.
    """
    size = len(values)
    rank = int(np.count_nonzero(values > 1e-10 * values[0]))
    if rank < 2:
        return values
    count = min(degrees, rank) if rank < size else degrees
    x, h, ratio = values[:rank], float(count) ** (-1.0 / 3.0), size / count
    width = h * x[None]
    u = (x[:, None] - x[None]) / width
    square = 1.0 - 0.2 * u * u
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = square * np.log(np.abs((ROOT5 - u) / (ROOT5 + u)))
    logs = np.where(np.isfinite(logs), logs, 0.0)  # the limit at |u| = sqrt 5
    density = np.mean(0.75 / ROOT5 * np.maximum(square, 0.0) / width, axis=1)
    hilbert = np.mean((0.75 / ROOT5 * logs - 0.3 * u) / (math.pi * width), axis=1)
    if rank == size:
        real = 1.0 - ratio - math.pi * ratio * x * hilbert
        return np.asarray(x / ((math.pi * ratio * x * density) ** 2 + real**2))
    away = ROOT5 * h
    if away >= 1.0:  # too few samples for the formula
        return values
    bend = 0.75 / ROOT5 / h * (1.0 - 0.2 / h**2) * math.log((1.0 + away) / (1.0 - away))
    null = (0.3 / h**2 + bend) * float(np.mean(1.0 / x)) / math.pi
    rest = 1.0 / (math.pi * (ratio - 1.0) * null)
    found = 1.0 / (math.pi**2 * x * (density**2 + hilbert**2))
    return np.concatenate([found, np.full(size - rank, rest)])


def log_loss(C: Values, unseen: Values) -> float:
    """Mean of minus twice the Gaussian log-density of rows, up to a constant.

    Infinite if C is not positive definite.
    """
    root = _positive_root(C)
    if root is None:
        return math.inf
    away = solve_triangular(root, unseen.T, lower=True, check_finite=False)
    return float(np.vdot(away, away)) / len(unseen) + 2.0 * float(np.log(np.diag(root)).sum())


def _positive_root(C: Values) -> Values | None:
    """Cholesky factor of C, None if C is not clearly positive definite."""
    root = decompositions.cholesky(C)
    if root is None:
        return None
    pivots = np.diag(root) ** 2 / np.maximum(np.diag(C), np.finfo(float).tiny)
    return root if float(pivots.min()) > POSITIVE else None

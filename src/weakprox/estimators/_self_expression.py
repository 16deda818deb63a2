"""Each sample as a combination of the others: the problem of `SubspaceClustering`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakprox.arguments import nonnegative
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, namespace, sqnorm, total
from weakprox.losses import Custom
from weakprox.penalties import Combinable, ElasticNet
from weakprox.problem import Problem
from weakprox.protocols import Geometry, Penalty, Smoothability
from weakprox.selection.noise import Values, noise_edge, noise_level
from weakprox.spectral import NuclearNorm

# Weights refer to data whose leading singular value is 1.
RIDGE = 0.1
NUCLEAR = (1e-3, 1e-2)  # between these the noise decides; what is above may well be signal


@dataclass(frozen=True)
class Prepared:
    """Samples as rows of coordinates, leading singular value 1, and the noise in them."""

    Z: Values
    noise: float

    @classmethod
    def of(cls, X: Values) -> Prepared:
        """Unit length, then centred, and one coordinate more that is the same for all.

        The constant coordinate draws the sum of every sample's coefficients to one, as
        affine subspaces ask for. It has the length of the mean, as far as that is not
        larger than the leading direction: a long mean would slow the solver down and
        change nothing. Samples that lie around the origin get nearly none.
        """
        n = len(X)
        length = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(length > 0.0, length, 1.0)
        mean = X.mean(axis=0)
        U, s, _ = decompositions.svd(X - mean)
        if s[0] <= 1e-12 * math.sqrt(n):  # all samples have one direction
            return cls(np.full((n, 1), 1.0 / math.sqrt(n)), 0.0)
        noise = noise_level(X - mean, "spectrum") / float(s[0])
        keep = s > 1e-9 * s[0]
        constant = min(float(np.linalg.norm(mean)), s[0] / math.sqrt(n)) / s[0]
        Z = np.column_stack([U[:, keep] * (s[keep] / s[0]), np.full(n, constant)])
        return cls(Z, noise)

    def weights(self, shape: tuple[int, int]) -> tuple[float, float]:
        """(nuclear, lam) that noise of this level does not get past.

        Squared singular values of pure noise end at noise^2 (sqrt n + sqrt d)^2. The
        product of a sample x with noise has standard deviation noise |x|, of which the
        largest of n is about sqrt(2 log n) times as large. Where subspaces fill most of
        the space, the median singular value is signal, and the level far too high: hence
        the limits.
        """
        edge = noise_edge(shape, self.noise) ** 2
        nuclear = min(max(edge, NUCLEAR[0]), NUCLEAR[1])
        noise = math.sqrt(nuclear) / (math.sqrt(shape[0]) + math.sqrt(shape[1]))
        length = math.sqrt(sqnorm(self.Z) / len(self.Z))
        return nuclear, noise * length * math.sqrt(2.0 * math.log(max(2, len(self.Z))))


class SelfExpression(Custom):
    r"""How well samples are combinations of each other, :math:`\tfrac12\|X - XC\|_F^2`.

    X has the samples as columns, which are the rows of Z here. Quadratic with Hessian
    :math:`X^\top X`, so that values follow from gradients (`origin`).
    """

    def __init__(self, Z: Values) -> None:
        n = len(Z)
        self._Z, self._Zt = Z, np.ascontiguousarray(Z.T)
        self._K = Z @ self._Zt
        self.origin: tuple[float, Values] = (0.5 * sqnorm(Z), -self._K)
        largest = float(decompositions.eigvalsh(Z.T @ Z)[-1]) * (1.0 + 1e-12)
        super().__init__(
            (n, n),
            value=self._residual,
            grad=self._slope,
            smoothness=largest,
            term_smoothness=largest,
        )

    def __repr__(self) -> str:
        return f"SelfExpression({self._Z.shape[0]} samples, {self._Z.shape[1]} coordinates)"

    def _slope(self, C: Values) -> Values:
        slope: Values = self._Z @ (self._Zt @ C)
        slope -= self._K
        return slope

    def _residual(self, C: Values) -> float:
        return 0.5 * sqnorm(self._Zt - self._Zt @ C)


@dataclass(frozen=True)
class DearDiagonal(Combinable):
    r"""Elastic net whose diagonal has a price of its own.

    :math:`\lambda_1\sum_{i\ne j}|x_{ij}| + \delta\sum_i|x_{ii}| + \lambda_2\|X\|_F^2`: with
    :math:`\delta` large enough, an exact penalty for a diagonal of zeros that is finite at
    low-rank points, where the diagonal is only nearly zero.
    """

    lam1: float
    lam2: float
    diagonal: float
    separable: bool = field(default=True, init=False, repr=False)
    rowwise: bool = field(default=False, init=False, repr=False)  # a row has its own column
    _weights = ("lam1", "lam2", "diagonal")

    def __post_init__(self) -> None:
        """Check the weights."""
        for name in self._weights:
            object.__setattr__(self, name, nonnegative(name, getattr(self, name)))

    @property
    def curvature(self) -> float:
        """2 lam2."""
        return 2.0 * self.lam2

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """That of the dearer price."""
        theta = max(self.lam1, self.diagonal)
        return Smoothability(theta, 0.5 * theta * shape[0] * shape[1], 2 * self.lam2)

    def value(self, X: Array) -> float:
        """Both prices and the squares."""
        xp = namespace(X)
        diagonal = total(xp.abs(xp.linalg.diagonal(X)))
        found = self.lam1 * (total(xp.abs(X)) - diagonal) + self.diagonal * diagonal
        return found + self.lam2 * sqnorm(X)

    def pull(self, y: Array) -> Array:
        """K is the identity."""
        return y

    def dual_value(self, y: Array) -> float:
        """No linear term."""
        return 0.0

    def feasible(self, y: Array) -> Array:
        """Clip entries to their box."""
        xp = namespace(y)
        at = xp.arange(y.shape[0])
        own = xp.clip(y[at, at], -self.diagonal, self.diagonal)
        y = xp.clip(y, -self.lam1, self.lam1)
        y[at, at] = own
        return y

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """clip(y + t X) to the box."""
        return self.feasible(t * X if y is None else y + t * X)

    def distance(self, y: Array) -> float:
        """|y|^2 / (2 theta)."""
        theta = max(self.lam1, self.diagonal)
        return sqnorm(y) / (2 * theta) if theta > 0 else 0.0

    def check(self, shape: tuple[int, int]) -> None:
        """Any square shape will do; the loss has no other."""


def self_expression(
    Z: Values, nuclear: float, lam: float, ridge: float, *, zero_diagonal: bool
) -> Problem:
    """Minimise 1/2 |X - XC|^2 + nuclear |C|_* + lam |C|_1 + ridge/2 |C|^2."""
    loss: Any = SelfExpression(Z)
    penalty: Penalty = ElasticNet(lam, 0.5 * ridge)
    if zero_diagonal:  # no slope that would move the diagonal off zero is as large
        dear = nuclear + float(np.max(np.sum(Z * Z, axis=1)))
        penalty = DearDiagonal(lam, 0.5 * ridge, dear)
    return Problem(loss, penalty, NuclearNorm(nuclear))

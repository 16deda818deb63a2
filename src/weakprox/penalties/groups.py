"""Group sparsity: sums of Euclidean norms of rows or columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, namespace, total, wide
from weakprox.passes import SeparableForm
from weakprox.penalties.base import Separable
from weakprox.protocols import Geometry, PenaltyCapabilities, Smoothability


@dataclass(frozen=True)
class GroupL2(Separable):
    r"""Sets whole rows or columns to zero, :math:`R(X) = \lambda \sum_g \|x_g\|_2`.

    Its smoothing is lam sum H_mu(|x_g|): theta = lam, gamma = lam (number of groups) / 2.

    Parameters
    ----------
    lam : float
        Weight, at least 0.
    groups : {"rows", "columns"}
        Whether each row or each column is a group.
    """

    lam: float
    groups: Literal["rows", "columns"] = "rows"
    _weights = ("lam",)

    def __post_init__(self) -> None:
        """Check weight and grouping."""
        super().__post_init__()
        if self.groups not in ("rows", "columns"):
            raise InputError("groups", repr(self.groups), "'rows' or 'columns'")

    @property
    def rowwise(self) -> bool:
        """Whether no group spans several rows."""
        return self.groups == "rows"

    @property
    def capabilities(self) -> PenaltyCapabilities:
        """A separable form, with 0 as a lower bound."""
        return PenaltyCapabilities(
            SeparableForm(**{self.groups: self.lam}), infimum=0.0, in_unit=self.in_unit
        )

    @property
    def _axis(self) -> int:
        return 1 if self.groups == "rows" else 0

    def smoothability(self, shape: tuple[int, int]) -> Smoothability:
        """(lam, lam groups / 2, 0)."""
        return Smoothability(self.lam, 0.5 * self.lam * shape[1 - self._axis], 0.0)

    def value(self, X: Array) -> float:
        """Weighted sum of group norms."""
        xp = namespace(X)
        return self.lam * total(xp.linalg.vector_norm(wide(X), axis=self._axis))

    def feasible(self, y: Array) -> Array:
        """Project every group on the ball of radius lam; in float64, because of the squares."""
        xp, kind, y = namespace(y), y.dtype, wide(y)
        sizes = xp.linalg.vector_norm(y, axis=self._axis, keepdims=True)
        ones = xp.ones_like(sizes)
        factor = xp.where(sizes > self.lam, self.lam / xp.where(sizes > 0, sizes, ones), ones)
        return xp.astype(y * factor, kind, copy=False)

    def ascend(
        self, y: Array | None, X: Array, t: float, *, geometry: Geometry = "paper"
    ) -> Array:
        """y + t X, each group projected on its ball."""
        step = t * wide(X)
        found = self.feasible(step if y is None else y + step)
        return namespace(X).astype(found, X.dtype, copy=False)

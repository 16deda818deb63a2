"""Any h with an exact proximal map given by the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.arguments import refuse_foreign
from weakprox.errors import InputError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, all_finite, eps_of, gaussian, inner, is_array, sqnorm
from weakprox.linalg.lowrank import LowRank
from weakprox.protocols import SpectralCapabilities, Tolerance, WeakProx
from weakprox.spectral.singular import Spectral


@dataclass(frozen=True)
class Exact(Spectral):
    """h given by its own proximal map; the requested rank is ignored.

    Parameters
    ----------
    prox : callable
        `prox(A, weight)` returns the minimiser of weight/2 |X-A|^2 + h(X).
    value_of : callable
        `value_of(X)` returns h(X) for a dense X; may be infinite.
    conjugate_of : callable, optional
        `conjugate_of(U)` returns h*(U) or an upper bound; infinite if not given.
    """

    prox: Callable[[Array, float], Array]
    value_of: Callable[[Array], float]
    conjugate_of: Callable[[Array], float] | None = None

    def __post_init__(self) -> None:
        for name in ("prox", "value_of", "conjugate_of"):
            given = getattr(self, name)
            if not callable(given) and not (given is None and name == "conjugate_of"):
                raise InputError(name, type(given).__name__, "a callable")

    @property
    def capabilities(self) -> SpectralCapabilities:
        """A conjugate, if one is given."""
        known = self.conjugate_of is not None
        return SpectralCapabilities(
            has_conjugate=known, value_of=self.value_of, in_unit=self.in_unit
        )

    def in_unit(self, unit: float) -> Exact:
        """h/unit^2 as a function of X/unit; proximal weights are the same in both."""
        prox, value, conjugate = self.prox, self.value_of, self.conjugate_of
        return Exact(
            prox=lambda A, weight: prox(A * unit, weight) / unit,
            value_of=lambda X: value(X * unit) / unit**2,
            conjugate_of=conjugate and (lambda U: conjugate(U * unit) / unit**2),
        )

    def value(self, X: LowRank) -> float:
        """h(X), by the user's function."""
        return self._value(X.dense())

    def _value(self, X: Array) -> float:
        return _number("value_of", self.value_of(X))

    def violation(self, X: LowRank) -> float:
        """Zero if h is finite, else infinite."""
        return 0.0 if np.isfinite(self.value(X)) else float("inf")

    def _prox(
        self, A: Array, weight: float, rank: int, tolerance: Tolerance, *how: Any
    ) -> WeakProx:
        """The user's prox, factored."""
        V = self.prox(A, weight)
        refuse_foreign("prox", V)
        if not is_array(V) or tuple(V.shape) != tuple(A.shape) or not all_finite(V):
            given = getattr(V, "shape", type(V).__name__)
            raise InputError("prox", f"a return value of {given}", f"finite, {A.shape}")
        U, s, Vt = decompositions.svd(V)
        # A strict indicator may be infinite at the proximal point because of a rounding error.
        # Then h there is unknown, and no bound is claimed.
        value, square = self._value(V), 0.5 * weight * sqnorm(V - A)
        slack = 64 * eps_of(A) * (abs(value) + square + weight * sqnorm(A))
        lower = square + value - slack if np.isfinite(value) else -float("inf")
        # w (A - V) is a subgradient at a proximal point, so Fenchel's inequality is tight
        tight = weight * (inner(A, V) - sqnorm(V)) - value + slack
        return WeakProx(
            V=LowRank(U, s, Vt).trimmed(1e-14 * float(s[0])),
            delta=0.0,
            delta_estimate=0.0,
            tail=0.0,
            lower=lower,
            basis=Vt.T,
            passes=0,
            rests_on="exact",
            conjugate=tight if np.isfinite(value) else float("inf"),
        )

    def conjugate(self, U: Array, rng: np.random.Generator) -> float:
        """The user's conjugate, or infinity."""
        if self.conjugate_of is None:
            return float("inf")
        return _number("conjugate_of", self.conjugate_of(U))

    def compress(self, X: Array, rank: int, rng: np.random.Generator) -> LowRank:
        """X without truncation, which might leave the domain of an unknown h."""
        U, s, Vt = decompositions.svd(X)
        return LowRank(U, s, Vt)

    def random_point(
        self, rng: np.random.Generator, shape: tuple[int, int], rank: int, ref: Array
    ) -> LowRank:
        """The prox of a random matrix."""
        return self.weak_prox(gaussian(rng, shape, ref), weight=1.0, rank=rank).V


def _number(name: str, found: Any) -> float:
    """Return what the user's function returned, or raise if it is not a number."""
    try:
        value = float(found)
    except (TypeError, ValueError):
        value = float("nan")
    if np.isnan(value):
        raise InputError(name, repr(found), "a function that returns a number")
    return value

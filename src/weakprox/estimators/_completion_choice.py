"""Settings of an imputer, by how well they predict entries hidden from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from weakprox.losses import Completion
from weakprox.result import Result
from weakprox.spectral import NuclearBall, NuclearNorm

Vector = np.ndarray[Any, np.dtype[Any]]
Scaling = Literal["none", "center", "standard"]
SCALINGS: tuple[Scaling, ...] = ("none", "center", "standard")
SHARE = 0.1  # of the observed entries are hidden
FEWEST = 20  # observed entries below which nothing can be learnt by hiding some
HALVINGS = 12  # of the price of the nuclear norm, from the one that leaves nothing
PATIENCE = 3  # of them without a gain end the search
SHARES = tuple(4.0**-k for k in range(5))  # of the largest lam that is tried

Spectral = NuclearBall | NuclearNorm
Solve = Callable[[Completion, float, Spectral, Result | None], Result]


@dataclass(frozen=True)
class Given:
    """What the user asked for; None is for us to choose."""

    lam: float | None
    tau: float | None
    scaling: Scaling | None


@dataclass(frozen=True)
class Settings:
    """What fixes the model, in units that carry over to all of the entries.

    `price` is that of the nuclear norm as a share of the largest singular value of the
    data, and `share` is lam in units of price / (sqrt m + sqrt d): noise of that size in
    each entry has about the price as its spectral norm. The defaults serve where there is
    nothing to learn from.
    """

    scaling: Scaling = "standard"
    price: float = 0.1
    share: float = 1 / 16


@dataclass(frozen=True)
class Found:
    """Settings, and their mean squared errors on hidden entries.

    `error` is in units of the scale that the settings use, `relative` in deviations of the
    columns: by it, scales can be compared.
    """

    settings: Settings
    error: float = np.inf
    relative: float = np.inf
    result: Result | None = None  # to go on from


@dataclass(frozen=True)
class Scale:
    """Columns less `centre`, divided by `unit`."""

    centre: Vector
    unit: Vector

    @classmethod
    def of(cls, X: Vector, scaling: Scaling) -> Scale:
        """That of the observed entries; columns without any, or constant, are left alone."""
        seen = ~np.isnan(X)
        count = np.maximum(seen.sum(axis=0), 1)
        plain = cls(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        if scaling == "none":
            return plain
        mean = np.where(seen, X, 0.0).sum(axis=0) / count
        if scaling == "center":
            return replace(plain, centre=mean)
        return cls(mean, deviations(X, mean, count))

    def apply(self, X: Vector) -> Vector:
        """Scaled data."""
        scaled: Vector = (X - self.centre) / self.unit
        return scaled

    def undo(self, Z: Vector) -> Vector:
        """Data of the scale they came in."""
        found: Vector = Z * self.unit + self.centre
        return found


def deviations(X: Vector, mean: Vector, count: Vector) -> Vector:
    """Standard deviations of columns, 1 for those that are constant up to rounding."""
    off = np.where(np.isnan(X), 0.0, X - mean)
    found: Vector = np.sqrt((off**2).sum(axis=0) / count)
    found[found <= 1e-12 * np.maximum(np.abs(mean), 1e-300)] = 1.0
    return found


class Scaled:
    """Data on one scale: the loss, and the largest singular value of what was observed."""

    def __init__(self, X: Vector, scaling: Scaling) -> None:
        self.scale = Scale.of(X, scaling)
        self.Z = self.scale.apply(X)
        self.top = float(np.linalg.norm(np.nan_to_num(self.Z), 2))
        self.loss = Completion.from_dense(self.Z)

    def weights(self, settings: Settings, given: Given) -> tuple[float, Spectral]:
        """Lam and the spectral term; data that are all zero are left at that by any."""
        price = settings.price * self.top or 1.0
        noise = float(np.sum(np.sqrt(self.Z.shape)))
        lam = settings.share * price / noise if given.lam is None else given.lam
        return lam, NuclearNorm(price) if given.tau is None else NuclearBall(given.tau)


class HiddenEntries:
    """Data with some of the observed entries hidden, and how well they are predicted."""

    def __init__(self, X: Vector, given: Given, solve: Solve, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        rows, cols = np.nonzero(~np.isnan(X))
        chosen = rng.permutation(rows.size)[: round(SHARE * rows.size)]
        self.place = (rows[chosen], cols[chosen])
        self.truth = X[self.place]
        self.left = X.copy()
        self.left[self.place] = np.nan
        self.given, self.solve = given, solve
        self.unit = Scale.of(self.left, "standard").unit[self.place[1]]
        self._scaled: dict[Scaling, Scaled] = {}

    def tried(self, settings: Settings, start: Result | None = None) -> Found:
        """The settings with their errors."""
        if settings.scaling not in self._scaled:
            self._scaled[settings.scaling] = Scaled(self.left, settings.scaling)
        data = self._scaled[settings.scaling]
        result = self.solve(data.loss, *data.weights(settings, self.given), start)
        off = data.scale.undo(result.X)[self.place] - self.truth
        own = data.scale.unit[self.place[1]]
        error, relative = (float(np.mean((off / unit) ** 2)) for unit in (own, self.unit))
        return Found(settings, error, relative, result)

    def along_prices(self, settings: Settings) -> Found:
        """The best price by halving it until errors grow; just one where tau is given."""
        if self.given.tau is not None:
            return self.tried(settings)
        best, last, waited = Found(settings), None, 0
        for k in range(1, HALVINGS + 1):
            found = self.tried(replace(settings, price=2.0**-k), last)
            last, waited = found.result, waited + 1
            if found.error < best.error:
                best, waited = found, 0
            if waited == PATIENCE:
                break
        return best

    def best_of(self, best: Found, options: list[Settings]) -> Found:
        """The least error among options and what is known; ties go to the last."""
        for option in options:
            found = self.tried(option, best.result)
            best = found if found.error <= best.error else best
        return best


def choose(X: Vector, given: Given, solve: Solve, seed: int) -> Settings:
    """Settings that are not given, from a tenth of the observed entries, hidden.

    First scaling and price at the smallest lam; then the price by smaller steps; then lam.
    """
    nothing_to_choose = None not in (given.lam, given.tau, given.scaling)
    if nothing_to_choose or int((~np.isnan(X)).sum()) < FEWEST:
        return Settings() if given.scaling is None else Settings(given.scaling)
    hidden = HiddenEntries(X, given, solve, seed)
    scalings = SCALINGS if given.scaling is None else (given.scaling,)
    firsts = [Settings(scaling, share=SHARES[-1]) for scaling in scalings]
    found = [hidden.along_prices(first) for first in firsts]
    best = min(found, key=lambda each: each.relative)
    if given.tau is None:
        finer = [best.settings.price * factor for factor in (2**0.5, 0.5**0.5)]
        best = hidden.best_of(best, [replace(best.settings, price=price) for price in finer])
    if given.lam is None:
        larger = SHARES[-2::-1]
        best = hidden.best_of(best, [replace(best.settings, share=share) for share in larger])
    # More entries: the data's largest singular value grows like their number, that of the
    # noise like its root.
    return replace(best.settings, price=best.settings.price * float(np.sqrt(1.0 - SHARE)))

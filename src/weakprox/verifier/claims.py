"""The check of a claim: value, feasibility and lower bound, each computed from scratch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from weakprox.verifier.entries import Entries, Intercepts, OnEntries
from weakprox.verifier.losses import Loss
from weakprox.verifier.measurements import Outcomes
from weakprox.verifier.penalties import Penalty
from weakprox.verifier.spectral import Spectral
from weakprox.verifier.spectrum import Slope
from weakprox.verifier.sums import Factors, Matrix, Near, Point, U, added, norm, size_of


@dataclass(frozen=True)
class Statement:
    """The problem: G, the parts of R, and h."""

    loss: Loss
    penalties: Sequence[Penalty]
    spectral: Spectral
    trusted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim, and the points that support it."""

    X: Factors  # the answer
    at: Point | OnEntries | None  # where G is linearised (None: X), or q on entries or outcomes
    duals: Sequence[Any]  # one stored dual point for each part of the penalty
    strong_convexity: float  # of G; the check uses that of the data if it is smaller
    value: float  # upper bound on f(X)
    lower_bound: float  # lower bound on min f
    eps: float
    certified: bool  # whether value and bound are at most eps apart
    allowed: float  # relative violation of the constraints that counts as rounding of X
    intercepts: Intercepts | None = None  # of the answer


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check; false if the claim was rejected.

    Attributes
    ----------
    valid : bool
        Whether the claim holds.
    value, lower_bound, gap : float
        Recomputed values, with an allowance for rounding in the safe direction.
    violation : float
        Relative distance of X from the constraint set.
    claimed_value, claimed_bound, eps : float
        As claimed.
    reason : str
        The outcome in a sentence.
    trusted : tuple of str
        Functions and constants that the check trusted.
    rests_on : {"exact", "high-probability"}
        "high-probability" if a randomised bound was used, wrong with probability 1e-12.
    """

    valid: bool
    value: float
    lower_bound: float
    violation: float
    claimed_value: float
    claimed_bound: float
    eps: float
    reason: str
    trusted: tuple[str, ...] = ()
    rests_on: str = "exact"

    @property
    def gap(self) -> float:
        """Upper bound on the distance of f(X) from the optimum."""
        return max(0.0, self.value - self.lower_bound)

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        told = [self.reason]
        if self.trusted:
            told.append(f"Trusted: {', '.join(self.trusted)}.")
        if self.rests_on != "exact":
            told.append("The bound on singular values fails with probability 1e-12.")
        return " ".join(told)


@dataclass(frozen=True)
class Proved:
    """A lower bound, the allowance for rounding in it, and what it rests on."""

    value: float
    error: float
    sure: bool
    trusted: tuple[str, ...]


def worth(claim: Claim, statement: Statement) -> tuple[Near, float]:
    """f(X), and the relative distance of X from the constraint set."""
    X, loss = claim.X, statement.loss
    h, violation = statement.spectral.value(X)
    if isinstance(loss, (Entries, Outcomes)):
        G = loss.value(X, claim.intercepts)
    else:
        G = loss.value(X)
    return added([G, *(part.value(X) for part in statement.penalties), h]), violation


@dataclass(frozen=True)
class Prepared:
    """The bound without the minimum over V of <c, V> + w/2 |V|^2 + h(V)."""

    start: Near  # G(X0) - <g, X0> + a/2 |X0|^2 - phi(y)
    slope: Slope  # c
    w: float
    size: float  # at least |c|_F
    trusted: tuple[str, ...]


def prepared(claim: Claim, statement: Statement) -> Prepared:
    """Compute c = g - a X0 + K'y and w = a + curvature of R from the claim's points."""
    loss, spectral = statement.loss, statement.spectral
    shape, at = loss.shape, claim.X if claim.at is None else claim.at
    if isinstance(at, OnEntries) and not isinstance(loss, (Entries, Outcomes)):
        raise TypeError("a dual point on entries, of another loss")
    model = loss.model(at, claim.strong_convexity, spectral.symmetric)  # type: ignore[arg-type]
    trusted = (*model.trusted, *spectral.trusted, *statement.trusted)
    parts = zip(statement.penalties, claim.duals, strict=True)
    pulls = [part.pull(y, shape) for part, y in parts]
    if model.sparse is not None and not pulls and not spectral.symmetric:
        size = norm(model.sparse.data)
        error, columns = model.error + 4 * U * size, claim.X.Vt.T
        slope = Slope(model.rows, shape, error, model.sparse, columns)
        return Prepared(model.constant, slope, model.strong, size, trusted)
    readers = [model.rows, *(pull.rows for pull in pulls)]

    def rows(first: int, last: int) -> Matrix:
        return reduce(add, (read(first, last) for read in readers))

    sizes = [size_of(read, shape) for read in readers]
    error = model.error + sum(pull.error for pull in pulls) + (len(pulls) + 4) * U * sum(sizes)
    w = model.strong + sum(part.curvature for part in statement.penalties)
    start = added([model.constant, *(pull.phi.times(-1.0) for pull in pulls)])
    return Prepared(start, Slope(rows, shape, error), w * (1 - 4 * U), sum(sizes), trusted)


def reach(statement: Statement, value: float) -> float:
    """A bound on the nuclear norm of an optimum, given an upper bound on the minimum."""
    infima: list[Any] = [part.infimum for part in (statement.loss, *statement.penalties)]
    above = math.inf if None in infima else max(0.0, value - math.fsum(infima))
    return statement.spectral.reach(above)


def proved(claim: Claim, statement: Statement, value: float) -> Proved:
    """The lower bound that the claim's dual point proves; `value` is at least f(X).

    min f >= G(X0) - <g, X0> + a/2 |X0|^2 - phi(y) + min over V of <c, V> + w/2 |V|^2 + h(V).
    """
    given, rank = prepared(claim, statement), len(claim.X.s)
    start = given.start
    least = statement.spectral.least(given.slope, given.w, rank, reach(statement, value))
    bound = start.lower + least.value
    bound -= 2 * U * (abs(start.value) + abs(least.value))
    if math.isnan(bound):
        bound = -math.inf
    return Proved(bound, start.error + least.error, least.sure, given.trusted)


def rejected(claim: Claim, reason: str) -> Verdict:
    """The verdict on a claim of which nothing could be computed."""
    claimed = claim.value, claim.lower_bound, claim.eps
    return Verdict(False, math.inf, -math.inf, math.inf, *claimed, reason)


def check(claim: Claim, statement: Statement) -> Verdict:
    """Recompute everything and compare with the claim."""
    value, violation = worth(claim, statement)
    found = proved(claim, statement, value.upper)

    numbers = (value.upper, found.value, violation, claim.value, claim.lower_bound, claim.eps)
    rests_on = "exact" if found.sure else "high-probability"

    def verdict(valid: bool, reason: str) -> Verdict:
        return Verdict(valid, *numbers, reason, found.trusted, rests_on)

    if not violation <= claim.allowed:
        return verdict(False, f"X violates the constraints by {violation:.2e} (relative).")
    if not value.upper <= claim.value:
        return verdict(False, f"f(X) is {value.upper!r}, above the claimed {claim.value!r}.")
    if not found.value >= claim.lower_bound:
        given = f"{found.value!r}, below the claimed {claim.lower_bound!r}"
        return verdict(False, f"The dual point proves a lower bound of {given}.")
    gap = claim.value - claim.lower_bound
    if claim.certified and not gap <= claim.eps:
        return verdict(False, f"The gap {gap:.3g} is larger than the claimed {claim.eps:.3g}.")
    between = f"between {claim.lower_bound:.10g} and {claim.value:.10g}"
    within = f"X is within {max(0.0, gap):.3g} of the optimum"
    return verdict(True, f"Confirmed: min f lies {between}, so {within}.")

"""Weights of the nuclear norm for losses of observed entries, by held-out observations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from weakprox._minimize import minimize, unit_of
from weakprox.arguments import flag, integer, is_integer, number, positive, seed_number
from weakprox.certificates.observed import ObservedDual, triplets
from weakprox.errors import InputError
from weakprox.hints import shown_kind
from weakprox.linalg.arrays import gaussian, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.losses import Completion
from weakprox.losses.entry_losses import threshold_of
from weakprox.losses.observed import Effects
from weakprox.metering import Budget, Meter
from weakprox.passes import ValueForm, compiling
from weakprox.passes.pattern import Pattern
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.run.choose import chosen
from weakprox.selection.noise import Values
from weakprox.selection.search import Deadline, Scores, Search, Seed, stream
from weakprox.solvers._gap_driven import GapParameters
from weakprox.solvers.base import Tools
from weakprox.solvers.factored_proximal import FactoredProximal, Steps
from weakprox.solvers.filled_proximal import FilledProximal
from weakprox.solvers.filled_proximal import Steps as FilledSteps
from weakprox.spectral import NuclearNorm

STEP = 2.0**-0.5  # ratio of neighbouring weights
WEIGHTS = 20  # largest number of weights on a path
PATIENCE = 2  # weights without a gain after which a path ends
ROUGH = 1e-3  # relative accuracy of the fits of a path
BLOCK, POWERS = 8, 12  # width and power steps of the decomposition that gives the first weight
ABOVE = 1.0 + 1e-6  # factor for that weight, for rounding
FACTORS = (1.0, 4.0)  # range of the factor that undoes the shrinkage of X
LINE = {"xatol": 0.01, "maxiter": 12}  # options of the search for that factor
# largest number of steps of a fit on a path, and steps between corrections
STEPS, EVERY = 40, 6
STILL = 0.03  # least relative decrease of f in a step, as a share of `tol`
DENSE = 0.25  # share of observed entries from which steps suffice
EXACT = 1e-12  # share of the values up to which residuals are rounding errors
FITTED = 1e-6  # accuracy of intercepts alone
MANY = 20_000  # number of observations from which one part is held out instead of folds
FOLDS, SHARE = 5, 0.1
HIDING = 0x0B5E  # name of the random stream of held-out observations


class Weight(NamedTuple):
    """The candidate of a path: the weight of the nuclear norm, for all observations."""

    lam: float


@dataclass(frozen=True)
class ObservedPath:
    """Held-out errors along falling weights of the nuclear norm.

    Attributes
    ----------
    lam : float
        The weight chosen, for all observations.
    lams : array of shape (n,)
        Weights that were tried; X = 0 at the first, unless weights were given.
    errors : array of shape (folds, n)
        Mean losses of held-out observations: mean squared errors for the squared loss.
    ranks : array of shape (folds, n)
        Ranks of the answers.
    cv_results : dict
        The same as columns, named as in scikit-learn.
    start : LowRank
        Answer at `lam` without the observations of the first fold.
    loss : Completion
        The loss of all observations.
    rank : int or None
        Largest rank of answers.
    seconds : float
        Total time.
    """

    lam: float
    lams: Values
    errors: Values
    ranks: Values
    cv_results: dict[str, Any]
    start: LowRank
    loss: Completion
    rank: int | None
    seconds: float

    def problem(self) -> Problem:
        """The problem with all observations, at the weight chosen."""
        return Problem(self.loss, None, NuclearNorm(self.lam))

    def solve(self, **settings: Any) -> Result:
        """Solve it, with a certificate; keywords go to `minimize`."""
        return minimize(self.problem(), **({"start": self.start, "rank": self.rank} | settings))


class HeldOutEntries:
    """Some observations of a loss held out, and errors there.

    Weights of the nuclear norm refer to all observations. With fewer of them the spectral
    norm of the noise shrinks like the root of their number, and so does the weight.
    """

    def __init__(
        self, loss: Completion, hidden: Values, clip: tuple[float, float] | None = None
    ) -> None:
        data = loss.observed()
        self.whole, self.hidden, self.clip = loss, hidden, clip
        P, at = data.pattern, np.flatnonzero(hidden)
        if isinstance(P, Pattern) and P.listed is None:
            self.rows, self.columns = P.placed(at)
        else:
            self.rows, self.columns = to_numpy(P.rows)[at], to_numpy(P.columns)[at]
        self.values = to_numpy(data.values)[at]
        weights = data.weights
        self.weights = np.ones(len(at)) if isinstance(weights, float) else to_numpy(weights)[at]
        share = 1.0 - len(at) / len(hidden)
        self._factor = math.sqrt(share if loss.reduction == "sum" else 1.0 / share)
        self._kept: dict[Any, Completion] = {}
        self._plain: Completion | None = None

    def kept(self, ridge: float | None = None, scaling: str | None = None) -> Completion:
        """The loss of the other observations, with another ridge or scaling, computed once."""
        if self._plain is None:
            self._plain = self.whole.part(np.logical_not(self.hidden))
        if ridge is None and scaling is None:
            return self._plain
        if (ridge, scaling) not in self._kept:
            last = {} if len(self._kept) > 1 else self._kept  # at most two, which are large
            part = self._plain.part(intercept_ridge=ridge, scaling=scaling)
            self._kept = {**last, (ridge, scaling): part}
        return self._kept[ridge, scaling]

    def problem(self, loss: Completion, lam: float) -> Problem:
        """The problem of a loss of the other observations."""
        return Problem(loss, None, NuclearNorm(self._factor * lam))

    def error(
        self, loss: Completion, X: LowRank, effects: Effects, *, debias: bool = False
    ) -> tuple[float, float]:
        """Mean loss of the held-out observations, and the factor that X is multiplied by.

        The squared error is not halved. With `debias` the factor is the best one from 1 to
        4, which undoes the shrinkage of singular values.
        """
        x = np.asarray(loss.observed().predicted(X, effects, self.rows, self.columns))
        base = np.zeros(len(x))
        if loss.intercepts != "none":
            base += effects.mean + to_numpy(effects.rows)[self.rows]
            base += to_numpy(effects.columns)[self.columns]
        x -= base

        from scipy.optimize import minimize_scalar  # slow to import

        def at(factor: float) -> float:
            found = np.asarray(loss.loss.value(self.values, self._clipped(base + factor * x)))
            return float(np.average(found, weights=self.weights))

        factor = 1.0
        if debias and X.rank:
            found = minimize_scalar(at, bounds=FACTORS, method="bounded", options=LINE)
            factor = min(1.0, float(found.x), key=at)
        twice = 1.0 if threshold_of(loss.loss) is None else 2.0
        return twice * at(factor), factor

    def _clipped(self, x: Values) -> Values:
        return x if self.clip is None else np.clip(x, *self.clip)


def held_out_entries(
    loss: Completion, cv: int | float, seed: int, clip: tuple[float, float] | None = None
) -> list[HeldOutEntries]:
    """Random folds of the observations, or one random share of them."""
    count = loss.observed().size
    order = stream(seed, HIDING).permutation(count)
    if is_integer(cv):
        cuts = np.array_split(order, min(int(cv), count))
    else:
        cuts = [order[: max(1, round(float(cv) * count))]]
    found = []
    for cut in cuts:
        hidden = np.zeros(count, dtype=bool)
        hidden[cut] = True
        found.append(HeldOutEntries(loss, hidden, clip))
    return found


def folds_or_share(argument: str, cv: Any) -> int | float:
    """The number of folds, at least 2, or a share between 0 and 1."""
    if is_integer(cv) and cv >= 2:
        return int(cv)
    wanted = "an integer >= 2, or a share between 0 and 1"
    share = number(argument, cv, wanted)
    if is_integer(cv) or not 0.0 < share < 1.0:
        raise InputError(argument, repr(cv), wanted)
    return share


def automatic_cv(count: int) -> int | float:
    """Five folds, or a tenth of many observations, held out once."""
    return FOLDS if count < MANY else SHARE


def zero_weight(loss: Completion, seed: int = 0) -> float:
    """The least weight of the nuclear norm at which X = 0, or a little more.

    It is the largest singular value of the negative gradient at X = 0, with the best
    intercepts; 0 if they explain the observations.
    """
    data, rng = loss.observed(), np.random.default_rng([seed, HIDING])
    x = data.values * 0.0
    effects = data.fitted(x)
    q = data.dual(x, effects)
    size, whole = math.sqrt(float((q * q).sum())), math.sqrt(float((data.values**2).sum()))
    if size <= EXACT * whole:
        return 0.0
    dual = ObservedDual(data, q, ValueForm(lam=1.0), None, effects)
    if dual.exact:  # from an array, without lists of positions
        return ABOVE * dual.norm(rng)
    block = gaussian(rng, (data.shape[1], min(BLOCK, *data.shape)), x)
    found = triplets(data, q, block, POWERS)
    norm = min(replace(dual, found=found).norm(rng), size)  # also if it cannot be proved
    return ABOVE * max(norm, float(found.s[0]))


def observed_path(
    loss: Completion,
    lams: Any = None,
    *,
    cv: int | float = 0.1,
    patience: int | None = PATIENCE,
    one_standard_error: bool = False,
    clip: tuple[float, float] | None = None,
    tol: float = ROUGH,
    rank: int | None = None,
    seed: Seed = 0,
    max_seconds: float | None = None,
    progress: bool | Literal["auto"] = False,
) -> ObservedPath:
    """Choose the weight of the nuclear norm for a loss of observed entries.

    Some observations are held out. The weight falls from the one at which X = 0, each fit
    starts from the last one, and the weight with the least error on the observations held out
    is chosen. X is kept in factors throughout.

    Parameters
    ----------
    loss : Completion
        The loss of all observations.
    lams : sequence of float, optional
        Weights for all observations. By default they fall from the one at which X = 0 by
        factors of the root of two, at most 20 of them.
    cv : int or float
        Number of folds, or the share of the observations that is held out once.
    patience : int, optional
        Number of consecutive weights without a gain after which the path ends; None tries all.
    one_standard_error : bool
        Choose the largest weight whose error exceeds the least by at most one standard error of
        their difference. It needs two folds or more.
    clip : (float, float), optional
        Range to which predictions are clipped before they are compared.
    tol : float
        Accuracy of the fits, relative to f.
    rank : int, optional
        Largest rank of the answers.
    seed : int, Generator or None
        Fixes the observations held out and the solver; None draws new random numbers.
    max_seconds : float, optional
        Time limit; the first weight is tried in any case.
    progress : bool or "auto"
        A progress bar on stderr; "auto" shows it on a terminal only.

    Returns
    -------
    ObservedPath
    """
    begun, deadline = time.perf_counter(), Deadline.after(max_seconds)
    if not isinstance(loss, Completion):
        wanted = "a losses.Completion; for other losses see selection.regularization_path"
        raise InputError("loss", shown_kind(loss), wanted)
    folds = folds_or_share("cv", cv)
    flag("one_standard_error", one_standard_error)
    tol, rank = positive("tol", tol), None if rank is None else integer("rank", rank, 1)
    if patience is not None:
        patience = integer("patience", patience, 1, instead="None")
    named_by = seed_number("seed", seed)
    if clip is not None:
        clip = _range(clip)
    if loss.observed().size < 2:
        raise InputError("loss", "one observation", "two or more, to hold some out")
    given, unit = loss, unit_of(Problem(loss, None, NuclearNorm(1.0)))  # usually 1
    if unit != 1.0:
        loss = loss.in_unit(unit)
        clip = None if clip is None else (clip[0] / unit, clip[1] / unit)
    if lams is None:
        first = zero_weight(loss, named_by) or 1.0  # any weight suits zeros
        weights = [first * STEP**k for k in range(WEIGHTS)]
    else:
        weights = sorted((positive("lams", x) / unit for x in np.ravel(lams)), reverse=True)
        if not weights:
            raise InputError("lams", "none", "one number at least")

    solve = partial(path_point, tol=tol, rank=rank, seed=named_by, deadline=deadline)
    parts, trial = held_out_entries(loss, folds, named_by, clip), path_trial(solve)
    search: Search[Weight] = Search(parts, trial, deadline=deadline, progress=progress)
    line = [Weight(lam) for lam in weights]
    best = search.best_of(line, start="before", patience=patience)
    scores = search.scores()
    if one_standard_error:
        best = scores.best(lambda candidate: -candidate.lam)
    answers = search.answers.get(best)
    start = answers[0] if answers else LowRank.zero(loss.shape, loss.observed().zero().rows)
    found = Scores([Weight(unit * c.lam) for c in scores.candidates], unit**2 * scores.losses)
    return ObservedPath(
        lam=unit * best.lam,
        lams=np.array([candidate.lam for candidate in found.candidates]),
        errors=found.losses,
        ranks=search.scores(1).losses.astype(int),
        cv_results=found.table(),
        start=LowRank(start.U, unit * start.s, start.Vt),
        loss=given,
        rank=rank,
        seconds=time.perf_counter() - begun,
    )


def _range(clip: Any) -> tuple[float, float]:
    """The ends of a range of predictions."""
    wanted = "(low, high), numbers with low < high"
    if not isinstance(clip, (tuple, list)) or len(clip) != 2:
        raise InputError("clip", repr(clip), wanted)
    low, high = (number("clip", end, wanted) for end in clip)
    if not low < high:
        raise InputError("clip", repr(clip), wanted)
    return low, high


def path_point(
    problem: Problem,
    start: LowRank | None,
    *,
    tol: float,
    rank: int | None,
    seed: int,
    deadline: Deadline,
) -> tuple[LowRank, Effects]:
    """Iterate from a neighbour's answer until f hardly falls; nothing is proved.

    If few entries are observed, corrections take the place of most steps. Data of extreme size
    are solved in another unit, as by `minimize`.
    """
    unit = unit_of(problem)
    if unit != 1.0:
        if start is not None:
            start = LowRank(start.U, start.s / unit, start.Vt)
        limits: Any = {"tol": tol, "rank": rank, "seed": seed, "deadline": deadline}
        X, found = path_point(problem.in_unit(unit), start, **limits)
        effects = Effects(unit * found.mean, unit * found.rows, unit * found.columns)
        return LowRank(X.U, unit * X.s, X.Vt), effects
    if FilledProximal.pays(problem):
        return filled_point(problem, start, tol=tol, rank=rank, deadline=deadline)
    meter = Meter(Budget())
    tools = Tools(problem, meter, 0.0, seed, lambda candidate: None, chosen, tol=tol)
    data = problem.observed
    assert data is not None
    sparse = data.size < DENSE * math.prod(data.shape)
    most = None if rank is None else 2 * rank + 16
    steps = Steps(problem, tools, rank, most)
    state = FactoredProximal(rank=rank).start(problem, start, tools)
    best, still = state, 0
    for k in range(2 * EVERY if sparse else STEPS):
        if sparse and k % EVERY == 0:  # this may raise f, which the next steps lower
            state = steps.moved(state)[0]
        before = state.last or 0.0
        state = steps.proximal(state)
        last = state.last or 0.0
        if k == 0 or last <= (best.last or 0.0):
            best = state
        still = still + 1 if abs(before - last) <= STILL * tol * abs(last) else 0
        if still > 1 or deadline.passed:
            break
    return best.V, best.effects


def filled_point(
    problem: Problem,
    start: LowRank | None,
    *,
    tol: float,
    rank: int | None,
    deadline: Deadline,
) -> tuple[LowRank, Effects]:
    """Like `path_point`, with steps on the array of the observations."""
    unit = unit_of(problem)
    if unit != 1.0:  # early steps are in float32, whose range is short
        start = None if start is None else LowRank(start.U, start.s / unit, start.Vt)
        how: Any = {"tol": tol, "rank": rank, "deadline": deadline}
        V, (mean, rows, columns) = filled_point(problem.in_unit(unit), start, **how)
        effects = Effects(unit * mean, unit * rows, unit * columns)
        return LowRank(V.U, unit * V.s, V.Vt), effects
    steps, residuals = FilledSteps.of(problem, rank), None
    parameters = GapParameters(0.0, 0.0, problem.loss.smoothness)
    state, still = steps.begun(start, parameters, lambda f: tol * abs(f)), 0
    for k in range(1, STEPS + 1):
        before = state.last
        state, residuals = steps.step(state, k)
        fell = before - state.last
        still = still + 1 if abs(fell) <= STILL * tol * abs(state.last) else 0
        if still > 1 or deadline.passed:
            break
        if residuals is not None:
            image = steps.image(state, residuals)
            residuals = None  # room for the next fill
            state = steps.advanced(state, image, k, tol * abs(state.last))
            del image
    V = state.V
    if residuals is not None:
        return V, steps.filled.effects(residuals.fill)
    del state  # room for an array
    return V, steps.effects(V)


def path_trial(
    solve: Callable[[Problem, LowRank | None], tuple[LowRank, Effects]],
    prepare: Callable[[HeldOutEntries, Any], Completion] = lambda part, _: part.kept(),
    *,
    debias: bool = False,
) -> Callable[[HeldOutEntries, Any, LowRank | None], tuple[tuple[float, ...], LowRank]]:
    """A trial for `Search`: error, rank, factor, answer at `lam`; X = 0 if it is infinite."""

    def trial(
        part: HeldOutEntries, candidate: Any, start: LowRank | None
    ) -> tuple[tuple[float, ...], LowRank]:
        # many short passes, each of which would set the number of threads
        with one_thread(0), compiling.passes(compiling.chosen(kind=compiling.ENTRIES)):
            loss = prepare(part, candidate)
            if math.isfinite(candidate.lam):
                found, effects = solve(part.problem(loss, candidate.lam), start)
            else:
                data = loss.observed()
                found = LowRank.zero(loss.shape, data.zero().rows)
                effects = data.fitted(data.values * 0.0, None, FITTED)
            error, factor = part.error(loss, found, effects, debias=debias)
        return (error, float(found.rank), factor), found

    return trial

"""The search behind automatic settings: candidates, warm paths, losses on held-out data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from weakprox.arguments import nonnegative
from weakprox.errors import InputError
from weakprox.progress import Progress
from weakprox.selection.noise import Values

SURE = 10.0  # standard errors by which a candidate must be worse to be dropped early
SEARCH_SHARE = 0.75  # share of the seconds of a fit that its search may use

C = TypeVar("C", bound=Hashable)
Loss = float | tuple[float, ...]
Trial = Callable[[Any, C, Any], tuple[Loss, Any]]
Seed = int | np.random.Generator | None  # the types that `arguments.seed_number` accepts


def stream(seed: int, name: int) -> np.random.Generator:
    """A separate random stream, since `default_rng(seed)` may have produced the user's data."""
    return np.random.default_rng([seed, name])


class Weights(NamedTuple):
    """The candidate of most models: weight of the penalty and bound."""

    lam: float
    tau: float


@dataclass(frozen=True)
class Deadline:
    """A time (of `time.monotonic`) by which work should end; None for no limit."""

    end: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """The time after this many seconds, `max_seconds` of the caller."""
        if seconds is None:
            return cls()
        return cls(time.monotonic() + nonnegative("max_seconds", seconds))

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0; None without a limit."""
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return self.left == 0.0

    def share(self, part: float = SEARCH_SHARE) -> Deadline:
        """An earlier deadline, after this part of the time that is left."""
        return self if self.left is None else Deadline.after(part * self.left)


def unit_near(values: Values) -> float:
    """A power of two near the largest finite number, 0.5 for zeros.

    Squares of numbers over it neither overflow nor lose digits.
    """
    sizes = np.abs(values[np.isfinite(values)])
    return math.ldexp(1.0, math.frexp(sizes.max(initial=0.0))[1] - 1)


def deviations(values: Values, ddof: int = 0) -> Any:
    """Standard deviations of columns, of numbers whose squares may overflow."""
    unit = unit_near(values)
    return unit * (values / unit).std(axis=0, ddof=ddof)


def near(losses: Any, errors: float = 1.0, repeats: int = 1) -> Values:
    """The candidates that are worse than the best by at most `errors` standard errors.

    `losses` has the shape (folds, candidates), NaN if not tried. The error is that of the
    difference, fold by fold, since candidates share the noise of a fold. If the folds come from
    several splits of the same data (`repeats`), it is the error of one split.
    """
    found = np.asarray(losses, dtype=float)
    best = int(np.nanargmin(found.mean(axis=0)))
    away = found - found[:, [best]]
    size = np.sqrt(len(found) / repeats)
    close = away.mean(axis=0) <= errors * deviations(away, 1) / size
    close[best] = True
    return np.asarray(close)


def clearly_positive(away: Values, errors: float | None = None) -> Any:
    """Return True if the mean of differences (a row per fold) exceeds so many standard errors.

    Without a true difference, even two folds exceed `SURE`, the default, only one time in
    thirty. Infinite differences count as clear, and one fold has no standard error.
    """
    measured = len(away) > 1 and np.isfinite(away).all()
    error = deviations(away, 1) / math.sqrt(len(away)) if measured else 0.0
    return away.mean(axis=0) > (SURE if errors is None else errors) * error


def least(losses: Any, simplicity: Sequence[Any] | None = None, repeats: int = 1) -> int:
    """Index of the least mean of losses of shape (folds, candidates), NaN if not tried.

    With `simplicity`, a key per candidate that is smaller for simpler ones, it is the simplest
    candidate that is worse by at most one standard error, see `near`.
    """
    found = np.asarray(losses, dtype=float)
    mean = found.mean(axis=0)
    if not np.isfinite(mean).any():
        raise InputError("scores", "no finite number", "one at least")
    if simplicity is None:
        return int(np.nanargmin(mean))
    if len(found) < 2:
        raise InputError("scores", "one fold", "two or more, for a standard error")
    close = np.flatnonzero(near(found, repeats=repeats)).tolist()
    return int(min((simplicity[i], mean[i], i) for i in close)[-1])


@dataclass(frozen=True)
class Scores:
    """Candidates, as named tuples, and their losses of shape (folds, candidates)."""

    candidates: Sequence[Any]
    losses: Values

    def best(self, simplicity: Callable[[Any], Any] | None = None) -> Any:
        """The candidate of least mean loss; with `simplicity`, see `least`."""
        keys = None
        if simplicity is not None and len(self.losses) > 1:  # one fold has no standard error
            keys = [simplicity(candidate) for candidate in self.candidates]
        return self.candidates[least(self.losses, keys)]

    def finite(self) -> Scores:
        """The candidates whose losses are finite on all folds."""
        kept = np.flatnonzero(np.isfinite(self.losses).all(axis=0)).tolist()
        return Scores([self.candidates[i] for i in kept], self.losses[:, kept])

    def table(self, *quantities: str, **more: Any) -> dict[str, Any]:
        """A column per quantity, named as in scikit-learn; scores are minus losses.

        "params" contains the parameters of each candidate, in a dict.
        `quantities` are fields of candidates that are no parameters of the model: their
        columns have no prefix.
        """
        scores = -self.losses
        mean = scores.mean(axis=0)
        places = np.empty(mean.size, dtype=np.int32)
        places[np.argsort(-mean, kind="stable")] = np.arange(1, mean.size + 1)
        names = self.candidates[0]._fields
        columns: dict[str, Any] = {
            name if name in quantities else f"param_{name}": np.array(
                [c[i] for c in self.candidates]
            )
            for i, name in enumerate(names)
        }
        columns |= {
            "mean_test_score": mean,
            "std_test_score": deviations(scores),
            "rank_test_score": places,
            **more,
        }
        parameters = [name for name in columns if name.startswith("param_")]
        rows = zip(*(columns[name].tolist() for name in parameters), strict=True)
        columns["params"] = [
            dict(zip((name.removeprefix("param_") for name in parameters), row, strict=True))
            for row in rows
        ]
        return columns | {f"split{k}_test_score": score for k, score in enumerate(scores)}


@dataclass(eq=False)
class Search(Generic[C]):
    """A search that tries candidates on folds of the data and keeps their losses.

    `prepare(fold)` returns the data of a trial, once per fold. `trial(data, candidate, start)`
    fits a candidate to the data that are kept, from the answer `start` or from nothing (None),
    and returns the loss on the data that are left out (several losses if a model compares by
    more than one) and the answer. No candidate is started after the deadline, except the first.
    `n_jobs` folds are processed in parallel by joblib, each with one thread of BLAS. With
    `first`, `best_of` drops a candidate that is clearly worse than the best on that number of
    folds; its losses on the others are infinite.
    """

    folds: Sequence[Any]
    trial: Trial[C]
    _: KW_ONLY
    prepare: Callable[[Any], Any] = lambda fold: fold
    deadline: Deadline = Deadline()
    progress: bool | Literal["auto"] = False
    n_jobs: int | None = None
    first: int | None = None
    losses: dict[C, list[Loss]] = field(default_factory=dict, init=False)
    # of the candidates that `best_of` returned
    answers: dict[C, list[Any]] = field(default_factory=dict, init=False)
    _data: list[Any] | None = field(default=None, init=False)

    def grid(
        self, candidates: Sequence[C], enough: Callable[[Values], bool] | None = None
    ) -> None:
        """Try all candidates, fold by fold, so that the data of one fold exist at a time.

        A candidate starts from the answer to the one before it. If the time does not suffice
        for all folds of candidates tried before, these are left out. Folds are left out, too,
        if `enough` holds for the (first) losses so far, of shape (folds, candidates).
        """
        task = (self.prepare, self.trial, candidates, self.deadline)
        done: list[list[Loss]] = []
        if self.n_jobs in (None, 1):
            total = len(self.folds) * len(candidates)
            with Progress(self.progress, counted=True) as display:
                bar = display.add("search", total)
                for k, fold in enumerate(self.folds):
                    if done and (self.deadline.passed or (enough and enough(_table(done)))):
                        break
                    show = partial(self._show, display, bar, k)
                    done.append(_followed(fold, *task, show=show))
        else:
            from joblib import Parallel, delayed, parallel_config

            with parallel_config(backend="loky", inner_max_num_threads=1):
                done = Parallel(self.n_jobs)(delayed(_followed)(f, *task) for f in self.folds)
        tried = min(len(candidates), len(done[0]))
        whole = [found for found in done if len(found) >= tried]
        folds = max(map(len, self.losses.values()), default=0)
        if len(whole) < folds:  # no time; earlier candidates were compared on more folds
            return
        for i, candidate in enumerate(candidates[:tried]):
            self.losses[candidate] = [found[i] for found in whole]

    def best_of(
        self,
        candidates: Sequence[C],
        *,
        start: Literal["before", "best"] | None = None,
        patience: int | None = None,
        last_of_equals: bool = False,
        gain: float = 0.0,
        until: Callable[[Sequence[C]], bool] | None = None,
    ) -> C:
        """Try candidates one after the other; return the one of least mean (first) loss.

        Candidates are not tried twice; the first is returned if there is no time. A trial
        starts from the answers of the candidate that `start` names: the previous one, or the
        best so far. The search ends after `patience` consecutive candidates that do not lower
        the loss by the share `gain`, or if `until` returns True for those tried.
        """
        best: C | None = None
        before, waited = best, 0
        fresh = any(candidate not in self.losses for candidate in candidates)
        with Progress(self.progress if fresh else False, counted=True) as display:
            bar = display.add("search", len(candidates))
            for k, candidate in enumerate(candidates):
                origin = before if start == "before" else best if start == "best" else None
                display.advance(bar, 0.0, note=named(candidate))
                if not self._try(candidate, origin, best):
                    break
                before, waited = candidate, waited + 1
                here = self.mean(candidate)
                known = np.inf if best is None else self.mean(best)
                less = known - gain * abs(known) if gain else known
                if best is None or here < less or (last_of_equals and here == known):
                    best, waited = candidate, 0
                top = f"{scored(candidate, here)} (best {-self.mean(best):.4g})"
                display.advance(bar, note=top)
                self._forget(candidates[: k + 1], {best, before})
                if waited == patience or (until is not None and until(candidates[: k + 1])):
                    break
        self._forget(candidates, {best})
        return candidates[0] if best is None else best

    def along(self, line: Sequence[C], at: C, leap: int = 1) -> C:
        """A candidate that neither neighbour on a line improves, found by halved leaps.

        A trial starts from the answers of the best candidate so far.
        """
        i = line.index(at)
        while leap:
            beside = [line[k] for k in (i, i - leap, i + leap) if 0 <= k < len(line)]
            better = line.index(self.best_of(beside, start="best"))
            if better == i:
                leap //= 2
            i = better
        return line[i]

    def _show(
        self, display: Progress, bar: int, k: int, candidate: C, loss: Loss | None
    ) -> None:
        """Show a candidate that is tried on the fold of index k, or its loss once known."""
        where = f"fold {k + 1} of {len(self.folds)}  "
        if loss is None:
            display.advance(bar, 0.0, note=where + named(candidate))
        else:
            display.advance(bar, note=where + scored(candidate, _columns(loss)[0]))

    def _forget(self, candidates: Sequence[C], kept: set[C | None]) -> None:
        """Drop the answers of candidates from which no further trial starts."""
        for candidate in candidates:
            if candidate not in kept:
                self.answers.pop(candidate, None)

    def mean(self, candidate: C, column: int = 0) -> float:
        """Mean over folds of a candidate's loss."""
        return float(np.mean([_columns(loss)[column] for loss in self.losses[candidate]]))

    def scores(self, column: int = 0) -> Scores:
        """All candidates that were tried, by one of the losses."""
        tried = list(self.losses)
        found = [[_columns(x)[column] for x in self.losses[c]] for c in tried]
        return Scores(tried, np.array(found, dtype=float).T)

    def _try(self, candidate: C, origin: C | None, best: C | None) -> bool:
        """Try a candidate on the folds; False if there is no time for it."""
        if candidate in self.losses:
            return True
        starts = self.answers.get(origin) if origin is not None else None
        if self._data is None:
            self._data = [self.prepare(fold) for fold in self.folds]
        done: list[tuple[Loss, Any]] = []
        for k, data in enumerate(self._data):
            if self.deadline.passed and (self.losses or done):
                break
            if k == self.first and best is not None and self._loses(done, best):
                missing = [math.inf] * (len(self._data) - k)
                self.losses[candidate] = [*(loss for loss, _ in done), *missing]
                return True
            done.append(self.trial(data, candidate, starts[k] if starts else None))
        if len(done) < len(self._data) and self.losses:
            return False
        self.losses[candidate] = [loss for loss, _ in done]
        self.answers[candidate] = [answer for _, answer in done]
        return True

    def _loses(self, done: list[tuple[Loss, Any]], best: C) -> bool:
        """Return True if the first losses of a candidate clearly exceed those of the best."""
        known = self.losses[best]
        away = [_columns(loss)[0] - _columns(known[k])[0] for k, (loss, _) in enumerate(done)]
        return bool(clearly_positive(np.array(away)))


def limit(losses: Sequence[float]) -> float:
    """Approximate limit of a decreasing sequence of losses; minus infinity if it is unclear.

    It is that of a geometric series with the last two differences.
    """
    if len(losses) < 3:
        return -math.inf
    before, last = losses[-3] - losses[-2], losses[-2] - losses[-1]
    if last <= 0.0:
        return losses[-1]
    return losses[-1] - last * last / (before - last) if before > last else -math.inf


def named(candidate: Any) -> str:
    """A candidate in words: its settings, if it is a named tuple."""
    settings: dict[str, Any] = getattr(candidate, "_asdict", dict)()
    said = (
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )
    return "  ".join(said)


def scored(candidate: Any, loss: float) -> str:
    """A candidate in words, with its score, which is minus its loss."""
    return f"{named(candidate)}  score {-loss:.4g}".strip()


def _columns(loss: Loss) -> tuple[float, ...]:
    return loss if isinstance(loss, tuple) else (loss,)


def _table(done: list[list[Loss]]) -> Values:
    """The first losses, a row for each fold; NaN for candidates that were not tried."""
    found = np.full((len(done), max(map(len, done))), np.nan)
    for row, losses in zip(found, done, strict=True):
        row[: len(losses)] = [_columns(loss)[0] for loss in losses]
    return found


def _followed(
    fold: Any,
    prepare: Callable[[Any], Any],
    trial: Trial[C],
    candidates: Sequence[C],
    deadline: Deadline,
    show: Callable[[C, Loss | None], None] | None = None,
) -> list[Loss]:
    """Losses of the candidates on one fold, tried until the deadline, but at least one."""
    data, found = prepare(fold), list[Loss]()
    answer: Any = None
    for candidate in candidates:
        if found and deadline.passed:
            break
        if show is not None:
            show(candidate, None)
        loss, answer = trial(data, candidate, answer)
        found.append(loss)
        if show is not None:
            show(candidate, loss)
    return found

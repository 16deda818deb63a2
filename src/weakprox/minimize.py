"""The front door: one function that checks, seeds, runs and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Literal

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import (
    Array,
    all_finite,
    eps_of,
    is_array,
    is_real,
    namespace,
    norm,
    zeros,
)
from weakprox.losses.empirical import Empirical
from weakprox.oracles.certificate import SplitDual
from weakprox.oracles.metering import Budget
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.result import Result
from weakprox.solvers._look import Look
from weakprox.solvers._run import Run, Settings
from weakprox.solvers.auto import choose
from weakprox.solvers.warm import Warmth

TOL = 1e-4  # relative accuracy where none is asked for
SCALE, SCALE_SAMPLES = 1 << 61, 8  # random stream and samples that show the size of f
ROUGH = 0.1  # relative accuracy that will do for that


def minimize(
    problem: Problem,
    solver: Solver | Literal["auto"] | None = None,
    *,
    tol: float | None = None,
    eps: float | None = None,
    rank: int | None = None,
    seed: int = 0,
    start: Array | Result | None = None,
    resume: Result | None = None,
    max_seconds: float | None = None,
    max_samples: int | None = None,
    max_svds: int | None = None,
    callback: Callable[[Look], bool | None] | None = None,
    progress: bool | Literal["auto"] = "auto",
    look_every: int | None = None,
    stop_when_certified: bool = True,
    evaluation_samples: int = 256,
) -> Result:
    """Solve min G(X) + R(X) + h(X) and prove how near the answer is to the optimum.

    Parameters
    ----------
    problem : Problem
        What to solve.
    solver : Solver or "auto", optional
        How; by default whatever is expected to prove its accuracy soonest:
        `SampleAverage` where G is known through samples only, `DualAscent` for a squared
        distance with `MaxAffine`, else `DavisYin`; `SVRGCG` where memory is short.
        `result.explain()` says why.
    tol : float, optional
        Accuracy relative to the size of f at the answer; 1e-4 if neither it nor `eps` is
        given.
    eps : float, optional
        Accuracy in the value of f (absolute), instead of `tol`.
    rank : int, optional
        Largest rank of the answer, for the default solver; as large as the optimum's if
        not given. Where it is too small for the accuracy, the run says so.
    seed : int
        Fixes every random choice: the same call on the same machine (and number of BLAS
        threads) gives the same bits.
    start : array of shape (m, d) or Result, optional
        Feasible first point; zero by default. The result of a neighbouring problem (same
        loss, another weight or radius) gives its dual point and its decomposition too.
    resume : Result, optional
        Go on from the last epoch end of an earlier result of the same problem, solver
        and seed; the end is the same, to the bit, as that of an uninterrupted run.
    max_seconds, max_samples, max_svds : optional
        Limits; the best point so far is returned when one is reached.
    callback : callable, optional
        Called with a `Look` whenever the run is evaluated; returning True ends it.
    progress : bool or "auto"
        A progress bar on stderr; "auto" shows it on a terminal only.
    look_every : int, optional
        Evaluate f every so many inner steps; by default at every step first, then ever
        more rarely (each tenth more steps), and at epoch ends.
    stop_when_certified : bool
        End as soon as the duality gap proves eps (finite sums only).
    evaluation_samples : int
        Samples for reporting values where G is only sampled.

    Returns
    -------
    Result
        Feasible, low-rank, with value, status, counts and trace. Ctrl-C returns it too.
    """
    if not isinstance(problem, Problem):
        raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
    reason = "it was asked for"
    automatic = solver is None or (isinstance(solver, str) and solver == "auto")
    if automatic:
        choice = choose(problem, None if rank is None else _whole("rank", rank, least=1))
        solver, reason = choice.solver, choice.reason
    elif rank is not None:
        raise InputError("rank", f"{rank}, with a solver", "none: the solver has its own")
    if progress not in (True, False, "auto"):
        raise InputError("progress", repr(progress), "True, False or 'auto'")
    if isinstance(solver, type) or not is_dataclass(solver) or not hasattr(solver, "step"):
        given = solver.__name__ if isinstance(solver, type) else repr(solver)
        raise InputError("solver", given, "a solver object such as SVRGCG(rank=10)")
    solver.check(problem)
    eps, tol = _accuracy(solver, eps, tol, automatic=automatic)
    scale_samples = 0
    if tol and not (problem.loss.is_finite_sum and getattr(solver, "relative", False)):
        eps, scale_samples = _planned(problem, solver, tol, seed)
        tol = 0.0
    settings = Settings(
        eps=eps,
        tol=tol,
        seed=_whole("seed", seed, least=0),
        budget=Budget(
            None if max_seconds is None else _number("max_seconds", max_seconds),
            None if max_samples is None else _whole("max_samples", max_samples),
            None if max_svds is None else _whole("max_svds", max_svds),
        ),
        callback=_callable("callback", callback),
        progress=progress,
        look_every=None if look_every is None else _whole("look_every", look_every, least=1),
        stop_when_certified=bool(stop_when_certified),
        evaluation_samples=_whole("evaluation_samples", evaluation_samples, least=2),
        reason=reason,
        scale_samples=scale_samples,
    )
    if resume is not None:
        if start is not None:
            raise InputError("start", "a matrix, together with resume", "only one of them")
        if not isinstance(resume, Result):
            raise InputError("resume", type(resume).__name__, "a Result of minimize")
        if resume.low_rank.shape != problem.shape or resume.checkpoint is None:
            raise InputError("resume", "a result of another problem", "one of this problem")
    warm = _warmth(problem, solver, start)
    first = None if warm is not None else _start(problem, start)
    return Run(problem, solver, settings, resume, warm).execute(first)


def _accuracy(solver: Any, eps: Any, tol: Any, *, automatic: bool) -> tuple[float, float]:
    """(eps, 0) or (0, tol), checked."""
    if eps is not None and tol is not None:
        raise InputError("tol", f"{tol!r}, and eps = {eps!r}", "only one of them")
    if eps is not None:
        return _number("eps", eps, above=0.0), 0.0
    if not automatic and not getattr(solver, "relative", False):
        given = "none" if tol is None else f"tol = {tol!r}"
        wanted = f"an absolute accuracy: {type(solver).__name__} plans its work for one"
        raise InputError("eps", given, wanted)
    return 0.0, TOL if tol is None else _number("tol", tol, above=0.0)


def _planned(problem: Problem, solver: Solver, tol: float, seed: Any) -> tuple[float, int]:
    """Tol times the size of f, for methods that plan their work, and the samples it took.

    Found by a rough run: on the mean of a few samples, or of the same method.
    """
    loss, samples = problem.loss, 0
    seed = _whole("seed", seed, least=0)
    if loss.is_finite_sum:
        first = abs(problem.smooth_value(zeros(problem.shape, loss.reference)))
        rough = minimize(problem, solver, eps=ROUGH * first, seed=seed, progress=False)
    else:
        samples = SCALE_SAMPLES
        batch = loss.draw(np.random.default_rng([seed, SCALE]), samples)
        mean = Problem(Empirical(loss, [(batch, samples)]), problem.penalty, problem.spectral)
        rough = minimize(mean, tol=ROUGH, seed=seed, progress=False)
    bound = rough.certificate.lower_bound
    size = bound if bound > 0.0 else abs(rough.value)
    if not size > 0.0:
        raise InputError("tol", f"{tol:g}, relative to an f of about 0", "eps instead")
    return tol * size, samples


def _warmth(problem: Problem, solver: Any, start: Any) -> Warmth | None:
    """What an earlier result tells this run beyond its answer, if anything."""
    if not isinstance(start, Result) or not hasattr(solver, "warm"):
        return None
    if not isinstance(start.dual, SplitDual) or start.low_rank.shape != problem.shape:
        return None
    kind, wanted = start.low_rank.U, problem.loss.reference
    if namespace(kind) is not namespace(wanted) or kind.dtype != wanted.dtype:
        return None
    return Warmth.of(problem, start.dual).scaled(problem.penalty)


def _start(problem: Problem, start: Any) -> Array | None:
    """The first point, copied and checked for shape, kind and feasibility."""
    if start is None:
        return None
    if isinstance(start, Result):
        if problem.spectral.violation(start.low_rank) > 0.0:
            return None  # of a larger set: nothing to begin at
        start = start.X
    if not is_array(start) or tuple(start.shape) != problem.shape:
        given = getattr(start, "shape", type(start).__name__)
        raise ShapeError("start", given, f"an array of shape {problem.shape}")
    X = zeros(problem.shape, problem.loss.reference)
    if namespace(start) is not namespace(X) or not is_real(start):
        given = f"{type(start).__name__} of {start.dtype}"
        raise InputError("start", given, f"real numbers in a {type(X).__name__}")
    X[:] = start[:]
    if not all_finite(X):
        raise InputError("start", "NaN or infinite entries", "finite numbers")
    factors = problem.spectral.compress(X, min(problem.shape), np.random.default_rng(0))
    # a full-rank factorisation loses nothing but what the set does not allow
    lost = norm(X - factors.dense()) / max(norm(X), np.finfo(float).tiny)
    if lost > 1e-9 + 1e3 * eps_of(X) or not np.isfinite(problem.spectral.value(factors)):
        excess = max(problem.spectral.violation(factors), lost)
        raise InputError("start", f"a point outside the set by {excess:.1e}", "feasible")
    return X


def _number(name: str, value: Any, *, above: float | None = None) -> float:
    if not isinstance(value, (int, float, np.number)) or isinstance(value, bool):
        raise InputError(name, repr(value), "a number")
    number = float(value)
    least = 0.0 if above is None else above
    if not np.isfinite(number) or number < least or (above is not None and number <= above):
        raise InputError(name, value, f"a finite number > {least:g}")
    return number


def _whole(name: str, value: Any, *, least: int = 0) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise InputError(name, repr(value), f"an integer >= {least}")
    if int(value) < least:
        raise InputError(name, value, f"an integer >= {least}")
    return int(value)


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise InputError(name, type(value).__name__, "a callable, or None")
    return value

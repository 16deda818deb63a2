"""`minimize`: check the arguments, choose solver and accuracy, run, return.

Data of extreme size are solved in another unit. With X = u X', every term of f in the
library has a counterpart with f(X) = u^2 f'(X'): G and the quadratic parts of R keep their
constants, other weights and radii are divided by u. If entries of the data are so large or
small that powers might leave the range of their dtype, u makes them about one. It is a power of
two, so that no bit changes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from weakprox import arguments
from weakprox.errors import ConvexityError, InputError, ShapeError
from weakprox.hints import needs_problem
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array, namespace
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.empirical import Empirical
from weakprox.metering import Budget
from weakprox.passes.compiling import limited
from weakprox.problem import Problem
from weakprox.resources.memory import budget, honours_budget
from weakprox.result import Look, Result, Source
from weakprox.run.checkpoint import Keeper, last_state
from weakprox.run.choose import Choice, chosen_for
from weakprox.run.loop import Run
from weakprox.run.plan import check_room
from weakprox.run.slopes import Series
from weakprox.run.state import Call, Settings
from weakprox.solvers.base import Method, Warmth
from weakprox.storage.table import PathLike

TOL = 1e-4  # relative accuracy by default
FEASIBLE = "a feasible point, such as the Result of a neighbouring problem"
# random stream and number of samples of the rough run for the size of f
SCALE, SCALE_SAMPLES = 1 << 61, 8
ROUGH = 0.1  # relative accuracy of that run
LEAST_TOL = 1e-14  # in float64: bounds allow for 64 units of rounding
SMALLEST = 2.0**-480  # squares of smaller data underflow


@arguments.by_name("the terms joined as wp.Problem(loss, penalty, spectral)")
@honours_budget
def minimize(
    problem: Problem,
    solver: Method | type | str | None = None,
    *,
    tol: float | None = None,
    eps: float | None = None,
    rank: int | None = None,
    seed: int | np.random.Generator | None = 0,
    start: Array | LowRank | Result | None = None,
    resume: Result | bool | None = None,
    checkpoint: PathLike | None = None,
    checkpoint_every: float | None = None,
    max_seconds: float | None = None,
    max_samples: int | None = None,
    max_svds: int | None = None,
    callback: Callable[[Look], bool | None] | None = None,
    progress: bool | Literal["auto"] = "auto",
    look_every: int | None = None,
    stop_when_certified: bool = True,
    evaluation_samples: int = 400,
    max_memory: int | str | None = None,
    proof: bool | None = None,
) -> Result:
    """Solve min G(X) + R(X) + h(X) and prove how near the answer is to the optimum.

    Parameters
    ----------
    problem : Problem
        What to solve.
    solver : Method, class or str, optional
        An object such as `SVRGCG(rank=10)`, a class, or a name such as "svrgcg" or "davis-yin"
        in any case. By default ("auto"), the solver that is expected to prove its accuracy
        soonest. Without a penalty these are `Thresholding` for sparse matrices,
        `FactoredProximal` or `FilledProximal` for `Completion`, and `DenseProximal` for
        `Denoising` with weights or a robust loss. Otherwise they are `LeanSplitting` for large,
        float32 or GPU data with a squared distance and a separable penalty, `AdaptiveSVRGCG` if
        memory is short, `SampleAverage` if G is known through samples only, `DualAscent` for a
        squared distance with `MaxAffine`, `ADMM` if the curvature of the loss varies strongly
        between directions, and `DavisYin` in all other cases. `result.explain()` gives the
        reason.
    tol : float, optional
        Accuracy relative to max(|f|, s), s = 1e-5 smoothness/2 |X|_F^2 at the answer X: the
        second counts only where f nearly vanishes. If intercepts explain all data up to
        rounding, f counts as zero. The default is 1e-4 if `eps` is not given.
        It must be less than 1, and at least 1.2e-7 for float32 and 1e-14 for float64 data.
        Solvers that plan for an absolute accuracy get one from a rough run.
    eps : float, optional
        Accuracy in the value of f (absolute), instead of `tol`.
    rank : int, optional
        Cap on the rank of the answer, for the default solver or one given by class or name. By
        default the rank is not limited. If the cap is too small to reach the accuracy, the
        status says so.
    seed : int, numpy Generator or None
        Fixes every random choice: the same call on the same machine (and number of BLAS
        threads) gives the same bits. For large arrays, set WEAKPROX_COMPILE to "always" or
        "never" for this: otherwise later calls may use compiled passes. One integer is drawn
        from a Generator; None means a fresh seed. `result.seed` is the integer used.
    start : array of shape (m, d), LowRank or Result, optional
        Feasible first point; zero by default. The result of a neighbouring problem (same loss,
        another weight or radius) also provides its dual point and its decomposition.
    resume : Result or bool, optional
        Continue from the last epoch end of an earlier result of the same problem, solver
        and seed (None for that result's seed). The result has the same bits as that of an
        uninterrupted run. True: continue from the file `checkpoint`, or start a new run if
        there is no such file yet.
    checkpoint : path, optional
        File for the state of the run, such as "run.safetensors". The run can be resumed from it
        however it ended. The previous state is kept beside it.
    checkpoint_every : float, optional
        Seconds between writes, 60 by default; 0 writes after every outer step.
    max_seconds, max_samples, max_svds : optional
        Limits, numbers >= 0; the best point so far is returned when one is reached.
        `max_seconds` covers the whole call, including rough runs.
    callback : callable, optional
        Called with a `Look` whenever the run is evaluated; returning True ends it.
    progress : bool or "auto"
        A progress bar on stderr; "auto" shows it on a terminal only. With True, lines are
        printed instead where there is no terminal, such as in a notebook.
    look_every : int, optional
        Number of inner steps between evaluations of f. By default f is evaluated at every
        step at first, then at growing intervals (a tenth of the steps so far), and at epoch
        ends.
    stop_when_certified : bool
        End as soon as the duality gap proves eps (finite sums only).
    evaluation_samples : int
        Samples for reporting values if G is known through samples only, drawn at the start and
        again at the end. The latter check sampled certificates; fewer than 400 cannot certify
        the answer of a solver that does not certify its own.
    max_memory : int or str, optional
        Memory that this process may use in total, in bytes or as text such as "4GB". Data in
        files are read block by block, arrays that do not fit are kept in a scratch file (in
        TMPDIR), and a solver is chosen that can do so; `weakprox.plan` shows the memory
        beforehand.
    proof : bool, optional
        Whether the result keeps what `result.proof` needs: the dual point of its lower
        bound, an array the size of X, and the problem. By default it keeps the dual point
        if that takes at most 256 MiB, no `max_memory` is set and it costs no extra work;
        it does not keep the problem alive.

    Returns
    -------
    Result
        The feasible, low-rank answer with its value, status, counts and trace. Ctrl-C also ends
        the run with a result.
    """
    begun = time.perf_counter()
    if not isinstance(problem, Problem):
        raise needs_problem(problem)
    problem.reread()  # custom terms may have changed since
    if eps is not None and tol is not None:
        raise InputError("tol", f"{tol!r}, and eps = {eps!r}", "only one of them")
    if proof is not None:
        proof = arguments.flag("proof", proof)
    arguments.flag("stop_when_certified", stop_when_certified)
    if checkpoint is None and checkpoint_every is not None:
        alone = f"{checkpoint_every!r}, without a file"
        raise InputError("checkpoint_every", alone, "a checkpoint, too")
    if callback is not None and not callable(callback):
        raise InputError("callback", type(callback).__name__, "a callable, or None")
    arguments.one_of("progress", progress, (True, False, "auto"))
    limits = Budget(
        None if max_seconds is None else arguments.nonnegative("max_seconds", max_seconds),
        None if max_samples is None else arguments.integer("max_samples", max_samples, 0),
        None if max_svds is None else arguments.integer("max_svds", max_svds, 0),
    )
    every = None if look_every is None else arguments.integer("look_every", look_every, 1)
    looked = arguments.integer("evaluation_samples", evaluation_samples, 2)
    named_by = arguments.seed_number("seed", seed)
    given, unit = problem, unit_of(problem, solver)  # 1, except for data of extreme size
    if unit != 1.0:
        problem = problem.in_unit(unit)
    if start is not None:
        start = _start_in(start, unit)
    choice = chosen_for(problem, solver, rank)
    method, reason = choice.solver, choice.reason
    if not method.elsewhere:
        problem = problem.gathered()
    method.check(problem)
    if budget() is not None:
        check_room(problem, method)
        proof = bool(proof)  # the dual point is kept only on request
    aim = 0.0 if eps is None else arguments.positive("eps", eps) / unit**2
    relative = 0.0
    if eps is None:
        relative = TOL if tol is None else arguments.accuracy("tol", tol)
        _check_provable(problem, relative)
    call = Call.of(
        problem,
        method,
        None if checkpoint is None else start.low_rank if isinstance(start, Result) else start,
        automatic=f"rank {rank}" if choice.automatic else "",
        eps=aim,
        tol=relative,
        seed=named_by,
        evaluation_samples=looked,
    )
    keeper = last = series = None
    if given.constrained is not None:
        series = Series.of(given, unit)
    if checkpoint is not None:
        kept = {"automatic": choice.automatic}
        keeper = Keeper(checkpoint, checkpoint_every, problem, method, series, **kept)
    if resume is not None or keeper is not None:
        any_seed = ("seed",) if seed is None else ()
        last = last_state(problem, call, resume, start, keeper, *any_seed, series=series)
    if series is not None:
        problem = series.problem(0)
    samples = 0
    if last is not None:
        call = last.call
        if choice.automatic:
            method, reason = last.origin.solver, last.origin.reason
    if relative and not (problem.loss.is_finite_sum and method.relative):
        if last is None:
            left = _left(limits, begun)
            aim, samples = _planned(problem, choice, relative, call.seed, left)
        else:
            aim, samples = last.origin.eps, last.origin.scale_samples
        relative = 0.0
    warm = first = None
    if start is not None and last is None:
        warm = _warmth(problem, method, start)
        first = None if warm is not None else _first_point(problem, method, start)
    settings = Settings(
        eps=aim,
        tol=relative,
        seed=call.seed,
        budget=limits
        if max_seconds is None
        else replace(limits, max_seconds=_left(limits, begun)),
        callback=callback,
        progress=progress,
        look_every=every,
        stop_when_certified=bool(stop_when_certified),
        evaluation_samples=call.evaluation_samples,
        reason=reason,
        scale_samples=samples,
        unit=unit,
        call=call,
        proof=proof,
    )
    with nullcontext() if max_seconds is None else limited(max_seconds):
        run = Run(problem, method, settings, last, warm, keeper, series)
        result = run.execute(first)
    stated = given if series is None else series.stages[run.stage].stated
    source = Source(stated, keep=proof is True)
    return replace(result, labels=given.of_loss.labels, source=source)


def _left(limits: Budget, begun: float) -> float | None:
    """Return the seconds that are left of the limit; None without one."""
    if limits.max_seconds is None:
        return None
    return max(0.0, limits.max_seconds - (time.perf_counter() - begun))


def _check_provable(problem: Problem, tol: float) -> None:
    """Raise if the dtype of the data is too coarse for this relative accuracy."""
    reference = problem.loss.reference
    single = reference.dtype.itemsize == 4
    least = arrays.eps_of(reference) if single else LEAST_TOL
    if tol < least:
        wanted = f"at least {least:.1e}, which {reference.dtype} can show"
        wanted += ", or data in float64" if single else ""
        raise InputError("tol", f"{tol:g}", wanted)


def _planned(
    problem: Problem, choice: Choice, tol: float, seed: int, seconds: float | None
) -> tuple[float, int]:
    """Return tol times the size of f, and the number of samples used to find that size.

    The size comes from a rough run: on the mean of a few samples if G is sampled, otherwise
    by the automatic choice, or by the method itself if that is the automatic choice or if
    no automatic choice can prove a bound.
    """
    loss, samples = problem.loss, 0
    quiet: dict[str, Any] = {"seed": seed, "progress": False, "proof": False}
    quiet["max_seconds"] = seconds
    rough = None
    if not loss.is_finite_sum:
        samples = SCALE_SAMPLES
        batch = loss.draw(np.random.default_rng([seed, SCALE]), samples)
        pool = Empirical(loss, [(batch, samples)])
        if not pool.strong_convexity + problem.penalty.curvature > 0.0:
            # so few samples may lack strong convexity: for a size, G's own constant suffices
            known = loss.strong_convexity
            pool = Empirical(loss, [(batch, samples)], strong_convexity=known)
        rough = minimize(Problem(pool, problem.penalty, problem.spectral), tol=ROUGH, **quiet)
    elif not choice.automatic:
        with suppress(ConvexityError):
            rough = minimize(problem, tol=ROUGH, **quiet)
    if rough is None:
        first = abs(problem.smooth_value(arrays.zeros(problem.shape, loss.reference)))
        first = first or float(np.finfo(float).tiny)
        rough = minimize(problem, choice.solver, eps=ROUGH * first, **quiet)
    bound = rough.certificate.lower_bound
    size = bound if bound > 0.0 else abs(rough.value)
    if not size > 0.0:
        raise InputError("tol", f"{tol:g}, relative to an f of about 0", "eps instead")
    return tol * size, samples


def _warmth(problem: Problem, solver: Method, start: Any) -> Warmth | None:
    """Return the dual point of an earlier result, if the solver can continue from it."""
    if not isinstance(start, Result) or not solver.warm_starts:
        return None
    if start.dual is None or start.low_rank.shape != problem.shape:
        return None
    kind, wanted = start.low_rank.U, problem.loss.reference
    if namespace(kind) is not namespace(wanted) or kind.dtype != wanted.dtype:
        return None
    return Warmth.of(problem, start.dual).scaled(problem.penalty)


def _first_point(problem: Problem, solver: Method, start: Any) -> Array | LowRank | None:
    """Return a copy of the first point, checked for shape, kind and feasibility.

    It stays in factors for a solver that keeps X in factors.
    """
    factored, target = solver.factored, problem.sparse_target is not None
    if isinstance(start, Result):
        if problem.spectral.violation(start.low_rank) > 0.0:
            return None  # the answer on a larger set: not a feasible start
        start = start.low_rank if factored or target else start.X
    if isinstance(start, LowRank):
        if start.shape != problem.shape:
            raise ShapeError("start", start.shape, f"factors of shape {problem.shape}")
        if target:
            return start  # only its row space is used, so it may be any point
        if factored:
            return _first_factors(problem, start)
        start = start.dense()
    arguments.refuse_foreign("start", start)
    if not arrays.is_array(start) or tuple(start.shape) != problem.shape:
        shape = tuple(getattr(start, "shape", ()))
        given = shape if shape and shape != problem.shape else type(start).__name__
        raise ShapeError("start", given, f"an array of shape {problem.shape}")
    X = arrays.zeros(problem.shape, problem.loss.reference)
    if namespace(start) is not namespace(X) or not arrays.is_real(start):
        given = f"{type(start).__name__} of {start.dtype}"
        raise InputError("start", given, f"real numbers in a {type(X).__name__}")
    X[:] = start[:]
    if not arrays.all_finite(X):
        raise InputError("start", "NaN or infinite entries", "finite numbers")
    factors = problem.spectral.compress(X, min(problem.shape), np.random.default_rng(0))
    # a full-rank factorisation loses only what lies outside the set
    lost = arrays.norm(X - factors.dense()) / max(arrays.norm(X), np.finfo(float).tiny)
    if lost > 1e-9 + 1e3 * arrays.eps_of(X) or not np.isfinite(problem.spectral.value(factors)):
        excess = max(problem.spectral.violation(factors), lost)
        raise InputError("start", f"a point outside the set by {excess:.1e}", FEASIBLE)
    return X


def _first_factors(problem: Problem, start: LowRank) -> LowRank:
    """Return the factors in float64, checked like an array."""
    wanted = problem.loss.reference
    if namespace(start.U) is not namespace(wanted):
        given = f"factors in a {type(start.U).__name__}"
        raise InputError("start", given, f"factors in a {type(wanted).__name__}")
    if not all(arrays.all_finite(part) for part in (start.U, start.s, start.Vt)):
        raise InputError("start", "NaN or infinite entries", "finite numbers")
    if not np.isfinite(problem.spectral.value(start)):
        excess = problem.spectral.violation(start)
        raise InputError("start", f"a point outside the set by {excess:.1e}", FEASIBLE)
    return LowRank(arrays.wide(start.U), arrays.wide(start.s), arrays.wide(start.Vt))


def unit_of(problem: Problem, solver: Any = None) -> float:
    """Return the power of two to measure data of extreme size in; 1 for all others.

    Also 1 if a custom term or a setting of the solver cannot be converted to another unit.
    """
    terms = (problem.of_loss, problem.of_penalty, problem.of_spectral)
    if any(term.in_unit is None for term in terms):
        return 1.0
    settings = solver.units if isinstance(solver, Method) else ()
    if any(getattr(solver, name) for name in settings):
        return 1.0
    # if the data are zero, the other terms say how large X may become
    size = 0.0
    for size_of in (problem.of_loss.size, problem.of_penalty.size):
        if not size and size_of is not None:
            size = float(size_of() or 0.0)
    size = size or float(problem.of_spectral.tau or 0.0)
    # 2^16 in float32, 2^32 in float64: fourth powers and differences from one keep digits
    ordinary = 2.0 ** (4 * problem.loss.reference.dtype.itemsize)
    if size == 0.0 or 1.0 / ordinary <= size <= ordinary:
        return 1.0
    if size < SMALLEST:
        wanted = f"at least {SMALLEST:.0e}, or their squares underflow: rescale the data"
        raise InputError("problem", f"data of size {size:.1e}", wanted)
    return math.ldexp(1.0, math.frexp(size)[1])


def _start_in(start: Any, unit: float) -> Any:
    """Return the first point in this unit; a result of another unit loses its dual point."""
    if isinstance(start, Result):
        if start.unit != unit:
            start = replace(start, dual=None)
        X = start.low_rank
        return replace(start, low_rank=LowRank(X.U, X.s / unit, X.Vt))
    if isinstance(start, LowRank):
        return LowRank(start.U, start.s / unit, start.Vt)
    return start / unit if unit != 1.0 and hasattr(start, "shape") else start

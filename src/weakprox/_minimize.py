"""The front door: one function that checks, seeds, runs and returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from weakprox.arguments import flag
from weakprox.errors import InputError, SamplerError
from weakprox.linalg.arrays import Array, eps_of, itemsize, zeros
from weakprox.losses.empirical import Empirical
from weakprox.metering import Budget
from weakprox.problem import Problem
from weakprox.proofs import witnessed
from weakprox.protocols import Solver
from weakprox.resources.memory import honours_budget
from weakprox.result import Look, Result
from weakprox.run.begin import first_point, last_state, warmth
from weakprox.run.choose import choose, is_automatic
from weakprox.run.identity import Call
from weakprox.run.keeper import Keeper
from weakprox.run.loop import Run, Settings
from weakprox.run.plan import check_room
from weakprox.run.units import callback_in, problem_in, result_from, start_in, unit_of
from weakprox.storage.table import PathLike

TOL = 1e-4  # relative accuracy where none is asked for
SCALE, SCALE_SAMPLES = 1 << 61, 8  # random stream and samples that show the size of f
ROUGH = 0.1  # relative accuracy that will do for that
LEAST_TOL = 1e-14  # in float64: bounds allow for 64 units of rounding


@honours_budget
def minimize(
    problem: Problem,
    solver: Solver | Literal["auto"] | None = None,
    *,
    tol: float | None = None,
    eps: float | None = None,
    rank: int | None = None,
    seed: int = 0,
    start: Array | Result | None = None,
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
    solver : Solver or "auto", optional
        How; by default whatever is expected to prove its accuracy soonest:
        `SampleAverage` where G is known through samples only, `DualAscent` for a squared
        distance with `MaxAffine`, else `DavisYin`; `SVRGCG` where memory is short.
        `result.explain()` says why.
    tol : float, optional
        Accuracy relative to max(|f|, s), s = 1e-5 smoothness/2 |X|_F^2 at the answer X: the
        second counts only where f nearly vanishes. 1e-4 if neither it nor `eps` is given,
        and at least 1.2e-7 for float32 and 1e-14 for float64 data.
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
    resume : Result or bool, optional
        Go on from the last epoch end of an earlier result of the same problem, solver
        and seed; the end is the same, to the bit, as that of an uninterrupted run. True:
        go on from the file `checkpoint`, or begin if there is none yet.
    checkpoint : path, optional
        A file, such as "run.safetensors", that holds the state of the run, so that it can
        be resumed after whatever ended it. The last but one is kept beside it.
    checkpoint_every : float, optional
        Seconds between writes, 60 by default; 0 writes after every outer step.
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
        Samples for reporting values where G is only sampled, drawn at the start and
        again at the end. The latter check sampled certificates; fewer than 400 cannot
        certify the answer of a solver that does not certify its own.
    max_memory : int or str, optional
        Bytes that this process may hold in all, such as "4GB". Data in files are read
        block by block, what does not fit is kept in a scratch file (in TMPDIR), and a
        solver is chosen that can do so; `weakprox.plan` shows it before.
    proof : bool, optional
        Whether the result keeps what `result.proof` needs: the dual point of its lower
        bound, an array the size of X, and the problem. By default it keeps the dual point
        if that takes at most 256 MiB, no `max_memory` is set and it costs no extra work,
        and the problem is let go when you let it go.

    Returns
    -------
    Result
        Feasible, low-rank, with value, status, counts and trace. Ctrl-C returns it too.
    """
    if not isinstance(problem, Problem):
        raise InputError("problem", type(problem).__name__, "a weakprox.Problem")
    if proof is not None:
        flag("proof", proof)
    given = problem
    unit = unit_of(problem, solver)  # 1, but for data of extreme size
    problem, start = problem_in(problem, unit), start_in(start, unit)
    reason = "it was asked for"
    automatic = is_automatic(solver)
    if automatic:
        choice = choose(problem, None if rank is None else _whole("rank", rank, least=1))
        solver, reason = choice.solver, choice.reason
    elif rank is not None:
        raise InputError("rank", f"{rank}, with a solver", "none: the solver has its own")
    if progress not in (True, False, "auto"):
        raise InputError("progress", repr(progress), "True, False or 'auto'")
    assert solver is not None
    assert not isinstance(solver, str)
    if not getattr(solver, "elsewhere", False):
        problem = problem.gathered()
    solver.check(problem)
    check_room(problem, solver)
    eps, tol = _accuracy(solver, eps, tol, automatic=automatic)
    if tol:
        _check_provable(problem, tol)
    eps /= unit**2
    call = Call.of(
        problem,
        solver,
        None if checkpoint is None else getattr(start, "low_rank", start),
        automatic=f"rank {rank}" if automatic else "",
        eps=eps,
        tol=tol,
        seed=_whole("seed", seed, least=0),
        evaluation_samples=_whole("evaluation_samples", evaluation_samples, least=2),
    )
    keeper = None if checkpoint is None else Keeper(checkpoint, checkpoint_every)
    if keeper is not None:
        keeper.equip(problem, solver, automatic=automatic)
    last = last_state(problem, call, resume, start, keeper)
    if last is not None and automatic:
        solver, reason = last.origin.solver, last.origin.reason
    scale_samples = 0
    if tol and not (problem.loss.is_finite_sum and getattr(solver, "relative", False)):
        if last is None:
            eps, scale_samples = _planned(problem, solver, tol, seed)
        else:
            eps, scale_samples = last.origin.eps, last.origin.scale_samples
        tol = 0.0
    settings = Settings(
        eps=eps,
        tol=tol,
        seed=call.seed,
        budget=Budget(
            None if max_seconds is None else _number("max_seconds", max_seconds),
            None if max_samples is None else _whole("max_samples", max_samples),
            None if max_svds is None else _whole("max_svds", max_svds),
        ),
        callback=callback_in(_callable("callback", callback), unit),
        progress=progress,
        look_every=None if look_every is None else _whole("look_every", look_every, least=1),
        stop_when_certified=bool(stop_when_certified),
        evaluation_samples=call.evaluation_samples,
        reason=reason,
        scale_samples=scale_samples,
        call=call if last is None else last.call,
        proof=proof,
    )
    warm = None if last is not None else warmth(problem, solver, start)
    first = None if warm is not None or last is not None else first_point(problem, start)
    try:
        result = Run(problem, solver, settings, last, warm, keeper).execute(first)
    except SamplerError as failure:
        if failure.result is not None:
            failure.result = result_from(failure.result, unit)
        raise
    return witnessed(result_from(result, unit), given, keep=proof is True)


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


def _check_provable(problem: Problem, tol: float) -> None:
    """Raise on a relative accuracy that the dtype of the data cannot show."""
    reference = problem.loss.reference
    single = itemsize(reference) == 4
    least = eps_of(reference) if single else LEAST_TOL
    if tol < least:
        wanted = f"at least {least:.1e}, which {reference.dtype} can show"
        wanted += ", or data in float64" if single else ""
        raise InputError("tol", f"{tol:g}", wanted)


def _planned(problem: Problem, solver: Solver, tol: float, seed: Any) -> tuple[float, int]:
    """Tol times the size of f, for methods that plan their work, and the samples it took.

    Found by a rough run: on the mean of a few samples, or of the same method.
    """
    loss, samples = problem.loss, 0
    seed = _whole("seed", seed, least=0)
    if loss.is_finite_sum:
        first = abs(problem.smooth_value(zeros(problem.shape, loss.reference)))
        rough = minimize(
            problem, solver, eps=ROUGH * first, seed=seed, progress=False, proof=False
        )
    else:
        samples = SCALE_SAMPLES
        batch = loss.draw(np.random.default_rng([seed, SCALE]), samples)
        pool = Empirical(loss, [(batch, samples)])
        if not pool.strong_convexity + problem.penalty.curvature > 0.0:
            # so few samples may be flat: a size, unlike a proof, can do with G's own constant
            known = loss.strong_convexity
            pool = Empirical(loss, [(batch, samples)], strong_convexity=known)
        mean = Problem(pool, problem.penalty, problem.spectral)
        rough = minimize(mean, tol=ROUGH, seed=seed, progress=False, proof=False)
    bound = rough.certificate.lower_bound
    size = bound if bound > 0.0 else abs(rough.value)
    if not size > 0.0:
        raise InputError("tol", f"{tol:g}, relative to an f of about 0", "eps instead")
    return tol * size, samples


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

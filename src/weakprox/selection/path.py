"""Solutions for a whole grid of weights and radii, each started from its neighbours."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from weakprox._minimize import minimize
from weakprox.arguments import integer, positive, seed_number
from weakprox.display import card, counted
from weakprox.errors import InputError, ShapeError
from weakprox.hints import is_matrix, shown_kind
from weakprox.linalg.arrays import on_cpu, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.metering import Budget
from weakprox.passes import compiling
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.progress import Progress
from weakprox.protocols import (
    Loss,
    Penalty,
    SpectralTerm,
    loss_capabilities,
    spectral_capabilities,
)
from weakprox.resources.memory import room
from weakprox.result import Result
from weakprox.run.choose import choose
from weakprox.run.loop import Run
from weakprox.run.state import Settings
from weakprox.selection import _small, _unpenalised
from weakprox.selection._lean import Solved, applies, free_radius, lean_point, unconstrained
from weakprox.selection.grid import Grid, as_grid, default_grid
from weakprox.selection.noise import Values
from weakprox.selection.search import Deadline, Seed, least
from weakprox.solvers.base import Warmth
from weakprox.solvers.davis_yin import LeanSplitting
from weakprox.spectral import NuclearBall

TINY = float(np.finfo(float).tiny)
ZERO = 1e-3  # entries below this share of the largest count as zero, as in Result.nonzeros
Counts = np.ndarray[Any, np.dtype[np.int64]]
SHARE = 0.25  # share of the free memory that the points of a row may hold
INSIDE = 1e-6  # relative distance from the sphere that exceeds rounding
FAR = 1.5  # points whose radii differ by a larger ratio do not warm-start each other


class Point(NamedTuple):
    """A place on a grid: row and column, and the weight and radius there."""

    row: int
    column: int
    lam: float
    tau: float


@dataclass(frozen=True, repr=False)
class Path:
    """Solutions over a grid of (lam, tau).

    Attributes
    ----------
    lams : array of shape (n,)
        Weights, falling.
    taus : array of shape (n, k)
        Radii, rising along each row (falling if they are weights of `NuclearNorm`).
    values, gaps : arrays of shape (n, k)
        f at the answers, and their distance from the optimum: proved if `certified`, otherwise
        estimated by the solver.
    ranks, nonzeros, svds : integer arrays of shape (n, k)
        Ranks and nonzeros of the answers, and the number of decompositions for each.
    answers : tuple of tuples of LowRank
        `answers[i][j]` belongs to `lams[i]` and `taus[i, j]`.
    certified : bool
        Whether the gaps are proofs.
    seconds : float
        Time for all of it.
    loss, penalty, spectral
        The loss, and the functions that return a penalty for a weight and a spectral term for a
        radius.
    """

    lams: Values
    taus: Values
    values: Values
    gaps: Values
    ranks: Counts
    nonzeros: Counts
    svds: Counts
    answers: tuple[tuple[LowRank, ...], ...]
    certified: bool
    seconds: float
    loss: Loss
    penalty: Callable[[float], Penalty]
    spectral: Callable[[float], SpectralTerm]

    def __repr__(self) -> str:
        (n, k), (m, d) = self.taus.shape, self.loss.shape
        ranks = f"ranks {self.ranks.min()} to {self.ranks.max()}"
        gaps = f"{'proved' if self.certified else 'estimated'} gaps"
        size = f"{counted(n, 'weight')} x {counted(k, 'radius', 'radii')} on {m} x {d}"
        return f"Path({size}, {ranks}, {gaps}, {self.seconds:.2f} s)"

    def _repr_html_(self) -> str:
        """A table for notebooks: the ranks of the answers, and how to continue."""
        n, k = self.taus.shape
        rows: list[tuple[str, Any]] = [
            ("weights", f"{n}, from {self.lams[0]:.3g} to {self.lams[-1]:.3g}"),
            ("radii", f"{k} for each weight"),
            ("ranks", f"{self.ranks.min()} to {self.ranks.max()}"),
            ("gaps", "proved" if self.certified else "estimated by the solver"),
            ("work", f"{counted(self.svds.sum(), 'SVD')}, {self.seconds:.2f} s"),
        ]
        notes = ["path.answers[i][j] belongs to path.lams[i] and path.taus[i, j]."]
        return card("Regularisation path", rows, notes)

    def best(self, scores: Any, *, one_standard_error: bool = False) -> Point:
        """The point of the grid with the smallest score.

        Parameters
        ----------
        scores : array of shape (n, k) or (folds, n, k)
            Errors on data that were held out: smaller is better. With folds, the mean is used.
        one_standard_error : bool
            Choose the simplest answer (smallest rank, then fewest nonzeros) that is not worse
            than the best by more than one standard error. The error is that of the difference
            between the two, fold by fold, since folds share their noise.
        """
        try:
            found = np.asarray(scores, dtype=float)
        except (TypeError, ValueError):
            raise InputError("scores", "entries that are not numbers", "numbers") from None
        if found.ndim not in (2, 3) or found.shape[-2:] != self.taus.shape:
            wanted = f"an array of shape {self.taus.shape}, or (folds, ...) of them"
            raise ShapeError("scores", found.shape, wanted)
        folds = found.reshape(-1, self.taus.size)
        simplicity = list(zip(self.ranks.ravel(), self.nonzeros.ravel(), strict=True))
        best = least(folds, simplicity if one_standard_error else None)
        i, j = divmod(best, self.taus.shape[1])
        return Point(i, j, float(self.lams[i]), float(self.taus[i, j]))

    def problem(self, row: int, column: int) -> Problem:
        """The problem of one point of the grid."""
        lam, tau = float(self.lams[row]), float(self.taus[row, column])
        return Problem(self.loss, self.penalty(lam), self.spectral(tau))

    def solve(self, row: int, column: int, **settings: Any) -> Result:
        """Solve one point with a certificate; keywords go to `minimize`."""
        return minimize(self.problem(row, column), **settings)


def regularization_path(
    loss: Loss,
    lams: Any = None,
    taus: Any = None,
    *,
    penalty: Callable[[float], Penalty] = L1,
    spectral: Callable[[float], SpectralTerm] = NuclearBall,
    tol: float = 1e-3,
    rank: int | None = None,
    seed: Seed = 0,
    certify: bool = False,
    max_seconds: float | None = None,
    progress: bool | Literal["auto"] = False,
) -> Path:
    """Solve min G(X) + R(X) + h(X) for all weights of R and all radii of h on a grid.

    The path leads from simple answers to complex ones: weights fall and radii rise. Each run
    starts from its solved neighbours, with their dual points and the block of the last
    decomposition.

    Parameters
    ----------
    loss : Loss
        G, a finite sum.
    lams : sequence of float, optional
        Weights, in any order.
    taus : sequence of float, or array of shape (len(lams), k), optional
        Radii, the same ones for all weights or a row for each. Both are found by
        `default_grid` if not given, for a loss that is a squared distance.
    penalty : callable
        `penalty(lam)` is R; `penalties.L1` by default.
    spectral : callable
        `spectral(tau)` is h for a number above zero: `NuclearBall` by default, `TracePSD`,
        `NuclearNorm` (for which `taus` are weights, tried from high to low), or your own.
    tol : float
        Accuracy relative to f. The default is smaller than the random error of scores on
        held-out data; `Path.solve` solves a point more accurately.
    rank : int, optional
        Largest rank of the answers. Answers of a higher rank are truncated to it; their
        gaps include the cost.
    seed : int, Generator or None
        Seed of all random choices; None draws new random numbers.
    certify : bool
        Prove every gap. By default runs stop by the solver's own estimate, which ignores
        singular values outside its thin decomposition and saves the time of the proofs.
        `Path.solve` returns any single point with its proof.
    max_seconds : float, optional
        Time limit. Points that are not reached have a zero answer, the value NaN and the
        gap infinity.
    progress : bool or "auto"
        A progress bar on stderr; "auto" shows it on a terminal only.
    """
    if is_matrix(loss):
        raise InputError("loss", shown_kind(loss), "a loss of it, such as losses.Denoising(M)")
    if isinstance(loss, Problem):
        raise InputError(
            "loss", "a Problem", "its loss, problem.loss; weights are lams and taus"
        )
    if not getattr(loss, "is_finite_sum", False):  # values and gaps could not be compared
        raise InputError("loss", repr(loss), "a finite sum; reduce samples to their mean")
    for name, made in (("penalty", penalty), ("spectral", spectral)):
        if not callable(made):
            raise InputError(name, repr(made), "a function of the weight, such as a class")
    grid = grid_for(loss, lams, taus, spectral)
    shape = grid.shape
    values, gaps = np.full(shape, np.nan), np.full(shape, np.inf)
    ranks, nonzeros, svds = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    answers: list[list[LowRank]] = [[] for _ in grid.lams]
    begun, deadline = time.perf_counter(), Deadline.after(max_seconds)
    settings: dict[str, Any] = {"tol": tol, "rank": rank, "certify": certify}
    settings["seed"] = seed_number("seed", seed)
    steps = walk(loss, grid, penalty, spectral, deadline=deadline, **settings)
    with Progress(progress, counted=True) as display:
        bar = display.add("regularization path", values.size)
        for i, j, found in steps:
            answer = found.low_rank
            values[i, j], gaps[i, j] = found.value, found.gap
            ranks[i, j], svds[i, j] = answer.rank, found.svds
            size = np.abs(np.asarray(to_numpy(answer.dense())))
            nonzeros[i, j] = np.count_nonzero(size > max(ZERO * size.max(initial=0.0), TINY))
            answers[i].append(answer)
            note = f"lam {grid.lams[i]:.3g}  tau {grid.taus[i, j]:.3g}"
            note += f"  f {found.value:.5g}  rank {answer.rank}"
            display.advance(bar, note=note)
            if deadline.passed:
                break
    missing = LowRank.zero(loss.shape, loss.reference)
    rows = [tuple(row + [missing] * (shape[1] - len(row))) for row in answers]
    return Path(
        lams=grid.lams,
        taus=grid.taus,
        values=values,
        gaps=gaps,
        ranks=ranks,
        nonzeros=nonzeros,
        svds=svds,
        answers=tuple(rows),
        certified=certify,
        seconds=time.perf_counter() - begun,
        loss=loss,
        penalty=penalty,
        spectral=spectral,
    )


def grid_for(loss: Loss, lams: Any, taus: Any, spectral: Any) -> Grid:
    """The grid given, or the default grid of the data."""
    form = spectral_capabilities(spectral(1.0)).form
    if lams is not None and taus is not None:
        return as_grid(lams, taus, rising=form is None or not form.lam)
    centre = loss_capabilities(loss).centre
    known = form is not None and form.tau == 1.0
    if lams is not None or taus is not None or centre is None or not known:
        given = "one of them" if (lams is None) != (taus is None) else "neither"
        wanted = "both, unless the loss is a squared distance with a ball: then neither"
        raise InputError("lams, taus", given, wanted)
    return default_grid(centre(loss.everything()), psd=form is not None and form.symmetric)


def walk(
    loss: Loss,
    grid: Grid,
    penalty: Callable[[float], Penalty],
    spectral: Callable[[float], SpectralTerm],
    *,
    tol: float,
    rank: int | None = None,
    seed: int = 0,
    certify: bool = False,
    deadline: Deadline = Deadline(),  # noqa: B008 (immutable)
) -> Iterator[tuple[int, int, Solved]]:
    """Row, column and answer of every point, in the order of the path."""
    tol = positive("tol", tol)
    if rank is not None:
        rank = integer("rank", rank, least=1)
    chain = Chain(loss, grid.shape[1], tol, seed, rank, certify, deadline)
    for i, lam in enumerate(grid.lams):
        chain.next_row()
        R = penalty(float(lam))
        for j, tau in enumerate(grid.taus[i]):
            yield i, j, chain.solve(Problem(loss, R, spectral(float(tau))), float(tau))


@dataclass
class Chain:
    """Solves neighbouring problems one after the other, row by row of a grid.

    Within a row a run starts from the last answer. If the row before is known, it starts
    from an extrapolation of its three neighbours.
    """

    loss: Loss
    columns: int
    tol: float
    seed: int
    rank: int | None
    certify: bool
    deadline: Deadline
    memory: int = field(default_factory=room)
    above: list[Warmth | None] = field(default_factory=list)  # of the row before
    row: list[Warmth | None] = field(default_factory=list)
    tau: float = math.nan  # radius of the last point,
    last: Solved | None = None  # and its answer, if that radius had no effect
    corner: Warmth | None = None  # of the row before, at the last column
    free: float | None = None  # balls of at least this radius have no effect
    count: int = 0  # points so far: names of random streams
    spectrum: _unpenalised.Spectrum | None = None  # of the data, if a penalty vanishes

    def next_row(self) -> None:
        self.above, self.row, self.corner = self.row, [], None
        self.free = self.last = None

    def solve(self, problem: Problem, tau: float) -> Solved:
        """Solve the next point of this row."""
        if self.last is not None and not self.certify:
            # if the answer lies inside a ball, it lies inside every larger one
            self.row.append(self.row[-1])
            return self.last._replace(svds=0)
        past = self._past(problem.penalty, tau)
        self.tau, self.count = tau, self.count + 1
        entries = math.prod(self.loss.shape)
        held = entries if on_cpu(self.loss.reference) else 0  # on the host
        with one_thread(held), compiling.passes(compiling.chosen(entries)):
            found = self._lean(problem, past)
            if found is None:
                found = self._whole(problem, past)
        self._keep(found.warmth)
        loose = inside(found.low_rank, problem.spectral, tau)
        found = self._cut(found, problem)
        self.last = found if loose else None
        return found

    def _cut(self, found: Solved, problem: Problem) -> Solved:
        """Truncate the answer to the allowed rank; the gap includes the cost."""
        X, most = found.low_rank, self.rank
        if most is None or X.rank <= most:
            return found
        X = X.leading(most)
        value = problem.value(X)
        gap = max(0.0, found.gap + value - found.value)
        return found._replace(low_rank=X, value=value, gap=gap)

    def _lean(self, problem: Problem, past: Warmth | None) -> Solved | None:
        """Solve by the iteration alone if the problem has its form and stays low-rank."""
        if self.certify or not applies(problem):
            return None
        form = problem.values_form
        if form is not None and math.isfinite(form.tau) and not (form.lam or form.symmetric):
            if self.free is None:
                self.free = free_radius(problem)
            if form.tau >= self.free:
                return unconstrained(problem)
        if _small.applies(problem):
            rng = np.random.default_rng([self.seed, self.count])
            found = _small.small_point(problem, past, self.tol, rng)
            if found is not None:
                return found
        elif _unpenalised.applies(problem):
            if self.spectrum is None:
                self.spectrum = _unpenalised.Spectrum(np.asarray(problem.centre()))
            return self.spectrum.point(problem, self.tol, self.seed)
        return lean_point(problem, past, self.tol, self.seed + self.count)

    def _whole(self, problem: Problem, past: Warmth | None) -> Solved:
        """Solve by an ordinary run."""
        how: Any = {"seed": self.seed, "deadline": self.deadline, "certify": self.certify}
        # factored steps were tried before, unless a proof is requested or they do not apply
        result = rough(problem, past, tol=self.tol, not_low=not self.certify, **how)
        answer, warmth = result.low_rank, None
        # a problem whose ball has no effect is nearly solved: neighbours need no warm start
        loose = inside(answer, problem.spectral, self.tau)
        if result.dual is not None and not loose:
            warmth = Warmth.of(problem, result.dual)
        return Solved(answer, result.value, result.gap, result.counts.svds, warmth)

    def _past(self, penalty: Penalty, tau: float) -> Warmth | None:
        """The warm start for the next point; None without a neighbour."""
        column = len(self.row)
        before = self.row[-1] if self.row else None
        if before is not None and not self.tau / FAR <= tau <= self.tau * FAR:
            before = None
        above = self.above[column] if column < len(self.above) else None
        above = None if above is None else above.scaled(penalty)
        across, self.corner = self.corner, above
        if before is None or above is None or across is None:
            return before or above
        return above.beside(before, across)

    def _keep(self, warmth: Warmth | None) -> None:
        """Keep the end of a run for its neighbours; for large matrices only the last one."""
        bytes_each = 2 * self.loss.reference.dtype.itemsize * math.prod(self.loss.shape)
        if bytes_each * (self.columns + 2) > SHARE * self.memory:
            self.above, self.row = [], [None] * len(self.row)
        self.row.append(warmth)


def rough(
    problem: Problem,
    past: Warmth | None,
    *,
    eps: float | None = None,
    tol: float | None = None,
    seed: int = 0,
    deadline: Deadline = Deadline(),  # noqa: B008 (immutable)
    certify: bool = False,
    not_low: bool = False,
) -> Result:
    """Solve one of many problems from a warm start, by default without a proof.

    The run ends when the method's own estimate of its gap is small enough. Methods that cannot
    start from `past` start from scratch. If the solution is known not to be low-rank
    (`not_low`), the fallback of a low-rank method is used at once.
    """
    choice, left = choose(problem), deadline.left
    solver = choice.solver
    if not_low and isinstance(solver, LeanSplitting) and solver.affordable(problem):
        solver = solver.fallback
    if not solver.warm_starts:
        quiet: Any = {"max_seconds": left, "progress": False, "proof": False}
        return minimize(problem, eps=eps, tol=tol, seed=seed, **quiet)
    solver.check(problem)
    settings = Settings(
        eps=eps or 0.0,
        tol=tol or 0.0,
        seed=seed,
        budget=Budget(max_seconds=left),
        reason=choice.reason,
        estimated=not certify,
        proof=False,
    )
    return Run(problem, solver, settings, None, past).execute(None)


def warm(problem: Problem, result: Result | None) -> Warmth | None:
    """The warm start that the result of a neighbouring problem with this loss gives."""
    if result is None or result.dual is None:
        return None
    return Warmth.of(problem, result.dual).scaled(problem.penalty)


def inside(answer: LowRank, term: SpectralTerm, tau: float) -> bool:
    """Return True if an answer lies inside its ball, away from the sphere."""
    bounded = spectral_capabilities(term).tau is not None
    return bounded and answer.nuclear_norm < (1.0 - INSIDE) * tau

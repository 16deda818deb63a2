"""The choice of lam and tau for a noisy matrix, in Python and on the command line."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from weakprox.arguments import is_auto
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import row_blocks
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.resources.memory import room
from weakprox.selection._held_out import HeldOut, held_out
from weakprox.selection.copies import THINNING, Copies, thinned
from weakprox.selection.debias import Debias, refit_values
from weakprox.selection.grid import Grid, as_grid, default_grid, numbers
from weakprox.selection.noise import Values, is_poisson, matrix, noise_level, resolution
from weakprox.selection.path import walk
from weakprox.selection.search import (
    Deadline,
    Scores,
    Weights,
    clearly_positive,
    least,
    near,
    stream,
)
from weakprox.spectral import NuclearBall, TracePSD

COPIES = 5  # number of copies that a matrix is split into; each is held out once
# number of sets of copies by which candidates are compared if the first is not decisive
REPEATS = 5
CLOSE = 3.0  # standard errors within which the first set is not decisive
# size up to which there are further sets, since larger matrices average more
REPEATED = 100_000
FIRST = 2  # number of copies by which a weight is first compared if the matrix is larger
REPEATING = 0x4EA7  # name of the random stream of further sets
KINDS = ("copy", "sparse", "low-rank", "both")  # kinds of models, from simple to rich
COPY, SOFT, LOW_RANK, BOTH = range(4)  # their positions
QUICK = (6, 5)  # weights and radii that are tried
# relative accuracy of fits of which one is chosen, or whose residual shows the noise. With that
# of `held_out`, the order of almost equal candidates would depend on the random state.
CHOOSING = 1e-3
ORDINARY = (1e-60, 1e60)  # limits for the largest entry, whose fourth power must be finite
SEARCH_ARRAYS = 8  # arrays of the size of the matrix that the search needs besides the copies
SAMPLE = 1_000_000  # number of entries used for the choice if the copies do not fit into memory
CLEARLY = 0.9  # a second noise level is used if it is below this share of the first


@dataclass(frozen=True)
class Choice:
    """Weight, radius, how to undo their shrinkage, and the candidates tried.

    The estimate is the minimiser times `scale` plus its refit times `refit`.
    """

    lam: float
    tau: float
    scale: float
    table: dict[str, Any]
    kind: str = "both"  # of the model: "copy", "sparse", "low-rank" or "both"
    refit: float = 0.0

    def estimate(self, X: LowRank, M: Any) -> LowRank:
        """The minimiser X for the data M, with its shrinkage undone."""
        if not self.refit:
            return LowRank(X.U, X.s * X.s.dtype.type(self.scale), X.Vt)
        if self.kind == KINDS[SOFT]:
            dense = self.scale * X.dense() + self.refit * on_support(M, self.lam)
            return LowRank(*decompositions.svd(dense)).significant()
        values = self.scale * X.s + self.refit * refit_values(X, M)
        order = np.argsort(-values)
        return LowRank(X.U[:, order], values[order].astype(X.s.dtype), X.Vt[order])


class Candidate(NamedTuple):
    """A kind of model and the index of its radius, both in order of complexity; lam and tau."""

    kind: int
    place: int
    lam: float
    tau: float


@dataclass(eq=False)
class Tried:
    """Candidates and their comparisons with the copies left out."""

    debias: Debias
    points: list[Candidate] = field(default_factory=list)
    found: list[HeldOut] = field(default_factory=list)
    repeats: int = 1  # sets of copies that were compared with
    folds: int = COPIES
    simplest: bool = True  # whether the one-standard-error rule applies

    def add(self, points: list[Candidate], found: HeldOut) -> None:
        """Record candidates, in the order of the entries of a grid."""
        if self.found:  # time may have been short
            count = min(len(found.constants), len(self.found[0].constants))
            self.found = [one.first(count) for one in self.found]
            found = found.first(count)
        self.points += points
        self.found.append(found)

    @property
    def errors(self) -> Values:
        """Mean squared errors, of shape (folds, candidates)."""
        parts = [one.errors(debias=self.debias) for one in self.found]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    @property
    def least(self) -> float:
        """The least mean error."""
        return float(np.nanmin(self.errors.mean(axis=0)))

    def surpasses(self, first: HeldOut) -> bool:
        """Return True if the best candidate is clearly better than all those of `first`."""
        errors, found = self.errors, first.errors(debias=self.debias)
        count = len(found)
        best = errors[:count, int(np.nanargmin(errors.mean(axis=0)))]
        return bool(clearly_positive(found.reshape(count, -1) - best[:, None]).all())

    def undecided(self) -> list[int]:
        """Candidates within a few standard errors of the best; empty if there are no others."""
        errors = self.errors
        if len(errors) < self.folds:
            return []
        found = near(errors, CLOSE)
        return np.flatnonzero(found).tolist() if found.sum() > 1 else []

    def again(self, some: list[int], further: list[HeldOut]) -> Tried:
        """These candidates only, compared with further sets of copies as well."""
        first = HeldOut.joined([one.flat() for one in self.found], folds=False).some(some)
        sets = [first, *further]
        joined = HeldOut.joined(sets, folds=True)
        points = [self.points[i] for i in some]
        return Tried(self.debias, points, [joined], len(sets), simplest=self.simplest)

    def choice(self) -> Choice:
        """The simplest kind of model, with its least radius, within a standard error.

        It is the best candidate if the rule does not apply, or with one fold.
        """
        errors, ruled = self.errors, self.simplest and len(self.errors) > 1
        keys = [point[:2] for point in self.points] if ruled else None
        return self.at(least(errors, keys, self.repeats))

    def at(self, index: int) -> Choice:
        """One of the candidates, with the table of all of them."""
        parts = [one.shares(self.debias) for one in self.found]
        scales, refits = (
            np.concatenate([p.ravel() for p in x]) for x in zip(*parts, strict=True)
        )
        copy = [i for i, point in enumerate(self.points) if point.kind == COPY]
        scales[copy], refits[copy] = 1.0, 0.0
        # how the shrinkage was undone
        columns = {"scale": scales} | ({"refit": refits} if is_auto(self.debias) else {})
        weights = [Weights(point.lam, point.tau) for point in self.points]
        table = Scores(weights, self.errors).table(**columns)
        kind = KINDS[self.points[index].kind]
        return Choice(*weights[index], float(scales[index]), table, kind, float(refits[index]))


def candidates(grid: Grid, kind: int = BOTH) -> list[Candidate]:
    """The points of a grid as models of one kind, row by row."""
    return [Candidate(kind, place, *point) for place, point in enumerate(grid.points())]


def _simple_points(M: Values, grid: Grid) -> list[Candidate]:
    """The unchanged data, and soft thresholding with every weight."""
    nuclear = math.sqrt(min(M.shape)) * float(np.linalg.norm(M))
    points = [Candidate(COPY, 0, 0.0, max(float(grid.taus.max()), nuclear))]
    return points + [
        Candidate(SOFT, 0, float(lam), float(tau))
        for lam, tau in zip(grid.lams, grid.taus[:, -1], strict=True)
        if lam > 0.0
    ]


def _closed_forms(copies: Copies, points: list[Candidate]) -> HeldOut:
    """Errors of the unchanged data and of soft thresholding, on copies left out.

    The products of soft thresholded data, and of their refits, with a copy are sums over the
    entries above the threshold, so all thresholds take one pass.
    """
    found = np.empty((5, len(copies), len(points), 1))
    for k in range(len(copies)):
        A, Z = copies.without(k).ravel(), copies.means[k].ravel()
        lams = copies.louder(k) * np.array([point.lam for point in points])
        order = np.argsort(lams)
        size, along = np.abs(A), A * Z
        # number of thresholds below each entry
        part = np.searchsorted(lams[order], size, side="left")
        terms = (None, size, along, np.sign(A) * Z, size * size)  # None stands for ones
        sums = np.empty((len(terms), len(points)))
        for row, values in zip(sums, terms, strict=True):
            between = np.bincount(part, values, minlength=len(points) + 1)
            row[order] = between[::-1].cumsum()[-2::-1]
        count, sizes, inner, signed, squares = sums
        found[:, k, :, 0] = (
            inner - lams * signed,
            squares - 2.0 * lams * sizes + lams**2 * count,
            inner,
            squares,
            squares - lams * sizes,
        )
    constants = np.array([np.sum(Z * Z) for Z in copies.means])
    return HeldOut(found[0], found[1], constants, copies.means[0].size, found[2:])


def on_support(M: Values, lam: float) -> Values:
    """The refit of soft thresholding: the entries of M that it keeps."""
    return np.where(np.abs(M) > lam, M, 0.0)


@dataclass(frozen=True)
class NoisyMatrix:
    """A matrix with noise in its entries, and the settings of the search on it."""

    M: Values
    counts: bool = False  # whether the entries are Poisson counts
    psd: bool = False  # whether the signal is symmetric positive semidefinite
    rank: int | None = None  # largest rank of the answers
    debias: Debias = True  # how shrinkage is undone before answers are compared
    seed: int = 0
    deadline: Deadline = Deadline()  # noqa: RUF009 (immutable)
    progress: bool | Literal["auto"] = False
    folds: int = COPIES  # copies that the matrix is split into
    simplest: bool = True  # whether the one-standard-error rule applies
    # comparisons by what they depend on: the noise level is often confirmed by a first fit
    _known: dict[Hashable, Tried] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ball(self) -> type[TracePSD | NuclearBall]:
        """The spectral term that tau bounds."""
        return TracePSD if self.psd else NuclearBall

    def copies(self, noise: float, count: int) -> Copies:
        """Independent copies by thinning, with symmetric noise if the signal is psd."""
        if self.counts:
            half = thinned(np.triu(self.M) if self.psd else self.M, "poisson", count, self.seed)
            if not self.psd:
                return half
            mirrored = np.triu(half.means, 1).transpose(0, 2, 1)
            return Copies(half.means + mirrored, half.counts)
        made = thinned(self.M, noise, count, self.seed)
        if not self.psd:
            return made
        away = made.means - self.M
        away = (away + away.transpose(0, 2, 1)) / math.sqrt(2.0)
        return Copies(self.M + away, made.counts)

    def grid(self, noise: float, lams: Any, taus: Any, n_lams: int, n_taus: int) -> Grid:
        """Weights and radii to try; None stands for those of the default grid."""
        found = default_grid(self.M, noise, n_lams=n_lams, n_taus=n_taus, psd=self.psd)
        weights = found.lams
        if lams is not None:
            weights = numbers("lams", np.ravel(lams).tolist(), zero=True)
        if taus is None:
            taus = found.taus[[int(np.argmin(np.abs(found.lams - lam))) for lam in weights]]
        return as_grid(weights, taus if np.ndim(taus) else [taus])

    def held_out(self, copies: Copies, grid: Grid, **more: Any) -> HeldOut:
        """Errors on copies that are left out; keywords go to `selection.held_out`."""
        more |= {"rank": self.rank, "seed": self.seed, "progress": self.progress}
        more["refit"] = is_auto(self.debias)
        more["tol"] = CHOOSING
        seconds = self.deadline.left
        return held_out(copies, grid, spectral=self.ball, max_seconds=seconds, **more)

    def search(
        self,
        noise: float,
        lam: float | None = None,
        tau: float | None = None,
        *,
        repeats: int = REPEATS,
    ) -> Choice:
        """The weight and radius whose answers are nearest to the copies left out.

        Low rank alone (lam = 0) is tried first, then rising weights as long as the error on the
        folds falls. The nested simple models, the data themselves and soft thresholding alone,
        have closed forms and are always tried. Of candidates that differ by less than a
        standard error, the simplest kind of model and the least radius are chosen.

        Candidates that the copies hardly distinguish are compared by further sets of copies,
        so that the choice does not depend on the random numbers of one set. The standard
        error remains that of one set: further sets do not make the noise of M smaller.
        """
        tried = self._compared(noise, lam, tau)
        found, again = tried.choice(), noise > 0.0 and self.M.size <= REPEATED
        some = tried.undecided() if again else []
        further = self._further(noise, [tried.points[i] for i in some], repeats) if some else []
        if not further:
            return found
        return replace(tried.again(some, further).choice(), table=found.table)

    def _compared(self, noise: float, lam: float | None, tau: float | None) -> Tried:
        """The comparison of candidates by one set of copies."""
        key = (noise, lam, tau, self.debias, self.seed)
        if key in self._known:
            return self._known[key]
        grid = self.grid(noise, lam, tau, *QUICK)
        copies = self.copies(noise, self.folds)
        tried = Tried(self.debias, folds=self.folds, simplest=self.simplest)
        if lam is None and tau is None and not self.deadline.passed:
            simple = _simple_points(self.M, grid)
            tried.add(simple, _closed_forms(copies, simple))
        best = math.inf
        for i in reversed(range(len(grid.lams))):  # weights fall along the grid
            row = Grid(grid.lams[i : i + 1], grid.taus[i : i + 1])
            if tau is None and row.lams[0] > 0.0 and lam is None:
                row = Grid(row.lams, row.taus[:, :-1])  # the last is soft thresholding alone
            elif tau is None and lam is None:  # a finer row costs little without an l1 norm
                middle = 0.5 * (row.taus[:, 1:] + row.taus[:, :-1])
                row = Grid(row.lams, np.sort(np.concatenate([row.taus, middle], axis=1)))
            kind = BOTH if row.lams[0] else LOW_RANK
            found = self._row(copies, row, tried if kind == BOTH else None)
            if found is None:
                break
            tried.add(candidates(row, kind), found)
            before, best = best, min(best, tried.least)
            if self.deadline.passed or best >= before:
                break
        self._known[key] = tried
        return tried

    def _row(self, copies: Copies, row: Grid, tried: Tried | None) -> HeldOut | None:
        """Errors of a row on copies that are left out; None if it is clearly worse.

        For a large matrix, the first copies show whether the others are worth the time.
        """
        if tried is None or self.M.size <= REPEATED or len(copies) <= FIRST:
            return self.held_out(copies, row)
        first = self.held_out(copies, row, folds=FIRST)
        if len(first.constants) < FIRST:  # no time
            return first
        if tried.surpasses(first):
            return None
        others = self.held_out(copies, row, folds=range(FIRST, len(copies)))
        return HeldOut.joined([first, others], folds=True)

    def _further(self, noise: float, points: list[Candidate], repeats: int) -> list[HeldOut]:
        """Comparisons of candidates with further sets of copies, as time allows."""
        seeds = stream(self.seed, REPEATING).integers(2**31, size=repeats - 1)
        simple = [point for point in points if point.kind in (COPY, SOFT)]
        lams = sorted({point.lam for point in points if point not in simple})
        order = simple + [p for lam in lams for p in points if p not in simple and p.lam == lam]
        back = [order.index(point) for point in points]
        found = []
        for seed in seeds.tolist():
            other = replace(self, seed=seed)
            copies = other.copies(noise, self.folds)
            parts = [_closed_forms(copies, simple)] if simple else []
            for lam in lams:
                taus = [p.tau for p in order if p not in simple and p.lam == lam]
                row = Grid(np.array([lam]), np.array([taus]))
                parts.append(other.held_out(copies, row).flat())
            if self.deadline.passed:  # parts may be incomplete
                break
            found.append(HeldOut.joined(parts, folds=False).some(back))
        return found

    def noise(self, first: float | None = None) -> float:
        """The noise level after a first fit, from a first estimate.

        Estimates from one matrix mistake signal for noise if it is neither low-rank nor
        sparse. If the residual of a first fit shows clearly less noise, that level is
        returned, unless it is below the precision of the data. If most entries are equal, the
        residual's median is that of a rounding error, and the first estimate is kept.
        """
        if self.counts:
            return math.sqrt(float(self.M.mean()))
        first = noise_level(self.M) if first is None else first
        if first == 0.0 or noise_level(self.M, "entries") == 0.0:
            return first
        found = replace(self, debias=bool(self.debias)).search(first, repeats=1)
        point = Grid(np.array([found.lam]), np.array([[found.tau]]))
        how: Any = {"tol": CHOOSING, "seed": self.seed, "deadline": self.deadline}
        _, _, fit = next(walk(Denoising(self.M), point, L1, self.ball, **how))
        left = noise_level(self.M - found.scale * fit.low_rank.dense(), "entries")
        return left if resolution(self.M) < left < CLEARLY * first else first


def choose_weights(
    M: Any, lam: float | None, tau: float | None, *, max_seconds: float | None, **settings: Any
) -> tuple[float, Choice]:
    """Choose the noise level of a matrix, and the weight and radius if not given.

    The choice is the same as in `SparseLowRank`, also for a matrix in tiles or on disk. If
    there is not enough memory for copies of it, a random part of its rows and columns is used:
    lam refers to single entries, and singular values fall like the root of the number of
    entries. At most three quarters of `max_seconds` are used, since the final solve needs
    the rest. Keywords are those of `NoisyMatrix`. Data of extreme size are measured in another
    unit, since fourth powers are computed.
    """
    part = M
    if (settings.get("folds", COPIES) + SEARCH_ARRAYS) * 8 * math.prod(M.shape) > room():
        part = _part(M, settings.get("psd", False), settings.get("seed", 0))
    deadline = Deadline.after(max_seconds).share()
    values = matrix("M", np.asarray(part[:]))
    counts, unit = is_poisson(values), _unit(values)
    data = NoisyMatrix(values / unit, counts=counts, deadline=deadline, **settings)
    smaller = math.sqrt(data.M.size / math.prod(M.shape)) / unit
    noise = data.noise()
    known = (None if lam is None else lam / unit, None if tau is None else tau * smaller)
    found = data.search(noise, *known)
    lam = unit * found.lam if lam is None else lam
    tau = found.tau / smaller if tau is None else tau
    return unit * noise, replace(found, lam=lam, tau=tau)


def _unit(values: Values) -> float:
    """A power of two that makes entries of extreme size about one; 1 for all others."""
    most = float(np.abs(values).max())
    if most == 0.0 or ORDINARY[0] <= most <= ORDINARY[1]:
        return 1.0
    return math.ldexp(1.0, math.frexp(most)[1])


def _part(M: Any, psd: bool, seed: int) -> Values:
    """Random rows and columns of a matrix, about `SAMPLE` entries; the same ones for psd."""
    rng = stream(seed, THINNING)
    share = min(1.0, math.sqrt(SAMPLE / math.prod(M.shape)))
    kept = [np.sort(rng.permutation(n)[: max(1, round(share * n))]) for n in M.shape]
    rows, columns = (kept[0], kept[0]) if psd else kept
    found = []
    for block in row_blocks(M):
        here = rows[slice(*np.searchsorted(rows, [block.start, block.stop]))]
        if here.size:
            found.append(np.asarray(M[block])[np.ix_(here - block.start, columns)])
    return np.concatenate(found)

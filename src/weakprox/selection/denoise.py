"""How lam and tau are chosen for a noisy matrix, in Python and on the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from weakprox._minimize import minimize
from weakprox.linalg.arrays import row_blocks
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.resources.memory import room
from weakprox.selection.copies import THINNING, Copies, thinned
from weakprox.selection.grid import Grid, as_grid, default_grid
from weakprox.selection.held_out import HeldOut, held_out
from weakprox.selection.noise import Values, is_poisson, matrix, noise_level, resolution
from weakprox.selection.search import Deadline, Scores, Weights, least, stream
from weakprox.spectral import NuclearBall, TracePSD

COPIES = 5  # that one matrix is split into; one of them is held out
QUICK = (6, 5)  # weights and radii that are tried
ROUGH = 1e-3  # relative accuracy of the fit whose residual shows the noise
SEARCH_ARRAYS = 8  # of the size of the matrix that the search needs besides the copies
SAMPLE = 1_000_000  # entries to choose by if the copies do not fit into memory
CLEARLY = 0.9  # a second noise level counts if it is below this share of the first


@dataclass(frozen=True)
class Choice:
    """Weight, radius, the factor that undoes their shrinkage, and what was tried."""

    lam: float
    tau: float
    scale: float
    table: dict[str, Any]


@dataclass(frozen=True)
class NoisyMatrix:
    """A matrix with noise in its entries, and the settings of the search on it."""

    M: Values
    counts: bool = False  # whether the entries are Poisson counts
    psd: bool = False  # whether the signal is symmetric positive semidefinite
    rank: int | None = None  # of the answers, at most
    debias: bool = True  # whether answers are rescaled before they are compared
    seed: int = 0
    deadline: Deadline = Deadline()  # noqa: RUF009 (immutable)
    progress: bool | Literal["auto"] = False

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
        weights = found.lams if lams is None else np.ravel(lams)
        if taus is None:
            taus = found.taus[[int(np.argmin(np.abs(found.lams - lam))) for lam in weights]]
        return as_grid(weights, taus if np.ndim(taus) else [taus])

    def held_out(self, copies: Copies, grid: Grid, **more: Any) -> HeldOut:
        """Errors on copies that are left out; keywords go to `selection.held_out`."""
        more |= {"rank": self.rank, "seed": self.seed, "progress": self.progress}
        seconds = self.deadline.left
        return held_out(copies, grid, spectral=self.ball, max_seconds=seconds, **more)

    def search(
        self, noise: float, lam: float | None = None, tau: float | None = None
    ) -> Choice:
        """The weight and radius whose answer is nearest to one copy that was left out."""
        grid = self.grid(noise, lam, tau, *QUICK)
        found = self.held_out(self.copies(noise, COPIES), grid, folds=None)
        return self.choice(grid, found)

    def choice(self, grid: Grid, found: HeldOut, index: int | None = None) -> Choice:
        """The point of least mean error, or the one of this index, and the whole table."""
        errors = found.errors(debias=self.debias).reshape(len(found.constants), -1)
        scales = found.scales(debias=self.debias).ravel()
        lams = np.repeat(grid.lams, grid.shape[1])
        pairs = zip(lams.tolist(), grid.taus.ravel().tolist(), strict=True)
        points = [Weights(*pair) for pair in pairs]
        best = least(errors) if index is None else index
        table = Scores(points, errors).table(scale=scales)
        return Choice(*points[best], float(scales[best]), table)

    def noise(self, first: float | None = None) -> float:
        """The noise level after a first fit, from a first estimate.

        Estimates from one matrix mistake signal for noise if it is neither low-rank nor
        sparse. If the residual of a first fit shows clearly less noise, that level is
        returned, unless it is below the precision of the data. Where most entries are equal,
        the residual's median is that of a rounding error, and the first estimate is kept.
        """
        if self.counts:
            return math.sqrt(float(self.M.mean()))
        first = noise_level(self.M) if first is None else first
        if first == 0.0 or noise_level(self.M, "entries") == 0.0:
            return first
        found = self.search(first)
        problem = Problem(Denoising(self.M), L1(found.lam), self.ball(found.tau))
        settings: dict[str, Any] = {"max_seconds": self.deadline.left, "progress": False}
        fit = minimize(problem, tol=ROUGH, seed=self.seed, **settings).X
        left = noise_level(self.M - found.scale * fit, "entries")
        return left if resolution(self.M) < left < CLEARLY * first else first


def choose_weights(
    M: Any, lam: float | None, tau: float | None, *, max_seconds: float | None, **settings: Any
) -> tuple[float, Choice]:
    """Noise level of a matrix, and the weight and radius that are not given.

    The choice is that of `SparseLowRank`, also for a matrix in tiles or on disk. If there is
    not enough memory for copies of it, a random part of its rows and columns is used: lam
    refers to single entries, and singular values fall like the root of the number of
    entries. At most three quarters of `max_seconds` are used, since the final solve needs
    the rest. Keywords are those of `NoisyMatrix`.
    """
    part = M
    if (COPIES + SEARCH_ARRAYS) * 8 * math.prod(M.shape) > room():
        part = _part(M, settings.get("psd", False), settings.get("seed", 0))
    deadline = Deadline.after(max_seconds).share()
    values = matrix("M", np.asarray(part[:]))
    counts = is_poisson(values)
    data = NoisyMatrix(values, counts=counts, deadline=deadline, **settings)
    smaller = math.sqrt(data.M.size / math.prod(M.shape))
    noise = data.noise()
    found = data.search(noise, lam, None if tau is None else tau * smaller)
    return noise, replace(found, tau=found.tau / smaller if tau is None else tau)


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

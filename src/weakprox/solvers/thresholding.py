"""Singular value thresholding: the solution for a squared distance to a sparse matrix.

The minimiser of |X - C|^2/2 + h(X) is the proximal point of C, which has the leading singular
vectors of C (Cai, Candes & Shen, 2010). C is sparse, or sparse plus low rank, and is only
multiplied by thin blocks. As many triplets are computed as the solution has, and as accurately
as the proof needs. Nothing of the size of X is stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.thresholded import ThresholdedDual
from weakprox.errors import InputError
from weakprox.linalg._thin_svd import FRESH, FULL_SHARE, thin_svd
from weakprox.linalg.arrays import Array
from weakprox.linalg.filtered import filtered, ritz
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import products
from weakprox.linalg.tiled import Factored, Tile
from weakprox.passes import ValueForm
from weakprox.problem import Problem
from weakprox.protocols import Candidate, OwnBound
from weakprox.resources.memory import room
from weakprox.solvers._gap_driven import GapDriven, GapParameters, InFactors, TooWide
from weakprox.solvers.base import ARRAYS, Method, Tools
from weakprox.solvers.davis_yin import DavisYin

FIRST_WIDTH = 16  # triplets of the first decomposition
# relative residual: initial value, its decrease, final value
ACCURACY, FINER, LEAST = 1e-3, 0.03, 1e-14
FILTER, SLOWER = 3e-3, 0.3  # relative residual down to which a filter is used, and its decrease
THIN = 64  # bytes for each row, column and triplet, of the next, wider decomposition
CAUTION = 10.0  # factor of the estimated gap while some directions may be missing
AS_GIVEN = 1.0  # assumed accuracy of the first point's vectors
SWEEPS = 30  # sweeps of one decomposition from a good start


@dataclass(frozen=True)
class Memory(InFactors):
    """State between two steps: the point, and what the next decomposition starts from."""

    V: LowRank
    parameters: GapParameters
    basis: Array | None = None  # right singular vectors of C
    edge: float = 0.0  # a singular value below those of the solution
    norm: float = 0.0  # largest
    width: int = FIRST_WIDTH
    accuracy: float = ACCURACY
    rank: int = 0
    epoch: int = 0
    cut: bool = False  # whether the cap on the rank omitted triplets
    value: float | None = None


@dataclass(frozen=True)
class Thresholding(GapDriven):
    """Proximal point of a sparse matrix, from leading singular triplets.

    G is `Denoising` of a SciPy sparse matrix or a `LowRankPlusSparse`, R is zero, and h is
    `NuclearNorm` or `NuclearBall`. Memory grows with the number of stored entries and with
    (m + d) times the rank. It is the default for such problems. `DavisYin` takes over if the
    solution has a large share of all triplets and dense arrays fit in memory.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the solution.
    """

    rank: int | None = None
    elsewhere: ClassVar[bool] = True
    suits: ClassVar[str] = (
        "Denoising of a large sparse matrix, no penalty, NuclearNorm or NuclearBall"
    )
    needs: ClassVar[tuple[str, ...]] = ("loss.target", "spectral.form")

    @property
    def fallback(self) -> Method:
        """The method for solutions that are not low-rank."""
        return DavisYin(rank=self.rank)

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return problem.sparse_target is not None

    def start(self, problem: Problem, X: Array | LowRank | None, tools: Tools) -> Memory:
        """Start from the row space of the first point, or from a random block."""
        C, _ = _terms(problem)
        parameters = GapParameters(tools.eps, 1.0, 1.0)
        if X is None:
            return Memory(LowRank.zero(C.shape, np.empty(0)), parameters)
        given = tools.compressed(X)
        basis = np.asarray(given.Vt.T, dtype=float)
        return Memory(given, parameters, basis, width=int(basis.shape[1]), accuracy=AS_GIVEN)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Decompose C, and report the proximal point in the span of the triplets."""
        C, form = _terms(problem)
        least, width, basis = min(C.shape), min(memory.width, *C.shape), memory.basis
        rng, accuracy = tools.rng(memory.epoch), memory.accuracy
        while True:
            V = self._leading(C, width, basis, accuracy, memory, rng, tools)
            found = ritz(products(C), V, quick=accuracy > FILTER)
            U, s, V = found.U, found.s, found.Vt.T
            values = form.prox(s, 1.0)
            rank = int((values > 0.0).sum())
            if rank < len(s) or len(s) >= least or (self.rank or least) < rank:
                break
            if 2 * width >= FULL_SHARE * least and _dense_fits(problem):
                raise TooWide
            if THIN * width * sum(C.shape) > room():
                given = f"a solution of rank {rank} or more, which does not fit in memory"
                raise InputError("problem", given, "a smaller ball or a larger weight")
            width, basis, accuracy = min(least, 2 * width), None, min(accuracy, ACCURACY)
        cut = self.rank is not None and rank > self.rank
        if cut:
            values[self.rank :] = 0.0
        kept = max(1, int((values > 0.0).sum()))
        X = LowRank(U[:, :kept], values[:kept], V[:, :kept].T)
        dual = ThresholdedDual.of(C, U, s, V, values, form)
        value = dual.value + problem.spectral.value(X)
        dual = replace(dual, aim=max(tools.accuracy(value), 1e-300))
        filters, more = accuracy > FILTER, rank + max(4, rank // 8)
        after = replace(
            memory,
            V=X,
            basis=V,
            edge=float(s[rank + (len(s) - rank) // 2 if rank < len(s) else -1]),
            norm=float(s[0]),
            width=min(least, max(width, more) if filters else width + max(4, width // 8)),
            accuracy=accuracy * (SLOWER if filters else FINER),
            rank=X.rank,
            epoch=memory.epoch + 1,
            cut=cut,
            value=value,
        )
        gap = (CAUTION if filters else 1.0) * (value - dual.estimate)
        tools.tick(_candidate(after, gap, dual))
        return after

    def finished(self, memory: Memory) -> bool:
        """Return True if the triplets cannot become more accurate."""
        return memory.accuracy < LEAST or (memory.cut and memory.epoch > 1)

    def stalled(self, memory: Memory) -> int:
        """Return 0: computations are in float64 even for float32 data."""
        return 0

    def affordable(self, problem: Problem) -> bool:
        """Return False: a dense proof would store X."""
        return False

    def candidate(self, memory: Memory) -> Candidate:
        return _candidate(memory, math.nan)

    def dual(self, problem: Problem, memory: Memory) -> ThresholdedDual:
        """The dual point C - X."""
        C, form = _terms(problem)
        basis = memory.V.Vt.T if memory.basis is None else memory.basis
        at = ritz(products(C), np.asarray(basis, dtype=float))
        values = form.prox(at.s, 1.0)
        return ThresholdedDual.of(C, at.U, at.s, at.Vt.T, values, form)

    def _leading(
        self,
        C: Factored,
        width: int,
        basis: Tile | None,
        accuracy: float,
        memory: Memory,
        rng: np.random.Generator,
        tools: Tools,
    ) -> Tile:
        """Right singular vectors of C for its `width` largest values.

        A basis becomes more accurate by one filter at a time: the proof of a solution of
        large rank often needs little accuracy.
        """
        if basis is not None and accuracy == AS_GIVEN:
            return basis
        if basis is not None and accuracy > FILTER:
            ops, fresh = products(C), max(FRESH, width - int(basis.shape[1]))
            random = rng.standard_normal((C.shape[1], fresh))
            random -= basis @ (basis.T @ random)  # in search of other directions
            block = np.hstack([basis[:, : width - fresh], random])
            block = filtered(ops, block, memory.edge, memory.norm)
            tools.spectral.counted(width, ops.passes)
            return block
        if basis is None:  # ARPACK is the fastest from a cold start
            found = thin_svd(C, width, tol=accuracy, method="arpack", rng=rng, strict=False)
        else:
            named: dict[str, Any] = {"method": "block", "strict": False, "max_sweeps": SWEEPS}
            found = thin_svd(C, width, start=basis, tol=accuracy, rng=rng, **named)
        tools.spectral.counted(width, found.passes)
        V: Tile = found.triplets.Vt.T
        return V


def _candidate(memory: Memory, gap: float, dual: OwnBound | None = None) -> Candidate:
    X: Any = memory.V
    epoch = memory.epoch
    return Candidate(X, X, 0.0, epoch, epoch, gap=gap, dual=dual, value=memory.value)


def _terms(problem: Problem) -> tuple[Factored, ValueForm]:
    target, form = problem.sparse_target, problem.of_spectral.form
    assert target is not None
    assert form is not None
    return target.in_float64(), form


def _dense_fits(problem: Problem) -> bool:
    """Return True if there is room for the arrays of the fallback."""
    return 8 * ARRAYS["DavisYin"].most * math.prod(problem.shape) <= room()

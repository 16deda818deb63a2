"""Accelerated proximal gradient steps in factors, for losses of all cells of a matrix.

Beck & Teboulle, "A Fast Iterative Shrinkage-Thresholding Algorithm", 2009, with restarts by
the gradient (O'Donoghue & Candes, 2015). The target of a step, T = Y + q/L with
Y = (1+b) X - b X', is computed in blocks of rows and multiplied by a warm block B at once: one
pass over the data gives Z = T B and T'Z. Those are a power step, from which the leading
triplets of T follow, the value and the dual value at Y, and an estimate of the norm of q,

    q'Q = L (T'Q - Y'Q),  Q an orthonormal basis of Z.

The steps start near the solution for the squared loss: from zero, a Huber loss would let X grow
by k in each step. When the estimated gap at Y is small enough, the next step has no momentum,
so that its pass is at X itself, and a proof is tried there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from weakprox.certificates.cells import CellsDual, estimate
from weakprox.linalg.arrays import Array, gaussian, gram, like, namespace, wide
from weakprox.linalg.decompositions import eigh, eigvalsh, orthonormaliser, svd
from weakprox.linalg.gram_svd import product
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.cells import Cells, Sums
from weakprox.passes import ValueForm
from weakprox.passes.ritz import whitened
from weakprox.problem import Problem
from weakprox.protocols import Candidate
from weakprox.solvers._gap_driven import STRETCH, GapDriven, GapParameters, InFactors
from weakprox.solvers.base import Tools

FIRST_WIDTH = 16  # width of the block of the first decomposition
POWERS = 2  # passes over the data for the first point
# columns of a block in addition to the rank: least number, and share of the rank
SPARE, EIGHTH = 4, 8
LESS = 0.5  # share of an estimated gap whose proof failed, at which the next proof is tried
# eigenvalues of a Gram matrix, relative to the largest, below which they are rounding errors
DEPENDENT = 1e-12
GRADED = 1e-5  # singular values, relative to the largest, which squares show accurately enough


@dataclass(frozen=True)
class Memory(InFactors):
    """State between two steps."""

    V: LowRank
    before: LowRank
    block: Array
    shown: LowRank  # the last point whose value is known
    parameters: GapParameters
    last: float = math.inf  # f there
    rank: int = 0
    momentum: float = 1.0
    epoch: int = 0
    done: int = 0
    value: float = math.inf  # best value seen
    gap: float = math.inf
    progress: int = 0  # step that last improved the gap by a hundredth
    below: float = math.inf  # estimates of the gap from this one upwards could not be proved
    cut: bool = False  # whether the cap on the rank omitted triplets


@dataclass(frozen=True)
class DenseProximal(GapDriven):
    """Proximal gradient steps with X in factors, for losses of all cells of a matrix.

    G is `Denoising(M, loss=..., weights=...)`, R is zero, and h is `NuclearNorm` or
    `NuclearBall`. Each step is one pass over M and stores nothing of its size. It is the
    default for such problems.

    Parameters
    ----------
    rank : int, optional
        Largest rank of the solution.
    """

    rank: int | None = None

    factored: ClassVar[bool] = True
    double: ClassVar[bool] = True
    suits: ClassVar[str] = (
        "Denoising with a loss or weights, no penalty, NuclearNorm or NuclearBall"
    )
    needs: ClassVar[tuple[str, ...]] = ("loss.cells", "spectral.form")

    @staticmethod
    def applies(problem: Problem) -> bool:
        """Return True if the problem has the required form."""
        return problem.cells is not None

    def start(self, problem: Problem, X: Array | LowRank | None, tools: Tools) -> Memory:
        """Start from the user's point, or from one near the solution for the squared loss."""
        cells, form = _terms(problem)
        steps = Steps(cells, form, self.rank)
        reference = cells.reference
        width = min(FIRST_WIDTH, *cells.shape)
        block = gaussian(tools.rng(0), (cells.shape[1], width), reference)
        first = LowRank.zero(cells.shape, reference)
        parameters = GapParameters(tools.eps, 0.0, cells.smoothness)
        if X is not None:
            given = tools.compressed(X)
            first = LowRank(wide(given.U), wide(given.s), wide(given.Vt))
            if self.rank is not None:
                first = first.leading(self.rank)
            block = steps.wider(first.Vt.T, min(first.rank + width, *cells.shape))
        elif cells.residual:
            rough = Steps(cells.squared(), form, self.rank)
            for _ in range(POWERS):
                tools.spectral.counted(int(block.shape[1]), 2)
                found = rough.stepped(first, block)
                block = found.block
            first = found.V
        return Memory(first, first, block, first, parameters, rank=first.rank)

    def candidate(self, memory: Memory) -> Candidate:
        """The last point."""
        V: Any = memory.V
        return Candidate(V, V, 0.0, memory.epoch, memory.done, gap=math.nan)

    def dual(self, problem: Problem, memory: Memory) -> CellsDual:
        """The dual point at X."""
        return CellsDual(*_terms(problem), memory.V)

    def step(self, problem: Problem, memory: Memory, tools: Tools) -> Memory:
        """Make a stretch of steps."""
        cells, form = _terms(problem)
        steps, state = Steps(cells, form, self.rank), memory
        for k in range(memory.done + 1, memory.done + STRETCH + 1):
            state = replace(self._moved(problem, state, steps, tools, k), done=k)
        return replace(state, epoch=memory.epoch + 1)

    def _moved(
        self, problem: Problem, state: Memory, steps: Steps, tools: Tools, k: int
    ) -> Memory:
        """One accelerated step, and a report of the point it started from."""
        X = state.V
        ahead = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        b = (state.momentum - 1.0) / ahead
        Y = _extrapolated(X, state.before, b) if b else X
        tools.spectral.counted(int(state.block.shape[1]), 2)
        tools.loss.counted(1)
        found = steps.stepped(Y, state.block)
        h = steps.form.lam * _nuclear_norm(Y) if b else problem.spectral.value(X)
        value = found.sums.value + h
        gap = max(0.0, value - estimate(steps.form, found.sums, found.norm))
        known: dict[str, Any] = {}
        dual = None
        if not b:
            known = {"shown": X, "last": value, "value": min(value, state.value)}
            dual = CellsDual(steps.cells, steps.form, X)
        if gap < 0.99 * state.gap:
            known |= {"gap": gap, "progress": k}
        state = replace(state, **known)
        S: Any = state.shown
        told: dict[str, Any] = {"gap": gap if dual is not None else math.nan, "dual": dual}
        told["value"] = state.last if math.isfinite(state.last) else None
        tools.tick(Candidate(S, S, 0.0, state.epoch, k, **told))
        enough = min(tools.accuracy(value), state.below)
        near = gap <= enough  # without momentum, a proof has just failed
        V = found.V
        uphill = False
        if b:  # <Y - V, V - X> is positive if the momentum leads uphill
            across = (2.0 + b) * X.inner(V) - b * state.before.inner(V)
            across += b * state.before.inner(X) - (1.0 + b) * X.sqnorm
            uphill = across > V.sqnorm
        return replace(
            state,
            V=V,
            before=X,
            block=found.block,
            rank=V.rank,
            momentum=1.0 if uphill or (b and near) else ahead,
            below=LESS * gap if near and not b else state.below,
            cut=found.cut,
        )


@dataclass(frozen=True)
class Stepped:
    """The proximal point of a step, and what its pass shows about the previous point."""

    V: LowRank
    block: Array
    sums: Sums
    norm: float  # of q, estimated from below
    cut: bool


@dataclass(frozen=True)
class Steps:
    """Proximal steps on one problem."""

    cells: Cells
    form: ValueForm
    cap: int | None

    def stepped(self, Y: LowRank, block: Array) -> Stepped:
        """Return the proximal point of Y + q/L in the span of a power step from the block."""
        steep = self.cells.smoothness
        Z, W, sums = self.cells.stepped(Y, block, steep)
        turn = _independent(gram(Z))
        Q, B = Z @ like(turn, Z), W @ like(turn, W)  # B is T'Q
        rest = B - Y.Vt.T @ (Y.s[:, None] * (Y.U.T @ Q))
        norm = steep * math.sqrt(max(0.0, float(eigvalsh(gram(rest))[-1])))
        s, left, right = _decomposed(B)
        kept = self.form.prox(s, 1.0 / steep)
        cut = self.cap is not None and bool((kept[self.cap :] > 0.0).any())
        if self.cap is not None:
            kept[self.cap :] = 0.0
        rank = int((kept > 0.0).sum())
        count, width = max(rank, 1), int(block.shape[1])
        wanted = rank + max(SPARE, rank // EIGHTH)
        if rank >= len(s) and self.cap is None:  # the block may miss triplets that are kept
            wanted = 2 * width
        following = self.wider(right, min(wanted, *self.cells.shape))
        V = LowRank(Q @ like(left[:, :count], Q), like(kept[:count], Q), right[:, :count].T)
        return Stepped(V, following, sums, norm, cut)

    def wider(self, V: Array, width: int) -> Array:
        """The first columns of a block, with random ones added up to this width."""
        missing = width - int(V.shape[1])
        if missing <= 0:
            return V[:, :width]
        rng = np.random.default_rng(int(V.shape[1]))
        more = gaussian(rng, (int(V.shape[0]), missing), V) * (1.0 / math.sqrt(V.shape[0]))
        return namespace(V).concat([V, more], axis=1)


def _terms(problem: Problem) -> tuple[Cells, ValueForm]:
    cells, form = problem.cells, problem.of_spectral.form
    assert cells is not None
    assert form is not None
    return cells, form


def _independent(G: Any) -> Any:
    """The matrix that orthonormalises columns with Gram matrix G, without dependent ones."""
    turn = orthonormaliser(G)
    if turn is not None:
        return turn
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(G), float(np.finfo(float).tiny)))
    values, vectors = eigh(G * scale * scale[:, None])
    kept = values > DEPENDENT * max(float(values[-1]), float(np.finfo(float).tiny))
    kept[-1] = True
    lengths = np.sqrt(np.maximum(values[kept], float(np.finfo(float).tiny)))
    return scale[:, None] * vectors[:, kept] / lengths


def _decomposed(B: Array) -> tuple[Any, Any, Array]:
    """Singular values of B', its left vectors on the host, and its right ones."""
    squares, turn = eigh(gram(B))
    s = np.sqrt(np.maximum(squares[::-1], 0.0))
    if s[-1] > GRADED * s[0]:
        turn = np.ascontiguousarray(turn[:, ::-1])
        return s, turn, B @ like(turn / s, B)
    P = whitened(B)  # squares lose the small values
    right, s, left = svd(np.asarray(product(P, B), dtype=float))
    return s, np.ascontiguousarray(left.T), P @ like(right, P)


def _extrapolated(X: LowRank, before: LowRank, b: float) -> LowRank:
    """(1 + b) X - b X' as factors, which are not orthogonal."""
    xp = namespace(X.U)
    s = xp.concat([(1.0 + b) * X.s, -b * before.s])
    U, Vt = xp.concat([X.U, before.U], axis=1), xp.concat([X.Vt, before.Vt], axis=0)
    return LowRank(U, s, Vt)


def _nuclear_norm(Y: LowRank) -> float:
    """Estimate of the nuclear norm of U s V', whose factors are not orthogonal.

    Squared singular values are the eigenvalues of a product of two Gram matrices.
    """
    left, right = gram(Y.U * Y.s), gram(Y.Vt.T)
    squares, turn = eigh(left)
    root = turn * np.sqrt(np.maximum(squares, 0.0))
    return float(np.sqrt(np.maximum(eigvalsh(root.T @ right @ root), 0.0)).sum())

"""The splitting of `solvers.DavisYin` for a path of small problems, in a few calls of NumPy.

The work on a matrix with a few thousand entries takes less time than the rest of a run, and
also than the general steps of `_lean`, which serve blocks of rows, workers and devices. Here a
step is a thin decomposition from the last block, or a full one if the point is not low-rank,
and one pass over the entries. The formulas are those of `passes.reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg.decompositions import orthonormaliser, small_eigh, svd
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, ValueForm
from weakprox.problem import Problem
from weakprox.selection._lean import INEXACT, SPARE, TINY, Solved, block_of
from weakprox.solvers.base import Warmth
from weakprox.solvers.davis_yin import balanced

Matrix = np.ndarray[Any, np.dtype[np.float64]]

ENTRIES = 1 << 17  # of the largest matrix; for larger ones the general steps take less time
MOST = 300  # number of steps after which a method with acceleration takes over
HIDDEN = 3  # columns of a block, at least, that show values below those that are kept
SWEEPS = 4  # power steps after which a full decomposition is faster
WIDE = 2  # reciprocal of the share of the columns from which it is faster at once
LOST = 1e-6  # values, relative to the largest, that squares do not show accurately
NEGLIGIBLE = 1e-14  # values of a point, relative to the largest, that count as zero


class Triplets(NamedTuple):
    """Leading triplets or eigenpairs, in descending order."""

    U: Matrix
    s: Matrix
    V: Matrix


def applies(problem: Problem) -> bool:
    """Return True for small matrices and slopes that are alike for all entries.

    `_lean.applies` must hold.
    """
    step = problem.entrywise()
    plain = step is not None and not (step.weighted or step.shifted or step.grouped)
    return plain and math.prod(problem.shape) <= ENTRIES


@dataclass
class _Target:
    """The target z of a splitting, and the proximal points of h there."""

    z: Matrix
    form: ValueForm
    block: Matrix | None  # that the next thin decomposition starts from
    svds: int = 0  # decompositions so far

    def point(self, gamma: float, allowed: float) -> tuple[Triplets, Matrix, float]:
        """Triplets of z, the values of the proximal point, and its error, times gamma.

        The error is estimated as in `_lean`. Power steps are repeated until it is at most
        `allowed`; if that takes too many, or if the block may miss a value that is kept, the
        decomposition is a full one.
        """
        product = None
        least = min(self.z.shape)
        for _ in range(SWEEPS):
            if self.block is None or WIDE * self.block.shape[1] > least:
                break
            found, product = self._thin(self.z @ self.block if product is None else product)
            self.svds += 1
            p, r = self._kept(found.s, gamma)
            last = found.s[r - 1]
            if np.count_nonzero(np.abs(found.s) >= last) > len(found.s) - HIDDEN:
                break
            if not last > LOST * found.s[0]:
                break
            s = found.s[:r]
            away = product[:, :r] - found.U[:, :r] * s
            apart = np.maximum(s - max(0.0, found.s[r]), s - p + TINY)
            lost = float(p @ (np.einsum("ij,ij->j", away, away) / apart))
            if lost <= allowed:
                self.block = found.V
                return found, p, lost
            self.block = found.V
        found = self._full()
        self.svds += 1
        p, r = self._kept(found.s, gamma)
        self.block = found.V[:, : r + SPARE]
        return found, p, 0.0

    def _kept(self, s: Matrix, gamma: float) -> tuple[Matrix, int]:
        """The values of the proximal point that are not negligible, and their number."""
        p = self.form.prox(s, gamma)
        r = max(1, int(np.count_nonzero(p > NEGLIGIBLE * p[0])))
        return p[:r], r

    def _full(self) -> Triplets:
        if self.form.symmetric:
            s, V = small_eigh(self.z)
            s, V = s[::-1], V[:, ::-1]
            return Triplets(V, s, V)
        U, s, Vt = svd(self.z)
        return Triplets(U, s, Vt.T)

    def _thin(self, product: Matrix) -> tuple[Triplets, Matrix]:
        """Triplets from z times the block, and z times their V for another power step."""
        Q = _orthonormal(product)
        if self.form.symmetric:
            B = self.z @ Q
            inside = Q.T @ B
            s, W = small_eigh(0.5 * (inside + inside.T))
            s, W = s[::-1], W[:, ::-1]
            V, image = Q @ W, B @ W
            return Triplets(V, s, V), image
        B = self.z.T @ Q
        squares, W = small_eigh(B.T @ B)
        s, W = np.sqrt(np.maximum(squares[::-1], 0.0)), W[:, ::-1]
        inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > LOST * s[0])
        U, V = Q @ W, B @ (W * inverse)
        return Triplets(U, s, V), self.z @ V


def small_point(
    problem: Problem, past: Warmth | None, tol: float, rng: np.random.Generator
) -> Solved | None:
    """Iterate from the end of a neighbouring run; None if another method is needed."""
    C, step, form = np.asarray(problem.centre()), problem.entrywise(), problem.values_form
    assert step is not None
    assert form is not None
    beta, total = step.beta, step.beta + step.curvature
    if past is None:
        gamma, block = 1.0 / total, None
        z = C * (gamma * beta)
        z -= np.clip(z, -gamma * step.below, gamma * step.above)
    else:
        gamma, block = past.step(total), block_of(past, rng)
        z = gamma * (beta * C - past.pull) + (1.0 - gamma * total) * past.point
    target, bound, value = _Target(z, form, block), -math.inf, 0.5 * beta * float(np.vdot(C, C))
    for _ in range(MOST):
        found, p, lost = target.point(gamma, INEXACT * tol * abs(value) * gamma)
        U, Vt = found.U[:, : len(p)], found.V[:, : len(p)].T
        X = (U * p) @ Vt
        smooth, price, near, far, move = _moved(C, target.z, X, step._replace(gamma=gamma))
        value = smooth + price + form.lam * float(p.sum())
        bound = max(bound, value - near - far - lost / gamma)
        if value - bound <= tol * abs(value):
            break
        change = balanced(near, far, gamma * total)
        if change != 1.0:
            target.z *= change
            target.z += (1.0 - change) * X
            gamma *= change
        target.z += move
    else:
        return None
    # minus the gradient and the dual point of h, at the next target
    pull = (X - target.z - move) * (1.0 / gamma) + beta * (C - X) - step.curvature * X
    np.clip(pull, -step.below, step.above, out=pull)
    answer = LowRank(np.ascontiguousarray(U), p, np.ascontiguousarray(Vt))
    warmth = Warmth(X, pull, price, 1.0 / gamma, len(p), target.block)
    return Solved(answer, value, max(0.0, value - bound), target.svds, warmth)


def _orthonormal(Y: Matrix) -> Matrix:
    """Orthonormal columns with the span of Y, which is nearly orthogonal after a few steps."""
    turn = orthonormaliser(Y.T @ Y)
    return np.linalg.qr(Y)[0] if turn is None else np.asarray(Y @ turn)


def _moved(
    C: Matrix, z: Matrix, X: Matrix, step: Step
) -> tuple[float, float, float, float, Matrix]:
    """The smooth part and the penalty at X, the halves of the gap, and the move of z."""
    gamma, beta, curvature = step.gamma, step.beta, step.curvature
    off = X - C
    smooth = 0.5 * beta * float(np.vdot(off, off))
    if curvature:
        smooth += 0.5 * curvature * float(np.vdot(X, X))
    move = (2.0 - gamma * (beta + curvature)) * X
    move += (gamma * beta) * C
    move -= z
    s = np.clip(move * (1.0 / gamma), -step.below, step.above)
    if step.above == step.below:
        price = step.above * float(np.abs(X, out=off).sum())
    else:
        price = float(np.vdot(np.where(X > 0.0, step.above, -step.below), X))
    near = max(0.0, price - float(np.vdot(s, X)))
    s *= gamma
    move -= s
    move -= X
    far = float(np.vdot(move, move)) / (gamma * gamma) / (2.0 * (beta + curvature))
    return smooth, price, near, far, move

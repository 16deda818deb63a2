"""The splitting without its surroundings: many small, nearly solved problems in a row.

On a path a point takes an iteration or two, and what surrounds them in `minimize` (looks,
traces, proofs, checkpoints) would cost several times as much. For the most common problem,
a squared distance with an l1 norm over a nuclear norm ball in NumPy, this is the iteration
of `solvers.DavisYin` alone. It gives up where an answer turns out not to be low-rank, and
its gap is an estimate: singular values that its block does not show count as small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import is_numpy
from weakprox.linalg.gram_svd import gram_svd
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties import L1
from weakprox.protocols import Penalty, SpectralTerm
from weakprox.selection.noise import Values
from weakprox.solvers.davis_yin import balanced
from weakprox.solvers.warm import Warmth
from weakprox.spectral import NuclearBall

WIDTH = 8  # columns of the block beyond the rank,
SPARE = 3  # of which so many must show values that are cut off,
FRESH = 2  # and so many are random, to find what the others miss
WIDEST = 0.3  # share of the smaller side at which a thin block is no longer one
MOST = 40  # iterations, after which a method with more memory does better
INEXACT = 0.1  # share of the accuracy that a decomposition may cost,
SWEEPS = 12  # and after how many products with it no more are tried
TINY = 1e-300


class Solved(NamedTuple):
    """A point of a path: its answer, what is known about it, and what the next may use."""

    low_rank: LowRank
    value: float
    gap: float
    svds: int
    warmth: Warmth | None = None


class Form(NamedTuple):
    """beta/2 |X - C|^2 + lam |X|_1 over the ball of radius tau."""

    C: Values
    beta: float
    lam: float
    tau: float


def form_of(loss: Any, R: Penalty, ball: SpectralTerm) -> Form | None:
    """The numbers of a problem of this very form; None for others."""
    if type(R) is not L1 or type(ball) is not NuclearBall or not hasattr(loss, "centre"):
        return None
    C = loss.centre(loss.everything())
    if not is_numpy(C) or C.dtype != np.float64:
        return None
    return Form(C, loss.smoothness, R.lam, ball.tau)


def free_radius(form: Form) -> float:
    """A radius from which on the ball has no effect, whatever its tau."""
    X = _shrunk(form)
    return math.sqrt(min(X.shape)) * float(np.linalg.norm(X))


def unconstrained(form: Form) -> Solved | None:
    """The solution without a ball: the soft-thresholded centre."""
    X = _shrunk(form)
    found = gram_svd(X, lambda s: int((s > 1e-6 * s[0]).sum()), min(X.shape))
    if found is None:
        return None
    value = 0.5 * form.beta * float(np.sum((X - form.C) ** 2))
    return Solved(found.triplets, value + form.lam * float(np.abs(X).sum()), 0.0, 1)


def _shrunk(form: Form) -> Values:
    level = form.lam / form.beta
    found: Values = form.C - np.clip(form.C, -level, level)
    return found


def lean_point(
    form: Form, past: Warmth | None, tol: float, rng: np.random.Generator
) -> Solved | None:
    """Iterate from where neighbours ended; None if a more patient method is called for."""
    C, beta, lam, tau = form
    gamma = 1.0 / beta
    if past is None:  # one proximal gradient step from zero
        value = 0.5 * beta * float(np.vdot(C, C))
        z = C - np.clip(C, -lam * gamma, lam * gamma)
        Q: Any = None
    else:
        X, Q = past.point, past.basis
        if lam > 0.0:
            gamma = math.sqrt(gamma / max(beta, past.weight))
        z = C - X
        value = 0.5 * beta * float(np.vdot(z, z)) + past.size
        z *= beta
        z -= past.pull
        z *= gamma
        z += X
    if Q is None:
        Q = z.T @ (z @ rng.standard_normal((C.shape[1], 2 * WIDTH)))
    bound, svds = -math.inf, 0
    last: tuple[Values, Values] | None = None
    for _ in range(MOST):
        found = _projected(z, Q, tau, INEXACT * tol * value * gamma, rng)
        if found is None:
            return None
        V, Q, lost, tried = found
        svds += tried
        X = V.dense()
        move = X - C
        value = 0.5 * beta * float(np.vdot(move, move))
        move *= -gamma * beta
        move += 2.0 * X
        move -= z
        y = move / gamma
        np.clip(y, -lam, lam, out=y)
        size = lam * float(np.abs(X).sum())
        near = max(0.0, size - float(np.vdot(y, X)))
        move -= gamma * y
        move -= X
        far = float(np.vdot(move, move)) / (2.0 * beta * gamma**2)
        value += size
        bound = max(bound, value - near - far - lost / gamma)
        if value - bound <= tol * value:
            warmth = Warmth(X, y, size, 1.0 / gamma, V.rank, Q)
            return Solved(V, value, max(0.0, value - bound), svds, warmth)
        change = balanced(near, far, gamma * beta)
        if change == 1.0:
            end = z + move
            z = end if last is None else _accelerated(move, end, *last)
            last = (move, end)
        else:
            z = change * z + (1.0 - change) * X + move
            gamma, last = gamma * change, None
    return None


def _projected(
    z: Values, Q: Any, tau: float, allowed: float, rng: np.random.Generator
) -> tuple[LowRank, Values, float, int] | None:
    """Projection of z on the ball from the block Q, the next block, loss and sweeps.

    The loss is what inexact triplets cost, by the usual second-order estimate: a residual r
    moves a singular value by about |r|^2 over its distance from those left out.
    """
    smaller, sweeps = min(z.shape), 0
    while True:
        sweeps += 1
        U, _ = np.linalg.qr(z @ Q)
        U, s, Vt = _triplets(U, U.T @ z)
        rank, theta = _kept(s, tau, smaller)
        if rank > s.size - SPARE and s.size < smaller:
            if 2 * s.size > max(2 * WIDTH, WIDEST * smaller):
                return None
            Q = _block(Vt, 2 * s.size, rng)
            continue
        p = s[:rank] - theta
        V = LowRank(U[:, :rank], p, Vt[:rank])
        away = z @ V.Vt.T
        away -= V.U * s[:rank]
        after = float(s[rank]) if rank < s.size else 0.0
        moved = np.einsum("ij,ij->j", away, away) / np.maximum(s[:rank] - after, theta + TINY)
        lost = float(p @ moved)
        if lost <= allowed or sweeps >= SWEEPS:
            width = min(rank + WIDTH, smaller)
            return V, _block(Vt[: width - FRESH], width, rng), lost, sweeps
        Q = Vt.T


def _triplets(U: Values, small: Values) -> tuple[Values, Values, Values]:
    """SVD of U times a matrix with few rows, by that matrix's Gram matrix."""
    squares, W = decompositions.eigh(small @ small.T)
    s = np.sqrt(np.maximum(squares[::-1], 0.0))
    W = W[:, ::-1]
    return U @ W, s, (W.T @ small) / np.maximum(s, TINY + 1e-12 * s[0])[:, None]


def _kept(s: Values, tau: float, smaller: int) -> tuple[int, float]:
    """How many singular values stay positive on the ball, and what they are reduced by."""
    sums = np.cumsum(s)
    if sums[-1] <= tau and s.size < smaller:
        return s.size, 0.0
    levels = (sums - tau) / np.arange(1, s.size + 1)
    rank = max(1, int(np.count_nonzero(s > levels)))
    return rank, max(0.0, float(levels[rank - 1]))


def _block(Vt: Values, width: int, rng: np.random.Generator) -> Values:
    """A block that the rows of Vt lead, filled with random columns."""
    missing = width - Vt.shape[0]
    if missing <= 0:
        return Vt[:width].T
    more = rng.standard_normal((Vt.shape[1], missing))
    return np.concatenate([Vt.T, more / math.sqrt(Vt.shape[1])], axis=1)


def _accelerated(move: Values, end: Values, before: Values, ended: Values) -> Values:
    """Anderson acceleration with one earlier move."""
    change = move - before
    size = float(np.vdot(change, change))
    weight = float(np.vdot(change, move)) / size if size > 0.0 else 0.0
    found: Values = end - weight * (end - ended)
    return found

"""Algorithms 1 and 2 step by step, against the algorithm boxes written out here.

The samples that a run draws are kept and given to a second, plain implementation, which
must arrive at the same iterates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.losses import Denoising, Sensing
from weakprox.penalties import ElasticNet

SHAPE, TAU, L1, L2 = (4, 3), 2.0, 0.1, 0.2
RANK, EPS, C0, SIGMA = 2, 0.8, 6.0, 5.0
RNG = np.random.default_rng(0)
A = RNG.standard_normal((40, *SHAPE))
B = RNG.standard_normal(40)
M = RNG.standard_normal(SHAPE)
PENALTY, BALL = ElasticNet(L1, L2), wp.spectral.NuclearBall(TAU)


def measure(rng, k):
    picked = rng.integers(0, 40, k)
    return A[picked], B[picked]


class Sensed(Sensing):
    """Keeps the measurements that are drawn."""

    def draw(self, rng, size):
        batch = super().draw(rng, size)
        self.log = [*getattr(self, "log", []), (batch[0].A.copy(), batch[1].copy())]
        return batch


class Copies(Denoising):
    """Keeps the mean of the copies that are drawn."""

    def draw(self, rng, size):
        batch = super().draw(rng, size)
        self.log = [*getattr(self, "log", []), (batch.mean.copy(), size)]
        return batch


LOSSES = {
    "sensing": lambda: Sensed(
        sampler=measure,
        shape=SHAPE,
        smoothness=2.0,
        term_smoothness=9.0,
        strong_convexity=0.3,
    ),
    "denoising": lambda: Copies(
        sampler=lambda rng, k: M + rng.standard_normal((k, *SHAPE)), shape=SHAPE
    ),
    "finite sum": lambda: Sensed(A, B),
}


def drawn_gradient(loss, X, log):
    """Mean gradient over the next samples of the log."""
    batch = log.pop(0)
    if isinstance(loss, Copies):
        return X - batch[0], batch[1]
    matrices, b = batch
    return np.einsum("k,kij->ij", np.tensordot(matrices, X, 2) - b, matrices) / len(b), len(b)


def full_gradient(X):
    return np.einsum("k,kij->ij", np.tensordot(A, X, 2) - B, A) / len(B)


def weak_prox(target):
    """Projection of the leading triplets on the nuclear ball, by bisection."""
    U, s, Vt = np.linalg.svd(target, full_matrices=False)
    s = s[:RANK]
    low, high = 0.0, float(s[0])
    if s.sum() > TAU:
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if np.maximum(s - middle, 0).sum() > TAU else (low, middle)
            )
    return (U[:, :RANK] * np.maximum(s - low, 0.0)) @ Vt[:RANK]


def written_out(loss, log, p, epochs, reduced):
    """The iterates at all steps, and the sizes of the batches used."""
    X, iterates, sizes = np.zeros(SHAPE), [], []
    finite = loss.is_finite_sum
    for _ in range(epochs):
        start = X
        if finite:
            snapshot = full_gradient(X)
        else:
            snapshot, size = drawn_gradient(loss, X, log)
            mean = X - snapshot  # of the copies, where samples cancel
            sizes.append(size)
        for t in range(p.inner):
            g = snapshot
            if t > 0 and not reduced:
                g, size = (full_gradient(X), 0) if finite else drawn_gradient(loss, X, log)
                sizes.append(size)
            elif t > 0 and isinstance(loss, Copies):
                g = X - mean
            elif t > 0:
                batch = log[0]
                new, size = drawn_gradient(loss, X, log)
                old, _ = drawn_gradient(loss, start, [batch])
                g = new - old + snapshot
                sizes.append(size)
            grad_R = 2 * L2 * X + L1 * np.clip(X / p.mu, -1, 1)
            V = weak_prox(X - (g + grad_R) / (2 * p.beta * p.eta))
            X = (1 - p.eta) * X + p.eta * V
            iterates.append(X)
    return iterates, sizes


@pytest.mark.parametrize("reduced", [True, False], ids=["reduced", "plain"])
@pytest.mark.parametrize("constants", ["paper", "repaired"])
@pytest.mark.parametrize("kind", LOSSES)
def test_iterates_are_those_of_the_algorithm_box(kind, constants, reduced):
    loss, epochs, seen = LOSSES[kind](), 3, []
    short = {"inner": 6, "epochs": epochs, "k_t": 7}  # 7 < 40: inner batches are drawn
    settings = {} if reduced else {"variance_reduction": False}
    solver = (wp.SVRGCG if reduced else Arm)(
        rank=RANK,
        constants=constants,
        C0=C0,
        sigma=SIGMA,
        delta=0.0,
        answer="iterate",
        **settings,
        **short,
    )

    def keep(look):
        if look.step:
            seen.append(look.X.copy())

    problem = wp.Problem(loss, PENALTY, BALL)
    loss.log = []  # forget what was drawn to set the loss up
    result = wp.minimize(
        problem,
        solver,
        eps=EPS,
        seed=4,
        callback=keep,
        look_every=1,
        evaluation_samples=2,
        stop_when_certified=False,
        progress=False,
    )
    p = result.parameters
    log = loss.log if loss.is_finite_sum else loss.log[1:]  # the first evaluates f
    iterates, sizes = written_out(loss, log, _Steps(p), epochs, reduced)
    assert len(seen) == len(iterates) == 6 * epochs
    for mine, theirs in zip(iterates, seen, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-9)
    base = SIGMA**2 / (p.alpha * C0)
    factor = 32 if reduced else 15 / 7
    for s in range(epochs):
        k_s = math.ceil(factor * base * 2**s)
        if kind == "finite sum":
            wanted = [7] * 5 if reduced else [0] * 5
        elif not reduced:
            wanted = [k_s] * 6
        else:
            wanted = [k_s, *([] if kind == "denoising" else [7] * 5)]
        assert sizes[: len(wanted)] == wanted, s
        sizes = sizes[len(wanted) :]
    assert not sizes


class _Steps:
    """What the algorithm box takes as input."""

    def __init__(self, p):
        self.inner, self.mu, self.beta = 6, p.mu, p.beta
        self.eta = p.alpha / (2 * p.beta)

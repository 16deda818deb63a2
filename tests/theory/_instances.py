"""Builders of the small problems: Examples 1 to 3 with known means and known noise."""

from __future__ import annotations

import numpy as np
from theory._model import Instance, Matrix, Quadratic, nuclear

import weakprox as wp


def truth(shape: tuple[int, int], rank: int, rng: np.random.Generator, psd: bool) -> Matrix:
    """A sparse low-rank matrix of norm about 5."""
    Y = rng.standard_normal((shape[0], rank)) * (rng.random((shape[0], rank)) < 0.6)
    Y[:rank] += np.eye(rank)
    Z = Y if psd else rng.standard_normal((shape[1], rank))
    X = Y @ Z.T
    return 5 * X / np.linalg.norm(X)


def denoising(
    name: str,
    shape: tuple[int, int],
    *,
    seed: int,
    kind: str = "ball",
    l1: float = 0.0,
    pieces: int = 0,
    noise: float = 0.0,
    share: float = 0.8,
    rank: int = 2,
) -> Instance:
    """Examples 1 and 2; with noise the loss only has a sampler of known mean."""
    rng = np.random.default_rng(seed)
    psd = kind == "psd"
    X0 = truth(shape, rank, rng, psd)
    N = 0.2 * rng.standard_normal(shape)
    M = X0 + ((N + N.T) / 2 if psd else N)
    size = share if kind == "norm" else share * nuclear(X0)
    md = shape[0] * shape[1]
    quad = Quadratic(None, M.ravel(), 0.5 * float((M**2).sum()))
    affine = None
    if pieces:
        A = rng.standard_normal((pieces, *shape)) / np.sqrt(md)
        affine = (A, 0.3 * rng.standard_normal(pieces))
    if not noise:
        loss = wp.losses.Denoising(M)
    else:

        def sampler(rng: np.random.Generator, k: int) -> Matrix:
            return M + noise * rng.standard_normal((k, *shape))

        loss = wp.losses.Denoising(sampler=sampler, shape=shape, sigma=noise * np.sqrt(md))
    sigma = noise * float(np.sqrt(md))
    return Instance(name, shape, quad, loss, kind, size, l1=l1, pieces=affine, sigma=sigma)


def tight_frame(shape: tuple[int, int], n: int, rng: np.random.Generator) -> Matrix:
    """n matrices with |A_i|_F^2 = md and mean of vec(A_i) vec(A_i)' the identity."""
    md = shape[0] * shape[1]
    assert n % md == 0
    bases = [np.linalg.qr(rng.standard_normal((md, md)))[0] for _ in range(n // md)]
    return np.sqrt(md) * np.concatenate(bases).reshape(n, *shape)


def sensing(
    name: str,
    shape: tuple[int, int],
    *,
    seed: int,
    n: int,
    kind: str = "ball",
    l1: float = 0.0,
    l2: float = 0.0,
    noise: float = 0.3,
    sampled: bool = False,
    share: float = 0.8,
    rank: int = 1,
) -> Instance:
    """Example 3 on a tight frame; sampled: the n measurements are the distribution."""
    rng = np.random.default_rng(seed)
    X0 = truth(shape, rank, rng, kind == "psd")
    A = tight_frame(shape, n, rng)
    flat = A.reshape(n, -1)
    b = flat @ X0.ravel() + noise * rng.standard_normal(n)
    quad = Quadratic(flat.T @ flat / n, flat.T @ b / n, float(b @ b) / (2 * n))
    weights = (flat**2).sum(1)
    size = share if kind == "norm" else share * nuclear(X0)
    # trace of the covariance of a (<a, x> - b): a convex quadratic x'Hx - 2 g'x + c
    H = (flat.T * weights) @ flat / n - quad.Q @ quad.Q
    g = flat.T @ (weights * b) / n - quad.Q @ quad.q
    c = float(weights @ b**2) / n - float(quad.q @ quad.q)

    def spread(X: Matrix) -> float:
        x = X.ravel()
        return float(x @ H @ x - 2 * g @ x + c)

    # the largest value on |X|_F <= tau, which contains both sets
    sigma = np.sqrt(np.linalg.eigvalsh(H)[-1] * size**2 + 2 * np.linalg.norm(g) * size + c)
    if sampled:

        def sampler(rng: np.random.Generator, k: int) -> tuple[Matrix, Matrix]:
            picked = rng.integers(0, n, k)
            return A[picked], b[picked]

        loss = wp.losses.Sensing(
            sampler=sampler,
            shape=shape,
            smoothness=quad.extremes[1],
            term_smoothness=float(weights.max()),
            strong_convexity=quad.extremes[0],
            sigma=float(sigma),
        )
    else:
        loss = wp.losses.Sensing(A, b)
    return Instance(
        name,
        shape,
        quad,
        loss,
        kind,
        size,
        l1=l1,
        l2=l2,
        term_smoothness=float(weights.max()),
        sigma=float(sigma),
        spread_at=spread,
    )

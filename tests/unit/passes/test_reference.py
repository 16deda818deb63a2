"""Passes that make X tile by tile give what dense formulas give."""

import numpy as np
import pytest
import torch

from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, passes_for, reference
from weakprox.passes.beside import Bounds
from weakprox.passes.engine import products_for
from weakprox.passes.reference import Sums
from weakprox.passes.ritz import refined, stepped

RNG = np.random.default_rng(5)
SHAPE, RANK = (37, 23), 3
STEPS = [
    Step(1.0, 1.0, 0.0, 0.7, 0.7),
    Step(0.3, 1.0, 0.4, 0.2, 0.2),
    Step(1.7, 0.9, 0.0, 0.0, 0.0),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.9),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.1, rows=1.4),
    Step(1.2, 0.9, 0.0, above=0.2, below=0.3, columns=1.7),
    Step(1.0, 1.0, 0.0, above=0.0, below=0.0, rows=2.5),
    Step(0.9, 1.0, 0.2, above=0.8, below=0.5, low=-0.3, high=0.4),
    Step(1.1, 0.9, 0.0, above=2.0, below=1.5, low=0.2, high=0.7),
    Step(1.0, 1.0, 0.0, above=40.0, below=40.0, low=-0.5, high=0.5),
    Step(0.6, 1.0, 0.0, above=0.0, below=3.0, low=-0.4, high=-0.4),
    Step(0.9, 1.0, 0.0, above=0.0, below=0.0, factor=0.6),
    Step(0.7, 0.9, 0.2, above=0.3, below=0.1, factor=0.4),
    Step(0.9, 1.0, 0.2, above=0.8, below=0.5, bounded=True),
    Step(1.1, 0.9, 0.0, above=40.0, below=40.0, bounded=True),
    Step(0.8, 1.0, 0.1, above=0.7, below=0.6, bounded=True, extent=1.0),
]


def given(dtype=np.float64, wrap=np.asarray):
    C, z = (RNG.standard_normal(SHAPE).astype(dtype) for _ in "Cz")
    U, V = (np.linalg.qr(RNG.standard_normal((n, RANK)))[0].astype(dtype) for n in SHAPE)
    s = np.array([3.0, 2.0, 0.5], dtype)
    return wrap(C), wrap(z), LowRank(wrap(U), wrap(s), wrap(np.ascontiguousarray(V.T)))


def filled(k, wrap=np.asarray, dtype=np.float64):
    """The step with weights if it has a factor for them; some are zero, some are steep.

    Or with bounds, some of which are infinite, some of them equal; one row, if they have an
    extent.
    """
    rng = np.random.default_rng(7)
    if k.bounded:
        rows = (1, SHAPE[1]) if k.extent else SHAPE
        low = rng.choice([-np.inf, -0.5, 0.1], rows)
        high = np.maximum(low, rng.choice([np.inf, 0.7, 0.1], rows))
        both = Bounds((low, high), SHAPE, np.dtype(dtype).itemsize).stored()
        return k._replace(beside=wrap(both))
    if not k.factor:
        return k
    weights = rng.choice([0.0, 0.3, 1.0, 50.0], SHAPE) * rng.random(SHAPE)
    size = k.factor * float(np.linalg.norm(weights))
    return k._replace(beside=wrap(weights.astype(dtype)), steepness=size)


def dense(C, z, X, k):
    """Sums and the next target by formulas on whole matrices, in float64."""
    C, z, X = (np.asarray(x, dtype=float) for x in (C, z, X))
    more = k.factor * np.asarray(k.beside, dtype=float) if k.weighted else 0.0
    low, high = k.low, k.high
    if k.bounded:
        low, high = np.split(np.asarray(k.beside, dtype=float), 2, axis=1)
    above, below = k.above + more, k.below + more
    t = 2 * X - z - k.gamma * (k.beta * (X - C) + k.curvature * X)
    over, under = t - high - k.gamma * above, low - t - k.gamma * below
    Y = np.clip(t, low, high) + np.maximum(over, 0.0) - np.maximum(under, 0.0)
    groups = 0.0
    for axis, weight in ((1, k.rows), (0, k.columns)):
        if weight:
            sizes = np.linalg.norm(Y, axis=axis, keepdims=True)
            Y = Y * np.maximum(0.0, 1.0 - k.gamma * weight / np.maximum(sizes, 1e-300))
            groups = weight * np.linalg.norm(X, axis=axis).sum()
    s, u = (t - Y) / k.gamma, (z - X) / k.gamma
    rest = (X - Y) / k.gamma
    return Sums(
        np.sum((X - C) ** 2),
        (above * np.maximum(X - high, 0.0) + below * np.maximum(low - X, 0.0)).sum(),
        np.sum(s * (X - np.where(s == 0.0, 0.0, np.where(s > 0.0, high, low)))),
        np.sum(u * X),
        np.sum(rest**2),
        np.sum(X**2),
        groups,
    ), z + Y - X


@pytest.mark.parametrize("k", STEPS)
@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_look_and_advance(k, wrap, dtype):
    C, z, X = given(dtype, wrap)
    k = filled(k, wrap, dtype)
    expected, after = dense(C, z, X.dense(), k)
    tight = 1e-12 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(reference.look(C, z, X, k), expected, rtol=tight)
    before = np.asarray(z * 1.0)
    block = wrap(RNG.standard_normal((SHAPE[1], 4)).astype(dtype))
    sums, product = reference.advance(C, z, X, k, 1.0, block)
    np.testing.assert_allclose(
        sums._replace(across=0.0), expected._replace(across=0.0), rtol=tight
    )
    np.testing.assert_allclose(np.asarray(z), after, atol=10 * tight)
    np.testing.assert_allclose(
        np.asarray(product), np.asarray(z) @ np.asarray(block), atol=tight
    )
    assert np.abs(np.asarray(z) - before).max() > 0.01


def test_a_change_of_gamma_keeps_the_dual_point():
    k, change = STEPS[0], 0.25
    C, z, X = given()
    move = dense(C, z, X.dense(), k)[1] - z
    u = (z - X.dense()) / k.gamma
    reference.advance(C, z, X, k, change)
    np.testing.assert_allclose(z, X.dense() + move + change * k.gamma * u, atol=1e-12)


@pytest.mark.parametrize("k", STEPS)
def test_the_first_target_is_a_proximal_point(k):
    (C, z, _), k = given(), filled(k)
    reference.first(C, z, k)
    zero = np.zeros_like(C)  # a step from X = z = 0
    np.testing.assert_allclose(z, dense(C, zero, zero, k)[1], atol=1e-14)


def test_narrow_products_are_summed_in_double():
    C, _, X = given(np.float32)
    V, U = (np.asarray(f, dtype=float) for f in (X.Vt.T, X.U))
    assert reference.times(C, V).dtype == np.float64
    np.testing.assert_allclose(reference.times(C, V), C.astype(float) @ V, rtol=1e-14)
    found = reference.transpose_times(C, U)
    np.testing.assert_allclose(found, C.astype(float).T @ U, rtol=1e-13, atol=1e-14)


def test_arrays_on_the_host_take_the_reference():
    assert passes_for(np.zeros((2, 2))) is reference
    assert passes_for(torch.zeros((2, 2))) is reference


def spiked(seed, n=80, d=60):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((k, 4)))[0] for k in (n, d))
    return (U * [50.0, 40.0, 30.0, 20.0]) @ V.T + 0.3 * rng.standard_normal((n, d))


def test_power_steps_find_the_leading_triplets():
    A = spiked(0)
    found = refined(products_for(A), RNG.standard_normal((60, 8)), powers=4)
    exact = np.linalg.svd(A, compute_uv=False)
    np.testing.assert_allclose(found.s[:4], exact[:4], rtol=1e-9)
    np.testing.assert_allclose(A @ found.V, found.U * found.s, atol=1e-10)
    np.testing.assert_allclose(found.V.T @ found.V, np.eye(8), atol=1e-10)


def test_a_warm_step_follows_a_matrix_that_moves():
    A = spiked(0)
    near = refined(products_for(A), RNG.standard_normal((60, 6)), powers=4)
    B = A + 0.05 * spiked(1)
    found = stepped(products_for(B), near, B @ near.V)
    exact = np.linalg.svd(B, compute_uv=False)
    np.testing.assert_allclose(found.s[:4], exact[:4], rtol=1e-3)
    np.testing.assert_allclose(B @ found.V, found.U * found.s, atol=1e-9)
    np.testing.assert_allclose(found.U.T @ found.U, np.eye(6), atol=1e-8)


def test_more_warm_steps_are_more_accurate():
    near = refined(products_for(spiked(0)), RNG.standard_normal((60, 6)), powers=4)
    B = spiked(0) + 0.05 * spiked(1)
    exact = np.linalg.svd(B, compute_uv=False)[:4]
    once, thrice = (
        stepped(products_for(B), near, B @ near.V, powers=powers) for powers in (1, 3)
    )
    np.testing.assert_allclose(thrice.s[:4], exact, rtol=1e-9)
    assert np.abs(thrice.s[:4] - exact).max() < 0.01 * np.abs(once.s[:4] - exact).max()


def test_a_warm_step_from_a_useless_start_falls_back():
    near = refined(products_for(spiked(0)), RNG.standard_normal((60, 6)), powers=4)
    B = np.zeros((80, 60))
    B[:, 0] = 1.0  # maps the whole block to one direction
    found = stepped(products_for(B), near, B @ near.V)
    assert np.isfinite(found.s).all()
    np.testing.assert_allclose(found.s[0], np.sqrt(80.0), rtol=1e-6)

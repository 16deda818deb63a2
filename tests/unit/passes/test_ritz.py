"""Triplets from a few products are triplets, also where values differ by orders."""

import numpy as np
import pytest
import torch

from weakprox.linalg import arrays
from weakprox.passes import ritz as subspace
from weakprox.passes.engine import Engine, products_for
from weakprox.passes.ritz import Ritz, refined, spanned, stepped, straightened, turned

SHAPE, WIDTH = (60, 40), 8


def graded(last, seed=0):
    """A matrix whose first WIDTH values fall to `last`, and nearly nothing after them."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0][:, : SHAPE[1]] for n in SHAPE)
    s = np.concatenate([np.geomspace(1.0, last, WIDTH), np.full(SHAPE[1] - WIDTH, 1e-3 * last)])
    return (U * s) @ V.T, s[:WIDTH], V[:, :WIDTH]


def check(A, found, s, tol=1e-7):
    assert found.s == pytest.approx(s, rel=tol)
    U, V = (np.asarray(x) for x in (found.U, found.V))
    for Q in (U, V):
        assert np.abs(Q.T @ Q - np.eye(WIDTH)).max() < 1e-9
    # columns are right relative to their own size, also the small ones
    assert np.abs((np.asarray(A) @ V - U * found.s) / found.s).max() < 1e-9


@pytest.mark.parametrize("last", [0.3, 1e-2, 1e-4, 3e-6])
@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_one_step_from_near_triplets(last, wrap):
    A, s, V = graded(last)
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(V + 1e-4 * rng.standard_normal(V.shape))[0]
    near = refined(products_for(wrap(A)), wrap(Q))
    product = wrap(A @ np.asarray(near.V))
    check(A, stepped(products_for(wrap(A)), near, product), s)


@pytest.mark.parametrize("last", [0.3, 1e-2, 1e-4])
def test_from_a_random_block(last):
    A, s, _ = graded(last)
    start = np.random.default_rng(2).standard_normal((SHAPE[1], WIDTH))
    check(A, refined(products_for(A), start, powers=3), s)


def test_graded_values_take_no_careful_steps(monkeypatch):
    A, s, V = graded(1e-4)
    monkeypatch.setattr(subspace, "_carefully", lambda *_: pytest.fail("more products"))
    near = Ritz(A @ V / s, s, V, exact=True)
    check(A, stepped(products_for(A), near, A @ V), s)


def test_a_badly_conditioned_span_costs_one_product_more():
    A, s, V = graded(0.1)
    mixed = V @ (np.ones((WIDTH, WIDTH)) + 1e-3 * np.eye(WIDTH))
    assert turned(mixed.T @ A.T @ A @ mixed, mixed.T @ mixed) is None
    check(A, spanned(products_for(A), mixed), s)


def test_right_angles_in_a_skew_span():
    A, s, V = graded(2e-3)  # squares of these values are safe, but not with those of the span
    mixed = V @ (np.ones((WIDTH, WIDTH)) + 0.03 * np.eye(WIDTH))
    assert turned(mixed.T @ A.T @ A @ mixed, mixed.T @ mixed) is not None
    check(A, spanned(products_for(A), mixed), s)


def test_columns_that_are_not_needed_take_no_second_look(monkeypatch):
    A, s, V = graded(1e-4)
    near = Ritz(A @ V / s, s, V, exact=True)
    monkeypatch.setattr(subspace, "straightened", lambda *_: pytest.fail("a second look"))
    found = stepped(products_for(A), near, A @ V, 4)
    np.testing.assert_allclose(found.s, s, rtol=1e-4)
    square = found.U.T @ found.U - np.eye(WIDTH)
    assert np.abs(square[:4, :4]).max() < 1e-12
    assert 1e-12 < np.abs(square).max() < 1e-4  # or there was nothing to save
    monkeypatch.undo()
    check(A, stepped(products_for(A), near, A @ V, WIDTH), s)


def test_dependent_columns_are_left_to_careful_steps():
    A, _, V = graded(0.1)
    double = np.hstack([V[:, :4], V[:, :4]])
    assert spanned(products_for(A), double) is None
    assert stepped(products_for(A), Ritz(A @ V, np.ones(WIDTH), V), A @ double).s[
        0
    ] == pytest.approx(1.0)


def test_straightening_finds_small_values_anew():
    A, s, V = graded(1e-5)
    U = A @ V / s
    skew = U @ (np.eye(WIDTH) + 1e-5 * np.triu(np.ones((WIDTH, WIDTH)), 1))
    # the same products written with crooked vectors: A V = skew diag(s) T for some T near one
    values, left, right = straightened(skew.T @ skew, s)
    straight = skew @ left
    assert np.abs(straight.T @ straight - np.eye(WIDTH)).max() < 1e-12
    rebuilt = straight * values @ right.T
    assert np.abs(rebuilt - skew * s).max() < 1e-15 * 10


def test_singular_squares_are_refused():
    assert straightened(np.zeros((3, 3)), np.ones(3)) is None


@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray])
@pytest.mark.parametrize("last", [1e-3, 1e-9])
def test_small_columns_along_large_directions_are_orthonormalised(wrap, last):
    rng = np.random.default_rng(3)
    Q, _ = np.linalg.qr(rng.standard_normal((80, 6)))
    Y = Q * np.geomspace(1.0, last, 6)
    Y += 0.5 * np.outer(Q[:, 0], np.ones(6))  # small columns are nearly parallel
    found = np.asarray(subspace.whitened(wrap(Y)))
    assert np.abs(found.T @ found - np.eye(6)).max() <= 1e-12
    if last > 1e-8:
        assert np.linalg.norm(Y - found @ (found.T @ Y)) <= 1e-10 * np.linalg.norm(Y)


def test_triplets_of_a_graded_block_without_a_tall_decomposition(monkeypatch):
    A, s, Q = graded(1e-5)
    shapes, svd = [], subspace.svd
    monkeypatch.setattr(subspace, "svd", lambda x: (shapes.append(x.shape), svd(x))[1])
    found = subspace.ritz(A @ Q, Q, exact=True)
    check(A, found, s)
    assert shapes == [(len(s), len(s))]


@pytest.mark.parametrize("last", [0.3, 1e-4])
def test_wide_blocks_of_devices_are_factored_where_they_are(last, monkeypatch):
    """Tensors in host memory stand in for those of a device."""
    monkeypatch.setattr(arrays, "on_cpu", lambda _: False)
    monkeypatch.setattr(arrays, "ON_HOST", 0)
    A, s, V = graded(last)
    near = V + 1e-3 * np.random.default_rng(1).standard_normal(V.shape)
    T, start = torch.asarray(A), torch.asarray(near)
    assert isinstance(arrays.squares_of(start)[0], torch.Tensor)
    found = refined(products_for(T), start, powers=2)
    assert isinstance(found.U, torch.Tensor)
    check(A, found, s)
    check(A, stepped(products_for(T), found, T @ found.V), s)
    dependent = torch.hstack([start, start])
    assert subspace.orthonormaliser(dependent.T @ dependent) is None


def test_wide_blocks_are_straightened_for_proofs_only(monkeypatch):
    """An iteration accepts vectors that are slightly skew, and says that they prove nothing."""
    rng, width = np.random.default_rng(8), 80
    s = np.geomspace(1.0, 1e-4, width)
    U, _ = np.linalg.qr(rng.standard_normal((120, width)))
    V, _ = np.linalg.qr(rng.standard_normal((100, width)))
    A = (U * s) @ V.T
    near = Ritz(U, s, V, exact=True)
    with monkeypatch.context() as patched:
        patched.setattr(subspace, "straightened", lambda *_: pytest.fail("straightened"))
        found = stepped(products_for(A), near, A @ V)
    assert not found.exact
    np.testing.assert_allclose(found.s, s, rtol=1e-5)
    skew = np.abs(found.U.T @ found.U - np.eye(width)).max()
    assert 1e-12 < skew < 1e-6
    engine = Engine(A, A.copy())
    exact = engine.in_float64(found)
    assert exact.exact
    assert np.abs(exact.U.T @ exact.U - np.eye(width)).max() < 1e-12

"""Decompositions through the Gram matrix: as good as LAPACK's, or refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exact_values import gap, singular_values, square
from registry import NUMPY, NUMPY32, TORCH, TORCH32, generator, numbers

from weakprox.linalg import decompositions
from weakprox.linalg import gram_svd as gram
from weakprox.linalg._thin_svd import OVERSAMPLE, thin_svd
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.decompositions import eigh_error
from weakprox.linalg.gram_svd import DIGITS_LEFT, gram_error, gram_svd, squared
from weakprox.spectral import singular
from weakprox.spectral.singular import decompose

SHAPES = [(9, 5), (5, 9), (7, 7), (1, 4), (4, 1), (60, 33)]
BACKENDS = [NUMPY, TORCH, NUMPY32, TORCH32]


def every(s):
    return len(s)


def with_values(rng, shape, s):
    U, _, Vt = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    return (U * s) @ Vt


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_triplets_are_those_of_lapack(shape, backend):
    A = backend.array(numbers(*shape, seed=1))
    found = gram_svd(A, every, min(shape))
    if found is None:  # the smallest value of a square matrix may be too small in float32
        assert backend in (NUMPY32, TORCH32)
        s = np.linalg.svd(to_numpy(A), compute_uv=False)
        assert s[-1] ** 2 <= 2 * DIGITS_LEFT * eps_of(A) * s[0] ** 2
        return
    top, eps = found.triplets, eps_of(A)
    assert all(backend.owns(x) for x in (top.U, top.s, top.Vt))
    U, s, Vt = np.linalg.svd(to_numpy(A).astype(float), full_matrices=False)
    small = 4 * max(shape) * eps * s[0] / s[-1]
    assert np.allclose(to_numpy(top.s), s, rtol=s[0] / s[-1] * small, atol=0)
    assert np.abs(to_numpy(top.dense()) - to_numpy(A)).max() <= 8 * max(shape) * eps * s[0]
    for found_vectors, true in ((to_numpy(top.U).T, U.T), (to_numpy(top.Vt), Vt)):
        size = np.abs((found_vectors * true).sum(1))  # values are simple: signs may differ
        assert (np.abs(size - 1) <= 1e3 * small).all()
    assert found.exact
    assert found.passes == 0
    assert found.next_value == 0.0


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_orthonormal_as_far_down_as_allowed(shape, backend):
    """The Newton step repairs what squaring lost, down to the last value accepted."""
    rng, least = np.random.default_rng(2), min(shape)
    lowest = 1.01 * np.sqrt(DIGITS_LEFT * np.finfo(float).eps)
    s = np.geomspace(1.0, lowest, least) if least > 1 else np.ones(1)
    found = gram_svd(backend.array(with_values(rng, shape, s)), every, least)
    if found is None:  # rounding took the last value below: one less will do
        found = gram_svd(backend.array(with_values(rng, shape, 1.05 * s)), every, least - 1)
    U, Vt = to_numpy(found.triplets.U), to_numpy(found.triplets.Vt)
    assert np.abs(U.T @ U - np.eye(U.shape[1])).max() <= 1e-9  # (eps / lowest^2)^2
    assert np.abs(Vt @ Vt.T - np.eye(Vt.shape[0])).max() <= 1e-9
    easy = gram_svd(backend.array(with_values(rng, shape, np.maximum(s, 0.05))), every, least)
    for Q in (to_numpy(easy.triplets.U), to_numpy(easy.triplets.Vt).T):
        assert np.abs(Q.T @ Q - np.eye(Q.shape[1])).max() <= 1e-12


@pytest.mark.parametrize("shape", SHAPES[:3] + SHAPES[5:], ids=str)
def test_only_what_is_active_is_kept(shape):
    A, least = numbers(*shape, seed=3), min(shape)
    s = np.linalg.svd(A, compute_uv=False)
    for count in (0, 1, 3, least):
        found = gram_svd(A, lambda _, count=count: count, least)
        kept = max(1, count)
        assert found.triplets.s.shape == (kept,)
        after = s[kept] if kept < least else 0.0
        assert found.next_value == pytest.approx(after, rel=1e-10)
        assert found.basis.shape[0] == shape[1]
    capped = gram_svd(A, every, 2)
    assert capped.triplets.s.shape == (2,)
    assert capped.basis.shape[1] <= 2 + OVERSAMPLE


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_refused_where_squaring_is_unsafe(backend):
    A = backend.array(
        with_values(np.random.default_rng(4), (9, 6), 10.0 ** -np.arange(0, 12, 2))
    )
    assert gram_svd(A, every, 6) is None  # the last ones are lost
    assert gram_svd(A, lambda s: 1, 6) is not None  # the first are not
    assert gram_svd(0 * A, every, 6) is None
    assert gram_svd(backend.array(np.ones((5, 4))), every, 4) is None  # rank one
    assert gram_svd(backend.array(np.ones((5, 4))), lambda s: 1, 4) is not None


def spectra(rng, widest=40):
    """A shape and values between tame and wild, of any scale."""
    m, d = (int(x) for x in rng.integers(1, 40, 2))
    m, d = (m, min(d, widest)) if m >= d else (min(m, widest), d)
    least = min(m, d)
    kind = rng.integers(0, 4)
    if kind == 0:
        s = rng.random(least)
    elif kind == 1:
        s = 10.0 ** rng.uniform(-16, 0, least)
    elif kind == 2:
        s = np.where(rng.random(least) < 0.5, 1.0, 10.0 ** rng.uniform(-12, 0))
    else:
        s = np.geomspace(1, 10.0 ** rng.uniform(-20, 0), least)
    s = np.sort(s)[::-1] * 10.0 ** rng.uniform(-8, 8)
    return (m, d), s


@pytest.mark.portable
@pytest.mark.parametrize("backend", [NUMPY, NUMPY32, TORCH], ids=lambda b: b.name)
def test_square_error_covers_the_errors(backend):
    """Dozens of matrices: no computed square is off by more than is admitted."""
    rng, tried = generator(5), 0
    for _ in range(60):
        shape, s = spectra(rng, widest=8)
        A = backend.array(with_values(rng, shape, s))
        count = int(rng.integers(1, len(s) + 1))
        found = gram_svd(A, lambda _, count=count: count, len(s))
        if found is None:
            continue
        tried += 1
        true = [square(x) for x in singular_values(to_numpy(A))]
        kept = to_numpy(found.triplets.s).astype(float)
        rounded = eps_of(A) * kept**2  # to the dtype of A
        errors = [gap(square(x), y) for x, y in zip(kept, true, strict=False)]
        assert (np.array(errors) <= found.square_error + rounded).all()
        if len(kept) < len(true):
            assert true[len(kept)] <= square(found.next_value) + found.square_error
        U, V = (to_numpy(x).astype(float) for x in (found.triplets.U, found.triplets.Vt.T))
        given, claimed = to_numpy(A).astype(float), np.linalg.norm(to_numpy(found.residuals))
        for residual in (given @ V - U * kept, given.T @ U - V * kept):  # as bounds use them
            assert np.linalg.norm(residual, 2) <= claimed + 64 * eps_of(A) * float(s[0])
    assert tried > 20


@pytest.mark.portable
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (511, 4), (512, 4), (1100, 2)])
def test_squares_are_within_their_bound(shape):
    """Also where all entries are alike, so that all roundings may go one way."""
    rng = generator(8)
    for B in (rng.standard_normal(shape), np.full(shape, 0.1), 1.0 + rng.random(shape)):
        G = squared(B)
        error = gram_error(shape[0], np.linalg.eigvalsh(G)[::-1])
        columns = [[Fraction(x) for x in column] for column in B.T]
        for i, one in enumerate(columns):
            for j, other in enumerate(columns):
                exact = sum(x * y for x, y in zip(one, other, strict=True))
                # the norm of the whole is at least as large
                assert abs(Fraction(G[i, j]) - exact) <= error
        assert error <= (0.5 * min(shape[0], 512) + 30) * np.finfo(float).eps * np.sum(B * B)


@pytest.mark.portable
@pytest.mark.parametrize("certify", [False, True])
@pytest.mark.parametrize("backend", [NUMPY, NUMPY32, TORCH], ids=lambda b: b.name)
def test_bounds_built_on_it_hold(backend, certify):
    """`decompose` may take it or not: upper bounds, tail and energy are never too low."""
    rng = generator(6)
    for _ in range(40):
        shape, s = spectra(rng, widest=8)
        A = backend.array(with_values(rng, shape, s))
        true = singular_values(to_numpy(A))
        level = float(true[0]) * 10.0 ** rng.uniform(-3, 0)
        rank = int(rng.integers(1, len(s) + 1))
        _, spec, rests_on = decompose(
            A,
            rank,
            lambda s, residuals, after: False,
            None,
            certify,
            np.random.default_rng(0),
            active=lambda s, level=level: int((s > level).sum()),
            level=lambda _, level=level: level,
        )
        assert rests_on == "exact"
        kept = len(spec.ritz)
        assert 1 <= kept <= rank
        assert all(u >= x for u, x in zip(spec.upper, true, strict=False))
        beyond = true[kept:]
        assert spec.tail >= (beyond[0] if beyond else 0.0)
        assert spec.energy >= sum(square(x) for x in beyond) * (1 - 1e-12)


def test_blocks_of_rows_add_up():
    B = numbers(1100, 3, seed=11)
    np.testing.assert_allclose(squared(B), B.T @ B, rtol=0, atol=1e-11)


def test_rounding_does_not_lower_the_bound_itself():
    """The exact sum of the squares is covered, though `gram_error` computes it in floats."""
    squares, eps = np.full(1000, 1.0 + 2.0**-52), Fraction(np.finfo(float).eps)
    own = Fraction(eigh_error(1000)) * Fraction(squares[0])
    of_products = Fraction(gram_error(1000, squares)) / eps - own
    chain = 512 + 2  # products in a block of rows, and blocks
    assert of_products >= Fraction(chain, 2) * sum(map(Fraction, squares))


@pytest.fixture
def rough_at_any_size(monkeypatch):
    monkeypatch.setattr("weakprox.linalg.gram_svd.ROUGH", 1)


@pytest.mark.usefixtures("rough_at_any_size")
@pytest.mark.parametrize("shape", [(160, 120), (120, 160)], ids=str)
@pytest.mark.parametrize("far", [0, 3])
def test_rough_triplets_keep_orthonormal_vectors_and_the_point_they_give(shape, far):
    rng = generator(5)
    s = np.linspace(9.0, 1.0, 120)
    s[:far] = [4e4, 3e3, 200.0][:far]  # in single precision they would hide the others
    A = with_values(rng, shape, s)
    found = gram_svd(A, lambda s: int((s > 3.0).sum()), 120, rough=True)
    top, kept = found.triplets, int((s > 3.0).sum())
    assert not found.exact
    assert top.rank == kept
    for Q in (top.U, top.Vt.T):
        assert np.abs(Q.T @ Q - np.eye(kept)).max() <= 1e-9
    np.testing.assert_allclose(top.s, s[:kept], rtol=1e-5)
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    error = (top.U * (top.s - 3.0)) @ top.Vt - (U[:, :kept] * (s[:kept] - 3.0)) @ Vt[:kept]
    assert np.linalg.norm(error, 2) <= 1e-4 * 3.0
    residuals = np.linalg.norm(A.T @ top.U - top.Vt.T * top.s, axis=0)
    assert np.all(residuals <= found.residuals)


@pytest.mark.usefixtures("rough_at_any_size")
@pytest.mark.parametrize(
    "s", [np.geomspace(1e3, 1.0, 120), np.r_[np.full(60, 1e4), np.full(60, 1.0)]], ids=str
)
def test_values_that_single_precision_would_lose_are_computed_in_double(s):
    A = with_values(generator(6), (120, 120), s)
    found = gram_svd(A, every, 120, rough=True)
    assert found.exact
    np.testing.assert_allclose(found.triplets.s, s, rtol=1e-6)


def test_without_the_ufunc_of_numpy_rough_triplets_are_in_float64(monkeypatch):
    """It is private, so another version of NumPy may not have it."""
    monkeypatch.setattr("weakprox.linalg.gram_svd.ROUGH", 1)
    A = numbers(160, 120, seed=4)
    assert not gram_svd(A, lambda s: 5, 120, rough=True).exact
    monkeypatch.setattr("weakprox.linalg.decompositions.eigh_lo", None)
    found = gram_svd(A, lambda s: 5, 120, rough=True)
    assert found.exact
    wanted = np.linalg.svd(A, compute_uv=False)[:5]
    np.testing.assert_allclose(found.triplets.s, wanted, rtol=1e-12)


@pytest.mark.parametrize("shape", [(150, 120), (120, 150)], ids=["tall", "flat"])
@pytest.mark.parametrize("far", [5, 40])
def test_rough_triplets_start_from_those_of_a_nearby_matrix(shape, far, monkeypatch):
    """Far values are found by the warm block, however many columns that takes."""
    monkeypatch.setattr(gram, "ROUGH", 100)
    monkeypatch.setattr(decompositions, "FAR_COLUMNS", 8)
    monkeypatch.setattr(decompositions, "FAR_SHARE", 0.5)
    rng, least = np.random.default_rng(3), min(shape)
    s = np.concatenate([np.linspace(3e3, 1e3, far), np.linspace(10.0, 1.0, least - far)])
    A = with_values(rng, shape, s)
    near = np.linalg.svd(A + 0.1 * rng.standard_normal(shape))[2][:70].T
    kept = far + 20
    found = gram_svd(A, lambda _: kept, least, rough=True, near=near)
    assert not found.exact  # from single precision
    top = found.triplets
    np.testing.assert_allclose(to_numpy(top.s), s[:kept], rtol=1e-4)
    for Q in (top.U, top.Vt.T):
        assert np.abs(Q.T @ Q - np.eye(kept)).max() <= 1e-9
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    exact = (U[:, :kept] * s[:kept]) @ Vt[:kept]
    assert np.linalg.norm(top.dense() - exact, 2) <= 1e-2
    cold = gram_svd(A, lambda _: kept, least, rough=True)
    np.testing.assert_allclose(to_numpy(cold.triplets.s), s[:kept], rtol=1e-4)


def test_rough_residuals_of_double_precision_are_bounds():
    A = with_values(np.random.default_rng(4), (60, 40), np.geomspace(1.0, 1e-3, 40))
    found, true = (gram_svd(A, lambda _: 30, 40, rough=rough) for rough in (True, False))
    assert found.exact  # small matrices are decomposed in double precision
    assert (found.residuals >= true.residuals - 1e-15).all()
    assert found.residuals.max() <= 1e-10


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)], ids=str)
def test_all_columns_if_nothing_is_cut_off(shape, backend):
    """One value is lost by squaring, but the factors still give A and bound its norm."""
    s = np.append(np.geomspace(1.0, 0.01, 39), 1e-9)
    A = backend.array(with_values(np.random.default_rng(11), shape, s))
    assert gram_svd(A, every, 40) is None
    assert gram_svd(A, every, 40, level=lambda s: 1e-12) is None
    found = gram_svd(A, every, 40, level=lambda s: 0.0)
    top = found.triplets
    U, values, Vt = (to_numpy(x).astype(float) for x in (top.U, top.s, top.Vt))
    true = np.linalg.svd(to_numpy(A).astype(float), compute_uv=False)
    eps = eps_of(A)
    assert np.abs((U * values) @ Vt - to_numpy(A)).max() <= 16 * eps
    assert values.sum() >= (1.0 - 8 * eps) * true.sum()
    assert np.all(np.diff(values) <= 0)
    assert np.all(true**2 <= (values * (1 + 8 * eps)) ** 2 + found.square_error)
    assert np.abs(np.linalg.norm(U, axis=0) - 1).max() <= 8 * eps
    assert found.exact
    # values that squaring has lost may be zero, so the rank would be uncertain
    dim = np.where(np.arange(40) < 30, s, 1e-9)
    A = backend.array(with_values(np.random.default_rng(11), shape, dim))
    assert gram_svd(A, every, 40, level=lambda s: 0.0) is None


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)], ids=str)
def test_columns_that_are_only_rounding_errors_are_left_out(shape):
    rng = np.random.default_rng(11)
    A = with_values(rng, (30, 40), np.geomspace(1.0, 0.01, 30))
    A = np.vstack([A, np.zeros((30, 40))])  # rows that a penalty has removed
    A = A if shape == (60, 40) else np.ascontiguousarray(A.T)
    found = gram_svd(A, every, 40, level=lambda s: 0.0)
    top = found.triplets
    assert top.rank == 30
    assert np.abs(top.dense() - A).max() <= 1e-14
    assert gram_svd(np.zeros(shape), every, 40, level=lambda s: 0.0) is None


def test_bounds_include_the_error_that_a_routine_states(monkeypatch):
    def stated(*args, **options):
        return replace(thin_svd(*args, **options), value_error=0.25)

    monkeypatch.setattr(singular, "gram_svd", lambda *args, **options: None)
    monkeypatch.setattr(singular, "thin_svd", stated)
    A = np.diag([4.0, 3.0, 2.0, 1.0])
    rng, cut = np.random.default_rng(0), {"active": every, "level": lambda s: 0.0}
    _, spec, _ = decompose(A, 2, lambda *_: False, None, True, rng, **cut)
    assert spec.ritz == pytest.approx([4.0, 3.0])
    assert spec.upper == pytest.approx([4.25, 3.25])
    assert spec.tail == pytest.approx(2.25)


@pytest.mark.parametrize(("last", "width"), [(30, 32), (60, 64), (100, 128), (199, 200)])
def test_a_far_block_ends_where_values_are_not_far_above_the_last(last, width):
    """Widths are 32, 64, 128 and all."""
    s = np.where(np.arange(200) <= last, 10.0, 1.0)
    s[199] = 1.0
    assert gram._far_width(np.diag(s), np.eye(200)) == width

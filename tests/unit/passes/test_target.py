"""Passes for smoothed penalties: a target with its norm and first product, and a slope."""

import weakref

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import weakprox as wp
from weakprox.linalg import arrays, threads
from weakprox.linalg._thin_svd import thin_svd
from weakprox.linalg.pending import Pending, formed
from weakprox.linalg.tiled import as_tiled
from weakprox.metering import MeteredSpectral
from weakprox.passes import compiling
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, SignedL1, Zero
from weakprox.penalties.base import Smoothed
from weakprox.spectral import NuclearBall, NuclearNorm

SHAPE = (213, 70)
CLIPPED = [L1(0.7), ElasticNet(0.7, 0.3), SignedL1(0.3, 1.1, 0.2), Zero(), L1(0.7, np.ones(1))]
BY_ROWS = [GroupL2(0.4), Box(-0.2, 0.3, 1.5), L1(0.3) + GroupL2(0.9), L1(1.0) + L1(0.2)]
ways = pytest.mark.parametrize("compiled", [False, True])
precisions = pytest.mark.parametrize(
    ("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 1e-5)]
)


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch):
    """Use several blocks, several tiles and compiled passes for these small arrays."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiling, "COMPILED_FROM", 0)
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(arrays, "TILE_BYTES", 1 << 12)


def given(dtype=np.float64, shape=SHAPE):
    rng = np.random.default_rng(3)
    X, C = (rng.standard_normal(shape).astype(dtype) for _ in "XC")
    return X, C, rng.standard_normal((shape[1], 5)).astype(dtype)


def pending(penalty, X, C, weight=1.3):
    smooth = Smoothed.of(penalty, 0.2, X.shape)
    return smooth.target_around(X, C, 0.9, weight, np.full_like(X, np.nan))


@ways
@precisions
@pytest.mark.parametrize("penalty", CLIPPED + BY_ROWS, ids=str)
def test_the_pass_gives_what_the_formulas_give(penalty, dtype, tol, compiled):
    X, C, Q = given(dtype)
    gradient = 0.9 * (X - C) + Smoothed.of(penalty, 0.2, X.shape).grad(X)
    wanted = X - gradient / 1.3
    with compiling.passes(compiled):
        A = pending(penalty, X, C)
        product, (square, error) = A.times(Q), A.rough_sqnorm()
        alone = pending(penalty, X, C).array
    np.testing.assert_allclose(A.array, wanted, atol=tol)
    np.testing.assert_array_equal(alone, A.array)  # whatever is asked for first
    np.testing.assert_allclose(product, wanted @ Q, atol=30 * tol)
    exact = arrays.sqnorm(A.array)
    assert product.dtype == A.array.dtype == dtype
    assert abs(square - exact) <= error <= 1e-4 * exact
    np.testing.assert_allclose(A.times(Q), A.array @ Q, atol=30 * tol)


@ways
@precisions
@pytest.mark.parametrize("penalty", [*CLIPPED, *BY_ROWS, GroupL2(0.4, "columns")], ids=str)
def test_the_slope_along_a_direction(penalty, dtype, tol, compiled):
    X, D, _ = given(dtype)
    smooth = Smoothed.of(penalty, 0.2, X.shape)
    for eta in (0.0, 0.3):
        wanted = arrays.inner(smooth.grad(X + dtype(eta) * D), D)
        size = arrays.norm(D) * arrays.norm(smooth.grad(X + dtype(eta) * D))
        with compiling.passes(compiled), pytest.MonkeyPatch.context() as patch:
            if penalty.rowwise:  # no array of their size
                patch.setattr(Smoothed, "grad", small(Smoothed.grad))
            assert abs(smooth.slope(X, D, eta) - wanted) <= tol * size


def small(method):
    def checked(self, X):
        assert len(X) < SHAPE[0]
        return method(self, X)

    return checked


@precisions
@pytest.mark.parametrize("penalty", CLIPPED, ids=str)
def test_clipped_penalties_are_compiled(penalty, dtype, tol, monkeypatch):
    X, C, Q = given(dtype)
    with compiling.passes(True):
        monkeypatch.setattr(Smoothed, "dual", lambda *_: pytest.fail("not compiled"))
        weighted = getattr(penalty, "weights", None) is not None
        if weighted:
            with pytest.raises(pytest.fail.Exception):
                pending(penalty, X, C).times(Q)
        else:
            pending(penalty, X, C).times(Q)
            Smoothed.of(penalty, 0.2, X.shape).slope(X, C)


class Shifted(L1):
    """Another smoothing than that of its base."""

    def ascend(self, y, X, t, *, geometry="paper"):
        return super().ascend(y, X + 1.0, t, geometry=geometry)


@ways
def test_a_penalty_with_its_own_smoothing_is_not_taken_for_its_base(compiled):
    X, C, Q = given()
    smooth = Smoothed.of(Shifted(0.7), 0.2, X.shape)
    with compiling.passes(compiled):
        A = smooth.target_around(X, C, 0.9, 1.3, None)
        A.times(Q)
        along = smooth.slope(X, C)
    assert along == pytest.approx(arrays.inner(smooth.grad(X), C))
    wanted = X - (0.9 * (X - C) + 0.7 * np.clip((X + 1.0) / 0.2, -1, 1)) / 1.3
    np.testing.assert_allclose(A.array, wanted, atol=1e-12)


@ways
@pytest.mark.parametrize("mu", [1e-320, 1e-6, 1e300])
def test_extreme_smoothing(mu, compiled):
    X, C, Q = given()
    smooth = Smoothed.of(L1(1.0), mu, X.shape)
    with compiling.passes(compiled), np.errstate(all="raise", under="ignore"):
        A = smooth.target_around(X, C, 1.0, 1.0, None)
        A.times(Q)
    assert np.all(np.abs(A.array - C) <= 1.0 + 1e-12)


@ways
@pytest.mark.parametrize("penalty", [L1(0.7), GroupL2(0.4)], ids=str)
def test_bits_do_not_depend_on_the_number_of_threads(penalty, compiled, monkeypatch):
    monkeypatch.setattr(threads, "SHARED_FROM", 0)
    X, C, Q = given()
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "cores", lambda count=count: count)
        with threadpool_limits(3), threads.one_thread(0), compiling.passes(compiled):
            A = pending(penalty, X, C)
            along = Smoothed.of(penalty, 0.2, X.shape).slope(X, C, 0.3)
            found.append((A.times(Q), A.array, (A.rough_sqnorm(), along)))
    for product, A, numbers in found[1:]:
        np.testing.assert_array_equal(product, found[0][0])
        np.testing.assert_array_equal(A, found[0][1])
        assert numbers == found[0][2]


def test_penalties_that_mix_rows_and_other_arrays_are_computed_at_once():
    X, C, _ = given()
    assert isinstance(pending(GroupL2(0.4, "columns"), X, C), np.ndarray)
    smooth = Smoothed.of(L1(0.7), 0.2, X.shape)
    tiled = smooth.target_around(
        X, as_tiled(wp.LowRank(X[:, :2], np.ones(2), C[:2])), 1, 1, None
    )
    assert isinstance(tiled, np.ndarray)


def test_what_a_target_is_computed_from_is_not_kept():
    X, C, Q = given()
    A, alone = pending(L1(0.7), X, C), pending(L1(0.7), X, C)
    kept = weakref.ref(C)
    del C
    assert kept() is not None
    A.times(Q)
    alone.array  # noqa: B018
    assert kept() is None


def test_an_interrupted_pass_is_repeated():
    X, C, Q = given()
    A, wanted = pending(L1(0.7), X, C), pending(L1(0.7), X, C).array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "each_block", interrupted)
        for use in (lambda: A.times(Q), lambda: A.array):
            with compiling.passes(False), pytest.raises(KeyboardInterrupt):
                use()
    np.testing.assert_allclose(A.array, wanted, atol=1e-12)


def interrupted(*_):
    raise KeyboardInterrupt


def counted(A, fills):
    fill = A._fill
    A._fill = lambda Q: fills.append(Q) or fill(Q)
    return A


@pytest.mark.parametrize("term", [NuclearBall(3.0), NuclearNorm(0.5)], ids=str)
def test_an_oracle_computes_the_target_with_its_first_product(term, monkeypatch):
    X, C, _ = given(shape=(400, 380))
    basis = thin_svd(C, 3, strict=False).basis
    how = {"weight": 1.0, "rank": 3, "start": basis}
    fills = []
    A = counted(pending(L1(0.1), X, C), fills)
    wanted = term.weak_prox(formed(pending(L1(0.1), X, C)), rng=np.random.default_rng(0), **how)
    with monkeypatch.context() as patch:
        # no other pass for the sum of squares
        patch.setattr(arrays, "rough_sqnorm", lambda _: pytest.fail("another pass"))
        patch.setattr("weakprox.spectral.singular.rough_sqnorm", arrays.rough_sqnorm)
        with compiling.passes(True):
            found = term.weak_prox(A, rng=np.random.default_rng(0), **how)
    assert [Q.shape for Q in fills] == [(380, 9)]
    np.testing.assert_allclose(found.V.dense(), wanted.V.dense(), atol=1e-9)
    np.testing.assert_allclose(found.lower, wanted.lower, rtol=1e-9)
    assert found.passes == wanted.passes


@pytest.mark.parametrize("size", [(60, 50), (400, 380)])
@pytest.mark.parametrize("certify", [False, True])
def test_an_oracle_that_needs_the_entries_computes_them_first(size, certify):
    X, C, _ = given(shape=size)
    fills = []
    A = counted(pending(L1(0.1), X, C), fills)
    how = {"weight": 1.0, "rank": 70 if size[0] == 400 else 3, "certify": certify}
    found = NuclearBall(3.0).weak_prox(A, **how)
    assert fills == [None]
    wanted = NuclearBall(3.0).weak_prox(A.array, **how)
    np.testing.assert_array_equal(found.V.dense(), wanted.V.dense())


def test_terms_of_users_get_arrays():
    class Own(NuclearBall):
        def weak_prox(self, A, **options):
            assert isinstance(A, np.ndarray)
            return super().weak_prox(A, **options)

    X, C, _ = given()
    meter = wp.metering.Meter(wp.metering.Budget())
    for term in (Own(3.0), wp.spectral.TracePSD(3.0)):
        assert isinstance(pending(L1(0.1), X[:70], C[:70]), Pending)
        MeteredSpectral(term, meter).weak_prox(
            pending(L1(0.1), X[:70], C[:70]), weight=1.0, rank=3
        )


@ways
def test_a_resumed_run_has_the_same_bits(compiled):
    C = given(shape=(400, 380))[1]
    tau = 0.5 * np.linalg.norm(C, "nuc")
    problem = wp.Problem(wp.losses.Denoising(C), L1(0.1), NuclearBall(tau))
    how = {"eps": 1.0, "seed": 1, "stop_when_certified": False}
    solver = wp.SVRGCG(rank=3, epochs=4, inner=3, mu=0.01)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEAKPROX_COMPILE", "always" if compiled else "never")
        whole = wp.minimize(problem, solver, **how)
        part = wp.minimize(problem, solver, max_svds=5, **how)
        # a run keeps its choice of passes
        patch.setenv("WEAKPROX_COMPILE", "never" if compiled else "always")
        rest = wp.minimize(problem, solver, resume=part, **how)
    assert part.counts.svds < rest.counts.svds == whole.counts.svds
    np.testing.assert_array_equal(rest.checkpoint.memory.X, whole.checkpoint.memory.X)


@pytest.mark.parametrize("solver", ["svrgcg", "adaptive-svrgcg"])
def test_terms_that_declare_inherited_capabilities_get_arrays(solver):
    class Own(wp.spectral.NuclearBall):
        capabilities = wp.spectral.NuclearBall.capabilities

        def weak_prox(self, A, **how):
            return super().weak_prox(A * 1.0, **how)

    M = np.random.default_rng(0).standard_normal((90, 70))
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.1), Own(10.0))
    assert wp.minimize(problem, solver, eps=200.0, progress=False, max_svds=20).certified

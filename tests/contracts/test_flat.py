"""What is proved where G + R is not strongly convex, and what is refused."""

import numpy as np
import pytest
from registry import numbers

import weakprox as wp
from weakprox.certificates import observed
from weakprox.certificates import split as certificate
from weakprox.linalg import bounds
from weakprox.losses import Completion, Custom, Denoising, Regression, Sensing
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, MaxAffine, SignedL1, Zero
from weakprox.solvers import SVRGCG, DavisYin, Extragradient
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

# Two measurements of three unknowns, and a feasible point with its value.
A = np.array([[[-0.3, 1.0, 0.5]], [[-0.5, 0.8, 0.8]]])
B = np.array([5.4, -2.3])
POINT, VALUE = np.array([[0.0, 13.649625, -16.51525]]), 0.0301949375


def completion(shape=(40, 30), share=0.5, seed=0, rank=3):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    rows, cols = np.nonzero(rng.random(shape) < share)
    values = L[rows, cols] + 0.1 * rng.standard_normal(len(rows))
    return Completion(rows, cols, values, shape), np.linalg.norm(L, "nuc")


def quadratic(curvatures, M, **options):
    """1/2 sum of w (x - m)^2 by the user's own functions."""
    return Custom(
        M.shape,
        value=lambda X: 0.5 * float((curvatures * (X - M) ** 2).sum()),
        grad=lambda X: curvatures * (X - M),
        **options,
    )


# ---------------------------------------------------------- declared constants


def test_a_constant_that_measurements_cannot_have_is_refused():
    loss = Sensing(A, B, strong_convexity=0.4)
    with pytest.raises(wp.InputError, match="2 measurements of 3 unknowns") as caught:
        wp.Problem(loss, L1(1e-3), NuclearBall(42.0))
    assert caught.value.argument == "strong_convexity"


@pytest.mark.parametrize("solver", ["auto", "davis-yin"])
def test_the_same_problem_without_it_is_certified(solver):
    problem = wp.Problem(Sensing(A, B), L1(1e-3), NuclearBall(42.0))
    assert problem.value(NuclearBall(42.0).compress(POINT, 1, np.random.default_rng(0))) == (
        pytest.approx(VALUE, rel=1e-5)
    )
    result = wp.minimize(problem, solver, progress=False)
    assert result.solver == {"auto": "ADMM", "davis-yin": "DavisYin"}[solver]
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= VALUE
    assert result.value <= VALUE * (1 + 1e-4)
    # a small weight moves a flat direction by the same little step ten thousand times
    assert result.counts.svds <= {"auto": 100, "davis-yin": 3000}[solver]


def test_a_computed_constant_refutes_a_declared_one():
    rng = np.random.default_rng(3)
    stack = rng.standard_normal((60, 4, 3))
    b = rng.standard_normal(60)
    true = Sensing(stack, b).strong_convexity
    both = {"smoothness": 100.0}
    small = Sensing(stack, b, strong_convexity=0.9 * true, **both)
    large = Sensing(stack, b, strong_convexity=10 * true, **both)
    assert small.strong_convexity == 0.9 * true
    assert large.strong_convexity == pytest.approx(true, rel=1e-9)
    assert Sensing(stack, b, strong_convexity=10 * true).strong_convexity <= true


def test_curvature_on_symmetric_matrices_is_enough_for_symmetric_sets():
    d, n = 5, 18  # 15 unknowns of a symmetric matrix, 25 of a general one
    rng = np.random.default_rng(4)
    stack = rng.standard_normal((n, d, d))
    b = rng.standard_normal(n)
    i, j = np.triu_indices(d)
    basis = np.zeros((len(i), d, d))
    for k, (p, q) in enumerate(zip(i, j, strict=True)):
        basis[k, p, q] = basis[k, q, p] = 1.0 if p == q else np.sqrt(0.5)
    seen = np.einsum("nij,kij->nk", stack, basis)
    true = float(np.linalg.eigvalsh(seen.T @ seen / n)[0])
    fine = Sensing(stack, b, strong_convexity=0.99 * true)
    wp.Problem(fine, None, TracePSD(1.0))
    with pytest.raises(wp.InputError, match="18 measurements of 25 unknowns"):
        wp.Problem(fine, None, NuclearBall(1.0))
    with pytest.raises(wp.InputError, match="smallest curvature"):
        wp.Problem(Sensing(stack, b, strong_convexity=1.05 * true), None, TracePSD(1.0))
    few = Sensing(stack[:14], b[:14], strong_convexity=1e-3)
    with pytest.raises(wp.InputError, match="14 measurements of 15 unknowns"):
        wp.Problem(few, None, TracePSD(1.0))


@pytest.mark.parametrize("term", [NuclearBall(6.0), NuclearNorm(0.3)], ids=str)
def test_a_constant_that_gradients_refute_is_replaced_by_zero(term):
    W, M = 0.05 + np.abs(numbers(6, 5, seed=1)), 2.0 * numbers(6, 5, seed=2)
    true = {"strong_convexity": float(W.min()), "infimum": 0.0}
    best = wp.minimize(
        wp.Problem(quadratic(W, M, **true), L1(0.02), term), tol=1e-9, progress=False
    )
    wrong = quadratic(W, M, strong_convexity=1.5, smoothness=float(W.max()), infimum=0.0)
    result = wp.minimize(wp.Problem(wrong, L1(0.02), term), tol=1e-5, progress=False)
    assert result.checkpoint.restated == 0.0
    assert result.certificate.lower_bound <= best.value
    assert result.status is wp.Status.CERTIFIED
    assert result.value - best.value <= result.eps


def test_where_nothing_would_be_left_to_prove_with_it_is_an_error():
    W, M = 0.05 + np.abs(numbers(6, 5, seed=1)), 2.0 * numbers(6, 5, seed=2)
    wrong = quadratic(W, M, strong_convexity=1.5, smoothness=float(W.max()))
    with pytest.raises(wp.InputError, match="gradients contradict") as caught:
        wp.minimize(wp.Problem(wrong, L1(0.02), NuclearNorm(0.3)), tol=1e-5, progress=False)
    assert caught.value.argument == "strong_convexity"


# ------------------------------------------------------------ what is certified


@pytest.mark.parametrize(
    "penalty", [Zero(), L1(0.1), SignedL1(0.1, 0.2), GroupL2(0.2), L1(0.05) + GroupL2(0.1)]
)
@pytest.mark.parametrize("kind", ["ball", "norm"])
def test_completion_without_a_ridge(penalty, kind):
    loss, size = completion()
    h = NuclearBall(0.8 * size) if kind == "ball" else NuclearNorm(1.5)
    result = wp.minimize(wp.Problem(loss, penalty, h), tol=1e-5, progress=False)
    assert result.status is wp.Status.CERTIFIED
    # a ridge makes f larger, so its optimum is an upper bound on ours
    ridge = wp.Problem(loss, penalty + ElasticNet(0.0, 1e-6), h)
    above = wp.minimize(ridge, tol=1e-7, progress=False)
    assert result.certificate.lower_bound <= above.value
    assert result.value <= above.value * (1 + 1e-4)


@pytest.mark.parametrize("kind", ["ball", "norm", "psd"])
def test_beyond_full_decompositions(kind, monkeypatch):
    """Randomised bounds on repeated singular values are sharp enough."""
    for module in (bounds, certificate):  # of eigenvalues, too: `TracePSD` reads `bounds`
        monkeypatch.setattr(module, "THOROUGH", 50)
    monkeypatch.setattr(bounds, "EXACT_BELOW", 50)
    monkeypatch.setattr(observed, "SHORT", 50)
    shape = (240, 240) if kind == "psd" else (260, 240)
    loss, size = completion(shape, share=0.5, rank=4)
    if kind == "psd":
        rng = np.random.default_rng(1)
        U = rng.standard_normal((240, 4))
        rows, cols = np.nonzero(rng.random(shape) < 0.5)
        loss = Completion(rows, cols, (U @ U.T)[rows, cols], shape)
        size = np.linalg.norm(U) ** 2
    h = {"ball": NuclearBall, "psd": TracePSD}.get(kind, NuclearNorm)
    problem = wp.Problem(loss, None, h(0.7 * size) if kind != "norm" else h(20.0))
    solver = None if kind == "psd" else "factored-proximal"  # the default decomposes exactly
    result = wp.minimize(problem, solver, tol=1e-5, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.rests_on == "high-probability"


def test_float32_without_strong_convexity():
    loss, size = completion()
    single = Completion.from_dense(_dense(loss).astype(np.float32))
    problem = wp.Problem(single, L1(0.05), NuclearBall(0.8 * size))
    result = wp.minimize(problem, tol=1e-4, progress=False)
    exact = wp.minimize(
        wp.Problem(Completion.from_dense(_dense(loss).astype(np.float32).astype(float)),
                   L1(0.05), NuclearBall(0.8 * size)),
        tol=1e-8,
        progress=False,
    )  # fmt: skip
    assert result.status is wp.Status.CERTIFIED
    assert result.X.dtype == np.float32
    assert result.certificate.lower_bound <= exact.value


def _dense(loss):
    M = np.full(loss.shape, np.nan)
    M.reshape(-1)[loss._cells] = loss._values
    return M


# --------------------------------------------------------------- what is refused

EYE = Exact(prox=lambda X, weight: X, value_of=lambda X: 0.0)


@pytest.mark.parametrize("solver", [None, DavisYin(), Extragradient()], ids=str)
@pytest.mark.parametrize(
    ("loss", "penalty", "spectral", "reason"),
    [
        ("own", L1(0.1), NuclearNorm(0.5), "the loss has no known lower bound"),
        ("completion", MaxAffine(numbers(2, 6, 5)), NuclearNorm(0.5), "the penalty has no"),
        ("completion", L1(0.1), EYE, "no conjugate"),
    ],
)
def test_the_reason_is_named(loss, penalty, spectral, reason, solver):
    G = Completion([0, 1], [0, 1], np.ones(2), (6, 5))
    if loss == "own":
        G = quadratic(np.ones((6, 5)), numbers(6, 5))
    with pytest.raises(wp.ConvexityError, match=reason) as caught:
        wp.minimize(wp.Problem(G, penalty, spectral), solver, progress=False)
    assert "ElasticNet" in str(caught.value)


def test_a_known_conjugate_or_infimum_is_enough():
    own = quadratic(np.ones((6, 5)), numbers(6, 5), infimum=0.0)
    result = wp.minimize(wp.Problem(own, L1(0.1), NuclearNorm(0.5)), progress=False)
    assert result.status is wp.Status.CERTIFIED
    with pytest.raises(wp.InputError, match="infimum"):
        quadratic(np.ones((6, 5)), numbers(6, 5), infimum=np.nan)


def test_the_theorems_still_say_what_they_assume():
    loss, size = completion()
    with pytest.raises(wp.ConvexityError, match="not strongly convex"):
        wp.minimize(wp.Problem(loss, L1(0.1), NuclearBall(size)), SVRGCG(rank=3), eps=1.0)


# ------------------------------------------------------------- an optimum of zero


@pytest.mark.parametrize("penalty", [None, L1(0.0)], ids=str)
@pytest.mark.parametrize("solver", [None, DavisYin(), Extragradient()], ids=str)
def test_an_optimum_of_zero_is_certified(penalty, solver):
    M = numbers(30, 20)
    problem = wp.Problem(Denoising(M), penalty, NuclearBall(1e4))
    result = wp.minimize(problem, solver, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.eps <= 1.01e-4 * 1e-5 * 0.5 * np.sum(M * M)
    assert result.value <= result.eps
    assert np.linalg.norm(result.X - M) ** 2 <= 2 * result.eps


def test_large_arrays_with_an_optimum_of_zero():
    M = numbers(210, 2) @ numbers(2, 220)
    problem = wp.Problem(Denoising(M), L1(0.0), NuclearBall(1e6))
    assert wp.minimize(problem, progress=False).status is wp.Status.CERTIFIED


def test_measurements_that_are_met_exactly():
    rng = np.random.default_rng(5)
    stack, X0 = rng.standard_normal((50, 8, 10)), np.outer(numbers(8), numbers(10))
    b = np.einsum("kij,ij->k", stack, X0)
    result = wp.minimize(wp.Problem(Sensing(stack, b), None, NuclearBall(1e2)), progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert 0.0 <= result.value <= result.eps


def test_ordinary_values_are_what_tol_is_relative_to():
    result = wp.minimize(
        wp.Problem(Denoising(numbers(30, 20)), L1(0.1), NuclearBall(20.0)), progress=False
    )
    assert result.eps == pytest.approx(1e-4 * result.value)


# --------------------------------------------------------------------- extremes


@pytest.mark.parametrize("term", [NuclearBall(2.0), TracePSD(2.0), NuclearNorm(0.5)], ids=str)
def test_a_loss_without_any_curvature(term):
    """Measurements of nothing: G is constant, and only R and h decide."""
    loss = Sensing(np.zeros((2, 3, 3)), np.array([1.0, 2.0]))
    result = wp.minimize(wp.Problem(loss, L1(0.1), term), progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.value == pytest.approx(1.25)
    assert not np.any(result.X)


def test_moves_of_rounding_are_not_lengthened():
    """Where moves are constant rounding errors, doubling them would overflow."""
    limit = 3.0
    box = Exact(
        prox=lambda X, weight: X.clip(-limit, limit),
        value_of=lambda X: 0.0 if float(abs(X).max()) <= limit * (1 + 1e-5) else np.inf,
        conjugate_of=lambda U: limit * float(abs(U).sum()),
    )
    M = (10.0 * numbers(9, 8)).astype(np.float32)
    rows, cols = np.nonzero(np.abs(M) > 5)
    loss = Completion(rows, cols, M[rows, cols], M.shape, reduction="mean")
    result = wp.minimize(
        wp.Problem(loss, GroupL2(1.0), box), tol=1e-6, max_svds=150, progress=False
    )
    assert np.isfinite(result.value)
    assert result.certificate.lower_bound <= result.value


@pytest.mark.parametrize(
    "term", [NuclearBall(1e200), NuclearNorm(1e-160), TracePSD(1e200)], ids=str
)
def test_radii_whose_squares_overflow(term):
    C = numbers(6, 6)
    result = wp.minimize(wp.Problem(Denoising(C + C.T), L1(0.1), term), progress=False)
    assert result.status is wp.Status.CERTIFIED


def test_float32_is_not_called_positive_semidefinite_beyond_rounding():
    A = numbers(8, 8).astype(np.float32)
    problem = wp.Problem(Denoising(A @ A.T), L1(0.1), TracePSD(1000.0))
    result = wp.minimize(problem, progress=False)
    least = float(np.linalg.eigvalsh(result.X.astype(float))[0])
    assert result.violation >= -least / 1000.0
    assert result.violation > 0.0


# ------------------------------------------------------------------- step sizes


@pytest.mark.parametrize(
    ("seed", "shape", "low", "high"),
    [(2, (4, 2), -0.5, 0.5), (19, (4, 2), -0.5, 0.5), (25, (6, 3), 0.0, 1.0)],
)
def test_a_step_size_does_not_change_without_end(seed, shape, low, high):
    """The two halves of the gap once required the same cycle of step sizes without end."""
    rng = np.random.default_rng(seed)
    X, B = rng.standard_normal((10, shape[0])), rng.standard_normal(shape)
    Y = X @ B + 0.1 * rng.standard_normal((10, shape[1]))
    problem = wp.Problem(Regression(X[:3], Y[:3]), Box(low, high, 50.0), NuclearBall(1.0))
    result = wp.minimize(problem, "davis-yin", seed=0, progress=False)
    assert result.status is wp.Status.CERTIFIED

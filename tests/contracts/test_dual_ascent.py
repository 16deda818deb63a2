"""DualAscent: within its tolerance of CVXPY, honest, resumable, and few decompositions."""

import pickle
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from reference import _cvx
from registry import LOSSES, NUMPY, NUMPY32, PENALTIES, SAMPLED, TORCH, TORCH32

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1, ElasticNet, MaxAffine
from weakprox.result import COLUMNS
from weakprox.solvers import dual_ascent
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

KINDS = {"ball": NuclearBall, "psd": TracePSD, "norm": NuclearNorm}
SMALL = 1e-6  # relative accuracy granted to CVXPY


def data(kind, pieces, seed, *, shape=(7, 5)):
    """(M, A, b, size of h)."""
    shape = (shape[0], shape[0]) if kind == "psd" else shape
    rng = np.random.default_rng([seed, pieces, *shape])
    M = 2.0 * rng.standard_normal(shape)
    M = (M + M.T) / 2 if kind == "psd" else M
    A, b = rng.standard_normal((pieces, *shape)), rng.standard_normal(pieces)
    size = 0.8 if kind == "norm" else 0.4 * float(np.linalg.norm(M, "nuc"))
    return M, A, b, size


def build(kind, M, A, b, size, backend=NUMPY):
    R = MaxAffine(backend.array(A), backend.array(b))
    return wp.Problem(Denoising(backend.array(M)), R, KINDS[kind](size))


@cache
def optimum(kind, pieces, seed):
    M, A, b, size = data(kind, pieces, seed)

    def objective(X):
        return _cvx.squared_distance(M)(X) + _cvx.max_affine(A, b)(X)

    return _cvx.solve(M.shape, objective, kind, size)[0]


def run(problem, solver=None, **options):
    options = {"tol": 1e-6, "max_svds": 400, **options}
    solver = DualAscent() if solver is None else solver
    return wp.minimize(problem, solver, progress=False, **options)


def value(kind, M, A, b, size, X):
    nuclear = size * np.linalg.norm(X, "nuc") if kind == "norm" else 0.0
    pieces = (A * X).sum((1, 2)) - b
    return 0.5 * float(((X - M) ** 2).sum()) + float(pieces.max()) + nuclear


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("pieces", [2, 9, 30])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_bound_bracket_cvxpy(kind, pieces, tol):
    given, best = data(kind, pieces, 1), optimum(kind, pieces, 1)
    result = run(build(kind, *given), tol=tol)
    slack = SMALL * (1 + abs(best))
    assert result.status is wp.Status.CERTIFIED
    assert result.gap <= result.eps == tol * abs(result.value)
    assert result.value == pytest.approx(value(kind, *given, result.X), rel=1e-10)
    assert best - slack <= result.value <= best + result.eps + slack
    assert result.certificate.lower_bound <= min(best + slack, result.value)
    assert result.violation <= 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_default_for_these(kind):
    problem = build(kind, *data(kind, 9, 2))
    default = wp.minimize(problem, tol=1e-6, progress=False)
    assert default.solver == "DualAscent"
    assert np.array_equal(default.X, run(problem).X)


@pytest.mark.parametrize("name", LOSSES)
def test_other_losses_are_refused(name):
    G = LOSSES[name].build(NUMPY)
    problem = wp.Problem(G, PENALTIES["max-affine"].build(NUMPY), NuclearBall(2.0))
    others = ("denoising-holes", "denoising-huber", "denoising-weights")
    squared = name.startswith("denoising") and name not in others
    assert DualAscent.applies(problem) == squared
    if DualAscent.applies(problem):
        assert run(problem).status is wp.Status.CERTIFIED
        return
    with pytest.raises(wp.InputError, match="DavisYin") as caught:
        run(problem)
    assert caught.value.argument == "loss"


@pytest.mark.parametrize("name", PENALTIES)
def test_other_penalties_are_refused(name):
    R = PENALTIES[name].build(NUMPY)
    problem = wp.Problem(LOSSES["denoising-matrix"].build(NUMPY), R, NuclearBall(2.0))
    assert DualAscent.applies(problem) == isinstance(R, MaxAffine)
    if DualAscent.applies(problem):
        assert run(problem).status is wp.Status.CERTIFIED
        return
    with pytest.raises(wp.InputError, match="MaxAffine") as caught:
        run(problem)
    assert caught.value.argument == "penalty"


@pytest.mark.parametrize("name", SAMPLED)
def test_samplers_are_refused(name):
    R = PENALTIES["max-affine"].build(NUMPY)
    problem = wp.Problem(SAMPLED[name][0].build(NUMPY), R, NuclearBall(2.0))
    with pytest.raises(wp.InputError, match="a finite sum") as caught:
        run(problem)
    assert caught.value.argument == "loss"


@pytest.mark.parametrize("rank", [0, -1, 1.5, True, "2"])
def test_bad_ranks_are_refused(rank):
    with pytest.raises(wp.InputError) as caught:
        run(build("ball", *data("ball", 3, 3)), DualAscent(rank=rank))
    assert caught.value.argument == "rank"


def same(a, b):
    assert bool((a.X == b.X).all())
    assert (a.value, a.status, a.iterate_value, a.eps) == (
        b.value,
        b.status,
        b.iterate_value,
        b.eps,
    )
    assert a.counts == b.counts
    assert a.certificate == b.certificate
    for column in COLUMNS:
        if column != "seconds":
            assert np.array_equal(a.trace[column], b.trace[column], equal_nan=True)


@pytest.mark.parametrize("solver", [DualAscent(), DualAscent(rank=1)], ids=["free", "capped"])
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_at_any_place_to_the_bit(kind, solver):
    problem = build(kind, *data(kind, 30, 4))
    options = {"tol": 1e-13, "stop_when_certified": False, "max_svds": 70}
    whole = run(problem, solver, **options)
    parts = None
    for limit in (1, 17, 40, 70):
        parts = run(problem, solver, **{**options, "max_svds": limit}, resume=parts)
        parts = pickle.loads(pickle.dumps(parts))
    same(parts, whole)
    same(run(problem, solver, **options), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_to_a_proof(kind):
    problem = build(kind, *data(kind, 30, 5))
    whole = run(problem, tol=1e-9)
    first = run(problem, tol=1e-9, max_svds=max(1, whole.counts.svds // 2))
    same(run(problem, tol=1e-9, resume=pickle.loads(pickle.dumps(first))), whole)
    with pytest.raises(wp.InputError) as caught:
        run(problem, tol=1e-8, resume=first)
    assert caught.value.argument == "resume"


@pytest.mark.parametrize("backend", [TORCH, NUMPY32, TORCH32], ids=lambda b: b.name)
@pytest.mark.parametrize("kind", KINDS)
def test_other_arrays(kind, backend):
    given, best = data(kind, 9, 1), optimum(kind, 9, 1)
    single = backend is not TORCH
    result = run(build(kind, *given, backend), tol=1e-3 if single else 1e-6)
    slack = (1e-4 if single else SMALL) * (1 + abs(best))
    assert backend.owns(result.X)
    assert result.status is wp.Status.CERTIFIED
    assert best - slack <= result.value <= best + result.eps + slack
    assert result.certificate.lower_bound <= best + slack
    if backend is TORCH:
        assert result.value == pytest.approx(run(build(kind, *given)).value, rel=1e-6)


@pytest.mark.parametrize("tol", [1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_capped_rank_is_honest(kind, cap, tol):
    given, best = data(kind, 9, 1), optimum(kind, 9, 1)
    result = run(build(kind, *given), DualAscent(rank=cap), tol=tol)
    slack = SMALL * (1 + abs(best))
    assert result.rank <= cap
    assert result.certificate.lower_bound <= best + slack
    assert result.value == pytest.approx(value(kind, *given, result.X), rel=1e-10)
    if result.status is wp.Status.CERTIFIED:
        assert result.value - best <= result.eps + slack
    else:
        assert not result.status.reached
        assert result.gap > result.eps


@pytest.mark.parametrize("seed", range(6))
def test_few_decompositions(seed):
    """The paper's second example, small: 40 pieces with N(0, 1) entries."""
    rng = np.random.default_rng([6, seed])
    X0 = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 24))
    M = X0 + 0.5 * rng.standard_normal((30, 24))
    R = MaxAffine(rng.standard_normal((40, 30, 24)), rng.standard_normal(40))
    tau = 0.9 * float(np.linalg.norm(X0, "nuc"))
    result = run(wp.Problem(Denoising(M), R, NuclearBall(tau)), tol=1e-4)
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.svds <= 12


ODD = {
    "one piece": lambda A, b: (A[:1], b[:1]),
    "the same piece twice": lambda A, b: (A[[0, 0]], b[[0, 0]]),
    "every piece twice": lambda A, b: (np.repeat(A, 2, axis=0), np.repeat(b, 2)),
    "opposite pieces": lambda A, b: (np.concatenate([A, -A]), np.concatenate([b, -b])),
    "a zero piece": lambda A, b: (np.concatenate([A, 0 * A[:1]]), np.append(b, 0.0)),
    "zero pieces": lambda A, b: (0 * A, b),
    "one zero piece": lambda A, b: (0 * A[:1], 0 * b[:1]),
    "huge pieces": lambda A, b: (1e6 * A, 1e6 * b),
    "tiny pieces": lambda A, b: (1e-6 * A, 1e-6 * b),
    "huge offsets": lambda A, b: (A, 1e8 * b),
    "one that always wins": lambda A, b: (A, np.where(np.arange(len(b)) == 0, -1e9, b)),
    "mixed sizes": lambda A, b: (A * 10.0 ** np.linspace(-6, 3, len(b))[:, None, None], b),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ODD)
def test_odd_pieces(name, kind):
    M, A, b, size = data(kind, 6, 7)
    A, b = ODD[name](A, b)
    problem = build(kind, M, A, b, size)
    result = run(problem, tol=1e-5)
    assert (result.gap <= result.eps) == (result.status is wp.Status.CERTIFIED)
    assert result.status.reached or name == "huge pieces"  # where G hardly matters
    assert result.certificate.lower_bound <= result.value
    assert result.value == pytest.approx(value(kind, M, A, b, size, result.X), rel=1e-9)
    # another method's value is no lower than this one's bound
    other = wp.minimize(problem, wp.solvers.DavisYin(), tol=1e-3, progress=False, max_svds=30)
    assert result.certificate.lower_bound <= other.value + 1e-12 * abs(other.value)
    assert other.certificate.lower_bound <= result.value + 1e-12 * abs(result.value)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("kind", KINDS)
def test_any_unit(kind, scale):
    """All of f in another unit: the same run, and the same relative gap."""
    M, A, b, size = data(kind, 9, 1)
    h = scale * size
    problem = build(kind, scale * M, scale * A, scale**2 * b, h)
    result, usual = run(problem, tol=1e-5), run(build(kind, M, A, b, size), tol=1e-5)
    assert result.status is wp.Status.CERTIFIED
    assert result.value == pytest.approx(scale**2 * usual.value, rel=2e-5)
    assert result.counts.svds <= 2 * usual.counts.svds + 4


@pytest.mark.parametrize("kind", KINDS)
def test_first_points_are_answers_too(kind):
    given = data(kind, 9, 1)
    problem = build(kind, *given)
    best = run(problem, tol=1e-8)
    again = run(problem, tol=1e-4, start=best.X)
    assert again.status is wp.Status.CERTIFIED
    assert again.value <= run(problem, tol=1e-4).value + again.eps
    nothing = run(problem, start=best.X, max_svds=0)
    assert nothing.status is wp.Status.MAX_SVDS
    assert nothing.value == pytest.approx(best.value, rel=1e-9)


def test_values_of_zero_and_below():
    """Optimal values that are negative, or nothing at all."""
    M, A, b, size = data("ball", 9, 8)
    for offset in (0.0, 50.0, 1e4):
        result = run(build("ball", M, A, b + offset, size), tol=1e-6)
        assert result.status is wp.Status.CERTIFIED
        assert result.eps == 1e-6 * abs(result.value)
    assert result.value < 0
    nothing = run(build("ball", 0 * M, 0 * A, 0 * b, size), max_svds=40)
    assert nothing.value == 0.0
    assert not nothing.X.any()
    assert nothing.status is wp.Status.CERTIFIED


def test_copies_of_a_matrix_and_other_smooth_parts():
    M, A, b, _ = data("ball", 9, 9)
    rng = np.random.default_rng(9)
    copies = M + 0.3 * rng.standard_normal((7, *M.shape))
    R = MaxAffine(A, b)
    result = run(wp.Problem(Denoising(samples=copies), R, NuclearBall(3.0)))
    mean = run(wp.Problem(Denoising(copies.mean(0)), R, NuclearBall(3.0)))
    assert result.status is wp.Status.CERTIFIED
    assert result.value == pytest.approx(mean.value, rel=1e-6)
    for other in (R + ElasticNet(0.0, 0.1), R + L1(0.1)):  # sums are for DavisYin
        problem = wp.Problem(Denoising(M), other, NuclearBall(3.0))
        assert not DualAscent.applies(problem)
        assert wp.minimize(problem, progress=False).solver == "DavisYin"


def test_doubled_pieces_are_another_weight():
    M, A, b, _ = data("ball", 9, 10)
    double = run(wp.Problem(Denoising(M), 2.0 * MaxAffine(A, b), NuclearBall(4.0)))
    written = run(wp.Problem(Denoising(M), MaxAffine(2 * A, 2 * b), NuclearBall(4.0)))
    assert np.array_equal(double.X, written.X)


def test_limits_are_kept_exactly():
    problem = build("ball", *data("ball", 30, 11))
    for limit in (0, 1, 2, 5):
        result = run(problem, tol=1e-14, max_svds=limit)
        assert result.counts.svds <= limit
        assert result.status is wp.Status.MAX_SVDS
        assert result.certificate.lower_bound <= result.value


def test_rounding_ends_the_run():
    """Below what float64 can show, it ends by itself and says so."""
    problem = build("ball", *data("ball", 30, 12))
    result = run(problem, tol=None, eps=1e-30, max_svds=None)
    assert result.status is wp.Status.FINISHED
    assert not result.status.reached
    assert result.eps < result.gap <= 1e-9 * abs(result.value)


def test_two_pieces_are_balanced_by_one_step():
    """Where the ball does not bind, the dual function is a parabola of known curvature."""
    M, A, b, _ = data("ball", 2, 7)
    A[1] *= 3.0
    D, centre = A[0] - A[1], 0.5 * (A[0] + A[1])
    b[1] = b[0] - np.vdot(D, M - centre) - 0.2 * np.vdot(D, D)  # so that weights are 0.3, 0.7
    result = run(build("ball", M, A, b, 1e3))
    assert result.certified
    assert result.counts.svds == 2  # before the step and after it


@dataclass(frozen=True)
class Ascent:
    y: np.ndarray
    base: np.ndarray
    slope: np.ndarray
    step: float = 1.0
    values: tuple = ()


@pytest.mark.parametrize(("bent", "length"), [(0.5, 2.0), (1e-20, 0.25e12)])
def test_steps_follow_the_curvature_up_to_a_limit(bent, length):
    """The limit is 1e12 times the safe length, which is weight over the squared norm."""
    R = SimpleNamespace(sqnorm=8.0, feasible=lambda y: y)
    state = Ascent(y=np.array([1.0]), base=np.array([0.0]), slope=np.array([bent]))
    after = dual_ascent._moved(state, R, np.array([0.0]), bound=3.0, weight=2.0)
    assert after.step == pytest.approx(length)
    assert after.values == (3.0,)

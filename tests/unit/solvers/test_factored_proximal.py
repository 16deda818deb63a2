"""FactoredProximal: optima of another solver, proofs that hold, and runs that are resumed."""

import math
import tracemalloc
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from scipy.special import eval_chebyt

import weakprox as wp
from weakprox.certificates.observed import FILTER, SKEW, ObservedDual, Triplets, filtered
from weakprox.linalg import LowRank
from weakprox.losses import Completion, Huber, Penalised
from weakprox.metering import Budget, Meter
from weakprox.passes import ValueForm
from weakprox.penalties import L1
from weakprox.result import Counts
from weakprox.solvers import DavisYin, FactoredProximal, factored_proximal
from weakprox.solvers.base import Tools
from weakprox.solvers.factored_proximal import Steps
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SHAPE = (10, 8)
LAM, TAU = 1.2, 5.0
NORM, BALL = NuclearNorm(LAM), NuclearBall(TAU)


def observations(kind, shape=SHAPE, seed=0, share=0.6):
    """Rows, columns and values of a matrix of rank two; the first row is empty."""
    rng = np.random.default_rng(seed)
    m, d = shape
    mask = rng.random(shape) < share
    mask[0] = False
    rows, cols = np.nonzero(mask)
    signal_ = (rng.standard_normal((m, 2)) @ rng.standard_normal((2, d)))[rows, cols]
    values = signal_ + 0.5 * rng.standard_normal(len(rows))
    if kind == "logistic":
        values = (values > 0).astype(float)
    elif kind == "poisson":
        values = rng.poisson(np.exp(np.clip(values, -2, 1.5))).astype(float)
    return rows, cols, values


def completion(kind, shape=SHAPE, seed=0, share=0.6, dtype=float, **options):
    rows, cols, values = observations(kind, shape, seed, share)
    loss = Huber(0.5) if kind == "huber" else kind
    return Completion(rows, cols, values.astype(dtype), shape, loss=loss, **options)


def optimum(kind, intercepts, ridge, ball, seed=0, weights=1.0, scales=None):
    """The optimal value by CVXPY."""
    rows, cols, values = observations(kind, seed=seed)
    m, d = SHAPE
    X, a, b, mean = cp.Variable(SHAPE), cp.Variable(m), cp.Variable(d), cp.Variable()
    L = X if scales is None else cp.multiply(X, 1.0 / np.outer(*scales))
    p = L[rows, cols]
    p = p + a[rows] if intercepts in ("rows", "both") else p
    p = p + b[cols] if intercepts in ("columns", "both") else p
    p = p + mean if intercepts != "none" else p
    terms = {
        "squared": lambda: 0.5 * cp.square(p - values),
        "huber": lambda: 0.5 * cp.huber(p - values, 0.5),
        "logistic": lambda: cp.logistic(p) - cp.multiply(values, p),
        "poisson": lambda: cp.exp(p) - cp.multiply(values, p),
    }[kind]()
    f = cp.sum(cp.multiply(weights, terms))
    if kind == "poisson":
        fixed = values * np.log(np.maximum(values, 1.0)) - values
        f = f + float((weights * fixed).sum())
    f = f + 0.5 * ridge * (cp.sum_squares(a) + cp.sum_squares(b))
    within = [cp.normNuc(X) <= TAU] if ball else []
    f = f if ball else f + LAM * cp.normNuc(X)
    return float(cp.Problem(cp.Minimize(f), within).solve(solver="CLARABEL"))


@pytest.mark.parametrize("kind", ["squared", "huber", "logistic", "poisson"])
@pytest.mark.parametrize(
    ("intercepts", "ridge", "ball"),
    [("none", 0.0, False), ("both", 0.0, False), ("both", 0.7, True), ("rows", 0.0, True)],
)
def test_the_optimum_of_another_solver(kind, intercepts, ridge, ball):
    loss = completion(kind, intercepts=intercepts, intercept_ridge=ridge)
    problem = wp.Problem(loss, None, BALL if ball else NORM)
    result = wp.minimize(problem, FactoredProximal(), tol=1e-6)
    best = optimum(kind, intercepts, ridge, ball)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= best * (1 + 1e-6)
    assert result.value >= best * (1 - 1e-6)
    assert result.value <= best * (1 + 2e-6)


def test_weights_and_scalings_of_another_solver():
    rows, *_ = observations("squared")
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(rows))
    scales = np.linspace(0.6, 1.7, SHAPE[0]), np.linspace(1.4, 0.8, SHAPE[1])
    options = {"weights": weights, "scaling": scales, "intercepts": "columns"}
    result = wp.minimize(wp.Problem(completion("squared", **options), None, NORM), tol=1e-7)
    best = optimum("squared", "columns", 0.0, False, weights=weights, scales=scales)
    assert result.certified
    assert result.value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
@pytest.mark.parametrize("h", [NORM, BALL])
def test_a_penalty_on_the_observed_entries_of_another_solver(kind, h):
    """Entries that are not observed have no penalty."""
    rows, cols, values = observations(kind)
    l1, ridge, width = 0.6, 0.2, 0.1
    loss = Penalised(kind, l1=l1, ridge=ridge, width=width)
    problem = wp.Problem(Completion(rows, cols, values, SHAPE, loss=loss), None, h)
    result = wp.minimize(problem, tol=1e-6)
    X = cp.Variable(SHAPE)
    x = X[rows, cols]
    terms = cp.logistic(x) - cp.multiply(values, x)
    if kind == "squared":
        terms = 0.5 * cp.square(x - values)
    f = cp.sum(terms) + l1 * cp.sum(cp.huber(x, width)) / (2 * width)
    f += 0.5 * ridge * cp.sum_squares(x)
    within = [cp.normNuc(X) <= TAU] if h is BALL else []
    f = f if h is BALL else f + LAM * cp.normNuc(X)
    best = float(cp.Problem(cp.Minimize(f), within).solve(solver="CLARABEL"))
    assert result.solver == "FactoredProximal"
    assert result.certified
    assert result.certificate.lower_bound <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= result.value <= best * (1 + 2e-6)
    assert wp.verify(result.proof, problem)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_bounds_of_short_runs_are_below_the_optimum(kind, seed):
    """Whatever ends a run, its bound holds."""
    loss = completion(kind, seed=seed, intercepts="both")
    problem = wp.Problem(loss, None, (NORM, BALL)[seed % 2])
    best = wp.minimize(problem, FactoredProximal(), tol=1e-9).certificate
    for limit in (0, 1, 3, 7, 17):
        result = wp.minimize(problem, FactoredProximal(), tol=1e-9, max_svds=limit)
        assert result.certificate.lower_bound <= best.value
        assert result.value >= best.lower_bound
        assert result.counts.svds <= limit + 1


@pytest.mark.parametrize("h", [NORM, BALL])
def test_float32_data(h):
    single, double = (completion("squared", (40, 30), dtype=t) for t in (np.float32, float))
    result = wp.minimize(wp.Problem(single, None, h), tol=1e-5)
    assert result.certified
    assert result.low_rank.U.dtype == np.float32
    assert "continued in float64" not in result.explain()
    exact = wp.minimize(wp.Problem(double, None, h), tol=1e-8)
    assert result.value == pytest.approx(exact.value, rel=2e-5)


def test_a_cap_on_the_rank():
    problem = wp.Problem(completion("squared", (40, 30)), None, NuclearNorm(2.0))
    free = wp.minimize(problem, FactoredProximal())
    assert free.rank > 1
    capped = wp.minimize(problem, FactoredProximal(rank=1), max_svds=40)
    assert capped.rank == 1
    assert capped.value > free.value
    assert capped.certificate.lower_bound <= free.value


def test_the_automatic_choice():
    loss = completion("squared")
    for penalty, h, solver in (
        (None, NORM, "FilledProximal"),
        (None, BALL, "FilledProximal"),
        (L1(0.1), NORM, "DavisYin"),
    ):
        assert wp.minimize(wp.Problem(loss, penalty, h), tol=0.1).solver == solver
    few = wp.Problem(completion("squared", share=0.2), None, NORM)
    assert wp.minimize(few, tol=0.1).solver == "FactoredProximal"
    square = completion("squared", (8, 8))
    psd = wp.Problem(square, None, TracePSD(3.0))
    assert not FactoredProximal.applies(psd)
    with pytest.raises(wp.InputError, match="observed entries"):
        wp.minimize(psd, FactoredProximal())


def test_a_user_s_own_loss_of_entries():
    class Pseudo:
        """sqrt(1 + r^2) - 1."""

        smoothness = 1.0

        def check(self, values):
            return values

        def value(self, y, x):
            return np.sqrt(1 + (x - y) ** 2) - 1

        def derivative(self, y, x):
            return (x - y) / np.sqrt(1 + (x - y) ** 2)

        def curvature(self, y, x):
            return (1 + (x - y) ** 2) ** -1.5

        def conjugate(self, y, s):
            inside = np.sqrt(np.maximum(1 - s * s, 0.0))
            return np.where(np.abs(s) <= 1, s * y + 1 - inside, np.inf)

        def mean(self, x):
            return x

    rows, cols, values = observations("squared")
    loss = Completion(rows, cols, values, SHAPE, loss=Pseudo(), intercepts="both")
    problem = wp.Problem(loss, None, NuclearNorm(0.5))
    result = wp.minimize(problem, tol=1e-6)
    assert result.certified
    verdict = wp.verify(result.proof, problem)
    assert verdict
    assert "the functions of the loss of an entry" in verdict.trusted


def test_a_run_with_a_wrong_conjugate_ends_without_a_proof():
    class Wrong(Huber):
        def conjugate(self, y, s):
            return super().conjugate(y, s) - 1.0

    rows, cols, values = observations("squared")
    loss = Completion(rows, cols, values, SHAPE, loss=Wrong(0.5))
    result = wp.minimize(wp.Problem(loss, None, NORM), FactoredProximal(), max_svds=20_000)
    assert result.status is wp.Status.FINISHED
    assert math.isinf(result.gap)


# runs


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("h", [NuclearNorm(1.0), NuclearBall(20.0)])
def test_resumed_runs_end_at_the_same_bits(dtype, h, tmp_path):
    problem = wp.Problem(completion("huber", (20, 15), dtype=dtype, intercepts="both"), None, h)
    options = {"tol": 1e-5, "checkpoint_every": 0.0}
    whole = wp.minimize(problem, tol=1e-5)
    path = tmp_path / "run.safetensors"
    part = wp.minimize(problem, max_svds=20, checkpoint=path, **options)
    assert part.status is wp.Status.MAX_SVDS
    for other in (
        wp.minimize(problem, tol=1e-5, resume=part),
        wp.minimize(problem, checkpoint=path, resume=True, **options),
    ):
        assert np.array_equal(other.X, whole.X)
        assert other.certificate == whole.certificate
        assert other.counts.svds == whole.counts.svds


def test_an_interrupted_run_returns_its_best_point():
    problem = wp.Problem(completion("squared", (40, 30)), None, NuclearNorm(1.0))

    def interrupt(look):
        if look.step == 5:
            raise KeyboardInterrupt

    result = wp.minimize(problem, tol=1e-9, callback=interrupt)
    assert result.status is wp.Status.INTERRUPTED
    assert math.isfinite(result.gap)
    assert wp.minimize(problem, tol=1e-9, resume=result).certified


def test_callbacks_see_factors_and_limits_are_kept():
    problem = wp.Problem(completion("squared", (40, 30)), None, NuclearNorm(1.0))
    seen = []
    result = wp.minimize(
        problem, tol=1e-9, callback=lambda look: seen.append(look) or len(seen) > 4
    )
    assert result.status is wp.Status.CALLBACK
    assert all(isinstance(look.X, LowRank) for look in seen)
    assert seen[-1].value < seen[0].value
    assert wp.minimize(problem, tol=1e-9, max_seconds=0.0).status is wp.Status.MAX_SECONDS


def test_the_progress_shows_a_gap_before_it_is_proved(monkeypatch):
    shown = []
    monkeypatch.setattr(
        "weakprox.progress.RunProgress.show", lambda self, **now: shown.append(now["gap"])
    )
    problem = wp.Problem(completion("squared", (40, 30)), None, NuclearNorm(1.0))
    result = wp.minimize(problem, FactoredProximal(), tol=1e-7, progress=True)
    finite = [gap for gap in shown if math.isfinite(gap)]
    assert result.certified
    assert len(finite) > 3
    assert finite[0] > finite[-1]


def test_a_neighbour_s_result_is_a_start_in_factors():
    loss = completion("squared", (40, 30))
    first = wp.minimize(wp.Problem(loss, None, NuclearNorm(1.1)), tol=1e-6)
    problem = wp.Problem(loss, None, NuclearNorm(1.0))
    cold, warm = wp.minimize(problem, tol=1e-4), wp.minimize(problem, tol=1e-4, start=first)
    assert warm.certified
    assert warm.counts.svds <= cold.counts.svds
    dense = wp.minimize(problem, tol=1e-4, start=np.array(first.X))
    assert dense.value == pytest.approx(warm.value, rel=2e-4)


def test_another_solver_finds_the_same():
    problem = wp.Problem(completion("squared", (20, 15), intercepts="both"), None, NORM)
    one, two = wp.minimize(problem, tol=1e-6), wp.minimize(problem, DavisYin(), tol=1e-6)
    assert two.certified
    assert one.value == pytest.approx(two.value, rel=3e-6)


# memory


def large(m, d, n, lam):
    """Entries of a large matrix, of which a part has rank one."""
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal(300), rng.standard_normal(200)
    i, j = rng.integers(0, 300, n // 2), rng.integers(0, 200, n // 2)
    rows = np.concatenate([i * (m // 300), rng.integers(0, m, n // 2)])
    cols = np.concatenate([j * (d // 200), rng.integers(0, d, n // 2)])
    values = np.concatenate([u[i] * v[j], np.zeros(n // 2)]) + 0.1 * rng.standard_normal(n)
    return wp.Problem(Completion(rows, cols, values, (m, d)), None, NuclearNorm(lam))


def test_nothing_of_the_size_of_x_is_made(monkeypatch):
    """The shape takes 9.6 GB as an array; all that a user does stays below a tenth of that."""
    tracemalloc.start()
    try:
        problem = large(40_000, 30_000, 40_000, 60.0)
        plan = wp.plan(problem)
        result = wp.minimize(problem, tol=1e-2, max_svds=30)
        told = repr(result) + result.explain()
        assert wp.verify(result.proof, problem)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.certified
    assert "FactoredProximal" in told
    assert "nonzero" not in told
    assert peak < 9.6e8
    need = plan["FactoredProximal"]
    assert plan.chosen == "FactoredProximal"
    assert 0.3 * need.peak < peak < 3.0 * need.peak
    assert plan["DavisYin"].peak > 7 * 9.6e9
    monkeypatch.setattr("weakprox.result.room", lambda: 1 << 30)
    with pytest.raises(wp.InputError, match="factors"):
        _ = result.X


def test_the_largest_shape_is_planned_and_evaluated():
    """7.3 TiB as an array: whatever makes one fails."""
    problem = large(2_000_000, 500_000, 200_000, 100.0)
    tracemalloc.start()
    try:
        need = wp.plan(problem)["FactoredProximal"]
        zero = LowRank.zero(problem.shape, np.zeros(1))
        assert problem.value(zero) > 0.0
        state = FactoredProximal().start(problem, None, _tools(problem))
        state = Steps(problem, _tools(problem), None).proximal(state)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e9
    assert state.V.shape == problem.shape
    assert need.work == 0.0
    assert peak < need.peak < 1e-3 * 2e6 * 5e5 * 8


def _tools(problem):
    """What a run gives its solver."""
    meter = Meter(Budget(None, None, None), Counts())
    return Tools(problem, meter, 1.0, 0, lambda candidate: None, lambda *_: None)


def test_memory_that_does_not_suffice_is_refused():
    problem = large(200_000, 80_000, 100_000, 100.0)
    with pytest.raises(wp.InputError, match=r"max_memory.*FactoredProximal"):
        wp.minimize(problem, max_memory="300MB")


@pytest.mark.parametrize("shape", [(30, 70), (70, 30)])
@pytest.mark.parametrize("spectral", [NuclearNorm(1.0), NuclearBall(60.0)])
def test_where_most_entries_are_observed_arrays_give_the_same(shape, spectral, monkeypatch):
    kinds = {"intercepts": "both", "intercept_ridge": 0.5, "scaling": "counts"}
    problem = wp.Problem(completion("squared", shape, share=0.7, **kinds), None, spectral)
    decomposed = []
    plain = Steps._prox_of_array
    monkeypatch.setattr(Steps, "_prox_of_array", lambda *a: decomposed.append(1) or plain(*a))
    by_array = wp.minimize(problem, tol=1e-5)
    assert decomposed
    monkeypatch.setattr(Steps, "_as_array", lambda self, block: False)
    by_blocks = wp.minimize(problem, tol=1e-5)
    assert by_array.status.name == by_blocks.status.name == "CERTIFIED"
    assert by_array.value == pytest.approx(by_blocks.value, rel=2e-5)
    assert by_array.certificate.lower_bound <= by_blocks.value
    assert by_blocks.certificate.lower_bound <= by_array.value


def test_few_observations_never_become_an_array(monkeypatch):
    monkeypatch.setattr(Steps, "_prox_of_array", None)
    problem = wp.Problem(completion("squared", (60, 50), share=0.2), None, NuclearNorm(0.3))
    assert wp.minimize(problem).status.name == "CERTIFIED"


def test_the_filter_is_a_chebyshev_polynomial():
    """It leaves values below the cut-off within [-1, 1] and amplifies those above."""
    data = completion("squared").observed()
    q, least = np.random.default_rng(0).standard_normal(data.size), 1.5
    S = data.times(q, np.eye(SHAPE[1]))
    s, Vt = np.linalg.svd(S)[1:]
    found = filtered(data, q, Vt.T, least)
    np.testing.assert_allclose(found, Vt.T * eval_chebyt(FILTER, 2 * (s / least) ** 2 - 1))


def test_a_dual_point_that_rounding_took_out_of_the_domain_is_shortened():
    """Huber's slopes end at k; whatever exceeds it by rounding is no dual point."""
    data = completion("huber").observed()
    q = np.clip(10.0 * data.values, -0.5, 0.5)
    norm = np.linalg.norm(data.times(q, np.eye(SHAPE[1])), 2)
    form = ValueForm(lam=norm * (1 - 1e-6))  # the norm asks for a shorter q, and by little

    def best(dual):
        return ObservedDual(data, dual, form, None, data.zero()).best(norm)

    (inside, _), (outside, length) = best(q), best(q * (1 + 2e-6))
    assert 0.9 < length < 1.0
    assert outside == pytest.approx(inside, rel=1e-2)


@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_one_observation_in_each_row_and_column(lam):
    """S is diagonal, X is too, and nothing else of a correction is determined."""
    y = np.random.default_rng(0).standard_normal(9) + 3.0
    rows = np.arange(9)
    result = wp.minimize(wp.Problem(Completion(rows, rows, y, (9, 9)), None, NuclearNorm(lam)))
    size = np.abs(y)
    best = np.where(size > lam, lam * size - 0.5 * lam**2, 0.5 * size**2).sum()
    assert result.certified
    assert result.value == pytest.approx(best, rel=2e-4)
    assert result.certificate.lower_bound <= best


@pytest.mark.parametrize("h", [NuclearNorm(0.1), NuclearBall(0.1)])
@pytest.mark.parametrize("scaling", ["none", "counts"])
def test_observations_of_one_entry_that_cancel_are_proved(h, scaling):
    """The intercept is their mean, so that S is zero although q is not."""
    y = np.array([1.0, 3.0])
    options = {"intercepts": "columns", "scaling": scaling}
    loss = Completion([4, 4], [0, 0], y, (9, 1), **options)
    result = wp.minimize(wp.Problem(loss, None, h), FactoredProximal(), progress=False)
    best = 0.5 * ((y - y.mean()) ** 2).sum()
    assert result.certified
    assert result.value == pytest.approx(best)
    assert best * (1 - 1e-4) <= result.certificate.lower_bound <= best


def test_a_ball_with_no_effect_needs_accurate_intercepts():
    """X converges for the intercepts of its steps, and the gap shows how far these are off."""
    y = np.array([-0.34, 0.05, 0.19])
    options = {"intercepts": "columns", "intercept_ridge": 0.3}
    loss = Completion([1, 1, 1], [6, 6, 0], y, (2, 9), **options)
    problem = wp.Problem(loss, None, NuclearBall(4.9))
    result = wp.minimize(problem, FactoredProximal(), progress=False)
    assert result.certified
    best = wp.minimize(problem, DavisYin(), tol=1e-8, progress=False)
    assert best.certificate.lower_bound <= result.value <= best.value * (1 + 1e-4)


def test_a_diverged_run_is_not_certified(monkeypatch):
    """An accuracy relative to the size of X means nothing if f is larger than at zero."""
    monkeypatch.setattr(factored_proximal, "SOLVED", 0.0)  # as if corrections had no end
    monkeypatch.setattr(factored_proximal, "FREE", -math.inf)
    y = np.random.default_rng(1).standard_normal(7) * 3.0
    rows, cols = np.arange(7), np.random.default_rng(2).permutation(7)
    problem = wp.Problem(Completion(rows, cols, y, (7, 7)), None, NuclearNorm(0.3))
    result = wp.minimize(problem, tol=1e-6, progress=False)
    assert result.value > 1e6
    assert result.status.name == "FINISHED"


def test_a_first_point_gives_the_directions_of_the_first_block():
    problem = wp.Problem(completion("squared"), None, NORM)
    rng = np.random.default_rng(5)
    X = problem.spectral.random_point(rng, SHAPE, 2, np.zeros(1))
    block = FactoredProximal().start(problem, X, _tools(problem)).block
    inside = np.linalg.lstsq(block[:, :2], X.Vt.T, rcond=None)[0]
    np.testing.assert_allclose(block[:, :2] @ inside, X.Vt.T, atol=1e-12)


@pytest.mark.parametrize(("width", "columns"), [(2, 3), (3, 3), (6, 6), (20, min(SHAPE))])
def test_blocks_grow_to_the_width_that_is_needed(width, columns):
    """By random columns of the size of the others, and to the shorter side at most."""
    steps = Steps(wp.Problem(completion("squared"), None, NORM), None, None)
    V = 10.0 * np.eye(SHAPE[1])[:, :3]
    found = steps._wider(V, width)
    assert found.shape == (SHAPE[1], columns)
    np.testing.assert_array_equal(found[:, :3], V)
    lengths = np.linalg.norm(found[:, 3:], axis=0)
    assert ((lengths > 2.0) & (lengths < 50.0)).all()


@pytest.mark.parametrize("known", [0, 3, 7])
@pytest.mark.parametrize("scaling", ["none", "counts"])
def test_norms_of_dual_points_are_bounded_whatever_triplets_are_known(known, scaling):
    """Also by accurate triplets that are not the leading ones, as if these were missed."""
    data = completion("squared", (30, 25), share=0.15, scaling=scaling).observed()
    q = np.random.default_rng(1).standard_normal(data.size)
    U, s, Vt = np.linalg.svd(data.times(q, np.eye(25)), full_matrices=False)
    found = Triplets(U[:, known : known + 2], s[known : known + 2], Vt[known : known + 2].T)
    dual = ObservedDual(data, q, ValueForm(lam=1.0), found, data.zero())
    assert not dual.exact
    bound = dual.norm(np.random.default_rng(0))
    assert s[0] * (1 - 1e-12) <= bound <= 1.1 * s[0]


def test_norms_of_dual_points_allow_for_vectors_that_are_a_little_too_long():
    """Values s with S V = U s are too small then, by half of what |U'U - I| shows."""
    data = completion("squared", (30, 25), share=0.15).observed()
    q = np.random.default_rng(1).standard_normal(data.size)
    U, s, Vt = np.linalg.svd(data.times(q, np.eye(25)), full_matrices=False)
    longer = 1 + 1e-2 * SKEW
    found = Triplets(U[:, :3] * longer, s[:3] / longer, Vt[:3].T)
    dual = ObservedDual(data, q, ValueForm(lam=1.0), found, data.zero())
    assert s[0] <= dual.norm(np.random.default_rng(0)) <= s[0] * (1 + SKEW)


def test_norms_of_short_arrays_do_not_depend_on_known_triplets():
    """They come from all singular values, also if these are so close that blocks miss some."""
    data = completion("squared", (60, 50), share=1.1).observed()
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((59, 50)))[0].ravel()  # the first row is empty
    q *= rng.uniform(0.99, 1.01, q.size)
    U, s, Vt = np.linalg.svd(data.times(q, np.eye(50)), full_matrices=False)
    assert s[30] > 0.9 * s[0]
    for found in (None, Triplets(U[:, 30:32], s[30:32], Vt[30:32].T)):
        dual = ObservedDual(data, q, ValueForm(lam=1.0), found, data.zero())
        assert dual.rests_on == "exact"
        assert dual.norm(rng) == pytest.approx(s[0], rel=1e-12)


@pytest.mark.parametrize("width", [1, 4, 12])
def test_blocks_are_widened_until_they_show_all_that_is_kept(width):
    """Each round costs two products; one is enough if the block is wide enough."""
    problem = wp.Problem(completion("squared", (30, 25), share=0.2), None, NuclearNorm(1.0))
    steps, rng = Steps(problem, None, None), np.random.default_rng(2)
    X = NORM.random_point(rng, (30, 25), 5, np.zeros(1))
    q, block = np.zeros(steps.data.size), np.hstack([X.Vt.T, rng.standard_normal((25, 7))])
    state = SimpleNamespace(V=X, before=X, block=block[:, :width])
    found, _, _, passes = steps._prox(state, q, 0.0, 1.0 / (0.1 * X.s[-1]))
    assert found.rank == 5
    assert found.s == pytest.approx(X.s - 0.1 * X.s[-1])
    assert passes == {1: 8, 4: 4, 12: 2}[width]


@pytest.mark.parametrize("b", [0.0, 0.6])
def test_distances_are_those_from_the_extrapolated_point(b):
    steps = Steps(wp.Problem(completion("squared"), None, NORM), None, None)
    rng = np.random.default_rng(2)
    V, X, before = (NORM.random_point(rng, SHAPE, 2, np.zeros(1)) for _ in range(3))
    state = SimpleNamespace(V=X, before=before)
    point = (1 + b) * X.dense() - b * before.dense()
    wanted = ((V.dense() - point) ** 2).sum()
    assert steps._distance(V, state, b) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("kind", "scale"), [("poisson", 9.0), ("logistic", 60.0), ("squared", 60.0)]
)
def test_corrections_are_halved_until_the_loss_at_most_doubles(kind, scale):
    """Unless it is quadratic, when their length is right."""
    problem = wp.Problem(completion(kind), None, NORM)
    steps, data = Steps(problem, None, None), problem.observed
    x, moved = np.zeros(data.size), scale * np.sin(np.arange(data.size))
    state = SimpleNamespace(x=x, effects=data.zero())
    first = data.value(x, data.zero())
    lengths = [0.5**k for k in range(20)]
    kept = [t for t in lengths if data.value(t * moved, data.zero()) <= 2.0 * first]
    wanted = 1.0 if kind == "squared" else kept[0]
    assert kept[0] < 1.0
    assert steps._length(state, moved) == wanted

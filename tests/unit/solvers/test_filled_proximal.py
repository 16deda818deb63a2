"""FilledProximal: optima of another solver, proofs that hold, and runs that are resumed."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import weakprox as wp
from weakprox.certificates.observed import ObservedDual, whole_norm
from weakprox.linalg import LowRank
from weakprox.losses import Completion, filled
from weakprox.losses.filled import Filled
from weakprox.solvers import FactoredProximal, FilledProximal, filled_proximal
from weakprox.solvers.filled_proximal import Steps
from weakprox.spectral import NuclearBall, NuclearNorm


def problem(shape=(40, 30), share=0.7, lam=2.0, h=None, seed=0, dtype=float, **options):
    """Most entries of a matrix of rank two with large intercepts; the first row is empty."""
    rng = np.random.default_rng(seed)
    m, d = shape
    mask = rng.random(shape) < share
    mask[0] = False
    rows, cols = np.nonzero(mask)
    X = rng.standard_normal((m, 2)) @ rng.standard_normal((2, d))
    X += 30.0 + 5.0 * rng.standard_normal((m, 1)) + 5.0 * rng.standard_normal(d)
    values = (X + 0.5 * rng.standard_normal(shape))[rows, cols].astype(dtype)
    options = {"intercepts": "both"} | options
    loss = Completion(rows, cols, values, shape, **options)
    return wp.Problem(loss, None, h or NuclearNorm(lam))


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
@pytest.mark.parametrize("shape", [(40, 30), (30, 40)])
@pytest.mark.parametrize("ball", [False, True])
def test_the_optimum_of_another_solver(intercepts, shape, ball):
    h = NuclearBall(40.0) if ball else NuclearNorm(2.0)
    given = problem(shape, h=h, intercepts=intercepts)
    result = wp.minimize(given, FilledProximal(), tol=1e-8)
    other = wp.minimize(given, FactoredProximal(), tol=1e-7)
    assert result.certified
    assert other.certified
    assert result.value == pytest.approx(other.value, rel=2e-7)
    assert result.certificate.lower_bound <= other.value
    assert other.certificate.lower_bound <= result.value
    assert result.certificate.rests_on == "exact"
    assert wp.verify(result.proof, given)


@pytest.mark.parametrize("intercepts", ["rows", "columns", "both"])
def test_free_intercepts_take_the_means_of_the_solution(intercepts):
    given = problem(intercepts=intercepts)
    X = wp.minimize(given, FilledProximal(), tol=1e-6).X
    if intercepts != "columns":
        assert np.abs(X.mean(axis=1)).max() < 1e-12 * np.abs(X).max()
    if intercepts != "rows":
        assert np.abs(X.mean(axis=0)).max() < 1e-12 * np.abs(X).max()


def test_means_of_errors_and_float32_data():
    mean, single = problem(reduction="mean", lam=2e-3), problem(dtype=np.float32)
    result = wp.minimize(mean, FilledProximal(), tol=1e-6)
    other = wp.minimize(mean, FactoredProximal(), tol=1e-6)
    assert result.value == pytest.approx(other.value, rel=2e-6)
    short, long = wp.minimize(single, tol=1e-5), wp.minimize(problem(), tol=1e-7)
    assert short.solver == "FilledProximal"
    assert short.certified
    assert short.low_rank.U.dtype == np.float32
    assert short.value == pytest.approx(long.value, rel=2e-5)


@pytest.mark.parametrize("ball", [False, True])
def test_bounds_of_short_runs_are_below_the_optimum(ball):
    given = problem(h=NuclearBall(40.0) if ball else None)
    best = wp.minimize(given, tol=1e-9).certificate
    for limit in (0, 1, 3, 7, 12):
        result = wp.minimize(given, tol=1e-9, max_svds=limit)
        assert result.solver == "FilledProximal"
        assert result.certificate.lower_bound <= best.value
        assert result.value >= best.lower_bound
        assert result.counts.svds <= limit + 1


def test_another_method_takes_over_where_the_gap_falls_slowly():
    """The weight is tiny beside the data."""
    rng = np.random.default_rng(1)
    rows, cols = np.nonzero(rng.random((6, 4)) < 0.95)
    loss = Completion(rows, cols, 1e4 + rng.standard_normal(len(rows)), (6, 4))
    given = wp.Problem(loss, None, NuclearNorm(0.3))
    result = wp.minimize(given, tol=1e-3)
    assert result.certified
    assert result.solver == "FactoredProximal"
    capped = wp.minimize(given, rank=1, tol=1e-3)
    assert capped.rank == 1


@pytest.mark.parametrize("large", [False, True])
def test_resumed_runs_end_at_the_same_bits(large, tmp_path, monkeypatch):
    if large:
        monkeypatch.setattr(filled, "CLEARED", 0)
        monkeypatch.setattr(filled_proximal, "SAMPLED", 60)
    given, path = problem(lam=0.7), tmp_path / "run.safetensors"
    whole = wp.minimize(given, tol=1e-9)
    options = {"tol": 1e-9, "checkpoint_every": 0.0}
    part = wp.minimize(given, max_svds=20, checkpoint=path, **options)
    assert part.status is wp.Status.MAX_SVDS
    for other in (
        wp.minimize(given, tol=1e-9, resume=part),
        wp.minimize(given, checkpoint=path, resume=True, **options),
    ):
        assert np.array_equal(other.X, whole.X)
        assert other.counts.svds == whole.counts.svds


def test_a_start_a_cap_on_the_rank_and_a_callback():
    given = problem()
    free, seen = wp.minimize(given, tol=1e-6), []
    warm = wp.minimize(given, tol=1e-6, start=free)
    assert warm.certified
    assert warm.counts.svds < free.counts.svds
    capped = wp.minimize(given, rank=1, max_svds=40)
    assert free.rank > capped.rank == 1
    assert capped.certificate.lower_bound <= free.value < capped.value
    wp.minimize(given, tol=1e-6, callback=lambda look: seen.append(look.X))
    assert all(isinstance(X, LowRank) for X in seen)


def test_a_cap_is_felt_only_if_it_leaves_something_out():
    given, state = problem(), SimpleNamespace(block=None, done=0, strict=False)
    steps = Steps.of(given, None)
    T = steps.filled.target(steps.filled.empty())
    rank = len(steps.proximal(T, state)[1])
    assert 1 < rank < 30
    for cap, cut in ((None, False), (rank - 1, True), (rank, False), (rank + 1, False)):
        _, s, _, _, left_out = Steps.of(given, cap).proximal(T, state)
        assert left_out == cut
        assert len(s) == rank - cut


def test_a_power_step_takes_the_place_of_a_decomposition_beside_small_values(monkeypatch):
    """With a rank far below the size and a clear cut-off, blocks give the same answer."""
    given = problem((120, 100), lam=14.0)
    used, plain = [], filled_proximal._power_step
    monkeypatch.setattr(
        filled_proximal, "_power_step", lambda *a: used.append(a[1].shape[1]) or plain(*a)
    )
    by_blocks = wp.minimize(given, tol=1e-8)
    assert used
    assert max(used) < 50
    monkeypatch.setattr(filled_proximal, "_power_step", lambda *a: None)
    whole = wp.minimize(given, tol=1e-8)
    assert by_blocks.certified
    assert by_blocks.value == pytest.approx(whole.value, rel=2e-8)


def test_small_values_beside_large_ones_come_from_a_full_decomposition():
    """Squares would lose values that are kept: the largest is 1e9 times the weight."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((20, 12)) < 0.8)
    X = 1e9 * np.outer(rng.standard_normal(20), rng.standard_normal(12))
    X += rng.standard_normal((20, 12))
    given = wp.Problem(Completion(rows, cols, X[rows, cols], (20, 12)), None, NuclearNorm(1.0))
    steps = Steps.of(given, None)
    T = steps.filled.target(steps.filled.empty())
    _, s, _ = steps._whole(T)
    assert np.allclose(s, np.linalg.svd(T, compute_uv=False), rtol=1e-6)


def test_fills_know_the_point():
    """The value, the intercepts and the dual point are those of the observations."""
    given = problem((12, 17))
    data, filled = given.observed, Filled.of(given.observed)
    V = wp.minimize(given, tol=1e-3).low_rank
    X = filled.point(V).dense()
    fill, value = filled.after(X)
    x = data.entries(V)
    effects = data.fitted(x)
    assert value == pytest.approx(data.value(x, effects), rel=1e-10)
    mine = filled.effects(fill)
    assert mine.mean == pytest.approx(effects.mean)
    assert np.allclose(mine.rows, effects.rows)
    assert np.allclose(mine.columns, effects.columns)
    point = filled.dual(X, fill)
    q = data.dual(x, effects)
    assert np.allclose(point.entries(), q)
    assert np.allclose(point.sums()[:2], [np.vdot(q, data.picked(filled.values.T)), q @ q])
    norm = np.linalg.norm(data.full(q), 2)
    assert norm <= point.sums()[2] <= norm * (1 + 1e-9)


def test_what_is_no_squared_error_of_most_entries_is_refused():
    weights = np.linspace(1.0, 2.0, problem().loss.n_terms)
    for other in (
        problem(weights=weights),
        problem(intercept_ridge=1.0),
        problem(loss=wp.losses.Huber(1.0)),
        problem(scaling="counts"),
        problem(share=0.2),
    ):
        with pytest.raises(wp.InputError, match="most entries"):
            wp.minimize(other, FilledProximal())
    twice = Completion([0, 0, 1], [0, 0, 1], [1.0, 2.0, 3.0], (2, 2))
    assert not FilledProximal.applies(wp.Problem(twice, None, NuclearNorm(1.0)))


def test_it_is_the_default_for_square_panels():
    given = problem((150, 150), lam=8.0)
    result = wp.minimize(given, tol=1e-6)
    other = wp.minimize(given, FactoredProximal(), tol=1e-6)
    assert result.solver == "FilledProximal"
    assert 2 * result.counts.svds < other.counts.svds


def test_it_can_be_asked_for_where_it_is_not_the_default():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 500))
    M[rng.random(M.shape) < 0.73] = np.nan
    given = wp.Problem(Completion.from_dense(M), None, NuclearNorm(20.0))
    assert wp.minimize(given).solver == "FactoredProximal"
    result = wp.minimize(given, FilledProximal())
    assert result.certified
    assert result.solver == "FilledProximal"


def test_relaxed_steps_save_steps_where_many_entries_are_missing(monkeypatch):
    given = problem((120, 60), share=0.55, lam=6.0)
    relaxed = wp.minimize(given, tol=1e-7)
    assert Filled.of(given.observed).share == pytest.approx(given.loss.n_terms / 7200)
    monkeypatch.setattr(filled_proximal, "LONGEST", 1.0)
    plain = wp.minimize(given, tol=1e-7)
    assert relaxed.value == pytest.approx(plain.value, rel=2e-7)
    assert relaxed.counts.svds < plain.counts.svds


def test_a_gap_is_estimated_once_it_is_likely_to_be_small(monkeypatch):
    given, tried = problem((120, 60), lam=6.0), []
    judged = Steps.judged

    def counted(self, state, residuals, k, aim):
        tried.append(k)
        return judged(self, state, residuals, k, aim)

    monkeypatch.setattr(Steps, "judged", counted)
    result = wp.minimize(given, tol=1e-9)
    assert result.certified
    assert 2 * len(tried) < result.counts.svds


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_bounds_on_norms_of_tiny_and_huge_arrays(unit):
    S = np.random.default_rng(0).standard_normal((9, 14))
    norm = np.linalg.norm(S, 2)
    assert norm <= whole_norm(unit * S) / unit <= norm * (1 + 1e-12)
    assert whole_norm(0.0 * S) == 0.0


def test_fills_after_a_change_of_the_point():
    given = problem((300, 17))
    rng, filled = np.random.default_rng(5), Filled.of(given.observed)
    shape = filled.values.shape
    X, left, right = rng.standard_normal(shape), rng.standard_normal((300, 2)), np.ones((17, 2))
    rows, columns = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    fill, _ = filled.after(R := X.copy())
    R = filled.residual(R, fill)
    R -= left @ right.T + rows[:, None] + columns
    R.reshape(-1)[filled.holes] = 0.0
    wanted, value = filled.after(X + left @ right.T)
    found, other = filled.moved(fill, left, right, rows, columns, R)
    assert other == pytest.approx(value)
    mine, theirs = filled.effects(found), filled.effects(wanted)
    assert np.allclose(mine.rows, theirs.rows)
    assert np.allclose(mine.columns, theirs.columns)
    count = len(filled.holes)
    assert np.allclose(found[:count], wanted[:count])


@pytest.mark.parametrize("intercepts", ["none", "rows", "columns", "both"])
@pytest.mark.parametrize("shape", [(300, 17), (17, 300)])
def test_values_of_large_arrays_are_made_in_blocks(shape, intercepts, monkeypatch):
    given = problem(shape, intercepts=intercepts)
    small = Filled.of(given.observed)
    result = wp.minimize(given, FilledProximal(), tol=1e-9)
    monkeypatch.setattr(filled, "CLEARED", 0)
    large = Filled.of(given.observed)
    assert (large.kept is None) == (not large.turned)
    assert np.allclose(large.values, small.values, rtol=0.0, atol=1e-12)
    assert not large.values.reshape(-1)[large.holes].any()
    assert large.unit == pytest.approx(small.unit)
    other = wp.minimize(given, FilledProximal(), tol=1e-9)
    assert other.certified
    assert other.value == pytest.approx(result.value, rel=1e-9)


@pytest.mark.parametrize("share", [0.55, 0.9])
def test_a_sample_of_residuals_combines_steps_as_well(share, monkeypatch):
    given = problem((120, 60), share=share, lam=6.0)
    whole = wp.minimize(given, tol=1e-8)
    monkeypatch.setattr(filled_proximal, "SAMPLED", 150)
    assert len(Steps.of(given, None).sample) == 150
    found = wp.minimize(given, tol=1e-8)
    assert found.certified
    assert found.counts.svds <= whole.counts.svds + 4


def test_steps_before_a_proof_are_forgotten(monkeypatch):
    """They take most of the memory."""
    given, seen = problem((120, 60), share=0.55, lam=6.0), []
    dual = Steps.dual

    def watched(self, *arguments):
        state = sys._getframe(1).f_locals["state"]
        seen.append((state.residuals, state.images, state.rest))
        return dual(self, *arguments)

    monkeypatch.setattr(Steps, "dual", watched)
    assert wp.minimize(given, tol=1e-6).certified
    assert seen == [((), (), None)]


def test_a_run_continues_after_a_proof_that_falls_short(monkeypatch):
    given, tried = problem((120, 60), share=0.55, lam=6.0), []
    proof = ObservedDual.proof

    def short(self, rng):
        tried.append(rng)
        found = proof(self, rng)
        return replace(found, lower=-np.inf) if len(tried) == 1 else found

    plain = wp.minimize(given, tol=1e-6)
    monkeypatch.setattr(ObservedDual, "proof", short)
    result = wp.minimize(given, tol=1e-6)
    assert len(tried) > 1
    assert result.certified
    assert result.counts.svds > plain.counts.svds
    assert result.value <= plain.value * (1 + 1e-6)


def test_momentum_is_fista_s_with_restarts():
    image, before, fill = np.array([3.0, 1.0]), np.array([1.0, 1.0]), np.array([2.0, 0.0])
    state = SimpleNamespace(momentum=2.0, image=before, fill=fill)
    ahead = (1 + np.sqrt(17)) / 2
    b = (ahead - 1) / ((1 + np.sqrt(1 + 4 * ahead**2)) / 2)
    found = Steps._with_momentum(None, state, image)
    assert found["momentum"] == pytest.approx(ahead)
    assert found["fill"] == pytest.approx(image + b * (image - before))
    state.fill = np.array([4.0, 0.0])  # the last step went too far
    found = Steps._with_momentum(None, state, image)
    assert (found["momentum"], found["fill"].tolist()) == (1.0, image.tolist())


def kinds(monkeypatch):
    """The dtypes of the targets of steps, in their order."""
    found, target = [], Filled.target

    def watched(self, fill):
        T = target(self, fill)
        found.append(T.dtype)
        return T

    monkeypatch.setattr(Filled, "target", watched)
    return found


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
def test_steps_are_in_float32_while_the_gap_is_large(unit, monkeypatch):
    """The accuracy relative to the data decides, whatever their unit."""
    given, single = problem((120, 60), lam=6.0), np.dtype(np.float32)
    P, values = given.observed.pattern, unit * given.observed.values
    loss = Completion(P.rows, P.columns, values, (120, 60), intercepts="both")
    given = wp.Problem(loss, None, NuclearNorm(6.0 * unit))
    used = kinds(monkeypatch)
    coarse = wp.minimize(given, tol=1e-3)
    assert coarse.certified
    assert set(used) == {single}
    used.clear()
    fine = wp.minimize(given, tol=1e-9)
    assert fine.certified
    assert used[0] == single
    assert used[-1] == np.float64
    changed = used.index(np.dtype(np.float64))
    assert single not in used[changed:]
    assert fine.value - 1e-9 * fine.value <= coarse.value <= fine.value * (1 + 1e-3)
    assert coarse.certificate.lower_bound <= fine.value


def test_points_of_steps_in_float32_have_orthonormal_factors():
    """Otherwise the sum of their values would not be the nuclear norm."""
    for tol in (1e-2, 1e-3, 1e-4):
        V = wp.minimize(problem((300, 60), lam=9.0), tol=tol).low_rank
        for F in (V.U, V.Vt.T):
            assert np.abs(F.T @ F - np.eye(V.rank)).max() < 1e-11


def test_bounds_after_steps_in_float32_are_below_the_optimum():
    for seed in range(6):
        given = problem((90, 40), lam=5.0, seed=seed)
        best = wp.minimize(given, tol=1e-10).value
        for tol in (1e-1, 1e-2, 1e-4):
            found = wp.minimize(given, tol=tol)
            assert found.certificate.lower_bound <= best * (1 + 1e-10)
            assert best <= found.value * (1 + 1e-10)


def test_numbers_out_of_the_range_of_float32_stay_in_float64():
    given = problem((40, 30))
    for unit, small in ((1.0, True), (1e30, False), (1e-30, False)):
        filled = Filled.of(given.loss.in_unit(1.0 / unit).observed())
        assert np.isfinite(filled.rough) == small


def test_early_steps_with_blocks_cost_few_more_steps(monkeypatch):
    given, used, plain = problem((300, 90), lam=8.0), [], filled_proximal._power_step
    monkeypatch.setattr(
        filled_proximal, "_power_step", lambda *a: used.append(a[1].shape[1]) or plain(*a)
    )
    monkeypatch.setattr(filled_proximal, "CROWDED", 0.0)
    found = wp.minimize(given, tol=1e-3)
    assert found.certified
    assert used
    monkeypatch.setattr(filled_proximal, "EARLY", 0)
    monkeypatch.setattr(filled_proximal, "EARLIEST", 0)
    used.clear()
    whole = wp.minimize(given, tol=1e-3)
    assert not used
    assert found.counts.svds <= whole.counts.svds + 1


def test_long_differences_of_images_are_in_float16(monkeypatch):
    given = problem((120, 60), share=0.55, lam=6.0)
    whole = wp.minimize(given, tol=1e-8)
    monkeypatch.setattr(filled_proximal, "LONG", 100)
    seen, combined = [], Steps._combined

    def watched(self, state, image):
        found = combined(self, state, image)
        seen.extend(one.dtype for one in found.get("images", ()))
        return found

    monkeypatch.setattr(Steps, "_combined", watched)
    found = wp.minimize(given, tol=1e-8)
    assert set(seen) == {np.dtype(np.float16)}
    assert found.certified
    assert found.counts.svds <= whole.counts.svds + 3


def test_holes_take_four_bytes_each():
    assert Filled.of(problem().observed).holes.dtype == np.uint32


def test_a_dual_point_is_scaled_in_place():
    """The multiple that proves the bound takes no memory of its own."""
    given = problem((120, 60), lam=6.0)
    steps = Steps.of(given, None)
    X = wp.minimize(given, tol=1e-5).low_rank.dense()
    fill, _ = steps.filled.after(X)
    point = steps.filled.dual(X, fill)
    dual = steps.dual(point, fill, point.sums()[2])
    found = dual.proof(np.random.default_rng(0))
    lower, q, norm = found.lower, found.dual.q, found.dual.norm
    assert q is dual.q
    assert np.linalg.norm(given.observed.full(q), 2) <= norm * (1 + 1e-12) <= 6.0 * (1 + 1e-12)
    again = dual.proof(np.random.default_rng(0)).lower
    assert again == pytest.approx(lower, rel=1e-9)


@pytest.mark.parametrize("power", [-7, 9])
def test_sweeps_in_float32_do_not_depend_on_the_unit(power):
    """Roots of singular values would be rounded differently."""
    rng, unit = np.random.default_rng(0), 2.0**power
    mask = np.arange(40) < rng.integers(6, 60, 80)[:, None]
    X = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40))
    X += 0.3 * rng.standard_normal(X.shape)
    values = []
    for factor in (1.0, unit):
        loss = Completion.of_mask(mask, factor * X[mask], "both")
        given = wp.Problem(loss, None, NuclearNorm(3.0 * factor))
        steps = Steps.of(given, None)
        assert steps.sweeps.needed
        values.append(wp.minimize(given, tol=1e-4).value)
    assert values[1] == unit**2 * values[0]


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_runs_resumed_between_steps_in_float32_end_at_the_same_bits(tol, tmp_path, monkeypatch):
    """Their state has float32 and float16 arrays; at the finer accuracy they change later."""
    monkeypatch.setattr(filled_proximal, "STRETCH", 2)
    monkeypatch.setattr(filled_proximal, "LONG", 100)
    given, path = problem((120, 60), share=0.55, lam=2.0), tmp_path / "run.safetensors"
    used = kinds(monkeypatch)
    whole = wp.minimize(given, tol=tol)
    assert whole.counts.svds > 4
    assert used[3] == np.float32
    options = {"tol": tol, "checkpoint_every": 0.0}
    part = wp.minimize(given, max_svds=4, checkpoint=path, **options)
    assert part.status is wp.Status.MAX_SVDS
    for other in (
        wp.minimize(given, tol=tol, resume=part),
        wp.minimize(given, checkpoint=path, resume=True, **options),
    ):
        assert np.array_equal(other.X, whole.X)
        assert other.counts.svds == whole.counts.svds

"""Data of any size: the same bits as data of size one, times a power of two."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox._minimize import unit_of
from weakprox.errors import InputError
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, SignedL1, Zero
from weakprox.selection import observed_path
from weakprox.solvers import LeanSplitting
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

RNG = np.random.default_rng(3)
M = RNG.standard_normal((7, 6))
S = M[:6] + M[:6].T
A = RNG.standard_normal((50, 7, 6))
PIECES, OFFSETS = RNG.standard_normal((3, 7, 6)), RNG.standard_normal(3)
ROWS, COLS = np.nonzero(RNG.random(M.shape) < 0.7)
WEIGHTS = RNG.uniform(0.5, 2.0, M.shape)


def custom(u):
    return Custom(
        M.shape,
        value=lambda X: 0.5 * float((WEIGHTS * (X - u * M) ** 2).sum()),
        grad=lambda X: WEIGHTS * (X - u * M),
        strong_convexity=0.5,
        smoothness=2.0,
    )


def box(u):
    limit = 0.4 * u
    return Exact(
        prox=lambda X, weight: X.clip(-limit, limit),
        value_of=lambda X: 0.0 if float(abs(X).max()) <= limit * (1 + 1e-9) else np.inf,
        conjugate_of=lambda U: limit * float(abs(U).sum()),
    )


BALL = lambda u: NuclearBall(3.0 * u)  # noqa: E731
CASES = {
    "matrix": lambda u: (Denoising(u * M), L1(0.2 * u), BALL(u)),
    "samples": lambda u: (Denoising(samples=u * A[:3]), GroupL2(0.2 * u), BALL(u)),
    "sensing": lambda u: (Sensing(A, u * A.sum((1, 2))), ElasticNet(0.1 * u, 0.3), BALL(u)),
    "entries": lambda u: (
        Completion(ROWS, COLS, u * M[ROWS, COLS], M.shape),
        ElasticNet(0.1 * u, 0.3),
        NuclearNorm(0.4 * u),
    ),
    "custom": lambda u: (custom(u), SignedL1(0.1 * u, 2.0 * u, 0.1), BALL(u)),
    "pieces": lambda u: (
        Denoising(u * M),
        MaxAffine(u * PIECES, u**2 * OFFSETS),
        BALL(u),
    ),
    "only pieces": lambda u: (Denoising(0 * M), MaxAffine(u * PIECES), BALL(u)),
    "psd": lambda u: (Denoising(u * S), Zero(), TracePSD(3.0 * u)),
    "box": lambda u: (Denoising(u * M), L1(0.1 * u), box(u)),
    "torch": lambda u: (Denoising(torch.from_numpy(u * M)), L1(0.2 * u), BALL(u)),
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("power", [-300, 300, 35])
def test_a_power_of_two_changes_no_bit(kind, power):
    u = 2.0**power
    one, other = (wp.Problem(*CASES[kind](x)) for x in (1.0, u))
    first, second = (
        wp.minimize(p, tol=1e-7, max_svds=60, progress=False) for p in (one, other)
    )
    assert (first.unit, second.unit != 1.0) == (1.0, True)
    np.testing.assert_array_equal(np.asarray(second.X), u * np.asarray(first.X))
    assert second.value == u**2 * first.value
    assert second.certificate.lower_bound == u**2 * first.certificate.lower_bound
    assert second.eps == u**2 * first.eps
    assert second.status is first.status
    np.testing.assert_array_equal(second.trace["value"], u**2 * first.trace["value"])


def test_float32_across_its_range():
    small = M.astype(np.float32)
    results = []
    for power in (0, 95, -95):
        u = 2.0**power
        p = wp.Problem(Denoising(small * np.float32(u)), L1(0.2 * u), NuclearBall(3.0 * u))
        results.append(wp.minimize(p, tol=1e-4, progress=False))
        assert results[-1].certified
        np.testing.assert_array_equal(results[-1].X, np.float32(u) * results[0].X)


def test_ordinary_data_are_left_alone():
    for size in (1e-9, 1.0, 1e9):
        assert unit_of(wp.Problem(*CASES["matrix"](size))) == 1.0
    zero = wp.Problem(Denoising(0 * M), L1(1.0), NuclearBall(1.0))
    assert unit_of(zero) == 1.0
    far = wp.Problem(Denoising(0 * M), L1(1.0), NuclearBall(2.0**300))
    assert unit_of(far) == 2.0**301  # how large X may become


def test_a_sampler_too():
    def draw(u):
        return lambda rng, k: u * (M + 0.1 * rng.standard_normal((k, *M.shape)))

    def solve(u):
        loss = Denoising(sampler=draw(u), shape=M.shape)
        p = wp.Problem(loss, L1(0.2 * u), NuclearBall(3.0 * u))
        return wp.minimize(p, tol=0.05, max_samples=2000, progress=False)

    one, other = solve(1.0), solve(2.0**200)
    np.testing.assert_array_equal(other.X, 2.0**200 * one.X)
    assert other.gap == 2.0**400 * one.gap


def test_terms_and_settings_of_the_users_own_stay_in_their_units():
    class Mine(L1):
        pass

    loss, _, ball = CASES["matrix"](2.0**300)
    assert unit_of(wp.Problem(loss, Mine(1.0), ball)) == 1.0
    assert unit_of(wp.Problem(loss, L1(1.0) + Mine(1.0), ball)) == 1.0
    problem = wp.Problem(loss, L1(1.0), ball)
    assert unit_of(problem) == unit_of(problem, wp.SVRGCG(rank=2)) > 1.0
    assert unit_of(problem, wp.SVRGCG(rank=2, mu=0.1)) == 1.0


IN_UNITS = {"mu", "C0", "sigma", "delta", "delta2", "lipschitz", "beta0"}
SOLVERS = [getattr(wp.solvers, name) for name in wp.solvers.__all__]


@pytest.mark.parametrize("solver", [kind for kind in SOLVERS if IN_UNITS & set(vars(kind()))])
def test_settings_in_the_units_of_the_problem_are_declared(solver):
    assert set(solver.units) == IN_UNITS & set(vars(solver()))
    loss, _, ball = CASES["matrix"](2.0**300)
    problem = wp.Problem(loss, L1(1.0), ball)
    assert unit_of(problem, solver()) != 1.0
    for name in solver.units:
        assert unit_of(problem, solver(**{name: 1.0})) == 1.0


def test_a_solver_of_the_users_own_may_declare_such_a_setting():
    @dataclass(frozen=True)
    class Mine(wp.solvers.DavisYin):
        units: ClassVar[tuple[str, ...]] = ("radius",)
        radius: float | None = None

    loss, _, ball = CASES["matrix"](2.0**300)
    problem = wp.Problem(loss, L1(1.0), ball)
    assert unit_of(problem, Mine()) != 1.0
    assert unit_of(problem, Mine(radius=1.0)) == 1.0


def test_a_term_of_the_users_own_may_declare_another_unit():
    class Other(L1):
        """Declares what `L1` does, under another name of its own."""

        @property
        def capabilities(self):
            found = super().capabilities
            return replace(found, in_unit=lambda unit: Other(self.lam / unit))

    u = 2.0**300
    own = wp.Problem(Denoising(u * M), Other(0.2 * u), NuclearBall(3.0 * u))
    assert unit_of(own) != 1.0
    found = wp.minimize(own, tol=1e-6)
    wanted = wp.minimize(wp.Problem(Denoising(M), L1(0.2), NuclearBall(3.0)), tol=1e-6)
    assert found.certified
    assert found.value == pytest.approx(u**2 * wanted.value, rel=1e-5)


def test_callbacks_starts_and_resumed_runs_speak_the_users_units():
    u, seen = 2.0**300, []
    one, other = (wp.Problem(*CASES["matrix"](x)) for x in (1.0, u))
    first = wp.minimize(one, tol=1e-9, progress=False)

    def callback(look):
        seen.append((float(abs(look.X).max()), look.value, look.lower_bound))
        return len(seen) == 3

    stopped = wp.minimize(other, tol=1e-9, progress=False, callback=callback)
    assert stopped.status is wp.Status.CALLBACK
    assert all(u / 100 < size < 100 * u and u**2 / 100 < value for size, value, _ in seen)
    resumed = wp.minimize(other, tol=1e-9, progress=False, resume=stopped)
    np.testing.assert_array_equal(resumed.X, u * first.X)
    again = wp.minimize(other, tol=1e-9, progress=False, start=resumed)
    assert again.certified
    assert again.counts.svds <= first.counts.svds
    near = wp.minimize(other, tol=1e-9, progress=False, start=u * first.X)
    assert near.certified
    crossed = wp.minimize(other, tol=1e-6, progress=False, start=first)  # of another size
    assert crossed.certified


def test_other_solvers():
    u = 2.0**300
    one, other = (wp.Problem(*CASES["matrix"](x)) for x in (1.0, u))
    for solver, eps in ((LeanSplitting(), 1e-3), (wp.SVRGCG(rank=3), 0.5)):
        first = wp.minimize(one, solver, eps=eps, progress=False)
        second = wp.minimize(other, solver, eps=u**2 * eps, progress=False)
        np.testing.assert_array_equal(second.X, u * first.X)
        assert second.eps == u**2 * eps


def test_beyond_all_ranges_there_is_a_clear_error():
    with pytest.raises(InputError, match="squares overflow"):
        Denoising(1e200 * M)
    with pytest.raises(InputError, match="squares underflow"):
        wp.minimize(wp.Problem(Denoising(1e-200 * M), L1(1.0), NuclearBall(1.0)))
    with pytest.raises(InputError, match="lam"):
        wp.minimize(wp.Problem(Denoising(1e-100 * M), L1(1e300), NuclearBall(1.0)))


@pytest.mark.parametrize("power", [-133, 133, 340])
def test_the_weight_of_a_panel_is_chosen_in_its_unit(power):
    """Ridge regressions in float32 overflow for data of 1e40."""
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    Y += 0.3 * rng.standard_normal(Y.shape)
    rows, cols = np.nonzero(np.arange(30) < rng.integers(4, 60, (40, 1)))
    u, settings = 2.0**power, {"intercepts": "both"}
    first, second = (
        observed_path(Completion(rows, cols, x * Y[rows, cols], Y.shape, **settings), clip=clip)
        for x, clip in ((1.0, (-3.0, 3.0)), (u, (-3.0 * u, 3.0 * u)))
    )
    assert second.lam == pytest.approx(u * first.lam)
    assert second.start.s == pytest.approx(u * first.start.s, rel=1e-5)
    assert second.errors == pytest.approx(u**2 * first.errors, rel=1e-5)
    assert [one["lam"] for one in second.cv_results["params"]] == list(second.lams)
    for name, column in first.cv_results.items():
        if name == "params":
            continue
        times = {"param_lam": u, "rank_test_score": 1}.get(name, u**2)
        assert second.cv_results[name] == pytest.approx(times * column, rel=1e-5)
    assert second.loss.observed().values[0] == u * first.loss.observed().values[0]

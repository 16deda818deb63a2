"""Every separable penalty with every spectral term, by factored steps: solved and proved."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.passes import SeparableForm, ValueForm
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, SignedL1
from weakprox.solvers import DavisYin, LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

UNEVEN = np.random.default_rng(2).choice([0.0, 0.5, 3.0], (60, 60))
UNEVEN = np.triu(UNEVEN) + np.triu(UNEVEN, 1).T  # free entries among them
LOW = np.where(UNEVEN > 1.0, -np.inf, UNEVEN - 0.8)
HIGH = np.where(UNEVEN == 0.0, np.inf, UNEVEN + 0.4)
PENALTIES = {
    "none": None,
    "l1": L1(0.3),
    "signed": SignedL1(0.2, 0.5),
    "elastic net": ElasticNet(0.3, 0.1),
    "rows": GroupL2(1.0),
    "columns": GroupL2(1.0, "columns"),
    "l1 + rows": L1(0.2) + GroupL2(0.7),
    "signed + columns": SignedL1(0.1, 0.3, 0.05) + GroupL2(0.7, "columns"),
    "l1 + elastic net": L1(0.1) + ElasticNet(0.2, 0.05),
    "box": Box(-0.8, 1.5, 0.6),
    "positive": Box(0.3, np.inf, 0.3),
    "negative": Box(-1.0, -0.5, 0.2),
    "box + elastic net": Box(-1.0, 1.2, 0.4) + ElasticNet(0.0, 0.05),
    "box + l1": Box(0.0, np.inf, 0.3) + L1(0.2),
    "bounds": lambda m, d: Box(LOW[:m, :d], HIGH[:m, :d], 0.6),
    "bounds + elastic net": lambda m, d: Box(-1.0, HIGH[:m, :d], 0.4) + ElasticNet(0.0, 0.05),
    "weights": lambda m, d: L1(0.3, UNEVEN[:m, :d]),
    "weights + signed": lambda m, d: L1(0.3, UNEVEN[:m, :d]) + SignedL1(0.05, 0.1, 0.05),
}
GROUPED = [name for name in PENALTIES if "rows" in name or "columns" in name]
SPECTRAL = ["ball", "norm", "psd"]
CASES = [(R, h) for R in PENALTIES for h in SPECTRAL if h != "psd" or R not in GROUPED]


def problem(penalty, spectral, make=np.asarray, shape=(60, 47)):
    rng = np.random.default_rng(3)
    if spectral == "psd":
        B, E = rng.standard_normal((shape[0], 3)), rng.standard_normal((shape[0], shape[0]))
        M, h = B @ B.T + 0.2 * (E + E.T), TracePSD(0.6 * float(np.sum(B * B)))
    else:
        M = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
        M += 0.4 * rng.standard_normal(shape)
        s = np.linalg.svd(M, compute_uv=False)
        h = (
            NuclearBall(0.6 * float(s[:3].sum()))
            if spectral == "ball"
            else NuclearNorm(2 * s[3])
        )
    R = PENALTIES[penalty]
    return wp.Problem(Denoising(make(M)), R(*M.shape) if callable(R) else R, h)


@pytest.mark.parametrize(("penalty", "spectral"), CASES)
def test_factored_steps_solve_and_prove(penalty, spectral):
    given = problem(penalty, spectral)
    assert LeanSplitting.applies(given)
    found = wp.minimize(given, LeanSplitting(), tol=1e-4)
    best = wp.minimize(given, DavisYin(), tol=1e-8)
    assert found.solver == "LeanSplitting"
    assert found.status is best.status is wp.Status.CERTIFIED
    assert found.value == pytest.approx(given.value(found.low_rank), rel=1e-12)
    assert found.certificate.lower_bound <= best.value
    assert best.certificate.lower_bound <= found.value
    assert found.violation <= 1e-12
    assert wp.verify(found.proof, given)


@pytest.mark.parametrize("make", [np.float32, torch.tensor], ids=["float32", "torch"])
@pytest.mark.parametrize(("penalty", "spectral"), CASES)
def test_other_arrays(penalty, spectral, make):
    given = problem(penalty, spectral, make)
    found = wp.minimize(given, LeanSplitting(), tol=1e-3)
    best = wp.minimize(problem(penalty, spectral), DavisYin(), tol=1e-6)
    assert found.status is wp.Status.CERTIFIED
    single = make is np.float32
    rounding = 1e-5 * best.value if single else 0.0  # the data are rounded, too
    assert found.certificate.lower_bound <= best.value + rounding
    assert best.certificate.lower_bound <= found.value + rounding


@pytest.mark.parametrize(("penalty", "spectral"), CASES)
def test_compiled_passes_give_the_same(penalty, spectral, monkeypatch):
    given = problem(penalty, spectral)
    plain = wp.minimize(given, LeanSplitting(), tol=1e-4)
    monkeypatch.setattr("weakprox.passes.compiling.COMPILED_FROM", 100)
    found = wp.minimize(given, LeanSplitting(), tol=1e-4)
    assert found.counts.svds == plain.counts.svds
    assert found.value == pytest.approx(plain.value, rel=1e-10)
    assert found.certificate.lower_bound == pytest.approx(
        plain.certificate.lower_bound, rel=1e-9
    )


def test_a_large_lower_end_is_no_obstacle():
    """The largest values of a symmetric matrix may be negative."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((80, 80)))[0]
    M = (Q * np.array([30.0, 25.0, *np.linspace(3.0, -3.0, 66), *[-60.0] * 12])) @ Q.T
    given = wp.Problem(Denoising(M), L1(0.02), TracePSD(40.0))
    found = wp.minimize(given, LeanSplitting(), tol=1e-4)
    best = wp.minimize(given, DavisYin(), tol=1e-7)
    assert found.status is wp.Status.CERTIFIED
    assert found.solver == "LeanSplitting"
    assert found.certificate.lower_bound <= best.value <= found.value + best.gap


@pytest.mark.parametrize("penalty", ["l1", "rows", "signed + columns", "box", "positive"])
@pytest.mark.parametrize("spectral", ["ball", "norm"])
def test_paths_are_walked_by_the_same_steps(penalty, spectral, monkeypatch):
    from weakprox.selection import path

    monkeypatch.setattr(path.Chain, "_whole", None)  # which would be called otherwise
    loss = problem(penalty, spectral).loss
    R, h = PENALTIES[penalty], NuclearBall if spectral == "ball" else NuclearNorm
    lams, taus = [2.0, 1.0], [30.0, 60.0] if spectral == "ball" else [30.0, 20.0]
    path = wp.selection.regularization_path(
        loss, lams, taus, penalty=lambda lam: lam * R, spectral=h, tol=1e-4
    )
    for i, lam in enumerate(path.lams):
        for j, tau in enumerate(path.taus[i]):
            best = wp.minimize(wp.Problem(loss, lam * R, h(tau)), tol=1e-6)
            assert best.certificate.lower_bound <= path.values[i, j]
            assert path.values[i, j] - best.value <= 3e-4 * best.value


class Half(L1):
    """Another penalty than the form that it inherits says."""

    def value(self, X):
        return 0.5 * super().value(X)

    def ascend(self, y, X, t, *, geometry="paper"):
        return L1(0.5 * self.lam).ascend(y, X, t)

    def feasible(self, y):
        return L1(0.5 * self.lam).feasible(y)


def test_an_inherited_form_is_not_taken_in_a_sum_either():
    loss = problem("l1", "ball").loss
    for penalty in (Half(0.5), wp.penalties.Sum((Half(0.5), GroupL2(0.1)))):
        given = wp.Problem(loss, penalty, NuclearBall(20.0))
        assert not LeanSplitting.applies(given)
        result = wp.minimize(given, tol=1e-4)
        plain = L1(0.25) if isinstance(penalty, Half) else L1(0.25) + GroupL2(0.1)
        best = wp.minimize(wp.Problem(loss, plain, NuclearBall(20.0)), tol=1e-6)
        assert result.certificate.lower_bound <= best.value
        assert result.value == pytest.approx(best.value, rel=2e-4)


def test_a_form_that_contradicts_its_term_is_not_taken():
    class Contradiction(TracePSD):
        @property
        def capabilities(self):
            return replace(super().capabilities, form=ValueForm(self.tau))

    given = problem("none", "psd")
    assert LeanSplitting.applies(given)
    assert not LeanSplitting.applies(
        wp.Problem(given.loss, None, Contradiction(given.spectral.tau))
    )


def test_nothing_is_certified_by_a_form_of_another_function():
    """The bound of the form is above the value of the answer, which shows that it is wrong."""

    class Double(L1):
        @property
        def capabilities(self):
            return replace(super().capabilities, form=SeparableForm(2 * self.lam, 2 * self.lam))

    loss, ball = problem("l1", "ball").loss, NuclearBall(100.0)
    best = wp.minimize(wp.Problem(loss, L1(0.3), ball), tol=1e-8)
    found = wp.minimize(wp.Problem(loss, Double(0.3), ball), LeanSplitting(), tol=1e-4)
    assert found.value > best.value + found.eps
    assert not found.certified
    assert found.certificate.lower_bound <= best.value


class Weighted(NuclearNorm):
    """A nuclear norm with a weight that may be changed, which declares its own form."""

    @property
    def capabilities(self):
        return replace(super().capabilities, form=ValueForm(lam=self.lam))


def test_terms_that_change_between_runs_are_read_again():
    term = Weighted(8.0)
    given = wp.Problem(problem("l1", "norm").loss, L1(0.3), term)
    wp.minimize(given, LeanSplitting(), tol=1e-4)
    object.__setattr__(term, "lam", 5.0)
    found = wp.minimize(given, LeanSplitting(), tol=1e-4)
    best = wp.minimize(wp.Problem(given.loss, L1(0.3), NuclearNorm(5.0)), tol=1e-7)
    assert found.certificate.lower_bound <= best.value <= found.value + best.gap


def test_a_weight_within_a_ball_counts_on_a_path():
    class Capped(NuclearBall):
        """|X|_* with |X|_* at most tau."""

        @property
        def capabilities(self):
            return replace(super().capabilities, form=ValueForm(self.tau, 5.0))

        def value(self, X):
            return super().value(X) + 5.0 * X.nuclear_norm

    loss = problem("l1", "norm").loss
    path = wp.selection.regularization_path(loss, [0.3], [30.0, 1e5], spectral=Capped, tol=1e-4)
    best = wp.minimize(wp.Problem(loss, L1(0.3), NuclearNorm(5.0)), tol=1e-6)
    assert path.values[0, -1] == pytest.approx(best.value, rel=3e-4)


def test_a_weight_of_the_trace_is_proved_by_factored_steps():
    """With tau infinite, the estimate of the gap must stay a number."""

    class Trace(TracePSD):
        @property
        def capabilities(self):
            return replace(super().capabilities, form=ValueForm(lam=12.0, symmetric=True))

        def value(self, X):
            return 12.0 * X.nuclear_norm

        def violation(self, X):
            return 0.0

    given = wp.Problem(problem("none", "psd").loss, L1(0.3), Trace(1e6))
    found = wp.minimize(given, LeanSplitting(), tol=1e-4)
    assert found.solver == "LeanSplitting"
    assert found.status is wp.Status.CERTIFIED
    assert found.counts.svds <= 60

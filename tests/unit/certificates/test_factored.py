"""Dual points in factors: against whole matrices, and made by several threads at a time."""

import math
import threading

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.certificates.factored import FactoredDual
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import DOUBLE
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, ValueForm, reference
from weakprox.passes.engine import Engine, products_for
from weakprox.passes.ritz import Ritz, refined
from weakprox.run import evaluate

BALL = ValueForm(tau=2.0)


class Meets(Engine):
    """Waits in each look until another thread is looking, too."""

    both = threading.Barrier(2)

    def look(self, *given):
        self.both.wait(300)
        return super().look(*given)


def test_one_thread_does_not_wait_for_another():
    C = np.random.default_rng(0).standard_normal((9, 7))
    found, sums = refined(products_for(C), np.eye(7)[:, :3], powers=3), []

    def work():
        sums.append(
            FactoredDual(Meets(C, C.copy()), found, Step(1.0, 1.0, 0.0, 0.1, 0.1), BALL).sums
        )

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(sums) == 2
    assert sums[0] == sums[1]


class Narrow(Engine):
    """Leaves one of the sums to the triplets, as engines on devices do."""

    def look(self, found, values, k, allowed=0.0):
        return super().look(found, values, k)._replace(across=np.nan)


@pytest.mark.parametrize("engine", [Engine, Narrow])
@pytest.mark.parametrize("askew", [0.0, 1e-6, 1e-3])
def test_bounds_are_those_of_whole_matrices(monkeypatch, engine, askew):
    """Whatever the angles between vectors, but for the norm, which is found otherwise.

    Both steps in one test: of twelve variants one would be run, in which beta may be 1.
    """
    for k in (Step(1.0, 1.0, 0.0, 0.1, 0.1), Step(0.4, 1.0, 0.3, 0.2, 0.2)):
        with monkeypatch.context() as patch:
            _bound_is_that_of_whole_matrices(patch, engine, k, askew)


def _bound_is_that_of_whole_matrices(monkeypatch, engine, k, askew):
    rng, tau = np.random.default_rng(5), 4.0
    U, V = (np.linalg.qr(rng.standard_normal((n, 12)))[0] for n in (40, 30))
    z = (U * np.array([9.0, 8.0, 7.0, *np.linspace(2.0, 1.0, 9)])) @ V.T
    C = z + 0.3 * rng.standard_normal(z.shape)
    right = V[:, :3] + askew * rng.standard_normal((30, 3))
    s = np.linalg.norm(z @ right, axis=0)
    dual = FactoredDual(
        engine(C, z.copy()), Ritz(z @ right / s, s, right, True), k, ValueForm(tau)
    )
    X = (z @ right / s * dual.values) @ right.T
    within = dual.proof(rng).lower
    monkeypatch.setattr(FactoredDual, "_norm", lambda *_: np.linalg.norm(z - X, 2))
    bound = dual.proof(rng).lower

    gradient, u = k.beta * (X - C) + k.curvature * X, (z - X) / k.gamma
    t = 2 * X - z - k.gamma * gradient
    y = np.clip(t / k.gamma, -k.below, k.above)
    whole = 0.5 * (k.beta * np.sum((X - C) ** 2) + k.curvature * np.sum(X * X))
    whole += np.sum((y + u) * X) - tau * np.linalg.norm(u, 2)
    whole -= np.sum((gradient + y + u) ** 2) / (2 * (k.beta + k.curvature))
    assert bound <= whole
    assert whole - bound <= 1e-11 * abs(whole)
    assert within <= bound
    assert np.isfinite(within) == (
        askew < 1e-6
    )  # vectors so far from right angles prove nothing


@pytest.mark.parametrize("engine", [Engine, Narrow])
@pytest.mark.parametrize("wrap", [np.asarray, torch.asarray])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bounds_hold_where_roundings_add_up(engine, wrap, dtype):
    """Equal entries are rounded alike; the best value is known here."""
    (m, n), rng, lam, gamma = (100_000, 4), np.random.default_rng(0), 2.0**-7, 0.5
    for c in rng.uniform(0.5, 2.0, 4).astype(dtype).astype(float):
        x = 0.7 * c
        best = m * n * (0.5 * (x - c) ** 2 + lam * x)
        C = wrap(np.full((m, n), c, dtype))
        z = wrap(np.full((m, n), x + gamma * (c - x - lam), dtype))
        found = refined(
            products_for(z), wrap(rng.standard_normal((n, 3)).astype(dtype)), powers=3
        )
        tau = x * np.sqrt(m * n)
        dual = FactoredDual(
            engine(C, z), found.leading(1), Step(gamma, 1.0, 0.0, lam, lam), ValueForm(tau)
        )
        bound = dual.proof(rng).lower
        assert bound <= best
        assert best - bound <= 1e-6 * best


@pytest.mark.parametrize("angle", [0.1, 0.5, 1.2])
def test_norms_count_the_part_beside_vectors_at_an_angle(angle):
    """z has rank one, so |z - X|^2 is (s - p)^2 in the span of the vector and r^2 beside it."""
    left, size, tau = np.eye(6)[:, :1], 3.0, 0.7
    right = np.cos(angle) * np.eye(5)[:, :1] + np.sin(angle) * np.eye(5)[:, 1:2]
    z = size * left @ np.eye(5)[:1]
    found = Ritz(left, np.array([size * np.cos(angle)]), right, True)
    step = Step(1.0, 1.0, 0.0, 0.0, 0.0)
    dual = FactoredDual(Engine(z, z.copy()), found, step, ValueForm(tau))
    bound = dual.proof(np.random.default_rng(0)).lower
    X = left * dual.values @ right.T
    exact = 0.5 * np.sum((z - X) ** 2) + np.sum((z - X) * X) - tau * np.linalg.norm(z - X, 2)
    assert bound <= exact
    assert bound == pytest.approx(exact, rel=1e-9)


def test_vectors_that_are_not_orthonormal_prove_nothing():
    rng = np.random.default_rng(6)
    z, right = rng.standard_normal((9, 7)), np.eye(7)[:, :2] + 0.1
    s = np.linalg.norm(z @ right, axis=0)
    found = Ritz(z @ right / s, s, right, True)
    dual = FactoredDual(Engine(z, z.copy()), found, Step(1.0, 1.0, 0.0, 0.1, 0.1), BALL)
    assert dual.proof(rng).lower == -np.inf


def test_dual_points_outside_the_domain_of_a_nuclear_norm_are_shrunk_into_it():
    """Triplets that are missing make u too long; shrinking it costs part of the bound.

    Diagonal problems separate into scalars, so the optimum has a closed form.
    """
    rng, shrunk = np.random.default_rng(0), 0
    for _ in range(200):
        beta, curvature = rng.uniform(0.3, 2.0), rng.choice([0.0, 0.5])
        lam, l1 = rng.uniform(0.1, 1.0), rng.choice([0.0, 0.05, 0.3])
        k = Step(rng.uniform(0.3, 1.5) / beta, beta, curvature, l1, l1)
        n = int(rng.integers(2, 4))
        c = rng.uniform(-0.5, 4.0, n) * 10.0 ** rng.uniform(-1, 0)
        s = np.sort(rng.uniform(0.0, 4.0, n))[::-1] * 10.0 ** rng.uniform(-1, 0.3)
        kept = int(rng.integers(1, n))
        V = np.eye(n)[:, :kept]
        C, z, found = np.diag(c), np.diag(s), Ritz(V.copy(), s[:kept].copy(), V.copy(), True)
        dual = FactoredDual(Engine(C, z.copy()), found, k, ValueForm(lam=lam))
        bound = dual.proof(rng).lower

        x = np.sign(c) * np.maximum(beta * np.abs(c) - l1 - lam, 0.0) / (beta + curvature)
        best = np.sum(0.5 * beta * (x - c) ** 2 + 0.5 * curvature * x * x)
        best += (l1 + lam) * np.sum(np.abs(x))
        assert bound <= best
        X = np.diag(np.pad(dual.values, (0, n - kept)))
        gradient, u = beta * (X - C) + curvature * X, (z - X) / k.gamma
        y = np.clip((2 * X - z) / k.gamma - gradient, -l1, l1)
        shrink = min(1.0, lam / np.linalg.norm(u, 2))
        u, shrunk = shrink * u, shrunk + (shrink < 1.0)
        exact = 0.5 * np.sum(beta * (X - C) ** 2 + curvature * X * X) + np.sum((y + u) * X)
        exact -= np.sum((gradient + y + u) ** 2) / (2 * (beta + curvature))
        assert bound <= exact
        assert shrink < 1.0 or exact - bound <= 1e-11 * (1.0 + abs(exact))
    assert shrunk > 50


def crowded(seed=7, n=60):
    """A target with three values above a cut-off at which many others lie, and its triplets."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    s = np.array([9.0, 8.0, 7.0, *np.linspace(1.999, 1.0, n - 3)])
    z = (U * s) @ V.T
    return z, Ritz(U[:, :3], s[:3].copy(), V[:, :3], True), 24.0 - 6.0  # shifted by 2


def levels_tried(monkeypatch, aim):
    """Levels at which a factorisation is tried, the gap proved, and the least possible one."""
    z, found, tau = crowded()
    tried = []

    def cholesky(A, own=decompositions.cholesky):
        tried.append(1)
        return own(A)

    monkeypatch.setattr(decompositions, "cholesky", cholesky)
    monkeypatch.setattr(Engine, "_exact_tail", lambda *_: np.inf)  # as for large matrices
    step = Step(1.0, 1.0, 0.0, 0.0, 0.0)
    how = {"thorough": True, "aim": aim}
    dual = FactoredDual(Engine(z, z.copy()), found, step, ValueForm(tau), **how)
    bound = dual.proof(np.random.default_rng(0)).lower
    optimum = 0.5 * np.sum((z - dual.point.dense()) ** 2)  # the projection of z
    assert bound <= optimum
    return len(tried), optimum - bound


def test_one_factorisation_proves_the_gap_that_suffices(monkeypatch):
    for aim in (1e-4, 1e-3, 1e-2):
        tried, gap = levels_tried(monkeypatch, aim)
        assert tried == 1
        assert gap <= aim


def test_no_factorisation_is_tried_if_none_can_suffice(monkeypatch):
    assert levels_tried(monkeypatch, 1e-9)[0] == 0
    assert levels_tried(monkeypatch, 0.0)[0] >= 1  # as small a gap as possible


def test_sums_serve_as_those_of_the_answer_only_if_nothing_was_rounded():
    z, found, tau = crowded()
    step = Step(1.0, 1.0, 0.0, 0.1, 0.1)
    dual = FactoredDual(Engine(z, z.copy()), found, step, ValueForm(tau))
    X = dual.point.dense()
    value = 0.5 * np.sum((X - z) ** 2) + 0.1 * np.abs(X).sum()
    assert dual.smooth_at(dual.point)[0] == dual.smooth == dual.value
    assert dual.value == pytest.approx(value, rel=1e-13)
    assert dual.smooth_at(LowRank(dual.point.U, dual.point.s, dual.point.Vt)) is None
    fewer = FactoredDual(Engine(z, z.copy()), found, step, ValueForm(tau), 2)
    assert fewer.smooth_at(fewer.point) is None  # its sums are those of three triplets
    single = z.astype(np.float32)
    rounded = FactoredDual(Engine(single, single.copy()), found, step, ValueForm(tau))
    assert rounded.smooth_at(rounded.point) is None


def test_a_run_in_float64_does_not_sum_its_answer_again(monkeypatch):
    """Unless the array is small: then its value is that of the terms' own methods.

    Without a penalty its sums follow from the products of the decomposition.
    """
    counts = []

    def look(*args, own=reference.look):
        counts.append(1)
        return own(*args)

    monkeypatch.setattr(reference, "look", look)
    rng = np.random.default_rng(8)
    M = 30.0 * np.outer(rng.standard_normal(80), rng.standard_normal(60))
    M += rng.standard_normal(M.shape)
    for dtype, by_passes, looks in ((float, True, 0), (float, False, 0), (np.float32, True, 2)):
        counts.clear()
        problem = wp.Problem(
            wp.losses.Denoising(M.astype(dtype)), None, wp.spectral.NuclearBall(1000.0)
        )
        with monkeypatch.context() as patch:
            patch.setattr(wp.Problem, "by_passes", by_passes)
            patch.setattr(evaluate, "COMPILED_FROM", 0 if by_passes else 1 << 40)
            result = wp.minimize(problem, "lean-splitting")
        assert result.status is wp.Status.CERTIFIED
        assert len(counts) == looks
        rel = 1e-5 if dtype is np.float32 else 1e-12
        assert result.value == pytest.approx(problem.value(result.X), rel=rel)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("scale", [1.0, 10.0, 1e5])
def test_sums_without_a_penalty_follow_from_the_decomposition(symmetric, scale):
    """Against a pass over the data; their error bound also holds if large values cancel."""
    rng = np.random.default_rng(11)
    C = rng.standard_normal((70, 70 if symmetric else 50))
    C[:, 0] += scale * C[:, 1]
    C = C @ C.T if symmetric else C
    engine = Engine(C, np.empty_like(C), symmetric=symmetric)
    step = Step(0.5, 2.0, 0.0, 0.0, 0.0)
    block = rng.standard_normal((C.shape[1], 8))
    found = engine.begin(step, block, 3)
    values = np.maximum(found.s[:5] - 0.5 * found.s[4], 0.0)
    found = found.leading(5)
    whole = engine.look(found, values, step)
    assert whole.error == 0.0
    quick = engine.look(found, values, step, math.inf)
    if scale == 1e5:
        assert quick == whole  # a pass, since too few digits would be correct
        return
    assert 0.0 < quick.error <= 1e-10 * np.sum(C * C)
    assert abs(quick.distance - whole.distance) <= quick.error
    assert abs(quick.across - whole.across) <= step.beta * quick.error
    assert quick.square == pytest.approx(whole.square, rel=1e-12)
    assert quick.rounding(step, DOUBLE, C.shape) >= 0.5 * step.beta * quick.error
    tight = engine.look(found, values, step, 1e-20)
    assert tight.error == 0.0  # a pass, since the sums may be wrong by more
    engine.advance(None, values, step, 1.0, found, 1)
    assert engine.look(found, values, step, math.inf).error == 0.0  # z may have moved


def test_the_error_of_sums_lowers_the_bound():
    """A bound rests on `distance` and `across`, which may be too large by their error."""
    rng = np.random.default_rng(12)
    C = rng.standard_normal((40, 30))
    engine = Engine(C, np.empty_like(C))
    step = Step(1.0, 1.0, 0.0, 0.0, 0.0)
    found = engine.begin(step, np.eye(30)[:, :6], 30).leading(3)
    dual = FactoredDual(engine, found, step, ValueForm(4.0), aim=1e9)
    assert dual.sums.error > 0.0
    squares = engine.squares(dual.exact, rng)
    found = dual._bound(3.0, squares)
    vars(dual)["sums"] = dual.sums._replace(error=dual.sums.error + 2.0)
    assert dual._bound(3.0, squares) <= found - 3.0 * (1 - 1e-12)

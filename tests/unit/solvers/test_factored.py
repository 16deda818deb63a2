"""Steps of `LeanSplitting` on their own."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakprox as wp
from weakprox.passes.engine import Engine
from weakprox.solvers import _factored
from weakprox.solvers._factored import EARLY, Factored
from weakprox.solvers._gap_driven import GapParameters
from weakprox.solvers.davis_yin import Memory


def test_float32_steps_keep_small_values_above_the_cut_off():
    """Values of 4 beside one of 20,000 are no rounding errors, although they are float32."""
    rng, (m, n) = np.random.default_rng(0), (6000, 60)
    s = np.concatenate([[2e4], np.full(6, 240.0), np.linspace(100.0, 1.0, n - 7)])
    U, V = (np.linalg.qr(rng.standard_normal((size, n)))[0] for size in (m, n))
    M = ((U * s) @ V.T).astype(np.float32)
    ball = wp.spectral.NuclearBall(2e4 - 236.0 + 6 * 4.0)
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(1e-4), ball)
    tools = SimpleNamespace(
        rng=lambda *key: np.random.default_rng(key),
        spectral=SimpleNamespace(counted=lambda *_: None),
        accuracy=lambda *_, **__: 1.0,
    )
    steps = Factored(problem, Engine(M, np.empty_like(M)), tools)
    state = Memory(
        V=None,
        h=0.0,
        gamma=1.0,
        rank=1,
        width=16,
        values=np.zeros(1),
        parameters=GapParameters(1, 1, 1),
    )
    found = steps.project(state, 1)
    assert len(found.values) == 7
    assert np.allclose(found.values[1:], 4.0, atol=0.5)


@pytest.mark.parametrize("spectral", ["ball", "norm", "cone"])
def test_without_a_penalty_one_decomposition_is_proved_at_once(spectral):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((90, 3))
    M = Y @ Y.T + 0.1 * np.triu(rng.standard_normal((90, 90)), 1)
    M = 0.5 * (M + M.T)
    h = {
        "ball": wp.spectral.NuclearBall(200.0),
        "norm": wp.spectral.NuclearNorm(10.0),
        "cone": wp.spectral.TracePSD(200.0),
    }[spectral]
    problem = wp.Problem(wp.losses.Denoising(M), None, h)
    result = wp.minimize(problem, "lean-splitting", tol=1e-6, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.svds == 1
    w, V = np.linalg.eigh(M)
    w, V = w[::-1][:3], V[:, ::-1][:, :3]
    cut = 10.0 if spectral == "norm" else (w.sum() - 200.0) / 3
    np.testing.assert_allclose(result.X, (V * (w - cut)) @ V.T, atol=1e-4)


def test_without_a_penalty_small_crowded_matrices_are_decomposed_as_a_whole():
    """The values at the cut-off are close together, so blocks prove nothing about them."""
    rng = np.random.default_rng(0)
    Y = sparse_factors(rng, 120, 3)
    M = Y @ Y.T + rng.standard_normal((120, 120))
    tau = np.linalg.svd(M, compute_uv=False)[:3].sum()
    problem = wp.Problem(wp.losses.Denoising(M), None, wp.spectral.NuclearBall(tau))
    result = wp.minimize(problem, wp.solvers.LeanSplitting(), progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.rank > 3
    assert result.counts.svds <= 3  # two with blocks


@pytest.mark.parametrize(
    ("low", "tau", "solver"),
    [
        (0.0, 0.97, "DavisYin"),  # the trace does not reach the bound: noise is kept
        (0.0, 0.8, "LeanSplitting"),
        (1.0, 0.8, "LeanSplitting"),  # negative eigenvalues that are not noise
    ],
)
def test_a_cone_that_keeps_noise_is_handed_over_early(low, tau, solver, monkeypatch):
    steps, real = [], Factored.project
    monkeypatch.setattr(
        Factored, "project", lambda self, state, k: steps.append(k) or real(self, state, k)
    )
    rng, n = np.random.default_rng(0), 400
    Y, W = 3.0 * rng.standard_normal((2, n, 3))
    noise = rng.standard_normal((n, n))
    M = Y @ Y.T - low * W @ W.T + (noise + noise.T) / np.sqrt(2.0)
    cone = wp.spectral.TracePSD(tau * float((Y**2).sum()))
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(2.0), cone)
    result = wp.minimize(problem, "lean-splitting", tol=1e-3, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == solver
    if solver == "DavisYin":
        assert max(steps) <= EARLY


def test_a_block_grows_by_as_many_columns_as_the_norm_of_the_target_shows():
    """Of 60 equal values 16 are seen; the others have 44 times the square of the last one."""
    rng, n = np.random.default_rng(0), 300
    U, V = (np.linalg.qr(rng.standard_normal((n, 60)))[0] for _ in range(2))
    problem = wp.Problem(
        wp.losses.Denoising(10.0 * U @ V.T), None, wp.spectral.NuclearNorm(1.0)
    )
    result = wp.minimize(problem, "lean-splitting", tol=1e-6, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.rank == 60
    assert result.counts.svds == 2  # with 16 and 64 columns


def test_a_target_inside_the_ball_is_handed_over_before_the_block_grows(monkeypatch):
    wider, real = [], _factored._wider
    monkeypatch.setattr(_factored, "_wider", lambda V, more: wider.append(1) or real(V, more))
    M = np.random.default_rng(0).standard_normal((200, 200))
    ball = wp.spectral.NuclearBall(1e4)
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.01), ball)
    result = wp.minimize(problem, "lean-splitting", tol=1e-3, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "DavisYin"
    assert not wider


def sparse_factors(rng, size, rank):
    """Nonnegative integers, nine tenths of them zero."""
    kept = rng.random((size, rank)) < 0.1
    return np.where(kept, rng.integers(1, 11, (size, rank)), 0).astype(float)


def test_a_block_without_progress_is_handed_over():
    """Values at the cut-off that the block misses keep its gap from falling."""
    rng, n = np.random.default_rng([0, 300, 300, 25]), 300
    Y = sparse_factors(rng, n, 25)
    M = rng.standard_normal((n, n), dtype=np.float32).astype(float)
    M = (M + M.T) / np.sqrt(2.0) + Y @ Y.T
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.TracePSD(0.95 * np.sum(Y**2))
    )
    result = wp.minimize(problem, "lean-splitting", tol=1e-4, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "DavisYin"
    assert result.counts.svds <= 15  # 18 if it continued to the end of a stretch


def test_proofs_are_attempted_when_they_are_likely_to_succeed(monkeypatch):
    """A change of gamma makes a step worse than expected from the one before."""
    rng, looks, provable = np.random.default_rng([1, 300, 300, 15]), [], Factored.provable
    M = sparse_factors(rng, 300, 15) @ sparse_factors(rng, 300, 15).T
    tau = 0.8 * np.linalg.svd(M, compute_uv=False).sum()
    M += rng.standard_normal((300, 300), dtype=np.float32)
    ball = wp.spectral.NuclearBall(tau)
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(2.0), ball)

    def counted(self, state, k):
        looks.append(k)
        return provable(self, state, k)

    monkeypatch.setattr(Factored, "provable", counted)
    result = wp.minimize(problem, "lean-splitting", tol=1e-4, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert len(looks) <= 2  # 3 if the last ratio is expected of every step


def test_a_wide_block_that_is_all_kept_is_handed_over_before_it_grows(monkeypatch):
    """All of 64 columns are kept, and 90 would be the widest block."""
    widths, real = [], _factored._wider
    monkeypatch.setattr(
        _factored, "_wider", lambda V, more: widths.append(more.shape[1]) or real(V, more)
    )
    rng, n = np.random.default_rng(0), 300
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    s = np.concatenate([np.full(16, 30.0), np.full(30, 25.0), np.full(n - 46, 3.0)])
    problem = wp.Problem(
        wp.losses.Denoising((U * s) @ V.T), wp.penalties.L1(1e-4), wp.spectral.NuclearBall(1830)
    )
    result = wp.minimize(problem, "lean-splitting", tol=1e-3, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "DavisYin"
    assert widths == [64]


def test_crowded_values_are_not_proved_from_triplets_of_one_power_step(monkeypatch):
    """A proof needs all triplets above the cut-off, which one step with a block may miss."""
    rough, real = [], Factored.provable
    monkeypatch.setattr(
        Factored,
        "provable",
        lambda self, state, k: rough.append(self._rough) or real(self, state, k),
    )
    rng, n = np.random.default_rng([7, 400, 400, 1]), 400
    M = sparse_factors(rng, n, 1) @ sparse_factors(rng, n, 1).T
    tau = 0.97 * np.linalg.norm(M)
    M = M + rng.standard_normal((n, n), dtype=np.float32)
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
    )
    result = wp.minimize(problem, "lean-splitting", tol=1e-4, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.solver == "LeanSplitting"
    assert rough
    assert not any(rough)

"""DavisYin against a plain replay, its own inequality, and changes of scale."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from registry import ALL, NUMPY, TORCH, numbers

import weakprox as wp
from weakprox.certificates.split import FixedDual, lower_bound
from weakprox.linalg.arrays import to_numpy
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine
from weakprox.penalties.proximal import proximal_dual
from weakprox.solvers import DavisYin, _gap_driven, _stored, davis_yin
from weakprox.solvers._stored import split
from weakprox.solvers.base import Warmth
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD, singular

PENALTIES = {
    "none": None,
    "l1": L1(0.2),
    "elastic-net": ElasticNet(0.1, 0.15),
    "rows": GroupL2(0.4, "rows"),
    "columns": GroupL2(0.4, "columns"),
}


def noisy(m, d, rank=3, seed=0, noise=0.3):
    rng = np.random.default_rng([m, d, rank, seed])
    signal = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))
    return signal + noise * rng.standard_normal((m, d))


def solve(problem, solver=None, *, eps, **options):
    options = {"progress": False, "max_svds": 2000, **options}
    return wp.minimize(problem, DavisYin() if solver is None else solver, eps=eps, **options)


class Watch:
    """What every iteration judged: states with their steps, values, ranks and bounds."""

    def __init__(self, monkeypatch, problem=None):
        self.states, self.changes = [], []
        judged, change = _stored.judged, davis_yin.balanced

        def watched(state, value, bound, dual, k):
            after = judged(state, value, bound, dual, k)
            if problem is not None:  # fused steps must not lose digits
                plain = problem.smooth_value(state.X) + state.h
                assert value == pytest.approx(plain, rel=1e-10, abs=1e-10)
            self.states.append((after, value, bound, dual))
            return after

        def changed(near, far, relative):
            self.changes.append((near, far, relative, change(near, far, relative)))
            return self.changes[-1][-1]

        monkeypatch.setattr(_stored, "judged", watched)
        monkeypatch.setattr(davis_yin, "balanced", changed)


# ------------------------------------------------------------------ plain replay


def ball_prox(z, tau):
    U, s, Vt = np.linalg.svd(z, full_matrices=False)
    if s.sum() > tau:
        order = np.cumsum(s) - tau
        count = int((s > order / np.arange(1, len(s) + 1)).sum())
        s = np.maximum(s - order[count - 1] / count, 0.0)
    return (U * s) @ Vt


def norm_prox(z, lam, gamma):
    U, s, Vt = np.linalg.svd(z, full_matrices=False)
    return (U * np.maximum(s - gamma * lam, 0.0)) @ Vt


def mix(points, moves):
    """Anderson's combination, by the normal equations with the module's ridge."""
    plain = points[-1] + moves[-1]
    if len(moves) < 2:
        return plain
    dF = np.array([(b - a).ravel() for a, b in pairwise(moves)]).T
    dZ = np.array([(b - a).ravel() for a, b in pairwise(points)]).T
    gram = dF.T @ dF
    gram += 1e-10 * np.trace(gram) * np.eye(len(gram))
    weights = np.linalg.solve(gram, dF.T @ moves[-1].ravel())
    return plain - ((dZ + dF) @ weights).reshape(plain.shape)


def replay(M, lam, curvature, prox, weight, memory, steps):
    """G = weight/2 |X - M|^2, R = lam |X|_1 + curvature/2 |X|^2, h by its prox."""
    beta = alpha = weight + curvature
    gamma = 1 / beta
    z = gamma * weight * M
    z = z - np.clip(z, -gamma * lam, gamma * lam)
    points, moves, found = [], [], []
    for _ in range(steps):
        X = prox(z, gamma)
        gradient = weight * (X - M) + curvature * X
        v = 2 * X - z - gamma * gradient
        s = np.clip(v / gamma, -lam, lam)
        Y = v - gamma * s
        near = max(0.0, lam * np.abs(X).sum() - (s * X).sum())
        far = ((X - Y) ** 2).sum() / (2 * alpha * gamma**2)
        found.append((X, gamma, near, far))
        change = 1.0
        if near > 4 * far or far > 4 * near:
            change = min(4.0, max(0.25, math.sqrt(far / near) if near else 4.0))
            change = min(change, max(1.0, 1.8 / (gamma * beta)))
        if change == 1.0:
            points, moves = [*points, z][-memory - 1 :], [*moves, Y - X][-memory - 1 :]
            z = mix(points, moves) if memory else z + Y - X
        else:
            z = X + change * (z - X) + Y - X
            gamma, points, moves = gamma * change, [], []
    return found


REPLAYED = {
    "ball": (NuclearBall(9.0), lambda z, gamma: ball_prox(z, 9.0)),
    "norm": (NuclearNorm(0.7), lambda z, gamma: norm_prox(z, 0.7, gamma)),
}


@pytest.mark.parametrize("memory", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", REPLAYED)
@pytest.mark.parametrize("curvature", [0.0, 0.3])
@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=lambda b: b.name)
@pytest.mark.parametrize("gram", [False, True], ids=["lapack", "gram"])
def test_a_plain_replay_makes_the_same_iterates(
    memory, kind, curvature, backend, gram, monkeypatch
):
    """The step is no more accurate than its halves: 1e-7 in size, 1e-14 in rounding."""
    monkeypatch.setattr(singular, "gram_is_cheaper", lambda *_: gram)
    M, (term, prox) = noisy(8, 7), REPLAYED[kind]
    penalty = ElasticNet(0.3, curvature / 2) if curvature else L1(0.3)
    problem = wp.Problem(Denoising(backend.array(M)), penalty, term)
    watch, looks = Watch(monkeypatch, problem), []
    solve(
        problem,
        DavisYin(memory=memory),
        eps=1e-9,
        look_every=1,
        max_svds=20,
        stop_when_certified=False,
        callback=lambda look: looks.append(to_numpy(look.X).copy()) if look.step else None,
    )
    plain = replay(M, 0.3, curvature, prox, 1.0, memory, 20)
    assert len(watch.states) == len(watch.changes) == 20
    for (state, *_), (near, far, *_), (X, gamma, near0, far0) in zip(
        watch.states, watch.changes, plain, strict=True
    ):
        np.testing.assert_allclose(to_numpy(state.X), X, rtol=0, atol=1e-10)
        assert state.gamma == pytest.approx(gamma, rel=1e-6)
        assert near == pytest.approx(near0, rel=0, abs=1e-11)
        assert far == pytest.approx(far0, rel=0, abs=1e-11)
    for seen, (X, *_) in zip(looks, plain, strict=True):
        np.testing.assert_allclose(seen, X, rtol=0, atol=1e-10)


# --------------------------------------------------------- the docstring's inequality


def losses(kind):
    rng = np.random.default_rng(7)
    M = noisy(8, 8)
    M = (M + M.T) / 2
    if kind == "matrix":
        return Denoising(M)
    if kind == "sensing":
        A = rng.standard_normal((200, 8, 8))
        return Sensing(A, (A * M).sum((1, 2)) + 0.1 * rng.standard_normal(200))
    rows, cols = np.nonzero(rng.random((8, 8)) < 0.7)
    return Completion(rows, cols, M[rows, cols], (8, 8))


SPECTRAL = {"ball": NuclearBall(7.0), "psd": TracePSD(7.0), "norm": NuclearNorm(0.8)}


@pytest.mark.parametrize("term", SPECTRAL)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["matrix", "sensing", "completion"])
def test_estimates_never_exceed_the_optimum_nor_proofs_fall_below(
    loss, penalty, term, monkeypatch
):
    """Min(shape) is the first rank, so that every proximal step is exact."""
    if loss == "completion" and penalty != "elastic-net":
        penalty = "elastic-net"
    problem = wp.Problem(losses(loss), PENALTIES[penalty], SPECTRAL[term])
    assert min(problem.shape) <= davis_yin.FIRST_RANK
    scale = problem.smooth_value(np.zeros((8, 8)))
    watch = Watch(monkeypatch, problem)
    result = solve(problem, eps=1e-10 * scale)
    assert result.status is wp.Status.CERTIFIED
    top = result.value  # above f*, by at most 1e-10
    rng = np.random.default_rng(0)
    best, lowest = math.inf, -math.inf
    for k, (state, value, bound, dual) in enumerate(watch.states):
        best, lowest = min(best, value), max(lowest, bound)
        assert bound <= top + 1e-12 * scale
        assert (state.value, state.bound) == (best, lowest)
        candidate = DavisYin().candidate(state)
        assert candidate.gap >= best - top - 1e-12 * scale  # a true bound on the error
        if k % 4 == 0:
            proved, on = lower_bound(problem, dual.at.dense(), dual, rank=8, rng=rng)
            assert on == "exact"
            assert bound - 1e-11 * scale <= proved <= top + 1e-12 * scale


@pytest.mark.parametrize(
    "penalty",
    [L1(0.3), ElasticNet(0.3, 0.2), MaxAffine(numbers(4, 6, 5, seed=1), numbers(4, seed=2))],
    ids=["l1", "elastic net", "max affine"],
)
def test_a_split_step_and_its_halves_of_the_gap(penalty):
    """Y - X, R(X), R(X) - c/2 |X|^2 - <s, X> + phi(y) and |Y - X|^2, from the formulas."""
    X, z, g, gamma = (*(numbers(6, 5, seed=seed) for seed in (3, 4, 5)), 0.7)
    found = split(penalty, X, z, g.copy(), gamma, None)
    v = 2 * X - z - gamma * (g + penalty.curvature * X)
    y = proximal_dual(penalty, v, gamma)
    s = penalty.pull(y)
    near = penalty.value(X) - 0.5 * penalty.curvature * (X**2).sum() - (s * X).sum()
    near += penalty.dual_value(y)
    assert found.move == pytest.approx(v - gamma * s - X, abs=1e-9)
    assert found.value == pytest.approx(penalty.value(X))
    assert found.near == pytest.approx(near, abs=1e-9)
    assert found.near >= -1e-12
    assert found.length == pytest.approx((found.move**2).sum())


def test_a_fixed_dual_is_the_maximiser_of_a_smoothed_penalty():
    """Both dual points lead to the same target and the same bound where y is the same."""
    problem = wp.Problem(Denoising(noisy(8, 7)), ElasticNet(0.2, 0.1), NuclearBall(6.0))
    X, rng = noisy(8, 7, seed=1), np.random.default_rng(0)
    smooth = problem.smoothed(0.05)
    fixed = FixedDual(problem.penalty, smooth.dual(X))
    mine, theirs = noisy(8, 7, seed=2), noisy(8, 7, seed=2)
    assert fixed.target(X, mine, 1.7) == smooth.target(X, theirs, 1.7)
    np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    bounds = [lower_bound(problem, X, dual, rank=7, rng=rng)[0] for dual in (fixed, smooth)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)


# ------------------------------------------------------------------ step balancing


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_scale_of_the_data_does_not_matter(penalty):
    M, counts = noisy(12, 9), set()
    for scale in (1.0, 1e-6, 1e6, 1e-100, 1e100):
        R = PENALTIES[penalty]
        if isinstance(R, ElasticNet):
            R = ElasticNet(scale * R.lam1, R.lam2)
        elif R is not None:
            R = scale * R
        problem = wp.Problem(Denoising(scale * M), R, NuclearBall(10 * scale))
        result = solve(problem, eps=1e-7 * 0.5 * float((M**2).sum()) * scale**2)
        assert result.status is wp.Status.CERTIFIED
        counts.add(result.counts.svds)
    assert len(counts) == 1


def test_the_size_of_the_loss_does_not_matter():
    M, counts = noisy(12, 9), set()
    W = np.random.default_rng(1).uniform(0.1, 1.0, M.shape)
    for c in (1.0, 1e-6, 1e-3, 1e3, 1e6):
        loss = Custom(
            M.shape,
            value=lambda X, c=c: 0.5 * c * float((W * (X - M) ** 2).sum()),
            grad=lambda X, c=c: c * W * (X - M),
            strong_convexity=c * float(W.min()),
            smoothness=c * float(W.max()),
        )
        result = solve(wp.Problem(loss, L1(0.1 * c), NuclearBall(10.0)), eps=1e-5 * c)
        assert result.status is wp.Status.CERTIFIED
        counts.add(result.counts.svds)
    assert len(counts) == 1


class FromStep(DavisYin):
    """The same, from a first step and rank of the test's choosing."""

    share, rank_first = 1.0, None

    def start(self, problem, X, tools):
        memory = super().start(problem, X, tools)
        rank = self.rank_first or memory.rank
        return replace(memory, gamma=self.share * memory.gamma, rank=rank)


@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.1, 1.0, 1.8])
@pytest.mark.parametrize("penalty", ["none", "l1", "rows"])
def test_a_wrong_first_step_is_mended(share, penalty, monkeypatch):
    monkeypatch.setattr(FromStep, "share", share)
    problem = wp.Problem(Denoising(noisy(12, 9)), PENALTIES[penalty], NuclearBall(10.0))
    watch = Watch(monkeypatch)
    result = solve(problem, FromStep(), eps=1e-5)
    assert result.status is wp.Status.CERTIFIED
    assert result.counts.svds <= 80
    assert max(relative for *_, relative, _ in watch.changes) < 2.0


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["sensing", "completion"])
def test_gamma_stays_below_its_limit_and_moves_by_at_most_four(loss, penalty, monkeypatch):
    R = PENALTIES[penalty]
    R = ElasticNet(0.01, 1e-3) if loss == "completion" else R
    problem, watch = wp.Problem(losses(loss), R, NuclearBall(7.0)), Watch(monkeypatch)
    solve(problem, eps=1e-8, max_svds=400)
    beta = problem.loss.smoothness + problem.penalty.curvature
    steps = np.array([state.gamma for state, *_ in watch.states])
    assert (steps * beta <= 1.8 * (1 + 1e-12)).all()
    assert (steps > 0).all()
    ratio = steps[1:] / steps[:-1]
    assert ((ratio >= 0.25 - 1e-12) & (ratio <= 4 + 1e-12)).all()


@pytest.mark.parametrize(
    ("near", "far", "relative", "change"),
    [
        (1.0, 1.0, 1.0, 1.0),
        (1.0, 4.0, 0.1, 1.0),
        (4.0, 1.0, 1.0, 1.0),
        (0.0, 0.0, 1.0, 1.0),
        (1.0, 9.0, 1.0, 1.8),
        (1.0, 9.0, 0.1, 3.0),
        (1.0, 1e9, 0.1, 4.0),
        (5.0, 1.0, 0.1, math.sqrt(0.2)),
        (9.0, 1.0, 1.8, 1 / 3),
        (1e9, 1.0, 1.0, 0.25),
        (1.0, 0.0, 1.0, 0.25),
        (0.0, 1.0, 0.1, 4.0),
        (0.0, 1.0, 1.8, 1.0),
        (1.0, 1e9, 1.9, 1.0),
        (1e-320, 1.0, 0.1, 4.0),
        (1.0, 1.0, 3.5, 1.0),
        (1.0, 1.0, 7.2, 0.25),  # far beyond a smoothness found only now
        (1.0, 1e9, 18.0, 0.1),
    ],
)
def test_changes_of_the_step(near, far, relative, change):
    found = davis_yin.balanced(near, far, relative)
    assert found == pytest.approx(change, rel=1e-12)


# ---------------------------------------------------------------------------- rank


def adapted(share, cap=None):
    """A step from rank 2 that keeps 15 values; `share` of what 8 leave out is allowed."""
    s, weight = np.arange(40.0, 0.0, -1.0), 0.6
    U, V = (np.linalg.qr(numbers(n, 40, seed=n))[0] for n in (60, 50))
    tau = float((s[:15] - 25.5).sum())
    theta = (float(s[:8].sum()) - tau) / 8
    missing = tau * weight * (s[8] - theta)  # 2 tau (s_9 - theta), times weight/2
    shape = SimpleNamespace(shape=(60, 50))
    tools = SimpleNamespace(problem=shape, spectral=NuclearBall(tau), accuracy=lambda *_: 0.0)
    gap = share * missing / _gap_driven.SHARE
    known = {"X": None, "V": None, "h": 0.0, "rank": 2, "parameters": None}
    state = _gap_driven.GapMemory(**known, value=gap, bound=0.0)
    options = {"weight": weight, "guess": 0.0, "cap": cap, "rng": np.random.default_rng(0)}
    return _gap_driven.adaptive_prox(tools, (U * s) @ V.T, state, **options)


@pytest.mark.parametrize(("share", "rank"), [(1.01, 8), (0.99, 15), (0.0, 15)])
def test_the_rank_grows_until_what_is_left_out_is_allowed(share, rank, monkeypatch):
    """From 2 to 8 to 32; at 8 the oracle's delta, weight/2 times, is just allowed or not."""
    monkeypatch.setattr(_gap_driven, "gram_is_cheaper", lambda *_: False)
    prox, after = adapted(share)
    assert prox.V.rank == rank
    assert after.rank == rank + _gap_driven.SPARE
    assert not after.cut


@pytest.mark.parametrize(("cap", "cut"), [(8, True), (14, True), (16, False)])
def test_a_cap_on_the_rank_cuts_if_it_leaves_something_out(cap, cut, monkeypatch):
    monkeypatch.setattr(_gap_driven, "gram_is_cheaper", lambda *_: False)
    prox, after = adapted(0.0, cap)
    assert (prox.V.rank, after.rank) == (min(cap, 15), cap)
    assert after.cut == cut


def test_the_rank_grows_to_what_the_optimum_needs():
    """Twenty equal values of forty, far more than the first rank."""
    rng = np.random.default_rng(3)
    U, V = (np.linalg.qr(rng.standard_normal((40, 40)))[0] for _ in range(2))
    M = 10 * U[:, :20] @ V[:20] + 0.05 * rng.standard_normal((40, 40))
    problem = wp.Problem(Denoising(M), L1(0.01), NuclearBall(150.0))
    ranks = []
    result = solve(
        problem, eps=1e-4, look_every=1, callback=lambda look: ranks.append(look.V.rank)
    )
    assert result.status is wp.Status.CERTIFIED
    assert result.rank == 20
    assert set(ranks) == {20}
    assert result.checkpoint.memory.rank == davis_yin.FIRST_RANK  # ended in the first stretch
    assert result.counts.rank_one_svds >= 12 + 40  # the first rank, and four times as much


def test_the_rank_shrinks_to_what_the_optimum_needs(monkeypatch):
    monkeypatch.setattr(FromStep, "rank_first", 30)
    problem, watch = (
        wp.Problem(Denoising(noisy(40, 35, rank=3, noise=0.1)), L1(0.05), NuclearBall(60.0)),
        Watch(monkeypatch),
    )
    result = solve(problem, FromStep(), eps=1e-5, max_svds=200)
    assert result.status is wp.Status.CERTIFIED
    asked = [state.rank for state, *_ in watch.states]
    assert asked[0] == 22
    assert asked[-1] <= result.rank + 3
    assert (np.diff(asked) <= 0).all()


@pytest.mark.parametrize("term", [NuclearBall(30.0), NuclearNorm(0.5)], ids=["ball", "norm"])
@pytest.mark.parametrize("cap", [1, 2, 5, 11])
def test_a_cap_on_the_rank_holds_everywhere(term, cap, monkeypatch):
    problem = wp.Problem(Denoising(noisy(14, 11, rank=6)), L1(0.1), term)
    watch, looked = Watch(monkeypatch), []
    result = solve(
        problem,
        DavisYin(rank=cap),
        eps=1e-6,
        look_every=1,
        max_svds=60,
        callback=lambda look: looked.append(look.V.rank) if look.V is not None else None,
    )
    assert max(looked) <= cap
    assert result.rank <= cap
    assert max(state.rank for state, *_ in watch.states) <= cap
    assert all(dual.at.rank <= cap for *_, dual in watch.states)


# ------------------------------------------------------------------------- chance


@cache
def random_problems():
    made = []
    for seed in range(15 if ALL else 6):
        rng = np.random.default_rng(seed)
        m, d = (int(n) for n in rng.integers(1, 30, 2))
        for name, R in PENALTIES.items():
            kind = ("ball", "norm", "psd")[(seed + len(made)) % 3]
            n = m if kind == "psd" else d
            M = noisy(m, n, rank=2, seed=seed) * 10 ** rng.uniform(-1, 1)
            M = (M + M.T) / 2 if kind == "psd" else M
            tau = rng.uniform(0.05, 1.2) * np.linalg.norm(M, "nuc")
            terms = {"ball": NuclearBall(tau), "psd": TracePSD(tau), "norm": NuclearNorm(0.6)}
            made.append((f"{seed} {name} {kind}", wp.Problem(Denoising(M), R, terms[kind]), M))
    return made


def test_random_problems_are_certified():
    for name, problem, M in random_problems():
        eps = 1e-6 * 0.5 * float((M**2).sum())
        result = solve(problem, eps=eps, max_svds=300)
        assert result.status is wp.Status.CERTIFIED, name
        assert result.counts.svds <= 100, name
        assert result.violation <= 1e-9, name
        values = result.trace["value"]
        assert np.isfinite(values).all(), name
        assert (values >= result.certificate.lower_bound - eps).all(), name


@pytest.mark.parametrize("kind", ["ball", "norm"])
def test_a_given_start_is_where_the_run_begins(kind):
    M = noisy(12, 9)
    term = NuclearBall(10.0) if kind == "ball" else NuclearNorm(0.7)
    problem = wp.Problem(Denoising(M), L1(0.1), term)
    plain = solve(problem, eps=1e-6)
    for start in (0 * M, plain.X, term.random_point(
        np.random.default_rng(1), (12, 9), 9, M
    ).dense()):  # fmt: skip
        kept = start.copy()
        result = solve(problem, eps=1e-6, start=start)
        assert result.status is wp.Status.CERTIFIED
        assert result.value == pytest.approx(plain.value, abs=2e-6)
        np.testing.assert_array_equal(start, kept)
        at_once = solve(problem, eps=1e-6, start=start, max_svds=0)
        assert at_once.value <= problem.value(term.compress(start, 9, None)) + 1e-9


def test_data_are_not_written_to():
    M = numbers(9, 8)
    kept = M.copy()
    solve(wp.Problem(Denoising(M), L1(0.1), NuclearBall(4.0)), eps=1e-6)
    np.testing.assert_array_equal(M, kept)


def test_offsets_of_pieces_count_in_the_gap():
    """R(X) - <K'y, X> + <y, b> is the largest piece less the mean of all with weights y."""
    A, b = numbers(3, 6, 5, seed=60), numbers(3, seed=61)
    X, z, gradient = numbers(3, 6, 5, seed=62)
    found = split(MaxAffine(A, b), X, z, gradient, 0.5, None)
    pieces = (A * X).sum((1, 2)) - b
    assert found.near == pytest.approx(pieces.max() - found.y @ pieces)


def test_a_warm_start_is_scaled_by_the_part_that_is_not_smooth():
    X, pull = numbers(6, 5, seed=63), numbers(6, 5, seed=64)
    warm = Warmth(X, pull, float(0.1 * np.abs(X).sum()), 1.0, 5, None)
    for penalty in (L1(0.3), ElasticNet(0.3, 2.0)):
        scaled = warm.scaled(penalty)
        assert scaled.pull == pytest.approx(3 * pull)
        assert scaled.size == pytest.approx(0.3 * np.abs(X).sum())


def test_a_warm_start_keeps_its_dual_where_the_penalty_is_infinite():
    X = numbers(6, 5, seed=63)
    warm = Warmth(X, numbers(6, 5, seed=64), 1.0, 1.0, 5, None)
    assert warm.scaled(L1(0.3, np.full((6, 5), np.inf))) is warm


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_fallback_is_counted_in_float64(dtype, monkeypatch):
    needed = []
    monkeypatch.setattr(davis_yin, "fits", lambda problem, size: needed.append(size))
    problem = wp.Problem(Denoising(noisy(9, 7).astype(dtype)), L1(0.1), NuclearBall(2.0))
    wp.solvers.LeanSplitting.affordable(problem)
    assert needed == [DavisYin().arrays.most * 8 * 9 * 7]


@pytest.mark.parametrize("seed", [1, 6, 9, 10])
def test_gamma_settles_when_the_gap_does_not_fall(seed):
    # gamma went round in a circle of four or five values, and X with it
    rng = np.random.default_rng(seed)
    A, b, pieces = rng.standard_normal((2, 3, 3)), rng.standard_normal(2), rng.standard_normal
    loss, penalty = wp.losses.Sensing(A, b), wp.penalties.MaxAffine(3 * pieces((2, 3, 3)))
    problem = wp.Problem(loss, penalty, wp.spectral.TracePSD(1.0))
    assert wp.minimize(problem, wp.solvers.DavisYin(), progress=False).certified


def test_combinations_of_moves_do_not_diverge_where_a_loss_is_flat():
    # they led to values of 1e5, from which plain steps hardly returned
    rng = np.random.default_rng(69)
    rows, cols = np.nonzero(rng.random((4, 3)) < 0.5)
    classes = (rng.random(rows.size) < 0.5) * 1.0
    loss = Completion(rows, cols, classes, (4, 3), loss="logistic")
    problem = wp.Problem(loss, None, NuclearNorm(0.02))
    result = wp.minimize(problem, DavisYin(), progress=False)
    assert result.certified
    assert result.trace["value"].max() < 1.0


def test_combinations_that_lengthen_a_move_a_lot_are_dropped():
    # each of them led to the boundary of the ball, from which the next ones began
    rng = np.random.default_rng(105)
    M = rng.standard_normal((3, 3))
    M = M + M.T
    rows, cols = np.nonzero(rng.random((3, 3)) < 0.8)
    classes = (M[rows, cols] + 0.3 * rng.standard_normal(rows.size) > 0) * 1.0
    weights = rng.uniform(0, 2, (3, 3)) * (rng.random((3, 3)) < 0.7)
    scaling = rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 3)
    loss = Completion(rows, cols, classes, (3, 3), loss="logistic", scaling=scaling)
    problem = wp.Problem(loss, L1(0.05, (weights + weights.T) / 2), TracePSD(50.0))
    result = wp.minimize(problem, DavisYin(), tol=1e-5, progress=False, max_svds=200)
    assert result.certified

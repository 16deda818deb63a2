"""The baselines replayed by hand: iterates, step sizes, batches, counts and settings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused
from registry import MATRICES, MEASURED, NUMPY, SHAPE, denoising_sampler, numbers

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.solvers import FISTA, HCGM, SCG, SCGS, SHCGM, STORC, SVRF, ProjectedSubgradient
from weakprox.solvers.paper import sliding
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

TAU, LAM, EPS = 2.0, 0.2, 1.0
M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T
BALL = wp.Problem(Denoising(M), L1(LAM), NuclearBall(TAU))
PSD = wp.Problem(Denoising(SYM), L1(LAM), TracePSD(TAU))
SETS = {"ball": (BALL, M, 2 * TAU), "psd": (PSD, SYM, math.sqrt(2) * TAU)}
by_set = pytest.mark.parametrize("kind", SETS)


class Hand:
    """The problems above, written out: gradient, vertex, projection and constants."""

    def __init__(self, kind, eps=EPS):
        self.problem, self.M, self.D = SETS[kind]
        self.psd = kind == "psd"
        self.gamma = LAM * self.M.size / 2
        self.mu = eps / (2 * self.gamma)
        self.L = 1 + LAM / self.mu

    def grad(self, X, mu=None):
        return X - self.M + LAM * np.clip(X / (self.mu if mu is None else mu), -1, 1)

    def vertex(self, G):
        if self.psd:
            w, U = np.linalg.eigh((G + G.T) / 2)
            return (TAU if w[0] < 0 else 0.0) * np.outer(U[:, 0], U[:, 0])
        U, _, Vt = np.linalg.svd(G)
        return -TAU * np.outer(U[:, 0], Vt[0])

    def project(self, A):
        if self.psd:
            w, U = np.linalg.eigh((A + A.T) / 2)
            return (U * self.cap(w)) @ U.T
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        return (U * self.cap(s)) @ Vt

    @staticmethod
    def cap(values):
        """Nearest point of {p >= 0, sum p <= tau}, by bisection on the shift."""
        p = np.maximum(values, 0.0)
        if p.sum() <= TAU:
            return p
        low, high = 0.0, p.max()
        for _ in range(200):
            middle = (low + high) / 2
            if np.maximum(p - middle, 0).sum() > TAU:
                low = middle
            else:
                high = middle
        return np.maximum(p - high, 0)


def iterates(problem, solver, steps, *, eps=EPS, seed=0, start=None):
    """The first iterates of a run, as its callback sees them, and the result."""
    seen = []

    def callback(look):
        if look.step:
            seen.append(look.X.copy())
        return len(seen) >= steps

    result = wp.minimize(
        problem, solver, eps=eps, seed=seed, start=start, callback=callback, look_every=1,
        stop_when_certified=False, progress=False,
    )  # fmt: skip
    return seen, result


def agree(seen, replayed):
    assert len(seen) == len(replayed)
    assert np.allclose(seen, replayed, atol=1e-8)


@by_set
def test_scg(kind):
    hand, X, replayed = Hand(kind), np.zeros(SETS[kind][1].shape), []
    for k in range(1, 101):  # beyond one stretch
        X = X + 2 / (k + 1) * (hand.vertex(hand.grad(X)) - X)
        replayed.append(X)
    seen, result = iterates(hand.problem, SCG(), 100)
    agree(seen, replayed)
    p = result.parameters
    assert (p.mu, p.beta, p.diameter) == pytest.approx((hand.mu, hand.L, hand.D))
    assert p.bias == pytest.approx(EPS / 2)
    theory = math.ceil(4 * hand.L * hand.D**2 / (EPS / 2) - 2)
    assert theory <= p.predicted_svds <= 1.02 * theory + 2


@by_set
def test_hcgm(kind):
    hand, X, replayed = Hand(kind), np.zeros(SETS[kind][1].shape), []
    beta0 = 3.0
    for k in range(1, 101):
        mu = LAM * beta0 / math.sqrt(k + 1)  # t = theta / mu = sqrt(k + 1) / beta0
        X = X + 2 / (k + 1) * (hand.vertex(hand.grad(X, mu)) - X)
        replayed.append(X)
    agree(iterates(hand.problem, HCGM(beta0=beta0), 100, eps=1e-3)[0], replayed)


@by_set
def test_shcgm(kind):
    """All samples of one given matrix are alike, so nothing here is random."""
    hand, X, replayed = Hand(kind), np.zeros(SETS[kind][1].shape), []
    beta0, mean = 3.0, 0.0
    for k in range(1, 101):
        rho, mu = 4 / (k + 7) ** (2 / 3), LAM * beta0 / math.sqrt(k + 8)
        mean = (1 - rho) * mean + rho * (X - hand.M)
        G = mean + LAM * np.clip(X / mu, -1, 1)
        X = X + 9 / (k + 8) * (hand.vertex(G) - X)
        replayed.append(X)
    solver = SHCGM(beta0=beta0, sigma=0.0)
    agree(iterates(hand.problem, solver, 100, eps=1e-3)[0], replayed)


@by_set
def test_svrf(kind):
    """Samples cancel: Frank-Wolfe from vertex to vertex, in epochs of 14, 30, ... steps."""
    hand, replayed = Hand(kind), []
    X = hand.vertex(hand.grad(np.zeros(SETS[kind][1].shape)))
    for t in (1, 2, 3):
        for k in range(1, 2 ** (t + 3) - 1):
            X = X + 2 / (k + 1) * (hand.vertex(hand.grad(X)) - X)
            replayed.append(X)
    agree(iterates(hand.problem, SVRF(), len(replayed))[0], replayed)


@by_set
@pytest.mark.parametrize("momentum", [True, False])
def test_fista(kind, momentum):
    hand, replayed = Hand(kind, 0.01), []
    X = before = np.zeros(SETS[kind][1].shape)
    root = math.sqrt(1 / hand.L)
    ahead = (1 - root) / (1 + root) if momentum else 0.0
    for _ in range(80):
        Y = X + ahead * (X - before)
        before, X = X, hand.project(Y - hand.grad(Y) / hand.L)
        replayed.append(X)
    agree(iterates(hand.problem, FISTA(momentum=momentum), 80, eps=0.01)[0], replayed)


def completion(missing=7):
    cells = np.arange(M.size)[missing:]
    rows, cols = np.divmod(cells, SHAPE[1])
    mask = np.zeros(M.size)
    mask[cells] = 1.0
    loss = Completion(rows, cols, M.ravel()[cells], SHAPE)
    return wp.Problem(loss, L1(LAM), NuclearBall(TAU)), mask.reshape(SHAPE)


@pytest.mark.parametrize("momentum", [True, False])
def test_fista_without_strong_convexity(momentum):
    """Beck & Teboulle with t_k = (k + 1)/2, which 2 L D^2/(k + 1)^2 is proved for."""
    problem, mask = completion()
    hand, replayed = Hand("ball", 0.01), []
    X = before = np.zeros(SHAPE)
    for k in range(1, 81):
        ahead = (k / 2 - 1) / ((k + 1) / 2) if momentum and k > 1 else 0.0
        Y = X + ahead * (X - before)
        G = mask * (Y - M) + LAM * np.clip(Y / hand.mu, -1, 1)
        before, X = X, hand.project(Y - G / hand.L)
        replayed.append(X)
    seen, result = iterates(problem, FISTA(momentum=momentum), 80, eps=0.01)
    agree(seen, replayed)
    assert result.parameters.alpha == 0.0


@by_set
def test_projected_subgradient(kind):
    """Points x_k with steps 2/(k+1), their mean with weights k."""
    hand = Hand(kind)
    X, total, replayed = np.zeros(SETS[kind][1].shape), 0.0, []
    for k in range(1, 81):
        total = total + k * X
        replayed.append(2 * total / (k * (k + 1)))
        X = hand.project(X - 2 / (k + 1) * (X - hand.M + LAM * np.sign(X)))
    agree(iterates(hand.problem, ProjectedSubgradient(), 80, eps=1e-3)[0], replayed)


# ------------------------------------------------------------------------- sliding


class Spy:
    """What the sliding methods ask of their projections, and what they get."""

    def __init__(self, monkeypatch):
        self.calls = []
        inside = sliding.prox_by_vertices

        def asked(G, centre, weight, accuracy, cap, tools, basis, rng):
            given = {"G": G.copy(), "centre": centre.copy(), "cap": cap}
            before = tools.spectral._meter.counts.svds
            x, basis = inside(G, centre, weight, accuracy, cap, tools, basis, rng)
            spent = tools.spectral._meter.counts.svds - before
            given |= {"weight": weight, "eta": accuracy, "x": x.copy(), "spent": spent}
            self.calls.append(given)
            return x, basis

        monkeypatch.setattr(sliding, "prox_by_vertices", asked)


def gap_of(hand, call):
    """Wolfe gap of <G, u> + weight/2 |u - centre|^2 at the answer."""
    H = call["G"] + call["weight"] * (call["x"] - call["centre"])
    return float((H * (call["x"] - hand.vertex(H))).sum())


def check_projections(hand, calls):
    """Each is as accurate as asked, with no more vertices than Lan & Zhou's bound."""
    for call in calls:
        assert gap_of(hand, call) <= call["eta"] * (1 + 1e-9)
        assert call["spent"] <= math.ceil(6 * call["weight"] * hand.D**2 / call["eta"])


def check_phase(hand, calls, seen, first, gamma, weight, eta):
    """One phase: z, gradients, centres and y as in the algorithm's box."""
    x = y = first
    for k, (call, Y) in enumerate(zip(calls, seen, strict=True), start=1):
        z = (1 - gamma(k)) * y + gamma(k) * x
        assert np.allclose(call["G"], hand.grad(z), atol=1e-9)
        assert np.array_equal(call["centre"], x)
        assert call["weight"] == pytest.approx(weight(k))
        assert call["eta"] == pytest.approx(eta(k))
        x = call["x"]
        y = (1 - gamma(k)) * y + gamma(k) * x
        assert np.allclose(Y, y, atol=1e-9)
    return y


@by_set
def test_scgs_phases(kind, monkeypatch):
    hand, spy, C0 = Hand(kind), Spy(monkeypatch), 20.0
    L, N = hand.L, math.ceil(4 * math.sqrt(2 * hand.L))
    seen, _ = iterates(hand.problem, SCGS(C0=C0), 3 * N)
    check_projections(hand, spy.calls)
    p = np.zeros(hand.M.shape)
    for s in (1, 2, 3):
        part = slice((s - 1) * N, s * N)
        p = check_phase(
            hand, spy.calls[part], seen[part], p, lambda k: 2 / (k + 1), lambda k: 3 * L / k,
            lambda k, s=s: 8 * L * C0 * 2.0**-s / (N * k),
        )  # fmt: skip


@by_set
def test_scgs_convex(kind, monkeypatch):
    hand, spy = Hand(kind), Spy(monkeypatch)
    L, D = hand.L, hand.D
    seen, _ = iterates(hand.problem, SCGS(strongly_convex=False), 100)
    check_projections(hand, spy.calls)
    check_phase(
        hand, spy.calls, seen, np.zeros(hand.M.shape), lambda k: 3 / (k + 2),
        lambda k: 4 * L / (k + 2), lambda k: L * D**2 / (k * (k + 1)),
    )  # fmt: skip


@by_set
@pytest.mark.parametrize("case", ["stationary", "lipschitz", "strongly_convex", None])
def test_storc(kind, case, monkeypatch):
    hand, spy = Hand(kind), Spy(monkeypatch)
    L, D = hand.L, hand.D
    strong = case in ("strongly_convex", None)  # the default, since alpha = 1
    lengths = [
        math.ceil(math.sqrt(32 * L)) if strong else math.ceil(2 ** (t / 2 + 2)) for t in (1, 2)
    ]
    seen, _ = iterates(hand.problem, STORC(case=case), sum(lengths))
    check_projections(hand, spy.calls)
    w, done = hand.vertex(hand.grad(np.zeros(hand.M.shape))), 0
    for t, N in zip((1, 2), lengths, strict=True):
        part = slice(done, done + N)
        size = L * D**2 / 2 ** (t - 1) if strong else D**2
        w = check_phase(
            hand, spy.calls[part], seen[part], w, lambda k: 2 / (k + 1), lambda k: 3 * L / k,
            lambda k, N=N, size=size: 2 * L * size / (N * k),
        )  # fmt: skip
        done += N


@pytest.mark.parametrize(
    "solver", [SCGS(max_inner=2), SCGS(strongly_convex=False, max_inner=2), STORC(max_inner=2)]
)
def test_capped_projections(solver, monkeypatch):
    hand, spy = Hand("ball", 0.05), Spy(monkeypatch)
    iterates(hand.problem, solver, 600, eps=0.05)
    spent = [call["spent"] for call in spy.calls]
    assert max(spent) == 2
    spy.calls.clear()
    iterates(hand.problem, replace(solver, max_inner=None), 600, eps=0.05)
    assert max(call["spent"] for call in spy.calls) > 2  # it did bind


# ------------------------------------------------------------------------- batches


def drawn(problem, solver, *, eps=EPS, steps, seed=0):
    """Samples drawn at every step (pilot draws left out)."""
    counts = []

    def callback(look):
        if look.step:
            counts.append(look.counts.samples)
        return len(counts) >= steps

    wp.minimize(
        problem, solver, eps=eps, seed=seed, callback=callback, look_every=1, progress=False,
        stop_when_certified=False, evaluation_samples=2,
    )  # fmt: skip
    return np.diff(counts).tolist()


SAMPLED = wp.Problem(denoising_sampler(NUMPY), L1(LAM), NuclearBall(TAU))
N_SENSED = 60
SENSED = wp.Problem(Sensing(MATRICES, MEASURED), ElasticNet(0.0, 0.5), NuclearBall(TAU))


def test_scg_batches():
    L, D, sigma = Hand("ball").L, 2 * TAU, 5.0
    sizes = drawn(SAMPLED, SCG(sigma=sigma), steps=70)
    wanted = [math.ceil((sigma * (k + 1) / (L * D)) ** 2) for k in range(2, 71)]
    assert sizes == wanted
    assert wanted[-1] > 5 * wanted[0] >= 5


def test_scgs_batches():
    L, D, sigma, C0 = Hand("ball").L, 2 * TAU, 2.0, 20.0
    N = math.ceil(4 * math.sqrt(2 * L))
    sizes = drawn(SAMPLED, SCGS(sigma=sigma, C0=C0), steps=2 * N)
    wanted = [
        math.ceil(sigma**2 * N * (k + 1) ** 2 / (4 * L**2 * C0 * 2.0**-s))
        for s in (1, 2)
        for k in range(1, N + 1)
    ]
    assert sizes == wanted[1:]
    assert wanted[-1] > wanted[N - 1] > wanted[0]
    sizes = drawn(SAMPLED, SCGS(sigma=sigma, strongly_convex=False), steps=40)
    wanted = [math.ceil(sigma**2 * (k + 2) ** 3 / (L * D) ** 2) for k in range(2, 41)]
    assert sizes == wanted
    assert wanted[-1] > 10


def test_batches_as_large_as_the_sum_become_the_sum():
    L, D, sigma = SENSED.constants().beta_G + 1.0, 2 * TAU, 12.0
    sizes = drawn(SENSED, SCG(sigma=sigma), steps=40)
    asked = [math.ceil((sigma * (k + 1) / (L * D)) ** 2) for k in range(2, 41)]
    assert sizes == [m if m < N_SENSED else 0 for m in asked]
    assert 0 < sizes.count(0) < len(sizes)
    assert drawn(SENSED, SCG(), steps=5) == [0] * 4  # without sigma: all terms, always
    assert drawn(SENSED, SCGS(), steps=5) == [0] * 4


def many_terms(n):
    """So many terms that the theorems' batches are smaller."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((n, 2, 2))
    return wp.Problem(Sensing(A, rng.standard_normal(n)), ElasticNet(0, 5.0), NuclearBall(TAU))


MANY = many_terms(40_000)


def test_svrf_batches():
    """96 (k + 1) samples, none at the snapshot itself, all terms where that is fewer."""
    sizes = drawn(MANY, SVRF(), steps=14 + 30)
    wanted = [96 * (k + 1) for t in (1, 2) for k in range(1, 2 ** (t + 3) - 1)]
    wanted[0] = wanted[14] = 0
    assert sizes == wanted[1:]
    assert not any(drawn(SENSED, SVRF(), steps=14))


def test_storc_batches():
    p = MANY.constants()
    L, D = p.beta_term + 10.0, 2 * TAU
    N = [math.ceil(2 ** (t / 2 + 2)) for t in (1, 2)]

    def expected(size):
        return [0 if k == 1 else size(n, k) for n in N for k in range(1, n + 1)][1:]

    steps = sum(N)
    assert drawn(MANY, STORC(case="stationary"), steps=steps) == expected(lambda n, k: 900 * n)
    G = 30.0
    found = drawn(MANY, STORC(case="lipschitz", lipschitz=G), steps=steps)
    assert found == expected(
        lambda n, k: math.ceil(700 * n + 24 * n * G * (k + 1) / (L * D) - 1e-9)
    )
    assert found[1] > found[0]
    c = L / p.alpha
    n = math.ceil(math.sqrt(32 * c))
    size = math.ceil(5600 * n * c)
    larger = many_terms(size + 1)
    assert larger.constants().beta_term == pytest.approx(p.beta_term, rel=0.5)
    q = larger.constants()
    c = (q.beta_term + 10.0) / q.alpha
    n = math.ceil(math.sqrt(32 * c))
    size = math.ceil(5600 * n * c)
    sizes = drawn(larger, STORC(), steps=n + 1)
    wanted = size if size < larger.loss.n_terms else 0
    assert sizes == [wanted] * (n - 1) + [0]


def test_storc_works_out_its_lipschitz_constant():
    """|grad f_mu(w)| + L D at the snapshot w bounds the gradient over the set."""
    seen = []

    class Watching(STORC):
        def _epoch(self, memory, t, R, tools):
            rule, steps = super()._epoch(memory, t, R, tools)
            seen.append((memory.X.copy(), len(steps), rule(1)[-1], rule(2)[-1]))
            return rule, steps

    solver = Watching(case="lipschitz")
    wp.minimize(MANY, solver, eps=1.0, max_svds=200, progress=False, stop_when_certified=False)
    p, (w, N, first, second) = MANY.constants(), seen[0]
    L, D = p.beta_term + 10.0, 2 * TAU
    size = np.linalg.norm(MANY.loss.grad(w, MANY.loss.everything()) + 10.0 * w)
    G = size + (p.beta_G + 10.0) * D
    assert second - first == pytest.approx(24 * N * G / (L * D), abs=1.0)
    rng = np.random.default_rng(1)
    for _ in range(20):
        X = MANY.spectral.random_point(rng, (2, 2), 2, w).dense()
        assert np.linalg.norm(MANY.loss.grad(X, MANY.loss.everything()) + 10.0 * X) <= G


@pytest.mark.parametrize("batch", [1, 3])
def test_shcgm_and_subgradient_batches(batch):
    assert drawn(SAMPLED, SHCGM(batch=batch), steps=70) == [batch] * 69
    assert drawn(SENSED, SHCGM(batch=batch), steps=70) == [batch] * 69
    own = ProjectedSubgradient(batch=batch)
    assert drawn(SENSED, own, steps=70, eps=1e-3) == [batch] * 69
    own = ProjectedSubgradient(batch=None if batch == 1 else batch)  # one by default
    assert drawn(SAMPLED, own, steps=70, eps=1e-3) == [batch] * 69


def test_without_variance_reduction_every_step_draws_what_the_bound_needs():
    solver = Arm(rank=2, C0=3.0, sigma=4.0, variance_reduction=False, inner=5, epochs=2)
    sizes = drawn(SAMPLED, solver, steps=10)
    p = wp.theory.parameters(SAMPLED, EPS, C0=3.0, sigma=4.0)
    wanted = [math.ceil(15 / 7 * 16 / (p.alpha * 3) * 2**s) for s in (0, 1) for _ in range(5)]
    assert sizes == wanted[1:]
    own = Arm(rank=2, variance_reduction=False, k_s=lambda s: 7 * s, inner=5, epochs=2)
    assert drawn(SAMPLED, own, steps=10) == [7] * 4 + [14] * 5
    assert drawn(SENSED, Arm(rank=2, variance_reduction=False), steps=6) == [0] * 5


# ------------------------------------------------------------------------- counts


class Watched(NuclearBall):
    """Counts the calls that methods make; certificates and C0 ask with certify=True."""

    calls = 0

    def extreme(self, G, **options):
        type(self).calls += 1
        return super().extreme(G, **options)

    def weak_prox(self, A, **options):
        type(self).calls += not options.get("certify", False)
        return super().weak_prox(A, **options)


SOLVERS = {
    "scg": SCG(),
    "scgs": SCGS(),
    "scgs-convex": SCGS(strongly_convex=False),
    "storc": STORC(),
    "svrf": SVRF(),
    "hcgm": HCGM(),
    "shcgm": SHCGM(),
    "fista": FISTA(),
    "subgradient": ProjectedSubgradient(),
    "exact": Arm(rank=2, oracle="exact"),
    "fresh": Arm(rank=2, variance_reduction=False),
}
FULL_RANK = ("fista", "subgradient", "exact")
LINEAR_ORACLE = ("scg", "scgs", "scgs-convex", "storc", "svrf", "hcgm", "shcgm")


@pytest.mark.parametrize("name", SOLVERS)
def test_every_decomposition_is_counted_once(name):
    problem = wp.Problem(Denoising(M), L1(LAM), Watched(TAU))
    Watched.calls = 0
    result = wp.minimize(
        problem, SOLVERS[name], eps=1e-6, max_svds=150, progress=False,
        stop_when_certified=False,
    )  # fmt: skip
    assert result.counts.svds == Watched.calls == 150
    share = {"fresh": 2}.get(name, 5 if name in FULL_RANK else 1)
    assert result.counts.rank_one_svds == share * 150


@pytest.mark.parametrize("name", ["scg", "hcgm", "fista", "subgradient", "exact", "fresh"])
def test_full_gradients_are_counted(name):
    solver = SOLVERS[name]
    if name in ("exact", "fresh"):
        solver = replace(solver, C0=3.0)
    if name == "fista":
        solver = replace(solver, C0=3.0)
    result = wp.minimize(
        SENSED, solver, eps=1e-9, max_svds=40, progress=False, stop_when_certified=False
    )
    assert result.counts.svds == 40
    expected = 41  # the 41st is asked for before the decomposition that is refused
    assert result.counts.full_gradients == expected
    assert result.counts.samples == 0


# ----------------------------------------------------------------------- settings


def solve(problem, solver):
    return wp.minimize(problem, solver, eps=0.1, max_svds=3, progress=False)


class Untouchable(Denoising):
    """A loss that must not be worked with."""

    def grad(self, X, batch):
        raise AssertionError("work before the settings were checked")

    def draw(self, rng, size):
        raise AssertionError("work before the settings were checked")


IDLE = wp.Problem(Untouchable(M), L1(LAM), NuclearBall(TAU))
NAN, INF = float("nan"), float("inf")
BAD = [
    *((cls, {"mu": bad}) for cls in (SCG, SCGS, STORC, SVRF, FISTA) for bad in
      (-1.0, 0.0, NAN, INF, "1", True)),
    *((cls, {"sigma": bad}) for cls in (SCG, SCGS, SHCGM) for bad in (-1.0, NAN, True)),
    *((cls, {"C0": bad}) for cls in (SCGS, FISTA) for bad in (-1.0, NAN)),
    *((cls, {"max_inner": bad}) for cls in (SCGS, STORC) for bad in
      (0, -3, True, 2.5, NAN, "3")),
    *((ProjectedSubgradient, {"batch": bad}) for bad in (0, -1, True, 2.5, NAN, "3")),
    *((SHCGM, {"batch": bad}) for bad in (0, -1, True, 2.5, NAN, "3", None)),
    *((STORC, {"case": bad}) for bad in ("x", 1, "Stationary", [])),
    *((STORC, {"lipschitz": bad}) for bad in (-1.0, NAN, "1")),
    *((cls, {"beta0": bad}) for cls in (HCGM, SHCGM) for bad in (0, 0.0, -1.0, NAN, True)),
    *((lambda **k: Arm(rank=2, **k), {"oracle": bad}) for bad in ("x", None, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "setting"), BAD, ids=lambda v: str(getattr(v, "__name__", v)))
def test_bad_settings_are_refused_before_any_work(make, setting):
    refused(lambda: solve(IDLE, make(**setting)), *setting)


@pytest.mark.parametrize("name", [*LINEAR_ORACLE, "subgradient"])
@pytest.mark.parametrize(
    "term", [NuclearNorm(0.5), Exact(lambda A, w: A, lambda X: 0.0)], ids=["norm", "exact"]
)
def test_unbounded_terms_are_refused(name, term):
    problem = wp.Problem(Untouchable(M), L1(LAM), term)
    solver = SOLVERS[name]
    words = ("NuclearBall", type(solver).__name__)
    refused(lambda: solve(problem, solver), "spectral", *words)


def test_fista_takes_any_spectral_term():
    box = Exact(
        prox=lambda A, w: A.clip(-0.5, 0.5),
        value_of=lambda X: 0.0 if float(np.abs(X).max()) <= 0.5 * (1 + 1e-9) else INF,
        conjugate_of=lambda U: 0.5 * float(np.abs(U).sum()),
    )
    shrunk = np.sign(M) * np.maximum(np.abs(M) - LAM, 0.0)
    for term, best in ((box, shrunk.clip(-0.5, 0.5)), (NuclearNorm(0.7), None)):
        problem = wp.Problem(Denoising(M), L1(LAM), term)
        result = wp.minimize(problem, FISTA(), eps=1e-3, progress=False)
        assert result.status is wp.Status.CERTIFIED
        if best is not None:
            assert np.abs(result.X - best).max() <= math.sqrt(2 * 1e-3)


@pytest.mark.parametrize("name", ["storc", "svrf", "hcgm", "fista"])
def test_samplers_are_refused_where_full_gradients_are_needed(name):
    solver = SOLVERS[name]
    refused(lambda: solve(SAMPLED, solver), "loss", type(solver).__name__)


def test_strong_convexity_is_asked_for_only_where_it_is_used():
    problem, _ = completion()
    norm = wp.Problem(problem.loss, L1(LAM), NuclearNorm(0.5))
    for solver in (SCGS(), STORC(case="strongly_convex"), ProjectedSubgradient()):
        with pytest.raises(wp.ConvexityError, match="ElasticNet"):
            solve(problem, solver)
    with pytest.raises(wp.ConvexityError, match="ElasticNet"):
        solve(norm, FISTA())
    convex = [SCG(), SCGS(strongly_convex=False), STORC(), STORC(case="stationary"), SVRF()]
    for solver in (*convex, HCGM(), SHCGM(), FISTA(), FISTA(momentum=False)):
        result = solve(problem, solver)
        assert result.status is wp.Status.MAX_SVDS
        assert result.counts.svds == 3


@pytest.mark.parametrize("name", SOLVERS)
def test_the_users_start_is_where_the_run_begins_and_is_not_written_to(name):
    start = np.outer(np.ones(7), np.arange(5.0))
    start *= TAU / np.linalg.norm(start, "nuc")
    kept = start.copy()
    runs = [iterates(BALL, SOLVERS[name], 3, eps=0.05, start=s)[0] for s in (start, None)]
    assert np.array_equal(start, kept)
    forgets = ("scg", "hcgm")  # their first step has length 1
    first = [run[0] for run in runs]
    if name not in forgets:
        assert np.abs(first[0] - first[1]).max() > 1e-6


def test_the_halving_bound_allows_for_inexact_vertices():
    """After epoch t, exact vertices would give L D^2 / 2^(t+1); inexact ones give no less."""
    hand = Hand("ball")
    memory = wp.minimize(BALL, eps=EPS, solver=SVRF(), max_svds=1).checkpoint.memory
    exact = hand.L * hand.D**2 * 0.5 ** (memory.epoch + 1)
    assert exact <= SVRF().promised(memory) - EPS / 2 <= 1.05 * exact


@pytest.mark.parametrize("kind", [SCG, FISTA])
def test_nothing_is_smoothed_by_zero(kind):
    """Unless there is nothing to smooth."""
    loss, ball = Denoising(numbers(*SHAPE)), NuclearBall(2.0)
    with pytest.raises(wp.InputError, match="mu"):
        kind(mu=0.0).check(wp.Problem(loss, L1(0.1), ball))
    kind(mu=0.1).check(wp.Problem(loss, L1(0.1), ball))
    kind(mu=0.0).check(wp.Problem(loss, None, ball))

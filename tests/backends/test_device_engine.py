"""What the host does for the engine on a CUDA device, with the CPU in the device's place.

Kernels are replaced by the formulas they are tested against, or interpreted (`make
test-kernels`); what is queued, sent, waited for and decided is the engine's own.
"""

import gc
import os
import weakref
from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.linalg.arrays import SHARED, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, Sums, device_engine, device_queue, engine, reference
from weakprox.passes.device_engine import DeviceEngine
from weakprox.passes.device_queue import FIRST, Queue
from weakprox.passes.engine import Engine
from weakprox.passes.reference import TERMS
from weakprox.solvers import LeanSplitting, davis_yin

PLAIN = Step(1.0, 1.0, 0.0, 0.0, 0.0)  # with which the first target is the data
FIELDS = len(PLAIN.numbers)


def enqueue_first(C, z, numbers, Q, groups=0, weights=None):
    k = Step(*numbers[:FIELDS].tolist(), weights)
    assert groups == k.groups
    return reference.first(C, z, k, Q)


def enqueue_look(C, z, X, numbers, groups=0, weights=None):
    k = Step(*numbers[:FIELDS].tolist(), weights)
    sums = reference.look(C, z, X, k)
    assert groups == k.groups
    return torch.tensor(sums._replace(across=np.nan)[:TERMS], dtype=torch.float64)


def enqueue_advance(C, z, X, numbers, Q, *, precise=True, groups=0, weights=None):
    """TF32 is shown by a product that is a little off, as it may be."""
    *k, change = numbers[: FIELDS + 1].tolist()
    k = Step(*k, weights)
    assert groups == k.groups
    sums, product = reference.advance(C, z, X, k, change, Q)
    product = product if precise else product * (1 + 1e-4 * torch.sin(product))
    return torch.tensor(sums[:TERMS], dtype=torch.float64), product


def enqueue_whitening(G):
    scale = 1 / torch.sqrt(torch.diagonal(G))
    root, failed = torch.linalg.cholesky_ex(G * scale * scale[:, None])
    if failed:
        return torch.zeros_like(G), torch.zeros_like(G[0, 0])
    return torch.linalg.inv(root).T * scale[:, None], torch.diagonal(root).min()


def stand_in():
    """What `fused.cuda` offers, without it."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        from weakprox.passes import cuda

        return cuda
    passes = SimpleNamespace(**vars(reference))
    for function in (enqueue_first, enqueue_look, enqueue_advance, enqueue_whitening):
        setattr(passes, function.__name__, function)
    passes.quick_times = lambda z, V: reference.times(z, wide(V))
    passes.quick_transpose_times = lambda z, U: reference.transpose_times(z, wide(U))
    passes.IN_FLOAT64 = True  # as on a device
    return passes


@pytest.fixture
def done(monkeypatch):
    """How often each piece of work has been done, on a device that is none."""
    passes = stand_in()
    for place in (engine, device_engine, device_queue):
        monkeypatch.setattr(place, "passes_for", lambda *_: passes)
    stream = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: stream)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: x)
    monkeypatch.setattr(device_queue, "_mailboxes", defaultdict(list))
    monkeypatch.setattr(device_engine, "_records", lambda *_: False)  # graphs need a device
    counts, do, pause = Counter(), Queue.do, Queue.wait

    def counted(queue, name, **options):
        counts[name] += 1
        do(queue, name, **options)

    def waiting(queue):
        counts["waits"] += 1
        pause(queue)

    monkeypatch.setattr(Queue, "do", counted)
    monkeypatch.setattr(Queue, "wait", waiting)
    return counts


FREE = 1.0 - np.eye(200) + np.tri(200)


def instance(d=200, r=10, curvature=0.0, penalty=None):
    rng = np.random.default_rng([0, d, r])
    Y = np.where(rng.random((d, r)) < d**-0.5, rng.integers(1, 11, (d, r)), 0)
    M = torch.tensor(Y @ Y.T + rng.standard_normal((d, d)), dtype=torch.float32)
    l1 = wp.penalties.ElasticNet(2.0, curvature) if curvature else wp.penalties.L1(2.0)
    ball = wp.spectral.NuclearBall((0.9 - curvature) * float(np.sum(Y * Y)))
    return wp.Problem(wp.losses.Denoising(M), penalty or l1, ball)


def lent(C, arena, width, k, *, symmetric, mirrored):
    return device_engine.lent(C, arena, k)


def run(problem, monkeypatch, *, on_device, **options):
    with monkeypatch.context() as patch:
        if on_device:
            patch.setattr(davis_yin, "engine_for", lent)
        return wp.minimize(problem, LeanSplitting(), progress=False, **options)


@pytest.mark.parametrize("curvature", [0.0, 0.05])
@pytest.mark.parametrize(
    "penalty",
    [None, wp.penalties.Box(-2.0, 60.0, 3.0), wp.penalties.L1(2.0, FREE)],
    ids=["l1", "box", "weights"],
)
def test_answers_are_those_of_the_plain_engine(done, monkeypatch, curvature, penalty):
    problem = instance(curvature=curvature, penalty=penalty)
    there, here = (run(problem, monkeypatch, on_device=x, tol=1e-4) for x in (True, False))
    assert there.status is here.status is wp.Status.CERTIFIED
    assert there.solver == here.solver == "LeanSplitting"
    assert done["quick_advance"] >= 2
    allowed = np.sqrt(2 * there.gap) + np.sqrt(2 * here.gap)  # strong convexity is one at least
    assert float(torch.linalg.norm(there.X - here.X)) <= allowed
    assert there.certificate.lower_bound <= here.value
    assert here.certificate.lower_bound <= there.value


@pytest.mark.parametrize(("r", "widths"), [(10, [16]), (25, [16, 32]), (40, [16, 64])])
def test_blocks_of_any_width_make_one_trip_to_the_host(done, monkeypatch, r, widths):
    """Wider blocks have queues of their own, for steps and for proofs."""
    problem, used = instance(d=400, r=r), []
    use = DeviceEngine.use
    monkeypatch.setattr(
        DeviceEngine, "use", lambda x, width: (used.append(width), use(x, width))
    )
    there = run(problem, monkeypatch, on_device=True, tol=1e-4)
    assert sorted(set(used)) == widths
    assert min(done[name] for name in ("look", "squares", "tail")) >= 1
    monkeypatch.setattr(DeviceEngine, "use", use)
    here = run(problem, monkeypatch, on_device=False, tol=1e-4)
    assert there.status is here.status is wp.Status.CERTIFIED
    assert there.solver == here.solver == "LeanSplitting"
    assert there.counts.svds == here.counts.svds
    allowed = np.sqrt(2 * there.gap) + np.sqrt(2 * here.gap)
    assert float(torch.linalg.norm(there.X - here.X)) <= allowed
    assert there.certificate.lower_bound <= here.value
    waits = []
    for svds in (7, 9):
        done.clear()
        run(problem, monkeypatch, on_device=True, eps=1e-30, max_svds=svds)
        waits.append(done["waits"] - 2 * done["check"])
    assert waits[1] - waits[0] == 2


@pytest.mark.parametrize("rank", [None, 4])
def test_points_that_were_seen_stay_as_they_are(done, monkeypatch, rank):
    """The engine's own arrays are written to in every iteration."""
    problem, seen = instance(), []

    def callback(look):
        copies = [x.clone() for x in (look.V.U, look.V.s, look.V.Vt)]
        seen.append((look.V, copies, look.value))

    with monkeypatch.context() as patch:
        patch.setattr(davis_yin, "engine_for", lent)
        solver, options = LeanSplitting(rank=rank), {"callback": callback, "look_every": 1}
        wp.minimize(problem, solver, tol=1e-4, max_svds=10, progress=False, **options)
    assert len(seen) > 2
    for V, copies, value in seen:
        for now, then in zip((V.U, V.s, V.Vt), copies, strict=True):
            assert torch.equal(now, then)
        assert problem.value(V) == pytest.approx(value, rel=2e-5)
        assert V.U.is_contiguous()


def test_a_start_makes_one_trip_to_the_host_too(done):
    started(np.logspace(0, -2, FIRST), powers=3)
    assert (done["again"], done["span"], done["waits"]) == (2, 1, 1)


def test_products_are_rounded_only_where_values_are_alike(done):
    for decades, name in ((1.0, "quick_advance"), (3.5, "advance")):
        one, found = started(np.logspace(0, -decades, FIRST))
        for _ in range(2):  # the first may begin from triplets made elsewhere
            done.clear()
            found = one.advance(None, np.zeros(2), PLAIN, 1.0, found, 1)[2]()
        assert done[name] == 1


def test_an_iteration_makes_one_trip_to_the_host(done, monkeypatch):
    problem = instance()

    def waits(svds):
        done.clear()
        run(problem, monkeypatch, on_device=True, eps=1e-30, max_svds=svds)
        return done["waits"]

    assert waits(6) - waits(3) == 3


def test_runs_are_resumed_to_the_bit(done, monkeypatch, tmp_path):
    problem, options = instance(), {"eps": 1e-30, "on_device": True}
    where = tmp_path / "run.safetensors"
    whole = run(problem, monkeypatch, max_svds=40, **options)
    part = run(problem, monkeypatch, max_svds=25, checkpoint=where, **options)
    resumed = (
        run(problem, monkeypatch, max_svds=40, resume=part, **options),
        run(problem, monkeypatch, max_svds=40, checkpoint=where, resume=True, **options),
    )
    for other in resumed:
        for one, two in zip(whole.factors, other.factors, strict=True):
            np.testing.assert_array_equal(one.numpy(), two.numpy())


def with_values(values, m=200, n=150, dtype=torch.float32):
    """A matrix of these singular values, and its factors in float64."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((k, len(values))))[0] for k in (m, n))
    return torch.tensor((U * values) @ V.T, dtype=dtype), U, V


def started(values, powers=3, seed=0):
    """An engine whose target has these values, and the triplets it begins with."""
    C, _, _ = with_values(values)
    one = DeviceEngine(C, SHARED.like(C))
    block = torch.tensor(np.random.default_rng(seed).standard_normal((150, FIRST)))
    found = one.begin(PLAIN, torch.linalg.qr(block)[0], powers)
    return one, found


def check_triplets(z, found, needed=FIRST):
    """A V = U s with orthonormal columns; those of U that are not needed, nearly so."""
    U, V, eye = found.U.numpy(), found.V.numpy(), np.eye(FIRST)
    np.testing.assert_allclose(V.T @ V, eye, atol=1e-9)
    np.testing.assert_allclose(U.T @ U, eye, atol=1e-4)
    np.testing.assert_allclose((U.T @ U)[:needed, :needed], eye[:needed, :needed], atol=1e-9)
    left = z.double().numpy() @ V - U * found.s
    assert np.linalg.norm(left, 2) <= 1e-12 * found.s[0]


@pytest.mark.parametrize("needed", [3, FIRST])
@pytest.mark.parametrize("decades", [0.5, 2.0, 3.5, 4.5, 5.5])
def test_triplets_are_orthonormal_however_values_differ(done, decades, needed):
    values = np.logspace(0, -decades, FIRST)
    one, found = started(values)
    check_triplets(one.z, found)
    np.testing.assert_allclose(found.s, values, rtol=1e-3, atol=1e-6)
    zero = np.zeros(needed)
    X = LowRank(found.U[:, :needed].float(), torch.zeros(needed), found.V[:, :needed].T.float())
    for _ in range(3):  # from the triplets in place, of a target that does not move
        found = one.advance(X, zero, PLAIN, 1.0, found, 1)[2]()
        check_triplets(one.z, found, needed)
    # squares tell values apart over three decades, and a second look over six
    assert (done["check"] > 0) is ((decades > 3 and needed == FIRST) or decades > 5)


def test_what_squares_lose_is_found_otherwise(done):
    """Fewer values than columns: nothing can be made orthonormal from squares alone."""
    one, found = started(np.array([3.0, 2.0, 1.0]), powers=1)
    np.testing.assert_allclose(found.s[:3], [3.0, 2.0, 1.0], rtol=1e-5)
    assert np.all(found.s[3:] <= 1e-5)
    np.testing.assert_allclose(found.V.T @ found.V, np.eye(FIRST), atol=1e-8)
    assert one._own is None  # so that nothing is read from arrays that hold something else


def test_proofs_are_those_of_the_plain_engine(done):
    values = np.concatenate([np.linspace(9, 5, 12), np.linspace(1.0, 0.5, 60)])
    one, found = started(values)
    plain = Engine(one.C, one.z)
    k = Step(0.7, 1.0, 0.4, 0.1, 0.1)
    some = np.maximum(found.s - 4.0, 0.0)
    found = found.leading(12)
    rng = np.random.default_rng(1)
    np.testing.assert_allclose(one.squares(found, rng), plain.squares(found, rng), atol=1e-10)
    other = replace(found, s=found.s * 1.1)  # so that residuals are not all zero
    squares = one.squares(other, rng)
    np.testing.assert_allclose(squares, plain.squares(other, rng), atol=1e-10)
    assert np.abs(np.diagonal(squares[3])).min() > 0.1
    kept = found.U.double(), found.V.double()
    rest = one.z.double() - kept[0] @ (kept[0].T @ one.z.double())
    exact = float(torch.linalg.matrix_norm(rest - rest @ kept[1] @ kept[1].T, 2))
    for enough in (0.0, 1.5, 3.0):
        one.squares(found, rng)
        bound = one.tail(found, rng, enough)
        assert exact <= bound <= max(enough, 1.0 + 1e-5)
    for ours, theirs in zip(
        one.look(found, some[:12], k),
        plain.look(found, some[:12], k)._replace(across=np.nan),
        strict=True,
    ):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9, nan_ok=True)
    assert isinstance(one.look(found, some[:12], k), Sums)
    assert min(done[name] for name in ("look", "tail", "more_tail", "squares")) >= 1


def test_launches_that_cannot_be_recorded_continue_without(done, monkeypatch):
    """Recording needs memory of its own, which a device may lack."""
    problem, tried = instance(), []

    def refused(queue, name):
        tried.append(name)
        raise torch.OutOfMemoryError("no memory for a graph")

    plain = run(problem, monkeypatch, on_device=True, tol=1e-6)
    monkeypatch.setattr(Queue, "_record", refused)
    monkeypatch.setattr(device_engine, "_records", lambda *_: True)
    found = run(problem, monkeypatch, on_device=True, tol=1e-6)
    assert len(tried) == 1
    assert found.certified
    assert torch.equal(found.X, plain.X)


def test_engines_are_freed_at_once(done):
    """Memory of a device must not wait for the collection of cycles."""
    one, found = started(np.logspace(0, -1, FIRST))
    alive = weakref.ref(one)
    gc.disable()
    try:
        del one, found
        assert alive() is None
    finally:
        gc.enable()

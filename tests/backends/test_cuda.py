"""On a CUDA device: kernels against formulas, solvers against NumPy, and no hidden copies.

Skipped where there is none. On a machine that has one:

    python -m pytest --noconftest tests/backends/test_cuda.py
"""

import warnings

import numpy as np
import pytest
import torch
from backends._every import PROBLEMS, SOLVERS, check_agrees, check_kept, solved
from backends._traffic import READS_PER_ITERATION, WRITES_PER_ITERATION
from registry import NUMPY, Backend

import weakprox as wp
from weakprox.linalg import device_engine
from weakprox.linalg.fused import Step, passes_for, reference
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.solvers import LeanSplitting
from weakprox.spectral import NuclearBall

DEVICE = "cuda"
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device; see the file's docstring", allow_module_level=True)

CUDA = Backend("torch64-cuda", torch.float64, DEVICE)
CUDA32 = Backend("torch32-cuda", torch.float32, DEVICE)
STEPS = [Step(1.0, 1.0, 0.0, 0.7), Step(0.3, 1.0, 0.4, 0.2)]
SHAPES = [(1, 1), (3, 700), (37, 23), (129, 65), (513, 1031), (1030, 127)]
WIDTHS = [1, 3, 16, 17, 100, 512]
by_backend = pytest.mark.parametrize("backend", [CUDA32, CUDA], ids=lambda b: b.name)


def given(shape, rank, backend, seed=0):
    """C, z and a point of low rank, on the device; and the same in NumPy's float64."""
    rng = np.random.default_rng([seed, *shape, rank])
    C, z = (rng.standard_normal(shape) for _ in "Cz")
    U, V = (rng.standard_normal((n, rank)) / np.sqrt(n) for n in shape)
    s = np.linspace(3.0, 1.0, rank)
    there = [backend.array(x) for x in (C, z, U, s, V.T)]
    here = [x.double().cpu().numpy().copy() for x in there]
    return (*there[:2], LowRank(*there[2:])), (*here[:2], LowRank(*here[2:]))


def far(found, expected):
    """Relative distance of a result on the device from one in NumPy."""
    found = found.double().cpu().numpy()
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)


@by_backend
@pytest.mark.parametrize("k", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 3, 17, 40])
def test_passes(shape, rank, k, backend):
    (C, z, X), (C0, z0, X0) = given(shape, rank, backend)
    passes = passes_for(z)
    assert (passes is reference) is (backend is CUDA)
    sums, exact = passes.look(C, z, X, k), reference.look(C0, z0, X0, k)
    for name in ("distance", "absolute"):
        assert getattr(sums, name) == pytest.approx(getattr(exact, name), rel=1e-11)
    size = exact.distance + exact.absolute + exact.rest
    for name in ("along", "across", "rest"):  # the dual point itself may be of float32
        assert abs(getattr(sums, name) - getattr(exact, name)) <= 1e-5 * size
    alone, exact = passes.look(C, None, X, k), reference.look(C0, None, X0, k)
    assert alone.value(k) == pytest.approx(exact.value(k), rel=1e-6)

    Q = backend.array(np.random.default_rng(1).standard_normal((shape[1], 5)))
    for change in (1.0, 0.5):
        sums, product = passes.advance(C, z, X, k, change, Q)
        exact, _ = reference.advance(C0, z0, X0, k, change, None)
        assert far(z, z0) <= 1e-5
        assert far(product, z0 @ Q.double().cpu().numpy()) <= 3e-3  # products in TF32
        assert sums.value(k) == pytest.approx(exact.value(k), rel=1e-4)
        assert sums.rest == pytest.approx(exact.rest, rel=1e-3, abs=1e-6 * size)
    passes.first(C, z, k, Q)
    reference.first(C0, z0, k)
    # rounding may leave a little where the exact step is zero
    assert np.abs(z.double().cpu().numpy() - z0).max() <= 1e-5


@by_backend
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_narrow_blocks(shape, width, backend):
    (_, z, _), (_, z0, _) = given(shape, 1, backend)
    rng = np.random.default_rng(width)
    V, U = (rng.standard_normal((n, width)) for n in shape[::-1])
    passes = passes_for(z)
    tensors = [torch.asarray(x, device=DEVICE) for x in (V, U)]
    assert far(passes.times(z, tensors[0]), z0 @ V) <= 1e-13
    assert far(passes.transpose_times(z, tensors[1]), z0.T @ U) <= 1e-13
    after, step = z * 1.0, STEPS[0]
    _, product = passes.advance(z, after, _nothing(z), step, 1.0, tensors[0])
    assert product.shape == (shape[0], width)
    assert far(product, after.double().cpu().numpy() @ V) <= 3e-3  # in TF32


def _nothing(z):
    return LowRank(z[:, :1] * 0, z[0, :1] * 0, z[:1] * 0)


@by_backend
def test_factors_and_blocks_of_odd_strides(backend):
    (C, z, X), (C0, z0, X0) = given((130, 70), 6, backend)
    strided = LowRank(
        torch.repeat_interleave(X.U, 2, dim=1)[:, ::2], X.s, X.Vt.T.contiguous().T
    )
    V = torch.repeat_interleave(torch.asarray(X0.Vt.T, device=DEVICE), 3, dim=0)[::3]
    passes = passes_for(z)
    assert far(passes.times(z, V.T.contiguous().T), z0 @ X0.Vt.T) <= 1e-12
    sums, exact = passes.look(C, z, strided, STEPS[0]), reference.look(C0, z0, X0, STEPS[0])
    assert sums.distance == pytest.approx(exact.distance, rel=1e-11)
    passes.advance(C, z, strided, STEPS[0], 1.0)
    reference.advance(C0, z0, X0, STEPS[0], 1.0)
    assert far(z, z0) <= 1e-5


def instance(d, r=10):
    """The paper's, rounded to float32, with tau factor 0.9."""
    rng = np.random.default_rng([0, d, r])
    Y = np.where(rng.random((d, r)) < d**-0.5, rng.integers(1, 11, (d, r)), 0)
    M = (Y @ Y.T + rng.standard_normal((d, d))).astype(np.float32)
    return M, 0.9 * float(np.sum(Y * Y))


def problem(M, tau):
    return wp.Problem(Denoising(M), L1(2.0), NuclearBall(tau))


@by_backend
@pytest.mark.parametrize("d", [500, 2000])
def test_answers_are_those_of_numpy(d, backend):
    M, tau = instance(d)
    here = wp.minimize(problem(M.astype(float), tau), tol=1e-7, progress=False)
    there = wp.minimize(problem(backend.array(M), tau), tol=1e-5, progress=False)
    assert here.status is there.status is wp.Status.CERTIFIED
    if backend is CUDA32:
        assert there.solver == "LeanSplitting"
    check_kept(there, backend)
    X = there.X.double().cpu().numpy()
    allowed = np.sqrt(2 * here.gap) + np.sqrt(2 * there.gap)  # strong convexity is one
    assert np.linalg.norm(X - here.X) <= allowed
    assert there.certificate.lower_bound <= here.value
    assert here.certificate.lower_bound <= there.value + 1e-6 * abs(there.value)


VIEWS = {  # shape of the whole, and where the data are in it
    "rows": ((400, 200), np.s_[::2, :]),
    "columns": ((200, 400), np.s_[:, ::2]),
    "part": ((230, 333), np.s_[7:207, 100:300]),
}


@by_backend
@pytest.mark.parametrize("cut", [*VIEWS, "transposed"])
def test_data_of_any_stride(cut, backend):
    M, tau = instance(200)
    shape, where = VIEWS.get(cut, (M.shape, np.s_[:]))
    whole = torch.zeros(shape, dtype=backend.dtype, device=DEVICE)
    view = whole[where].T if cut == "transposed" else whole[where]
    view.copy_(backend.array(M))
    there, here = (
        wp.minimize(problem(x, tau), LeanSplitting(), tol=1e-4, progress=False)
        for x in (view, M.astype(float))
    )
    assert there.status is here.status is wp.Status.CERTIFIED
    assert there.value == pytest.approx(here.value, rel=3e-4)
    assert (whole[where].T if cut == "transposed" else whole[where]).equal(backend.array(M))


@by_backend
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_term(name, backend):
    result = solved(PROBLEMS[name](backend), tol=1e-4 if backend is CUDA else 2e-3)
    check_kept(result, backend)
    assert result.status is wp.Status.CERTIFIED
    check_agrees(result, backend, name)


@by_backend
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver(name, backend):
    solver, build, options = SOLVERS[name]
    found, same = (solved(build(b), solver, **options) for b in (backend, NUMPY))
    check_kept(found, backend)
    assert found.value == pytest.approx(same.value, rel=2e-2)  # random numbers differ there
    assert np.isfinite(found.gap) == np.isfinite(same.gap)


def synchronisations(call):
    """How often a call made the host wait for the device."""
    torch.cuda.synchronize()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(one.message) for one in seen)


def test_iterations_wait_for_the_device_as_often_as_stated():
    x = torch.ones(8, device=DEVICE)
    assert synchronisations(lambda: x.sum().item()) >= 1  # or nothing would be counted
    M, tau = instance(1000)
    task = problem(CUDA32.array(M), tau)

    def run(svds):
        wp.minimize(task, LeanSplitting(), eps=1e-30, max_svds=svds, progress=False)

    run(6)  # compiles
    more = synchronisations(lambda: run(6)) - synchronisations(lambda: run(3))
    assert more <= 3 * (READS_PER_ITERATION + WRITES_PER_ITERATION)


def bits(result):
    return [x.double().cpu().numpy() for x in result.factors]


def test_recorded_launches_change_nothing(monkeypatch):
    M, tau = instance(300)
    task = problem(CUDA32.array(M), tau)

    def run(**options):
        return wp.minimize(task, LeanSplitting(), tol=1e-4, progress=False, **options)

    recorded, again = run(), run()
    monkeypatch.setattr(device_engine, "RECORDED", 0)
    queued = run()
    monkeypatch.setattr(device_engine, "applies", lambda *_: False)
    plain = run()
    assert recorded.status is plain.status is wp.Status.CERTIFIED
    for one, two, three in zip(bits(recorded), bits(again), bits(queued), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
    allowed = np.sqrt(2 * recorded.gap) + np.sqrt(2 * plain.gap)
    assert float(torch.linalg.norm(recorded.X - plain.X)) <= allowed
    assert recorded.certificate.lower_bound <= plain.value


def test_resumed_to_the_bit_on_the_device(tmp_path):
    M, tau = instance(300)
    task = problem(CUDA32.array(M), tau)
    where = tmp_path / "run.safetensors"

    def run(most, **options):
        return wp.minimize(
            task, LeanSplitting(), tol=1e-12, max_svds=most, progress=False, **options
        )

    whole, part = run(70), run(40, checkpoint=where)
    for resumed in (run(70, resume=part), run(70, checkpoint=where, resume=True)):
        for one, two in zip(bits(whole), bits(resumed), strict=True):
            np.testing.assert_array_equal(one, two)


def test_the_engine_forgets_the_last_data():
    """Its arrays stay between runs; another problem of the same shape must not see them."""
    M, tau = instance(300)
    first = wp.minimize(problem(CUDA32.array(M), tau), LeanSplitting(), progress=False)
    other = problem(CUDA32.array(M.T + 1.0), 0.7 * tau)
    there = wp.minimize(other, LeanSplitting(), progress=False)
    here = wp.minimize(problem((M.T + 1.0).astype(float), 0.7 * tau), progress=False)
    assert there.value == pytest.approx(here.value, rel=3e-4)
    assert first.value != pytest.approx(there.value, rel=1e-2)
    assert first.low_rank.nuclear_norm <= tau * (1 + 1e-5)  # nor may the first answer change

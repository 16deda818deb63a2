"""On a CUDA device: solvers against NumPy, and no hidden copies.

Skipped where there is none. On a machine that has one:

    python -m pytest --noconftest tests/backends/test_cuda.py tests/backends/test_kernels.py
"""

import warnings

import numpy as np
import pytest
import torch
from backends._every import PROBLEMS, SOLVERS, check_agrees, check_kept, solved
from backends._traffic import READS_PER_ITERATION, WRITES_PER_ITERATION
from registry import NUMPY, Backend

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.passes import device_engine, passes_for, reference
from weakprox.penalties import L1
from weakprox.solvers import LeanSplitting
from weakprox.spectral import NuclearBall

DEVICE = "cuda"
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device; see the file's docstring", allow_module_level=True)

CUDA = Backend("torch64-cuda", torch.float64, DEVICE)
CUDA32 = Backend("torch32-cuda", torch.float32, DEVICE)
by_backend = pytest.mark.parametrize("backend", [CUDA32, CUDA], ids=lambda b: b.name)


@by_backend
def test_passes_are_kernels(backend):
    assert passes_for(backend.array(np.zeros((3, 4)))) is not reference


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


def weighted(M, tau, seed=0, dtype=np.float64):
    """The same problem with weights, of which those on the diagonal are zero."""
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, M.shape).astype(dtype)
    np.fill_diagonal(weights, 0.0)
    return wp.Problem(Denoising(M), L1(2.0, weights), NuclearBall(tau))


@by_backend
@pytest.mark.parametrize("stored", [np.float32, np.float64], ids=["weights32", "weights64"])
@pytest.mark.parametrize(("d", "r"), [(500, 10), (2003, 10), (1000, 25), (1000, 50)])
def test_weights_of_entries(d, r, stored, backend):
    """Odd lengths of rows, blocks of all widths, weights of more precision than the data."""
    M, tau = instance(d, r)
    tau *= 8 / 9
    here = wp.minimize(weighted(M.astype(float), tau), tol=1e-6, progress=False)
    there = wp.minimize(
        weighted(backend.array(M), tau, dtype=stored), LeanSplitting(), tol=1e-4, progress=False
    )
    assert here.status is there.status is wp.Status.CERTIFIED
    assert there.solver == "LeanSplitting"
    check_kept(there, backend)
    allowed = np.sqrt(2 * here.gap) + np.sqrt(2 * there.gap) + 1e-6 * tau  # rounded weights
    assert np.linalg.norm(there.X.double().cpu().numpy() - here.X) <= allowed
    rounding = 1e-6 * abs(here.value)
    assert there.certificate.lower_bound <= here.value + rounding
    assert here.certificate.lower_bound <= there.value + rounding


def test_recorded_launches_read_the_weights_of_their_run(monkeypatch):
    """A run without weights comes between runs with other weights."""
    M, tau = instance(1000)
    C, found = CUDA32.array(M), []
    tasks = [weighted(C, tau, 1), problem(C, tau), weighted(C, tau, 2), weighted(C, tau, 1)]
    for recorded in (True, False):
        with monkeypatch.context() as patch:
            if not recorded:
                patch.setattr(device_engine, "_records", lambda *_: False)
            for task in tasks:
                result = wp.minimize(task, LeanSplitting(), tol=1e-4, progress=False)
                assert result.status is wp.Status.CERTIFIED
                found.append(result.value)
    np.testing.assert_allclose(found[:4], found[4:], rtol=1e-6)
    assert found[0] == pytest.approx(found[3], rel=1e-6)
    assert abs(found[0] - found[2]) > 1e-4 * found[0]


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
    monkeypatch.setattr(device_engine, "_records", lambda C: False)
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


@pytest.mark.parametrize("r", [25, 50])
@pytest.mark.parametrize("rows", [0.0, 8.0])
def test_wide_blocks_have_launches_of_their_own(monkeypatch, r, rows):
    """Answers are those of NumPy, and neither recorded launches nor earlier runs matter."""
    M, tau = instance(1000, r)
    R = L1(2.0) + wp.penalties.GroupL2(rows) if rows else L1(2.0)
    ball = NuclearBall(0.8 * tau)
    here = wp.minimize(wp.Problem(Denoising(M.astype(float)), R, ball), tol=1e-6)
    given = wp.Problem(Denoising(CUDA32.array(M)), R, ball)
    device_engine._idle.clear()
    recorded = [wp.minimize(given, LeanSplitting(), tol=1e-4) for _ in range(3)]
    widest = device_engine._idle[0].queue
    assert widest.width > 16
    assert {"turn", "squares"} < set(widest.graphs)
    monkeypatch.setattr(device_engine, "_records", lambda C: False)
    recorded.append(wp.minimize(given, LeanSplitting(), tol=1e-4))
    for there in recorded:
        assert there.certified
        assert there.solver == "LeanSplitting"
        allowed = np.sqrt(2 * here.gap) + np.sqrt(2 * there.gap)
        assert np.linalg.norm(there.X.double().cpu().numpy() - here.X) <= allowed
        assert there.certificate.lower_bound <= here.value
        assert torch.equal(there.X, recorded[0].X)


def test_resumed_to_the_bit_on_the_device(tmp_path):
    M, tau = instance(300)
    task = problem(CUDA32.array(M), tau)
    where = tmp_path / "run.safetensors"

    def run(most, **options):
        return wp.minimize(
            task, LeanSplitting(), eps=1e-30, max_svds=most, progress=False, **options
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


@pytest.mark.parametrize("backend", [CUDA, CUDA32], ids=lambda b: b.name)
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_decompositions_that_fail_on_the_device(monkeypatch, backend, failing):
    """First by gesvd there, then on the host; the answer comes back to the device."""
    from array_api_compat.torch import linalg

    from weakprox.linalg import decompositions

    whole, calls = linalg.svd, []

    def svd(A, **options):
        calls.append(options)
        if len(calls) <= failing:
            raise torch.linalg.LinAlgError("The algorithm failed to converge")
        return whole(A, **options)

    monkeypatch.setattr(linalg, "svd", svd)
    A = np.random.default_rng(0).standard_normal((9, 6))
    U, s, Vt = decompositions.svd(backend.array(A))
    assert all(backend.owns(x) for x in (U, s, Vt))
    assert [options.get("driver") for options in calls] == [None, "gesvd"][
        : 1 + min(failing, 1)
    ]
    close = 1e-5 if backend is CUDA32 else 1e-13
    np.testing.assert_allclose(((U * s) @ Vt).cpu().numpy(), A, atol=close)

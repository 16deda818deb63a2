"""Data and iterates larger than the budget: on disk, the same answer, and never beyond it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import weakprox as wp
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import LowRankPlusSparse
from weakprox.resources.memory import on_disk

MIB = 1 << 20
SHAPE = (1200, 1000)


def noisy(shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    Y, Z = (rng.integers(1, 5, (n, 3)) * (rng.random((n, 3)) < 0.1) for n in shape)
    return Y @ Z.T + 0.3 * rng.standard_normal(shape)


def problem(M, spectral=None, penalty=None):
    penalty = penalty or wp.penalties.L1(0.5)
    return wp.Problem(
        wp.losses.Denoising(M), penalty, spectral or wp.spectral.NuclearBall(2000.0)
    )


@pytest.fixture
def steady(monkeypatch):
    """Memory in use as the budget sees it: a worker that has run many tests gives some back."""
    held = 100 << 20
    for place in ("weakprox.resources.memory", "weakprox.run.plan"):
        monkeypatch.setattr(sys.modules[place], "resident", lambda: held)
    return held


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    M = noisy()
    path = tmp_path_factory.mktemp("data") / "M.npy"
    np.save(path, M)
    return M, path, wp.minimize(problem(M), tol=1e-7, progress=False)


def test_a_matrix_and_a_target_on_disk_give_the_same_answer(case, monkeypatch, steady):
    _, path, wanted = case
    scratches = []
    import weakprox.linalg.arrays as arena

    real = arena.scratch
    monkeypatch.setattr(
        arena, "scratch", lambda *a: scratches.append(real(*a)) or scratches[-1]
    )
    mapped = np.load(path, mmap_mode="r")
    most = steady + 11 * MIB
    found = wp.minimize(problem(mapped), tol=1e-7, max_memory=most, progress=False)
    assert found.certified
    assert found.solver == "LeanSplitting"
    assert scratches
    assert all(on_disk(z) and z.shape == SHAPE for z in scratches)
    assert found.value == pytest.approx(wanted.value, rel=1e-10)
    np.testing.assert_allclose(found.X, wanted.X, atol=1e-6)


def test_a_run_on_disk_continues_where_it_stopped(case, steady):
    mapped = np.load(case[1], mmap_mode="r")
    stated, most = problem(mapped), steady + 11 * MIB
    options = {"tol": 1e-12, "max_memory": most, "progress": False}
    whole = wp.minimize(stated, max_svds=30, **options)
    part = wp.minimize(stated, max_svds=20, **options)
    assert on_disk(part.checkpoint.memory.z)
    again = wp.minimize(stated, resume=part, max_svds=30, **options)
    np.testing.assert_array_equal(again.X, whole.X)


CHILD = """
import json, sys
import numpy as np, weakprox as wp
from weakprox.resources.memory import peak
kind, path, budget = sys.argv[1:]
data = np.load(path, mmap_mode="r")
loss = wp.losses.Denoising(data) if kind == "M" else wp.losses.Denoising(samples=data)
tau = 2000.0 if kind == "M" else 200.0  # where the answer is low-rank
case = wp.Problem(loss, wp.penalties.L1(0.5), wp.spectral.NuclearBall(tau))
plan = wp.plan(case, max_memory=budget)
found = wp.minimize(case, max_memory=budget, tol=1e-2, progress=False)
print(json.dumps([peak(), plan.early, found.certified]))
"""


@pytest.mark.parametrize("kind", ["M", "samples"])
def test_the_peak_of_a_process_stays_within_its_budget(kind, tmp_path):
    """96 MB within 120 MB, 160 MB within 180 MB, of which Python itself takes 70 MB."""
    path, shape = tmp_path / "data.npy", (3000, 4000) if kind == "M" else (40, 800, 625)
    data = np.lib.format.open_memmap(path, "w+", np.float64, shape)  # a sparse file
    if kind == "M":
        data[...] = noisy(shape)
    else:
        data[3] = 40.0 * noisy((800, 625))
    data.flush()
    del data
    budget = 120_000_000 if kind == "M" else 180_000_000
    command = [sys.executable, "-c", CHILD, kind, str(path), str(budget)]
    usual = {**os.environ, "WEAKPROX_COMPILE": "auto"}  # numba is loaded only if it fits
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=usual)
    assert done.returncode == 0, done.stderr
    peak, planned, certified = json.loads(done.stdout)
    assert certified
    assert peak <= budget
    assert planned / 1.25 <= peak <= planned * 1.25


def test_a_budget_too_small_is_refused_before_any_work(case):
    calls = []
    with pytest.raises(InputError, match=r"max_memory: got 9\.5 MiB.*wanted at least"):
        wp.minimize(problem(case[0]), max_memory="10MB", callback=calls.append)
    with pytest.raises(InputError, match="max_memory"):
        wp.minimize(problem(case[0]), max_memory="a lot")
    assert calls == []


def test_columns_one_after_the_other_are_refused(tmp_path):
    path = tmp_path / "F.npy"
    np.save(path, np.asfortranarray(noisy((900, 800))))
    mapped = np.load(path, mmap_mode="r")
    with pytest.raises(InputError, match="columns one after the other"):
        wp.minimize(problem(mapped), max_memory="4GB")
    assert wp.minimize(problem(mapped), progress=False).certified  # without a budget


def operators():
    rng = np.random.default_rng(1)
    U, Vt = rng.standard_normal((60, 2)), rng.standard_normal((2, 50))
    S = sp.random_array((60, 50), density=0.1, rng=rng)
    return {
        "sparse": S,
        "low rank": wp.LowRank(U, np.ones(2), Vt),
        "both": LowRankPlusSparse(U, np.ones(2), Vt, S),
    }


OPERATORS = operators()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    "penalty",
    [
        wp.penalties.L1(0.1),
        wp.penalties.ElasticNet(0.1, 0.2),
        wp.penalties.SignedL1(0.1, 0.2) + wp.penalties.GroupL2(0.1),
    ],
)
@pytest.mark.parametrize("ball", [wp.spectral.NuclearBall(10.0), wp.spectral.NuclearNorm(0.5)])
def test_operators_are_solved_as_their_arrays_are(name, penalty, ball):
    M = OPERATORS[name]
    whole = M.toarray() if sp.issparse(M) else M.dense()
    found = wp.minimize(problem(M, ball, penalty), tol=1e-6, progress=False)
    wanted = wp.minimize(problem(whole, ball, penalty), tol=1e-6, progress=False)
    assert found.certified
    assert found.value == pytest.approx(wanted.value, rel=1e-6)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(
    "terms",
    [
        (wp.penalties.GroupL2(0.1, "columns"), wp.spectral.NuclearBall(10.0)),
        (
            wp.penalties.GroupL2(0.1) + wp.penalties.GroupL2(0.1, "columns"),
            wp.spectral.NuclearNorm(0.5),
        ),
    ],
)
def test_other_terms_make_an_operator_dense(name, terms, monkeypatch):
    M = OPERATORS[name]
    stated = wp.Problem(wp.losses.Denoising(M), *terms)
    assert isinstance(stated.loss.target, np.ndarray)
    assert wp.minimize(stated, progress=False).certified
    monkeypatch.setattr("weakprox.losses.denoising.room", lambda: 100)
    with pytest.raises(InputError, match="do not fit in this process"):
        wp.Problem(wp.losses.Denoising(M), *terms)


def test_other_solvers_make_an_operator_dense():
    stated = problem(OPERATORS["sparse"], wp.spectral.NuclearBall(1.0))
    found = wp.minimize(stated, wp.solvers.DavisYin(), progress=False)
    assert found.certified
    assert found.value == pytest.approx(wp.minimize(stated, progress=False).value, rel=1e-3)


def test_bad_operators():
    bad = sp.eye_array(4).tocsr()
    bad.data[2] = np.nan
    with pytest.raises(InputError, match=r"NaN or infinite.*losses\.Completion"):
        wp.losses.Denoising(bad)
    with pytest.raises(InputError, match="overflow"):
        wp.losses.Denoising(1e200 * sp.eye_array(4))
    with pytest.raises(InputError, match="complex"):
        wp.losses.Denoising(sp.eye_array(4) * 1j)
    with pytest.raises(ShapeError):
        wp.losses.Denoising(sp.csr_array((0, 4)))


def test_measurements_on_disk_are_those_in_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    A, b = rng.standard_normal((30, 4, 3)), rng.standard_normal(30)
    np.save(tmp_path / "A.npy", A)
    monkeypatch.setattr("weakprox.losses.inputs.CHUNK_BYTES", 7 * 12 * 8)
    here, there = (
        wp.losses.Sensing(x, b) for x in (A, np.load(tmp_path / "A.npy", mmap_mode="r"))
    )
    X = rng.standard_normal((4, 3))
    assert there.value(X, there.everything()) == pytest.approx(here.value(X, here.everything()))
    np.testing.assert_allclose(
        there.grad(X, there.everything()), here.grad(X, here.everything()), atol=1e-12
    )
    assert there.term_smoothness == pytest.approx(here.term_smoothness)
    assert there.smoothness == pytest.approx(here.smoothness)
    terms, flat = there._terms, A.reshape(30, -1)
    np.testing.assert_allclose(terms.apply(X), flat @ X.ravel(), atol=1e-12)
    np.testing.assert_allclose(terms.adjoint(b), (b @ flat).reshape(4, 3), atol=1e-12)

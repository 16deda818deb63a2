"""What a plan says is what a run takes."""

import inspect
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import weakprox as wp
from weakprox.errors import InputError
from weakprox.linalg.arrays import SHARED
from weakprox.solvers.base import ARRAYS, Arrays, thin_bytes

ROOT = Path(__file__).resolve().parents[3]
NEAR = 1.25


def problem(M, lam=0.3):
    m, d = M.shape
    return wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(lam), wp.spectral.NuclearBall(float(m + d))
    )


def noisy(m=1100, d=1000):
    rng = np.random.default_rng(0)
    Y, Z = (rng.integers(1, 5, (n, 3)) * (rng.random((n, 3)) < 0.1) for n in (m, d))
    return Y @ Z.T + 0.3 * rng.standard_normal((m, d))


def traced(call):
    """Peak of Python's allocations, NumPy's among them."""
    SHARED.trim(0)
    tracemalloc.start()
    try:
        found = call()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_most_arrays_are_those_of_the_peak_unless_decompositions_become_full():
    assert Arrays(3, 4, proof=2).most == 6
    assert Arrays(3, 4, proof=2, wide=9).most == 9


def test_vectors_of_observed_entries_count_where_a_solver_has_them():
    rows, cols = np.nonzero(np.random.default_rng(0).random((60, 50)) < 0.3)
    loss = wp.losses.Completion(rows, cols, np.cos(rows), (60, 50))
    case = wp.Problem(loss, None, wp.spectral.NuclearNorm(1.0))
    three, five = (thin_bytes(case, Arrays(0, 0, vectors=n)) for n in (3, 5))
    assert five - three == 2 * 8 * len(rows)
    # other solvers hold tiles of arrays instead, here all of one
    assert thin_bytes(case, Arrays(0, 0)) >= three - 3 * 8 * len(rows) + 8 * 60 * 50


def test_a_plan_is_a_table_and_tells_the_choice():
    case = problem(noisy(60, 50))
    plan = wp.plan(case)
    text = str(plan)
    assert plan.chosen == "DavisYin" == wp.minimize(case, progress=False).solver
    assert f"{plan.chosen}: {plan.reason}." in text
    assert text.count("<- would run") == 1
    for need in plan.needs:
        assert need.solver in text
        assert need.data == 1.0
        assert need.early <= need.peak <= need.most
        assert plan[need.solver] is need
    assert {"LeanSplitting", "SVRGCG", "FISTA"} <= {need.solver for need in plan.needs}
    assert "DualAscent" not in {need.solver for need in plan.needs}  # not for this penalty
    assert str(wp.plan(case, "auto")).splitlines()[1:-1] == text.splitlines()[1:-1]
    lines = text.splitlines()[1:-2]
    assert {len(line.removesuffix("  <- would run")) for line in lines} == {len(lines[0])}
    (davis_yin,) = (line for line in lines if line.startswith("DavisYin"))
    assert davis_yin.split()[1:5] == ["1", "7.5", "to", "22.5"]
    refused = str(wp.plan(case, max_memory="1MB"))
    assert "does not fit" in refused
    assert "would run" not in refused
    alone = wp.plan(case, wp.solvers.FISTA())
    assert (alone.chosen, len(alone.needs)) == ("FISTA", 1)
    for other in ("fista", wp.solvers.FISTA):
        assert wp.plan(case, other).needs == alone.needs


def test_every_solver_states_its_arrays():
    listed = {name for name in wp.solvers.__all__ if hasattr(getattr(wp.solvers, name), "step")}
    assert listed == set(ARRAYS)


def test_the_certified_solver_holds_three_arrays_and_one_where_m_is_an_operator():
    M = noisy(300, 200)
    assert wp.plan(problem(M))["LeanSplitting"].data + ARRAYS["LeanSplitting"].peak == 3.0
    huge = sp.random_array((40_000, 30_000), density=1e-5, rng=np.random.default_rng(0))
    plan = wp.plan(problem(huge))
    need = plan["LeanSplitting"]
    assert plan.chosen == "LeanSplitting"
    assert (need.work, need.proof) == (1.0, 0.0)
    assert need.data < 1e-3
    assert plan["SVRGCG"].data == need.data + 1.0  # which needs the array


def test_what_is_on_workers_is_not_held_here():
    M = noisy(300, 200)
    plan = wp.plan(problem(da.from_array(M, chunks=100)))
    need = plan["LeanSplitting"]
    assert plan.chosen == "LeanSplitting"
    assert (need.work, need.disk) == (0.0, 0.0)
    assert need.data < 1e-3
    assert plan["DavisYin"].data == need.data + 1.0  # which gathers it


@pytest.mark.parametrize("tol", [1e-4, 1e-9], ids=["early", "late"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_certified_solver_takes_what_is_planned(kind, tol, monkeypatch):
    # an end without a proof tries another one, if there is room for its arrays
    never = staticmethod(lambda problem: False)
    monkeypatch.setattr(wp.solvers.LeanSplitting, "affordable", never)
    monkeypatch.setenv("WEAKPROX_COMPILE", "never")  # arrays of compiled passes are not traced
    M = noisy()
    if kind == "sparse":
        M = sp.csr_array(M * (np.abs(M) > 1.0))
    case = problem(M)
    solver = wp.solvers.LeanSplitting()
    plan = wp.plan(case, solver)
    need = plan["LeanSplitting"]
    options = {"tol": tol, "max_svds": 40, "progress": False, "stop_when_certified": tol > 1e-8}
    # a proof that is kept holds one array more
    found, peak = traced(lambda: wp.minimize(case, solver, proof=False, **options))
    said = (need.early if found.counts.svds <= 16 else need.peak) - need.data * plan.array
    assert (found.counts.svds > 16) is (tol < 1e-8)
    assert said / NEAR <= peak <= said * NEAR


@pytest.mark.parametrize(
    "name",
    [
        "LeanSplitting",
        "DavisYin",
        pytest.param("DualAscent", marks=pytest.mark.long),
        pytest.param("SVRGCG", marks=pytest.mark.long),
    ],
)
def test_processes_take_what_is_planned(name):
    """Resident memory, in a process of its own; `make bench-memory` measures all solvers."""
    command = [sys.executable, ROOT / "benchmarks" / "memory.py", "--one", name, "1e-3", "20"]
    # Dask leaves settings of the allocator behind that give memory back at once
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    plain["WEAKPROX_COMPILE"] = "never"  # a compiler takes more than the arrays measured here
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
    assert 1 / NEAR <= json.loads(done.stdout)["ratio"] <= NEAR


def test_samples_and_penalties_count_as_data():
    rng = np.random.default_rng(0)
    stack = rng.standard_normal((7, 30, 20))
    loss = wp.losses.Denoising(samples=stack)
    case = wp.Problem(loss, wp.penalties.L1(0.1), wp.spectral.NuclearBall(1.0))
    assert wp.plan(case)["DavisYin"].data == 8.0  # and their mean, yet to be made
    loss.everything()
    assert wp.plan(case)["DavisYin"].data == 8.0
    pieces = wp.penalties.MaxAffine(rng.standard_normal((3, 30, 20)), np.zeros(3))
    case = wp.Problem(wp.losses.Denoising(stack[0]), pieces, wp.spectral.NuclearBall(1.0))
    assert wp.plan(case)["DualAscent"].data == pytest.approx(10.0, rel=0.01)


def test_a_budget_changes_the_plan(monkeypatch):
    M = noisy(1000, 900)
    case = problem(M)
    held = 100 << 20  # a worker that has run many tests gives some memory back meanwhile
    # where the functions look, even if a test has imported the modules anew
    places = [inspect.unwrap(wp.plan).__globals__]
    for place in (*places, places[0]["room"].__globals__):
        monkeypatch.setitem(place, "resident", lambda: held)
    monkeypatch.setitem(places[0], "_compiler_bytes", lambda: held)
    tight = held + 9 * (1 << 20)  # for factors and tiles, numba being yet to be loaded
    plan = wp.plan(case, max_memory=tight)
    assert plan.chosen == "LeanSplitting"
    assert not plan["DavisYin"].fits
    assert plan["LeanSplitting"].fits
    assert plan["LeanSplitting"].disk == 2.0
    assert "does not fit" in str(plan)
    with pytest.raises(InputError, match=r"max_memory: .*at least .* for SVRGCG"):
        wp.minimize(case, wp.SVRGCG(rank=3), eps=1.0, max_memory=tight)
    with pytest.raises(InputError, match=r"max_memory: .*at least .* for LeanSplitting"):
        wp.minimize(case, max_memory="1MB")


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ((3,), "problem"),
        ((problem(noisy(9, 8)), wp.solvers.DualAscent()), "penalty"),
        ((problem(noisy(9, 8)), "Davis & Yin"), "solver: .*one of auto, .*davisyin"),
        ((problem(noisy(9, 8)), int), "solver: .*a solver object"),
    ],
)
def test_what_cannot_be_planned(args, name):
    with pytest.raises(InputError, match=name):
        wp.plan(*args)
    with pytest.raises(InputError, match="max_memory"):
        wp.plan(problem(noisy(9, 8)), max_memory="much")

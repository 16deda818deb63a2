"""Passes are compiled if that was done before, or once NumPy's runs have taken as long."""

import hashlib
import os
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion, Denoising
from weakprox.passes import compiling, engine, passes_for, pattern, reference
from weakprox.spectral import NuclearBall, NuclearNorm

LARGE = np.zeros((40, 50))


@pytest.fixture(autouse=True)
def automatic(monkeypatch, tmp_path):
    """The rule itself, in a process that has stored nothing and spent nothing."""
    monkeypatch.setenv("WEAKPROX_COMPILE", "auto")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "COMPILED_FROM", 1000)
    monkeypatch.setattr(compiling, "_spent", 0.0)
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "compiling.py"))
    (tmp_path / "compiled.py").touch()
    compiling.stored.cache_clear()
    yield
    compiling.stored.cache_clear()


def test_nothing_is_compiled_at_first():
    assert passes_for(LARGE) is reference
    assert pattern._kernels(LARGE) is pattern.Plain


def test_stored_passes_are_used_unless_the_source_is_newer(tmp_path, monkeypatch):
    folder = tmp_path / "passes_0123"
    folder.mkdir()
    version = f"py{sys.version_info[0]}{sys.version_info[1]}"
    index = folder / f"compiled._group_advance-12.{version}.nbi"
    index.touch()
    assert compiling.stored()
    assert not compiling.stored(compiling.ENTRIES)  # another file
    assert passes_for(LARGE) is compiling.module(compiling.DENSE)
    monkeypatch.delitem(sys.modules, "weakprox.passes.compiled", raising=False)
    assert not compiling.chosen(compiling.LOADED_AT_ONCE - 1)  # loading would take longer
    monkeypatch.setattr(compiling, "_spent", compiling.LOADED)
    assert compiling.chosen(compiling.LOADED_AT_ONCE - 1)
    assert passes_for(LARGE[:10]) is reference  # too few entries
    later = time.time() + 100.0
    os.utime(tmp_path / "compiled.py", (later, later))
    compiling.stored.cache_clear()
    assert not compiling.stored()
    source = (tmp_path / "compiled.py").read_bytes()
    index.write_bytes(b"0.68 " + hashlib.sha256(source).digest())  # of the same source
    os.utime(index, (1.0, 1.0))
    compiling.stored.cache_clear()
    assert compiling.stored()


def test_a_very_large_run_compiles_at_once():
    assert not compiling.chosen(compiling.AT_ONCE - 1)
    assert compiling.chosen(compiling.AT_ONCE)


def test_a_budget_that_numba_does_not_fit_in(monkeypatch):
    monkeypatch.delitem(sys.modules, "weakprox.passes.compiled", raising=False)
    monkeypatch.setattr(compiling, "budget", lambda: 1 << 30)
    monkeypatch.setattr(compiling, "room", lambda: compiling.COMPILER)
    assert compiling.chosen(compiling.AT_ONCE)
    monkeypatch.setattr(compiling, "room", lambda: compiling.COMPILER - 1)
    assert not compiling.chosen(compiling.AT_ONCE)
    monkeypatch.setitem(sys.modules, "weakprox.passes.compiled", reference)  # it is there
    assert compiling.chosen(compiling.AT_ONCE)


def test_compiled_once_runs_have_taken_as_long(monkeypatch):
    monkeypatch.setattr(compiling, "REPAID", 0.05)
    with compiling.passes(True):
        time.sleep(0.06)
    assert not compiling.chosen()  # compiled passes spend nothing
    with compiling.passes(False):
        time.sleep(0.06)
    assert not compiling.chosen()  # nor does a run that would not have used them
    with compiling.passes(False):
        time.sleep(0.06)
        assert passes_for(LARGE) is reference  # within a run nothing changes
    assert compiling.chosen()


@pytest.mark.parametrize(("asked", "found"), [("always", True), ("never", False)])
def test_the_environment_decides(monkeypatch, asked, found):
    monkeypatch.setattr(compiling, "_spent", 0.0 if found else 1e3)
    monkeypatch.setenv("WEAKPROX_COMPILE", asked)
    assert compiling.chosen() is found


def test_a_resumed_run_keeps_its_choice(monkeypatch):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 50)) + rng.standard_normal(
        (60, 50)
    )
    problem = wp.Problem(Denoising(M), wp.penalties.L1(0.3), NuclearBall(60.0))
    whole = wp.minimize(problem, "lean-splitting", tol=1e-7)
    part = wp.minimize(problem, "lean-splitting", tol=1e-7, max_svds=13)
    assert part.status is wp.Status.MAX_SVDS
    monkeypatch.setenv("WEAKPROX_COMPILE", "always")
    again = wp.minimize(problem, "lean-splitting", tol=1e-7, resume=part)
    assert again.X.tobytes() == whole.X.tobytes()


@pytest.mark.parametrize("penalty", [None, wp.penalties.L1(0.1)], ids=["factors", "array"])
def test_a_run_on_observed_entries_uses_one_kind(penalty, monkeypatch):
    """Also if it is resumed where another one would be chosen."""
    used = set()
    real = pattern._kernels
    monkeypatch.setattr(pattern, "_kernels", lambda x: used.add(real(x)) or real(x))
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.5)
    values = rng.standard_normal(len(rows))
    loss = Completion(rows, cols, values, (30, 20), intercepts="rows")
    problem = wp.Problem(loss, penalty, NuclearNorm(2.0))
    part = wp.minimize(problem, tol=1e-6, max_svds=5)
    assert part.status is wp.Status.MAX_SVDS
    used.clear()
    monkeypatch.setenv("WEAKPROX_COMPILE", "always")
    wp.minimize(problem, tol=1e-6, resume=part, max_svds=20)
    assert used == {pattern.Plain}


def test_paths_count_as_runs(monkeypatch):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((30, 20)) < 0.5)
    loss = Completion(rows, cols, rng.standard_normal(len(rows)), (30, 20))
    wp.selection.observed_path(loss, cv=2)
    assert compiling._spent > 0.0


def test_the_display_says_so(monkeypatch):
    monkeypatch.setenv("WEAKPROX_COMPILE", "always")
    assert compiling.about_to_compile()
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    assert not compiling.about_to_compile()
    monkeypatch.setenv("WEAKPROX_COMPILE", "never")
    assert not compiling.about_to_compile()


def test_the_place_of_the_source_is_the_one_that_numba_stores_beside():
    assert (Path(engine.__file__).parent / "compiled.py").is_file()


def test_sums_without_kernels_where_rows_are_empty():
    rows, columns = np.array([1, 1, 4], np.int32), np.array([0, 2, 2], np.int32)
    found, values = pattern.pattern(rows, columns, (6, 3))[0], np.array([1.0, 2.0, 5.0])
    sums = pattern.Plain.row_sums(found, values)
    np.testing.assert_array_equal(sums, [0.0, 3.0, 0.0, 0.0, 5.0, 0.0])
    effects = pattern.Plain.effects(found, np.arange(6.0), 10.0 * np.arange(3.0))
    np.testing.assert_array_equal(effects, [1.0, 21.0, 24.0])
    narrow = pattern.pattern(rows.astype(np.int8), columns, (200, 3))[0]
    np.testing.assert_array_equal(narrow.row_counts[:6], found.row_counts)


def test_short_time_limits_do_not_allow_loading(monkeypatch):
    monkeypatch.setattr(compiling, "stored", cache(lambda kind="": True))
    kind = "passes that are not loaded"
    assert compiling.chosen(kind=kind)
    with compiling.limited(0.05):
        assert not compiling.chosen(kind=kind)
        with compiling.limited(60.0):  # the shorter limit holds
            assert not compiling.chosen(kind=kind)
        monkeypatch.setitem(sys.modules, f"weakprox.passes.{kind}", compiling)
        assert compiling.chosen(kind=kind)
        monkeypatch.delitem(sys.modules, f"weakprox.passes.{kind}")
    with compiling.limited(60.0):
        assert compiling.chosen(kind=kind)
    with compiling.limited(None):
        assert compiling.chosen(kind=kind)


@pytest.mark.parametrize(("seconds", "loads"), [(0.05, False), (None, True)])
def test_fits_with_a_short_time_limit_do_not_load_passes(monkeypatch, seconds, loads):
    asked = []
    monkeypatch.setattr(compiling, "stored", cache(lambda kind="": True))
    monkeypatch.setattr(compiling, "module", lambda kind: asked.append(1))
    monkeypatch.delitem(sys.modules, "weakprox.passes.entries_compiled", raising=False)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 8))
    X[rng.random(X.shape) < 0.2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing may be proved in that time
        wp.SparseLowRankImputer(max_seconds=seconds, random_state=0).fit(X)
    assert bool(asked) is loads

"""Worker processes: any number of them, dying or not, give the same bits."""

import json
import os
import signal

import dask
import dask.array as da
import numpy as np
import pytest
from dask_cases import Staying, assert_same, matrix, problem
from typer.testing import CliRunner

import weakprox as wp
from weakprox.cli import app
from weakprox.distributed import blocked, observations, remote, terms
from weakprox.errors import InputError
from weakprox.losses import Completion, Sensing
from weakprox.spectral import NuclearNorm

M, TAU = matrix()
TOL = 1e-4


@pytest.fixture(autouse=True)
def four_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK_BYTES", 128 * M.shape[1] * 8)


@pytest.fixture(scope="module")
def here():
    return wp.minimize(problem(M, TAU), Staying(), tol=TOL)


def kill(cluster, count):
    """End worker processes without warning; their nannies start new ones."""
    for nanny in list(cluster.workers.values())[:count]:
        if nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGKILL)


def test_deaths_change_nothing(cluster, client, here):
    """The answer of threads, to the bit, from all workers and after all but one have died."""
    D = da.from_array(M, chunks=(120, 70))
    with dask.config.set(scheduler="threads"):
        threads = wp.minimize(problem(D, TAU), tol=TOL)
    for deaths in (0, 1):

        def die(look, deaths=deaths):
            if look.step == 2:
                kill(cluster, deaths)

        found = wp.minimize(problem(D, TAU), tol=TOL, callback=die)
        assert_same(found, here)
        assert np.array_equal(found.low_rank.U, threads.low_rank.U)


def test_sensing_survives_a_death(cluster, client):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 8, 6))
    b = A.sum(axis=(1, 2)) + rng.standard_normal(200)
    here, there = Sensing(A, b), Sensing(da.from_array(A, chunks=(40, 8, 6)), b)
    X = rng.standard_normal((8, 6))
    before = there.grad(X, there.everything())
    kill(cluster, 1)
    assert np.array_equal(there.grad(X, there.everything()), before)
    assert np.allclose(before, here.grad(X, here.everything()), rtol=1e-12)


@pytest.mark.usefixtures("client")
def test_observed_entries_give_the_bits_of_this_process(monkeypatch):
    monkeypatch.setattr(terms, "CHUNK", 250)
    monkeypatch.setattr(observations, "BLOCK", 250)
    rng = np.random.default_rng(2)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.6)
    values, weights = rng.standard_normal(len(rows)), rng.uniform(0.5, 2.0, len(rows))

    def found():
        far = (da.from_array(x, chunks=250) for x in (rows, cols, values))
        loss = Completion(*far, (40, 30), weights=da.from_array(weights, chunks=200))
        assert len(loss.observed().pattern.blocks.edges) > 3
        problem = wp.Problem(loss, None, NuclearNorm(2.0))
        return wp.minimize(problem, tol=1e-3, max_svds=2)

    results = [found()]
    with dask.config.set(scheduler="synchronous"):
        results.append(found())
    assert results[0].status is wp.Status.MAX_SVDS
    assert results[0].value == results[1].value
    assert results[0].rank > 0
    np.testing.assert_array_equal(results[0].X, results[1].X)


def test_the_command_line(cluster, tmp_path):
    path = tmp_path / "noisy.npy"
    np.save(path, M)
    args = ["estimate", str(path), "--lam", "0.8", "--tau", f"{TAU}", "--json"]
    proof, report = tmp_path / "proof.npz", tmp_path / "report.html"
    args += ["--proof", str(proof), "--report", str(report)]  # with data on the workers
    address = ["--scheduler", cluster.scheduler_address]
    found = CliRunner().invoke(app, [*args, *address])
    assert found.exit_code == 0, found.stderr
    told = json.loads(found.stdout)
    plain = wp.minimize(problem(M, TAU), Staying(), eps=told["eps"])
    assert told["solver"] == "LeanSplitting"
    assert told["value"] == pytest.approx(plain.value, rel=1e-10)
    assert wp.verify(proof, problem(M, TAU))
    assert report.exists()


@pytest.mark.parametrize("seen", [True, False], ids=["read", "sent"])
def test_a_file_read_by_the_workers_or_sent_to_them(client, tmp_path, monkeypatch, seen):
    path = tmp_path / "noisy.npy"
    np.save(path, M)
    sent = []
    send = client.scatter
    monkeypatch.setattr(remote, "_seen_by_all", lambda client, path: seen)
    count = lambda *given, **how: sent.append(1) or send(*given, **how)  # noqa: E731
    monkeypatch.setattr(client, "scatter", count)
    monkeypatch.setattr(remote, "block_rows", lambda shape, dtype: 90)
    found = remote.handed_over(client, path, M)
    assert np.array_equal(found.compute(), M)
    assert bool(sent) is not seen


def test_whether_workers_see_a_file(client, tmp_path):
    path = tmp_path / "noisy.npy"
    assert not remote._seen_by_all(client, path / "none")
    np.save(path, M)
    assert remote._seen_by_all(client, path)


def test_no_scheduler_there(monkeypatch):
    monkeypatch.setattr(remote, "TIMEOUT", 0.2)
    with (
        pytest.raises(InputError, match="where none answers"),
        remote.connected("tcp://127.0.0.1:1"),
    ):
        pass

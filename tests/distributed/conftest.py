"""One cluster of worker processes for all tests of a file: its start takes longer than they."""

import dask
import pytest
from dask_cases import COLUMNS
from distributed import Client, LocalCluster
from soak.workers import make_whole

from weakprox.distributed import blocked

QUIET = 60  # above every level of the log
WORKERS = 2  # each takes a second to start, and another one after each death


@pytest.fixture(scope="module")  # workers that wait take some time, too
def cluster():
    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True}
    settings |= {"dashboard_address": ":0", "memory_limit": 0, "silence_logs": QUIET}
    with LocalCluster(**settings) as started:
        yield started


@pytest.fixture
def client(cluster):
    with Client(cluster) as connected:
        make_whole(cluster, connected, WORKERS)
        yield connected


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks of rows, even of small matrices."""
    monkeypatch.setattr(blocked, "BLOCK_BYTES", 64 * COLUMNS * 8)


@pytest.fixture
def one_by_one():
    """All tasks in this thread, one after the other."""
    with dask.config.set(scheduler="synchronous"):
        yield

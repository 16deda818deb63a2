"""Worker processes killed at random moments of a run: every answer is the same, to the bit.

From the root of the repository, `python tests/soak/workers.py 20` kills workers in twenty
runs, in every second one all but one of them, and prints how many answers were the same.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import weakprox as wp
from weakprox.distributed import blocked

WORKERS = 3
QUIET = 60  # above every level of the log


def instance() -> tuple[np.ndarray, float]:
    """A sparse low-rank matrix under noise, and most of its nuclear norm."""
    rng = np.random.default_rng(0)
    U = 3 * rng.standard_normal((900, 4)) * (rng.random((900, 4)) < 0.1)
    V = 3 * rng.standard_normal((4, 150)) * (rng.random((4, 150)) < 0.1)
    tau = 0.8 * float(np.linalg.svd(U @ V, compute_uv=False).sum())
    return U @ V + 0.3 * rng.standard_normal((900, 150)), tau


def run(M: np.ndarray, tau: float) -> tuple[wp.Result, float]:
    """Solve it, and say how long that took."""
    loss = wp.losses.Denoising(da.from_array(M, chunks=(200, 150)))
    problem = wp.Problem(loss, wp.penalties.L1(0.8), wp.spectral.NuclearBall(tau))
    begun = time.perf_counter()
    return wp.minimize(problem, tol=1e-5, progress=False), time.perf_counter() - begun


def make_whole(cluster: LocalCluster, client: Client, workers: int = WORKERS) -> None:
    """Have all workers there; a nanny whose worker is killed while it starts gives up."""
    try:
        client.wait_for_workers(workers, timeout=20)
    except TimeoutError:
        cluster.scale(1)
        cluster.scale(workers)
        client.wait_for_workers(workers, timeout=60)


def kill_later(cluster: LocalCluster, count: int, delay: float, done: list[int]) -> None:
    """Wait, then end so many worker processes without warning."""
    time.sleep(delay)
    for nanny in list(cluster.workers.values())[:count]:
        if nanny.pid is not None:
            os.kill(nanny.pid, signal.SIGKILL)
            done.append(nanny.pid)


def main(runs: int, seed: int = 0) -> int:
    """Print deaths survived / tried; the number of runs with another answer."""
    rng = np.random.default_rng(seed)
    blocked.BLOCK_BYTES = 150 * 150 * 8
    M, tau = instance()
    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "processes": True}
    settings |= {"dashboard_address": ":0", "memory_limit": 0, "silence_logs": QUIET}
    tried = survived = 0
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        whole, seconds = run(M, tau)
        for i in range(runs):
            make_whole(cluster, client)
            count, dead = (1 if i % 2 == 0 else WORKERS - 1), []
            delay = float(rng.uniform(0.0, 0.9 * seconds))
            killer = threading.Thread(target=kill_later, args=(cluster, count, delay, dead))
            killer.start()
            found, took = run(M, tau)
            killer.join()
            tried += len(dead)
            print(f"run {i}: {len(dead)} deaths at {delay:.1f} s, {took:.1f} s", flush=True)
            if np.array_equal(found.X, whole.X) and found.status is whole.status:
                survived += len(dead)
            else:
                print(f"run {i}: another answer after {len(dead)} deaths at {delay:.2f} s")
    print(f"worker deaths survived / tried: {survived} / {tried}")
    failures = tried - survived
    print(f"RESULT workers survived={survived} tried={tried} failures={failures}")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 20) else 0)

"""Small experiments for the harness's own tests; workers import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from weakprox.experiments import Experiment, stream


def jobs(quick, seed):
    return [{"seed": seed, "number": k, "cost": 1 + k % 3} for k in range(3 if quick else 8)]


def work(job):
    rng = stream("table1", job["seed"], job["number"])
    A = rng.standard_normal((30, 30))
    return {
        "number": np.int64(job["number"]),
        "norm": np.linalg.norm(A @ A.T),
        "nothing": np.nan,
        "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
    }


def summarise(jobs, results):
    return {
        "asked": [job["number"] for job in jobs],
        "numbers": [result["number"] for result in results],
        "norms": np.array([result["norm"] for result in results]),
        "nothing": [result["nothing"] for result in results],
        "threads": [result["threads"] for result in results],
    }


def counted(job):
    """Leave a mark per call, so that tests see which jobs were really done."""
    marks = Path(os.environ["TOY_MARKS"])
    (marks / f"{job['number']}-{time.perf_counter_ns()}").touch()
    if (marks / "interrupt").exists() and job["number"] == 5:
        raise KeyboardInterrupt
    return work(job)


def failing(job):
    if job["number"] == 4:
        raise ZeroDivisionError("no such luck")
    return work(job)


def dying(job):
    if job["number"] == 4:
        os._exit(7)
    return work(job)


def waiting(job):
    """Longer than any test waits: ended from outside or not at all."""
    Path(os.environ["TOY_MARKS"], f"{job['number']}-{os.getpid()}").touch()
    time.sleep(600)
    return {}


TOY = Experiment("toy", "A toy", jobs, work, summarise)
COUNTED = Experiment("counted", "A toy that counts", jobs, counted, summarise)
FAILING = Experiment("failing", "A toy that fails", jobs, failing, summarise)
DYING = Experiment("dying", "A toy that dies", jobs, dying, summarise)
WAITING = Experiment("waiting", "A toy that waits", jobs, waiting, summarise)

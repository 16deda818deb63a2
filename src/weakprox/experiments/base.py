"""An experiment: its jobs, the work of one job, and the summary of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from weakprox.errors import WeakproxError

# Parameters of one job, and the result of a job or of an experiment: dicts that JSON can hold.
Job: TypeAlias = dict[str, Any]
Record: TypeAlias = dict[str, Any]
# Names of the experiments, the paper's first; the position numbers random streams.
ORDER = ("table1", "figure1", "figure2", "table2", "ablation", "epochs")


@dataclass(frozen=True)
class Experiment:
    """One table or figure, of the paper or beyond it.

    `jobs(quick, seed)` lists the parameters of all jobs. A job may have a number "cost":
    expensive jobs are started first. `work(job)` runs one job, in another process; it must be a
    function at the top level of a module. `summarise(jobs, results)` returns the JSON of the
    experiment; both lists are in the order of `jobs`.
    """

    name: str  # short, as on the command line
    title: str  # one line for the reader
    jobs: Callable[[bool, int], list[Job]]
    work: Callable[[Job], Record]
    summarise: Callable[[list[Job], list[Record]], Record]
    # keys of conclusions in the summary, None after a quick run, which is too small for them
    verdicts: tuple[str, ...] = ()


class JobError(WeakproxError):
    """A job failed; the message names the experiment and the job's parameters."""

    def __init__(self, experiment: str, job: Job, reason: str) -> None:
        self.experiment, self.job, self.reason = experiment, job, reason
        super().__init__(f"{experiment}, job {job}: {reason}")

    def __reduce__(self) -> tuple[type[JobError], tuple[str, Job, str]]:
        """Rebuild from the three parts, so that the error can be pickled."""
        return type(self), (self.experiment, self.job, self.reason)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; the message says how many jobs are done.

    `kept` says that they are in a cache, so that the same call continues from here.
    """

    def __init__(self, done: int, total: int, kept: bool) -> None:
        self.done, self.total = done, total
        then = "; the same call continues from here" if kept else ", and nothing is kept"
        super().__init__(f"interrupted: {done} of {total} jobs are done{then}")


def stream(name: str, seed: int, *keys: int) -> np.random.Generator:
    """Return the generator of one job; `keys` distinguish the jobs of an experiment.

    No two jobs share random numbers, and none depends on which other jobs are run.
    """
    return np.random.default_rng(stream_seed(name, seed, *keys))


def stream_seed(name: str, seed: int, *keys: int) -> list[int]:
    """Return the seeds of `stream`, for jobs that draw from several streams."""
    return [seed, ORDER.index(name) + 1, *keys]


def matching(jobs: list[Job], results: list[Record], **wanted: Any) -> list[Record]:
    """Return the results of the jobs that have all these parameters."""
    return [
        result
        for job, result in zip(jobs, results, strict=True)
        if all(job[key] == value for key, value in wanted.items())
    ]


def mean(records: list[Record], name: str) -> float:
    return float(np.mean([record[name] for record in records]))

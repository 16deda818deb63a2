"""Run experiments: all their jobs through one pool, results kept as they come."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from weakprox import __version__
from weakprox.errors import InputError
from weakprox.experiments.base import Experiment, Interrupted, Job, Record, plain
from weakprox.experiments.cache import Cache
from weakprox.experiments.pool import Task, completed, usable_cpus
from weakprox.experiments.registry import ALL
from weakprox.progress import Progress


def run(
    names: Sequence[str | Experiment],
    *,
    quick: bool = False,
    seed: int = 0,
    processes: int | None = None,
    cache: Path | None = None,
    fresh: bool = False,
    progress: bool | Literal["auto"] = "auto",
) -> dict[str, Record]:
    """Do the jobs of all experiments named, and summarise each.

    Results do not depend on the number of processes nor on the order of the jobs, except
    for measured seconds and, with one process, for the number of BLAS threads of this one.

    Parameters
    ----------
    names : sequence of str or Experiment
        Names out of `experiments.ALL`, or experiments of your own.
    quick : bool
        Fewer and smaller jobs, as each experiment sees fit. They are too few to decide
        anything: what states a conclusion is None in the summary.
    seed : int
        Fixes every random choice.
    processes : int, optional
        Worker processes, each with one BLAS thread; by default one per CPU this process
        may use. With 1 all jobs run in this process.
    cache : Path, optional
        Directory for finished jobs. A run that was stopped goes on from there; results of
        other code are never used.
    fresh : bool
        Do every job anew, whatever the cache holds.
    progress : bool or "auto"
        A progress display on stderr; "auto" shows it on a terminal only.

    Returns
    -------
    dict
        The summary of each experiment, by name; JSON can hold it. Its "made" says by
        which version, from which seed and whether quickly.
    """
    unknown = [name for name in names if isinstance(name, str) and name not in ALL]
    if unknown:
        raise InputError("names", ", ".join(unknown), f"names out of {', '.join(ALL)}")
    experiments = [ALL[name] if isinstance(name, str) else name for name in names]
    if len({experiment.name for experiment in experiments}) < len(experiments):
        raise InputError("names", [e.name for e in experiments], "every name once")
    workers = usable_cpus() if processes is None else processes
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError("processes", repr(processes), "an integer >= 1")
    jobs = {e.name: [plain(job) for job in e.jobs(quick, seed)] for e in experiments}
    results = _results(experiments, jobs, workers, Cache(cache, read=not fresh), progress)
    made = {"version": __version__, "seed": seed, "quick": quick}
    summaries = {}
    for e in experiments:
        summary = e.summarise(jobs[e.name], results[e.name])
        undecided = dict.fromkeys(e.verdicts) if quick else {}
        summaries[e.name] = plain({**summary, **undecided, "made": made})
    return summaries


def _results(
    experiments: list[Experiment],
    jobs: dict[str, list[Job]],
    processes: int,
    cache: Cache,
    progress: bool | Literal["auto"],
) -> dict[str, list[Record]]:
    """Results by experiment, in the order of its jobs: from the cache or from workers."""
    places = [(e, place) for e in experiments for place in range(len(jobs[e.name]))]
    # The longest first: a long job started last would keep one worker busy alone.
    places.sort(key=lambda at: -_cost(jobs[at[0].name][at[1]]))
    results: dict[str, list[Record]] = {e.name: [{}] * len(jobs[e.name]) for e in experiments}
    totals = {e.name: sum(map(_cost, jobs[e.name])) for e in experiments}
    done = 0
    try:
        with Progress(progress, kept=True) as display:
            bars = {e.name: display.add(e.title, totals[e.name]) for e in experiments}
            tasks, missing = [], []
            for e, place in places:
                job = jobs[e.name][place]
                found = cache.find(e.name, job)
                if found is None:
                    tasks.append(Task(e.name, e.work, job))
                    missing.append(place)
                else:
                    results[e.name][place] = found
                    done += 1
                    display.advance(bars[e.name], _cost(job))
            with closing(completed(tasks, processes)) as arriving:
                for number, result in arriving:
                    task = tasks[number]
                    cache.store(task.name, task.job, result)
                    results[task.name][missing[number]] = result
                    done += 1
                    display.advance(bars[task.name], _cost(task.job))
    except KeyboardInterrupt:
        raise Interrupted(done, len(places), cache.directory is not None) from None
    return results


def _cost(job: Job) -> float:
    return float(job.get("cost", 1.0))

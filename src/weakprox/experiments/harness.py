"""Run experiments: all their jobs through one pool, results stored as they arrive."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache as memoised
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import weakprox
from weakprox.arguments import integer
from weakprox.errors import InputError
from weakprox.experiments import ablation, figures, table1, table2
from weakprox.experiments.base import ORDER, Experiment, Interrupted, Job, Record
from weakprox.experiments.pool import Task, completed
from weakprox.linalg.threads import cores
from weakprox.progress import Progress
from weakprox.storage.atomic import atomic
from weakprox.storage.tree import plain

_KNOWN = [table1.EXPERIMENT, table2.EXPERIMENT, ablation.EXPERIMENT, *figures.EXPERIMENTS]
ALL: Final = {name: next(e for e in _KNOWN if e.name == name) for name in ORDER}


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
    """Run the jobs of all experiments named, and summarise each.

    Results do not depend on the number of processes nor on the order of the jobs, except
    for measured seconds and, with one process, for the number of BLAS threads of this one.

    Parameters
    ----------
    names : sequence of str or Experiment
        Names from `experiments.ALL`, or experiments of your own.
    quick : bool
        Fewer and smaller jobs. They are too few for conclusions, which are None in the
        summary.
    seed : int
        Seed of all random choices.
    processes : int, optional
        Worker processes, each with one BLAS thread; by default one per CPU this process
        may use. With 1 all jobs run in this process.
    cache : Path, optional
        Directory for finished jobs. An interrupted run continues from there; results of other
        code are never used.
    fresh : bool
        Run every job again, regardless of the cache.
    progress : bool or "auto"
        A progress display on stderr; "auto" shows it on a terminal only.

    Returns
    -------
    dict
        The summary of each experiment, by name; JSON can hold it. Its entry "made" gives the
        version, the seed and whether the run was quick.
    """
    unknown = [name for name in names if isinstance(name, str) and name not in ALL]
    if unknown:
        raise InputError("names", ", ".join(unknown), f"names from {', '.join(ALL)}")
    experiments = [ALL[name] if isinstance(name, str) else name for name in names]
    if len({experiment.name for experiment in experiments}) < len(experiments):
        raise InputError("names", [e.name for e in experiments], "every name once")
    workers = cores() if processes is None else integer("processes", processes, 1)
    jobs = {e.name: [plain(job) for job in e.jobs(quick, seed)] for e in experiments}
    results = _results(experiments, jobs, workers, Cache(cache, read=not fresh), progress)
    made = {"version": weakprox.__version__, "seed": seed, "quick": quick}
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
    """Return results by experiment, in the order of its jobs, cached or computed."""
    places = [(e, place) for e in experiments for place in range(len(jobs[e.name]))]
    # the longest first: a long job started last would keep one worker busy alone
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


@dataclass(frozen=True)
class Cache:
    """Results by experiment, job, version, source code and machine.

    Results of other code have other keys. A file whose contents do not match its key and
    digest is treated as absent.
    """

    directory: Path | None  # None stores nothing
    read: bool = True  # whether earlier results may be used; new ones are always stored

    def find(self, experiment: str, job: Job) -> Record | None:
        """Return the stored result of a job, None if there is none or the file is damaged."""
        if self.directory is None or not self.read:
            return None
        key, path = self._place(experiment, job)
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            result, known = entry["result"], entry["key"] == key
            sound = entry["digest"] == _digest(result)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if known and sound and isinstance(result, dict) else None

    def store(self, experiment: str, job: Job, result: Record) -> None:
        """Store a result; a crash leaves a whole file or none."""
        if self.directory is not None:
            key, path = self._place(experiment, job)
            write_json(path, {"key": key, "digest": _digest(result), "result": result})

    def _place(self, experiment: str, job: Job) -> tuple[dict[str, Any], Path]:
        """Return the key of a job's result, and its file."""
        assert self.directory is not None
        key = {"experiment": experiment, "job": job, "version": weakprox.__version__}
        key |= {"code": code_fingerprint(), "machine": _machine()}
        return key, self.directory / f"{experiment}-{_digest(key)[:24]}.json"


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@memoised
def _machine() -> str:
    """Return a digest of the properties of the machine that affect seconds and last digits."""
    parts = [platform.node(), platform.machine(), platform.python_version()]
    return _digest([*parts, *(version(name) for name in ("numpy", "scipy"))])[:16]


@memoised
def code_fingerprint() -> str:
    """Return a hash of the source files that results can depend on."""
    root = Path(weakprox.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in ("cli", "report"):
            continue
        total.update(path.relative_to(root).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()

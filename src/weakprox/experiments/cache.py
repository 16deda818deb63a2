"""Finished jobs on disk, one small JSON file each, so that a stopped run can go on."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import weakprox
from weakprox.experiments.base import Job, Record
from weakprox.storage.atomic import atomic


class Cache:
    """Results by experiment, job, version, source code and machine.

    A result of other code has another key, so it is never found. A file that does not
    hold exactly what its key and digest say is treated as absent.

    Parameters
    ----------
    directory : Path or None
        Where the files live; None keeps nothing.
    read : bool
        Whether earlier results may be used; new ones are stored either way.
    """

    def __init__(self, directory: Path | None, *, read: bool = True) -> None:
        self.directory = directory
        self.read = read

    def find(self, experiment: str, job: Job) -> Record | None:
        """The stored result of a job, None if there is none to be trusted."""
        if self.directory is None or not self.read:
            return None
        key = _key(experiment, job)
        try:
            entry = json.loads(self._path(experiment, key).read_text(encoding="utf-8"))
            result, known = entry["result"], entry["key"] == key
            sound = entry["digest"] == _digest(result)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if known and sound and isinstance(result, dict) else None

    def store(self, experiment: str, job: Job, result: Record) -> None:
        """Keep a result; a crash leaves the whole file or none."""
        if self.directory is None:
            return
        key = _key(experiment, job)
        entry = {"key": key, "digest": _digest(result), "result": result}
        write_json(self._path(experiment, key), entry)

    def _path(self, experiment: str, key: dict[str, Any]) -> Path:
        assert self.directory is not None
        return self.directory / f"{experiment}-{_digest(key)[:24]}.json"


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that the file is whole at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as part:
        part.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _key(experiment: str, job: Job) -> dict[str, Any]:
    return {
        "experiment": experiment,
        "job": job,
        "version": weakprox.__version__,
        "code": code_fingerprint(),
        "machine": _machine(),
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _machine() -> str:
    """What seconds and the last digits depend on: a result from elsewhere is not reused."""
    parts = [platform.node(), platform.machine(), platform.python_version()]
    return _digest([*parts, *(version(name) for name in ("numpy", "scipy"))])[:16]


@cache
def code_fingerprint() -> str:
    """A hash of every source file that results can depend on: how they are shown cannot."""
    root = Path(weakprox.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] in ("cli", "report"):
            continue
        total.update(path.relative_to(root).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()

"""Whether passes are compiled: if that was done before, or if it will repay itself.

Numba compiles a pass when it is first called, which takes seconds, and stores the result on
disk. NumPy usually finishes a single run in less time. So a process without stored passes
begins with NumPy. Once its runs have taken as long as the compilation would, the next run
compiles: all in all this takes at most twice the time of the better choice. The same holds for
loading stored passes, which runs with a time limit below a second avoid. The choice is made
at the start of a run and kept in its checkpoints, since the last bits of a result depend on it.

The environment variable WEAKPROX_COMPILE replaces the rule: "always" or "never".
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weakprox.resources.memory import budget, room

# kinds: modules with compiled passes
DENSE, ENTRIES, CELLS = "compiled", "entries_compiled", "cells_compiled"
COMPILED_FROM = 250_000  # entries from which compiled passes are faster
AT_ONCE = 200_000_000  # entries from which one run repays compilation
REPAID = 6.0  # seconds of runs in NumPy after which compilation is repaid
# The same for loading numba and stored passes (benchmarks/first_call.py).
LOADED_AT_ONCE, LOADED = 16_000_000, 0.4
LOADING = 1.0  # seconds that loading takes, which shorter time limits do not allow
COMPILER = 120 << 20  # bytes of numba and what it has compiled


@dataclass
class Choice:
    """The choice of a run; `missed` says whether compiled passes would have been used."""

    compiled: bool
    missed: bool = False


_run: ContextVar[Choice | None] = ContextVar("run", default=None)
_limit: ContextVar[float | None] = ContextVar("limit", default=None)
_spent = 0.0  # seconds of runs without compiled passes, in this process


def chosen(entries: float = LOADED_AT_ONCE, kind: str = DENSE) -> bool:
    """Return whether a run on this many entries should use compiled passes of this kind."""
    asked = os.environ.get("WEAKPROX_COMPILE", "auto")
    if asked in ("always", "never"):
        return asked == "always"
    loaded = f"weakprox.passes.{kind}" in sys.modules
    if not loaded and budget() is not None and room() < COMPILER:
        return False  # numba itself would not fit
    limit = _limit.get()
    if not loaded and limit is not None and limit < LOADING:
        return False
    if entries >= AT_ONCE or _spent >= REPAID:
        return True
    return (loaded or entries >= LOADED_AT_ONCE or _spent >= LOADED) and stored(kind)


def current(kind: str = DENSE) -> bool:
    """Return the choice of the current run; outside of runs, whether passes are stored.

    It is for arrays with at least COMPILED_FROM entries, and for observed entries.
    """
    run = _run.get()
    if run is None:
        return chosen(kind=kind)
    run.missed = not run.compiled
    return run.compiled


@cache
def module(kind: str, package: str = "weakprox.passes") -> Any:
    """Return the module of compiled passes; None without numba or a folder for its cache."""
    try:
        return import_module(f"{package}.{kind}")
    except (ImportError, RuntimeError):  # the latter if no folder is writable
        return None


def about_to_compile(kind: str = DENSE) -> bool:
    """Return whether passes of this kind will be compiled if they are used now."""
    return current(kind) and not stored(kind) and find_spec("numba") is not None


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Do not load passes within this context if its time limit is too short for that."""
    outer = _limit.get()
    least = [limit for limit in (outer, seconds) if limit is not None]
    token = _limit.set(min(least, default=None))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def passes(compiled: bool) -> Iterator[None]:
    """Use compiled passes within this context, or avoid them."""
    global _spent
    run = Choice(compiled)
    token, begun = _run.set(run), time.perf_counter()
    try:
        yield
    finally:
        _run.reset(token)
        if run.missed:
            _spent += time.perf_counter() - begun


@cache
def stored(kind: str = DENSE) -> bool:
    """Return whether numba has stored passes of this kind and version on disk.

    They are of an unchanged source if they are newer, or if they hold its digest, which
    recent versions of numba store: an installation renews the source.
    """
    source = Path(__file__).with_name(f"{kind}.py")
    try:
        changed, digest = source.stat().st_mtime, sha256(source.read_bytes()).digest()
        for place in _places(source):
            for file in place.glob(
                f"{kind}._*py{sys.version_info[0]}{sys.version_info[1]}*.nbi"
            ):
                if file.stat().st_mtime >= changed or digest in file.read_bytes():
                    return True
    except (OSError, RuntimeError):  # the latter without a home directory
        return False
    return False


def _places(source: Path) -> list[Path]:
    """Folders in which numba may keep what it compiles from a file."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if folder:
        return [place for place in Path(folder).glob("*") if place.is_dir()]
    home = Path.home()
    roots = [home / ".cache", home / "Library" / "Caches"]
    roots += [Path(os.environ[name]) for name in ("XDG_CACHE_HOME",) if os.environ.get(name)]
    wide = [place for root in roots for place in (root / "numba").glob("*") if place.is_dir()]
    return [source.parent / "__pycache__", *wide]

"""Whether passes are compiled: if that was done before, or if it will repay itself.

Numba compiles a pass when it is first called, which takes seconds, and stores the result on
disk. NumPy usually finishes a single run in less time. So a process without stored passes
begins with NumPy. Once its runs have taken as long as the compilation would, the next run
compiles: all in all this takes at most twice the time of the better choice. The same holds for
loading stored passes. The choice is made at the start of a run and kept in its checkpoints,
since the last bits of a result depend on it.

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
from importlib.util import find_spec
from pathlib import Path

COMPILED_FROM = 2_000_000  # entries from which compiled passes repay their loading time
AT_ONCE = 200_000_000  # entries from which one run repays compilation
REPAID = 6.0  # seconds of runs in NumPy after which compilation is repaid
# The same for loading numba and stored passes (benchmarks/first_call.py).
LOADED_AT_ONCE, LOADED = 16_000_000, 0.4


@dataclass
class Choice:
    """The choice of a run; `missed` tells whether compiled passes would have been used."""

    compiled: bool
    missed: bool = False


_run: ContextVar[Choice | None] = ContextVar("run", default=None)
_spent = 0.0  # seconds of runs without compiled passes, in this process


def chosen(entries: float = LOADED_AT_ONCE) -> bool:
    """Return whether a run on this many entries should use compiled passes."""
    asked = os.environ.get("WEAKPROX_COMPILE", "auto")
    if asked in ("always", "never"):
        return asked == "always"
    if entries >= AT_ONCE or _spent >= REPAID:
        return True
    loaded = "weakprox.passes.compiled" in sys.modules
    return (loaded or entries >= LOADED_AT_ONCE or _spent >= LOADED) and stored()


def current() -> bool:
    """Return the choice of the current run; outside of runs, whether passes are stored.

    It is for arrays with at least COMPILED_FROM entries, and for observed entries.
    """
    run = _run.get()
    if run is None:
        return chosen()
    run.missed = not run.compiled
    return run.compiled


def about_to_compile(entries: float) -> bool:
    """Return whether the current run will compile passes that are not stored."""
    large = entries >= COMPILED_FROM and current()
    return large and not stored() and find_spec("numba") is not None


@contextmanager
def passes(compiled: bool) -> Iterator[None]:
    """Use compiled passes within this context, or do not."""
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
def stored() -> bool:
    """Return whether numba has stored the passes of this version on disk."""
    source = Path(__file__).with_name("compiled.py")
    folder = os.environ.get("NUMBA_CACHE_DIR")
    places = [] if folder else [source.parent / "__pycache__"]
    try:
        root = Path(folder) if folder else Path.home() / ".cache" / "numba"
        places += [place for place in root.glob("*") if place.is_dir()]
        changed = source.stat().st_mtime
        files = [file for place in places for file in place.glob("compiled._advance*.nbi")]
        return any(file.stat().st_mtime >= changed for file in files)
    except (OSError, RuntimeError):  # the latter without a home directory
        return False

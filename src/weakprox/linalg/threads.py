"""How many threads BLAS uses: all for large decompositions, one for thin blocks.

Passes that share out their rows themselves use as many threads as BLAS may.

Threads of a BLAS wait by spinning, so that short calls on small matrices lose more to them
than they gain, and on a busy machine many times over.

The number is one for the whole process, and results depend on it to the bit. So runs in
several threads of Python take turns where they want different numbers: sections of the same
kind go on side by side, those of the other kind wait until all have left or paused, which a
run does after each step. Every section is then computed with its own number, whatever else
the process does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Literal

from threadpoolctl import ThreadpoolController

LARGE = 1_500_000  # entries from which thin products gain from threads
FULL = 400  # size from which full decompositions do

PATIENCE = 60.0  # seconds to wait for a turn: a wrong last bit is better than a standstill

Kind = Literal["one", "all"]
OTHER: dict[Kind, Kind] = {"one": "all", "all": "one"}

_turns = threading.Condition()
_before: dict[str, int] = {}  # threads of each library before the first section
_runs = 0  # sections that are open now
_kind: Kind = "one"  # of those, or of the last ones
_waiting: dict[Kind, int] = {"one": 0, "all": 0}
_mine = threading.local()  # its `kind`: that of the section this thread of Python is in


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  it brings a BLAS of its own, which must be there to be found

    return ThreadpoolController().select(user_api="blas")


def _set(counts: dict[str, int]) -> None:
    for library in _controller().lib_controllers:
        wanted = counts.get(library.filepath)
        if wanted is None:
            continue
        # threadpoolctl lets one Python thread at a time set OpenBLAS's; our lock does that
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(wanted)
        if release is not None:
            release(force=True)


def _may_enter(kind: Kind) -> bool:
    """Whether it is this kind's turn: the kinds alternate while both are wanted."""
    if _runs == 0:
        return _waiting[OTHER[kind]] == 0 or _kind != kind
    if max(_before.values(), default=1) == 1:
        return True  # both kinds are the same
    return _kind == kind and _waiting[OTHER[kind]] == 0


def _enter(kind: Kind) -> None:
    global _runs, _kind
    with _turns:
        _waiting[kind] += 1
        try:
            _turns.wait_for(lambda: _may_enter(kind), PATIENCE)
        finally:
            _waiting[kind] -= 1
            _turns.notify_all()  # an interrupted wait may have kept others from theirs
        if _runs == 0:
            for library in _controller().lib_controllers:
                _before[library.filepath] = int(library.num_threads)
            _kind = kind
            if kind == "one":
                _set(dict.fromkeys(_before, 1))
        _runs += 1
        _mine.kind = kind


def _leave() -> None:
    global _runs
    with _turns:
        _mine.kind = None
        _runs = max(0, _runs - 1)
        if _runs == 0:
            _set(_before)
            _before.clear()
        _turns.notify_all()


def _begin_anew() -> None:
    """In a forked child: the threads whose sections were open are not there."""
    global _runs, _turns
    _turns, _runs = threading.Condition(), 0
    _waiting.update({"one": 0, "all": 0})
    _mine.kind = None
    if _before:
        _set(_before)
        _before.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _kind_here() -> Kind | None:
    return getattr(_mine, "kind", None)


@contextmanager
def _section(kind: Kind) -> Iterator[None]:
    """A section of this kind, in place of one of the other kind that is left meanwhile."""
    outer = _kind_here()
    if outer is not None:
        _leave()
    try:
        _enter(kind)
        yield
    finally:
        if _kind_here() is not None:
            _leave()
        if outer is not None:
            _enter(outer)


def pause() -> None:
    """Let sections of the other kind go first, if any wait."""
    kind = _kind_here()
    if kind is not None and _waiting[OTHER[kind]]:
        _leave()
        _enter(kind)


@contextmanager
def one_thread(entries: int) -> Iterator[None]:
    """Within, BLAS uses one thread if matrices have so few entries; nests, and restores."""
    kind: Kind = "one" if entries < LARGE else "all"
    if _kind_here() in (kind, "one"):
        yield
        return
    with _section(kind):
        yield


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Within, what `one_thread` took away is given back, for decompositions this large."""
    with _turns:
        lent = size >= FULL and max(_before.values(), default=1) > 1
    if not lent or _kind_here() != "one":
        yield
        return
    with _section("all"):
        yield


@contextmanager
def own_threads() -> Iterator[int]:
    """Within, BLAS uses one thread, and the caller may use as many as BLAS did before."""
    with one_thread(0):
        with _turns:
            allowed = max(_before.values(), default=1)
        yield max(1, min(allowed, _cores()))


def _cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1

"""Number of BLAS threads: all for large decompositions, one for thin blocks.

Passes that split their rows among threads use as many threads as BLAS may.

BLAS threads wait by spinning. Short calls on small matrices therefore lose more to threads
than they gain, especially on a busy machine.

The number of threads is global to the process, and results depend on it to the last bit. Runs
in several Python threads therefore take turns if they need different numbers. Sections of the
same kind run concurrently. Those of the other kind wait until all of them have left or paused,
which a run does after each step. Every section is thus computed with its own number of
threads, independent of other activity in the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from typing import Any, Literal

from threadpoolctl import ThreadpoolController

LARGE = 1_500_000  # entries from which thin products gain from threads
FULL = 400  # size from which full decompositions gain from threads
SHARED_FROM = 500_000  # entries from which passes gain from being shared among Python threads

PATIENCE = 60.0  # seconds to wait for a turn: a wrong last bit is better than a deadlock

Kind = Literal["one", "all"]
OTHER: dict[Kind, Kind] = {"one": "all", "all": "one"}

_turns = threading.Condition()
_before: dict[str, int] = {}  # threads of each library before the first section
_runs = 0  # number of open sections
_kind: Kind = "one"  # kind of the open sections, or of the last ones
WAITING: dict[Kind, int] = {"one": 0, "all": 0}  # sections that wait for their turn
_mine = threading.local()  # `kind`: that of the current section of this Python thread


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS so that it is found

    return ThreadpoolController().select(user_api="blas")


def _set(counts: dict[str, int]) -> None:
    for library in _controller().lib_controllers:
        wanted = counts.get(library.filepath)
        if wanted is None:
            continue
        # threadpoolctl allows one Python thread at a time to set OpenBLAS; our lock ensures it
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(wanted)
        if release is not None:
            release(force=True)


def _may_enter(kind: Kind) -> bool:
    """Return True if this kind may enter; the kinds alternate while both are waiting."""
    if _runs == 0:
        return WAITING[OTHER[kind]] == 0 or _kind != kind
    if max(_before.values(), default=1) == 1:
        return True  # both kinds are equal
    return _kind == kind and WAITING[OTHER[kind]] == 0


def _enter(kind: Kind) -> None:
    global _runs, _kind
    with _turns:
        WAITING[kind] += 1
        try:
            _turns.wait_for(lambda: _may_enter(kind), PATIENCE)
        finally:
            WAITING[kind] -= 1
            _turns.notify_all()  # an interrupted wait may have blocked others
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
    """Reset the state in a forked child, which lacks the threads of open sections."""
    global _runs, _turns
    _turns, _runs = threading.Condition(), 0
    WAITING.update({"one": 0, "all": 0})
    _mine.kind = None
    if _before:
        _set(_before)
        _before.clear()
    _helpers.cache_clear()  # a child has no threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def _kind_here() -> Kind | None:
    return getattr(_mine, "kind", None)


@contextmanager
def _section(kind: Kind) -> Iterator[None]:
    """Enter a section of this kind, leaving one of the other kind meanwhile."""
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
    """Let sections of the other kind run first if some are `WAITING`."""
    kind = _kind_here()
    if kind is not None and WAITING[OTHER[kind]]:
        _leave()
        _enter(kind)


@contextmanager
def one_thread(entries: int) -> Iterator[None]:
    """Use one BLAS thread for matrices with this few entries; nests, and restores."""
    kind: Kind = "one" if entries < LARGE else "all"
    if _kind_here() in (kind, "one"):
        yield
        return
    with _section(kind):
        yield


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Undo `one_thread` for decompositions of at least this size."""
    with _turns:
        lent = size >= FULL and max(_before.values(), default=1) > 1
    if not lent or _kind_here() != "one":
        yield
        return
    with _section("all"):
        yield


@contextmanager
def own_threads() -> Iterator[int]:
    """Use one BLAS thread; yield the number of threads that BLAS used before."""
    with one_thread(0):
        with _turns:
            allowed = max(_before.values(), default=1)
        yield max(1, min(allowed, cores()))


def can_share() -> bool:
    """Return True if `share` makes a pass over SHARED_FROM entries or more faster.

    Elsewhere BLAS has threads of its own.
    """
    return _kind_here() == "one" and max(_before.values(), default=1) > 1


def share(edges: Any, work: Callable[[int, int], None]) -> None:
    """Call work(low, high) on ranges between edges, about equally many for each thread."""
    with own_threads() as threads:
        units = len(edges) - 1
        threads = max(1, min(threads, units))
        ends = [int(edges[units * t // threads]) for t in range(threads + 1)]
        helpers = [  # with the caller's settings, such as `np.errstate`
            _helpers().submit(partial(copy_context().run, work, *ends[t : t + 2]))
            for t in range(1, threads)
        ]
        try:
            work(*ends[:2])
        finally:
            wait(helpers)  # also after an interrupt: they write to the caller's arrays
    for helper in helpers:
        helper.result()


def share_each(pieces: Sequence[slice], work: Callable[[slice], None]) -> None:
    """Call `work` on each of some slices, about equally many for each thread."""

    def some(low: int, high: int) -> None:
        for piece in pieces[low:high]:
            work(piece)

    share(range(len(pieces) + 1), some)


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads that wait for a pass; in short runs, starting new ones takes noticeable time."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="weakprox-pass")


def cores() -> int:
    """Number of processors available to this process."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1

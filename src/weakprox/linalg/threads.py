"""How many threads BLAS uses: all for large decompositions, one for thin blocks.

Threads of a BLAS wait by spinning, so that short calls on small matrices lose more to them
than they gain, and on a busy machine many times over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

LARGE = 1_500_000  # entries from which thin products gain from threads
FULL = 400  # size from which full decompositions do

_lock = threading.Lock()
_runs = 0  # that want one thread now
_before: dict[str, int] = {}  # threads of each library before the first of them


@cache
def _controller() -> ThreadpoolController:
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


@contextmanager
def one_thread(entries: int) -> Iterator[None]:
    """Within, BLAS uses one thread if matrices have so few entries; nests, and restores."""
    global _runs
    if entries >= LARGE:
        yield
        return
    with _lock:
        if _runs == 0:
            for library in _controller().lib_controllers:
                _before[library.filepath] = int(library.num_threads)
        _runs += 1
        _set(dict.fromkeys(_before, 1))
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if _runs == 0:
                _set(_before)
                _before.clear()


@contextmanager
def all_threads(size: int) -> Iterator[None]:
    """Within, what `one_thread` took away is given back, for decompositions this large."""
    with _lock:
        lent = size >= FULL and _runs > 0 and max(_before.values(), default=1) > 1
        if lent:
            _set(_before)
    try:
        yield
    finally:
        if lent:
            with _lock:
                if _runs > 0:
                    _set(dict.fromkeys(_before, 1))

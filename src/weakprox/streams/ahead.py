"""A source read ahead in a thread, up to a number of items."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any


class Failure:
    """An error of the source, to be raised when the next item is asked for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Late(Exception):  # noqa: N818 (the caller names the error)
    """Nothing came in time."""


END = object()


class Ahead:
    """The items of an iterator, at most `most` of them read but not yet taken.

    The thread refers to this object only, so that a stream that is no longer used is
    collected and ends the thread.
    """

    def __init__(self, items: Iterator[Any], most: int) -> None:
        self._items, self._most = items, most
        self._made: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="weakprox-stream", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        """Read items while there is room for them."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._made) < self._most)
                if self._closed:
                    return
            try:
                item = next(self._items, END)
            except BaseException as error:  # raised again by the reader
                item = Failure(error)
            with self._changed:
                self._made.append(item)
                self._changed.notify_all()
            if item is END or isinstance(item, Failure):
                return

    def take(self, timeout: float | None) -> Any:
        """Return the next item, END or a Failure; raise Late on a timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._made:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0.0:
                    raise Late
                self._changed.wait(left)
            item = self._made[0]
            if item is not END and not isinstance(item, Failure):  # nothing follows these
                self._made.popleft()
                self._changed.notify_all()
            return item

    def close(self) -> None:
        """End the thread; an item being read is dropped."""
        with self._changed:
            self._closed = True
            self._made.clear()
            self._changed.notify_all()

"""Streams of samples from any iterable, and samplers with a time limit."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from weakprox.arguments import flag, integer, positive
from weakprox.display import counted
from weakprox.errors import InputError, SamplerError
from weakprox.linalg.arrays import Array, all_finite, is_array, is_floating, is_real, namespace

__all__ = ["Stream", "TimeLimit"]

END = object()


@dataclass(frozen=True)
class Failure:
    """An error of the source, to be raised when the next item is requested."""

    error: BaseException


def _read(items: Iterator[Any]) -> Any:
    """Return the next item, END or a Failure."""
    try:
        return next(items, END)
    except BaseException as error:
        return Failure(error)


class Ahead:
    """The items of an iterator, read in a thread, at most `most` of them not yet taken.

    The thread refers to this object only, so that a stream that is no longer used is
    collected and ends the thread.
    """

    def __init__(self, items: Iterator[Any], most: int) -> None:
        self._items, self._closed = items, False
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(most)
        threading.Thread(target=self._work, name="weakprox-stream", daemon=True).start()

    def _work(self) -> None:
        """Read items while there is room for them."""
        item = None
        while item is not END and not isinstance(item, Failure):
            self._room.acquire()
            if self._closed:
                return
            item = _read(self._items)
            self._made.put(item)

    def take(self, timeout: float | None) -> Any:
        """Return the next item, END or a Failure; raise `queue.Empty` on a timeout."""
        item = self._made.get(timeout=timeout)
        if item is END or isinstance(item, Failure):
            self._made.put(item)  # nothing follows these
        else:
            self._room.release()
        return item

    def close(self) -> None:
        """End the thread; an item being read is dropped."""
        self._closed = True
        self._room.release()


class Stream:
    """Samples from any iterable, one after the other and each only once.

    Use it as `samples` of `losses.Denoising` (one pass, then a finite sum), or as `sampler`
    of a loss that is known through samples only. It holds only a few items at a time.

    Parameters
    ----------
    source : iterable, or callable without arguments that returns one
        Its items are matrices (m, d), batches of them (k, m, d), or pairs (A, y) of either with
        a number or a vector. A callable, or an iterable other than an iterator, can be opened
        again, so that the stream can be resumed.
    batch : int, optional
        Samples per batch when the stream is iterated over; by default those of each item.
    prefetch : int
        Items read ahead in a thread; 0 for no thread. The source is read at most this many
        items plus one ahead of the samples used.
    repeat : bool
        Whether to start again at the end; needs a source that can be opened again.
    timeout : float, optional
        Maximum wait for an item, in seconds; needs `prefetch`.
    """

    def __init__(
        self,
        source: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        batch: int | None = None,
        prefetch: int = 0,
        repeat: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._open = _opener(source)
        self._once = not callable(source) and iter(source) is source
        if repeat and self._once:
            given = "True, with an iterator"
            raise InputError("repeat", given, "a source that can be opened again")
        self._batch = None if batch is None else integer("batch", batch, 1)
        self._prefetch, self._repeat = integer("prefetch", prefetch, 0), flag("repeat", repeat)
        self._timeout = None if timeout is None else positive("timeout", timeout)
        if self._timeout is not None and not self._prefetch:
            raise InputError("timeout", repr(timeout), "None, or prefetch >= 1 with it")
        self._items: Iterator[Any] | None = None
        self._ahead: Ahead | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._left: Batch | None = None  # samples of the last item not yet delivered
        self._index = 0  # items read since the source was opened
        self._told = 0
        self._closed = False
        self._like: Batch | None = None

    def __repr__(self) -> str:
        kind = "read once" if self._once else "can be opened again"
        return f"Stream({kind}, {counted(self._told, 'sample')} read)"

    def tell(self) -> int:
        """Return the number of samples delivered so far."""
        return self._told

    def seek(self, position: int) -> None:
        """Move to the position after this many samples.

        To move backwards, the source is opened again and read from its start.
        """
        position = integer("position", position, 0)
        if position < self._told:
            if self._once:
                given = f"a move from sample {self._told} back to {position}"
                raise SamplerError("stream", given, "a source that can be opened again")
            self._stop()
            self._told = 0
        while self._told < position:
            self._next(position - self._told)

    def __call__(self, rng: Any, size: int) -> Any:
        """The next `size` samples, as a sampler of a loss gives them; `rng` is not used."""
        parts = []
        while size > 0:
            parts.append(self._next(size))
            size -= parts[-1].size
        return Batch.joined(parts).given

    def __iter__(self) -> Iterator[Any]:
        """All remaining samples, in batches; ends with the source."""
        while True:
            try:
                first = self._next(self._batch)
            except _Exhausted:
                return
            parts, size = [first], first.size
            while self._batch is not None and size < self._batch:
                try:
                    parts.append(self._next(self._batch - size))
                except _Exhausted:
                    break
                size += parts[-1].size
            yield Batch.joined(parts).given

    def close(self) -> None:
        """End the thread and release the source."""
        self._stop()
        self._closed = True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _next(self, most: int | None) -> Batch:
        """At most this many samples: the rest of the last item, or samples of the next one."""
        if self._left is None:
            self._left = self._item()
        found, self._left = self._left.split(most)
        self._told += found.size
        return found

    def _item(self) -> Batch:
        """The next item, checked; starts again at the end with `repeat`."""
        if self._closed:
            raise SamplerError("stream", "a closed stream", "one that is open")
        for _ in range(2):
            if self._items is None:
                self._start()
            raw = self._raw()
            if raw is not END:
                found = as_batch(raw, self._index, self._like)
                self._like = self._like or found.part(slice(0))
                self._index += 1
                return found
            if not self._repeat or self._index == 0:
                break
            self._stop()
        wanted = "more samples, or repeat=True with a source that can be opened again"
        raise _Exhausted("stream", f"its end after {counted(self._told, 'sample')}", wanted)

    def _raw(self) -> Any:
        """The source's next item, or END; its errors become SamplerErrors."""
        assert self._items is not None
        try:
            raw = _read(self._items) if self._ahead is None else self._ahead.take(self._timeout)
        except queue.Empty:
            given = f"no item {self._index} within {self._timeout:g} s"
            raise SamplerError("stream", given, "a source that gives one") from None
        if isinstance(raw, Failure):
            if not isinstance(raw.error, Exception):
                raise raw.error
            self._failed(raw.error)
        return raw

    def _failed(self, error: Exception) -> NoReturn:
        given = f"{type(error).__name__} at item {self._index}: {error}"
        raise SamplerError("stream", given, "a source that does not raise") from error

    def _start(self) -> None:
        """Open the source; one that can be read only once keeps its position."""
        try:
            self._items = iter(self._open())
        except Exception as error:
            self._failed(error)
        assert self._items is not None
        if self._prefetch:
            self._ahead = Ahead(self._items, self._prefetch)
            self._finalizer = weakref.finalize(self, self._ahead.close)

    def _stop(self) -> None:
        """Release the source, so that it can be opened again."""
        if self._finalizer is not None:
            self._finalizer()
        self._items = self._ahead = self._finalizer = self._left = None
        self._index = 0


class _Exhausted(SamplerError):  # noqa: N818 (an end, to whoever iterates)
    """The source has ended."""


class TimeLimit:
    """A sampler that fails, rather than hangs, if samples do not arrive in time.

    The run then ends with a `SamplerError`, whose `result` can be resumed. The hanging call
    stays in a separate thread, which cannot be stopped from outside.

    Parameters
    ----------
    sampler : callable
        `sampler(rng, k)`, for any loss.
    seconds : float
        Time limit for one call.
    """

    def __init__(
        self, sampler: Callable[[np.random.Generator, int], Any], seconds: float
    ) -> None:
        if not callable(sampler):
            raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
        self.sampler = sampler
        self.seconds = positive("seconds", seconds)

    def __call__(self, rng: np.random.Generator, k: int) -> Any:
        """k samples, or `TimeoutError`; exceptions of the sampler are raised here."""
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put((self.sampler(rng, k), None))
            except BaseException as failure:
                answers.put((None, failure))

        threading.Thread(target=ask, daemon=True, name="weakprox sampler").start()
        try:
            drawn, failure = answers.get(timeout=self.seconds)
        except queue.Empty:
            raise TimeoutError(f"no samples within {self.seconds:g} s") from None
        if failure is not None:
            raise failure
        return drawn

    def __getattr__(self, name: str) -> Any:
        """Forward to the wrapped sampler, so that a stream keeps its position."""
        if name in ("tell", "seek"):
            return getattr(self.sampler, name)
        raise AttributeError(name)


def is_stream(value: Any) -> bool:
    """Return True if samples come one after the other rather than as one array."""
    if isinstance(value, (list, tuple, str, bytes, dict, set, np.ndarray)):
        return False
    plain = not hasattr(value, "shape") and not hasattr(value, "dtype")
    return isinstance(value, Stream) or (plain and isinstance(value, Iterable))


def as_stream(value: Any) -> Stream:
    """The stream itself, or one over an iterable."""
    return value if isinstance(value, Stream) else Stream(value)


def _opener(source: Any) -> Callable[[], Iterable[Any]]:
    if isinstance(source, (str, bytes)) or not (
        callable(source) or isinstance(source, Iterable)
    ):
        wanted = "an iterable of matrices, or a callable that returns one"
        raise InputError("source", type(source).__name__, wanted)
    return source if callable(source) else lambda: source


@dataclass(frozen=True)
class Batch:
    """Samples A of shape (k, m, d), perhaps with a number y for each."""

    A: Array
    y: Array | None = None

    @property
    def size(self) -> int:
        return int(self.A.shape[0])

    @property
    def given(self) -> Any:
        """The form in which a sampler returns them: the array, or the pair."""
        return self.A if self.y is None else (self.A, self.y)

    def part(self, rows: slice) -> Batch:
        """Some of the samples."""
        return Batch(self.A[rows], None if self.y is None else self.y[rows])

    def split(self, most: int | None) -> tuple[Batch, Batch | None]:
        """Split off at most this many samples; return them and the rest."""
        if most is None or most >= self.size:
            return self, None
        return self.part(slice(most)), self.part(slice(most, None))

    @classmethod
    def joined(cls, parts: list[Batch]) -> Batch:
        if len(parts) == 1:
            return parts[0]
        xp = namespace(parts[0].A)
        A = xp.concat([part.A for part in parts], axis=0)
        if parts[0].y is None:
            return cls(A)
        return cls(A, xp.concat([part.y for part in parts], axis=0))


def as_batch(item: Any, index: int, like: Batch | None) -> Batch:
    """Convert an item to a batch like the previous ones, or raise an error that names it."""
    pair = isinstance(item, tuple)
    if pair and len(item) != 2:
        raise _bad(index, f"a tuple of {len(item)}", "a matrix, a batch or a pair (A, y)")
    A = _array(item[0] if pair else item, index)
    if A.ndim not in (2, 3) or 0 in tuple(A.shape):
        raise _bad(index, f"shape {tuple(A.shape)}", "(m, d) or (k, m, d), no axis empty")
    single = A.ndim == 2
    A = A[None] if single else A
    y = _numbers(item[1], A, index, single=single) if pair else None
    found = Batch(A, y)
    if like is not None:
        _check_alike(found, like, index)
    if not all_finite(A) or not (y is None or all_finite(y)):
        raise _bad(index, "NaN or infinite entries", "finite numbers")
    return found


def _array(value: Any, index: int) -> Array:
    """An array of floats, or an error."""
    if not is_array(value) or not is_real(value):
        kind = f"dtype {value.dtype}" if is_array(value) else type(value).__name__
        raise _bad(index, kind, "an array of real numbers (NumPy or torch)")
    xp = namespace(value)
    return value if is_floating(value) else xp.astype(value, xp.float64)


def _numbers(value: Any, A: Array, index: int, *, single: bool) -> Array:
    """The measurement of each sample of A."""
    if not is_array(value):
        try:
            value = namespace(A).asarray(np.asarray(value, dtype=float), dtype=A.dtype)
        except (TypeError, ValueError):
            raise _bad(index, f"y of type {type(value).__name__}", "numbers") from None
    y = _array(value, index)
    y = namespace(y).reshape(y, (1,)) if single and y.ndim == 0 else y
    if tuple(y.shape) != (int(A.shape[0]),):
        raise _bad(index, f"y of shape {tuple(y.shape)}", f"({int(A.shape[0])},)")
    return y


def _check_alike(found: Batch, like: Batch, index: int) -> None:
    """Raise unless the item is of the same kind as the previous ones."""
    shape = tuple(int(n) for n in like.A.shape[1:])
    if tuple(found.A.shape[1:]) != shape:
        given = f"matrices of shape {tuple(int(n) for n in found.A.shape[1:])}"
        raise _bad(index, given, f"{shape}, like the items before")
    if (found.y is None) != (like.y is None):
        raise _bad(index, "a pair" if like.y is None else "no pair", "items of one kind")
    if namespace(found.A) is not namespace(like.A) or found.A.dtype != like.A.dtype:
        given = f"{type(found.A).__name__} of {found.A.dtype}"
        wanted = f"{type(like.A).__name__} of {like.A.dtype}, like the items before"
        raise _bad(index, given, wanted)


def _bad(index: int, given: str, wanted: str) -> SamplerError:
    return SamplerError(f"item {index} of the stream", given, wanted)

"""Passes over a matrix in host memory or in a file, larger than the memory of its device.

Tiles of rows are copied to the device while the one before is used. The bus is the bottleneck,
so only the data are copied. The target z is not stored: it is a function of C and of the moves
that led to it, each given by a step and by factors of X, and is recomputed from them in every
tile. A product z Q is computed together with z'(z Q), which makes a power step one sweep.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import array_api_compat.torch as compat_torch
import numpy as np
import torch

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, sqnorm, wide
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.lowrank import blend_into as blend_into
from weakprox.passes.beside import Bounds
from weakprox.passes.engine import passes_for
from weakprox.passes.reference import Replayed, Step, Sums
from weakprox.resources.memory import let_go, on_disk

AHEAD = 2  # tiles that are copied before they are needed
TILES = 10  # tiles that a sweep holds on the device, with temporaries
BESIDE = AHEAD + 2  # more of them, if another array is read beside the data
LARGEST = 1 << 30  # bytes of a tile; larger ones do not copy faster
ALIGNED = 16  # rows of a tile are a multiple, so that kernels are compiled once
READERS = 8  # threads that fill a tile in page-locked memory
REMEMBERED = 4  # products whose transposed products are kept
# Relative distance at which columns count as spanned by others, and largest coefficients, which
# magnify rounding errors.
SPANNED, LONGEST = 1e-12, 1e4
COMPILED, IN_FLOAT64 = True, True  # as in `interface`


class Rows:
    """An m x d matrix that is computed on a device tile by tile."""

    ndim = 2
    shape: tuple[int, int]
    dtype: Any
    device: Any

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return compat_torch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {self.dtype})"

    @property
    def passes(self) -> Any:
        """The functions below, used by `weakprox.passes`."""
        return sys.modules[__name__]


class Streamed(Rows):
    """A NumPy array, a memory map or a tensor in host memory, read in tiles by a device.

    Parameters
    ----------
    M : array of shape (m, d), float32 or float64
        Page-locked tensors are copied directly, other arrays by way of page-locked buffers.
    device : str
        A torch device.
    memory : int
        Bytes of the device that may be used.
    """

    def __init__(self, M: Any, device: Any, memory: int) -> None:
        host = M if isinstance(M, torch.Tensor) else None
        self.host = M if host is None else host.numpy()
        self.shape = (int(M.shape[0]), int(M.shape[1]))
        self.device = torch.device(device)
        self.dtype = getattr(torch, str(np.dtype(self.host.dtype)))
        self.unit = 1.0
        self._swept = [0]  # shared by copies in other units
        row = self.shape[1] * self.host.dtype.itemsize
        rows = min(memory // TILES, LARGEST) // row
        if rows < ALIGNED:
            given = f"{memory} bytes of {self.device}, with rows of {row}"
            wanted = f"at least {TILES * ALIGNED} times the size of a row"
            raise InputError("device_memory", given, wanted)
        self.rows = min(rows - rows % ALIGNED, -(-self.shape[0] // ALIGNED) * ALIGNED)
        self.direct = self.device.type == "cpu" or _is_pinned(self.host)

    def __truediv__(self, unit: float) -> Streamed:
        """The same matrix in another unit."""
        other = copy(self)
        other.unit = self.unit * unit
        return other

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        """These rows, on the host."""
        found = np.array(self.host[rows])
        if self.unit != 1.0:
            found /= self.host.dtype.type(self.unit)
        return found

    @property
    def stores(self) -> tuple[type, ...]:
        """Classes of the target, for checkpoints."""
        return Target, Move

    @property
    def sweeps(self) -> int:
        """Number of times that the matrix was read."""
        return self._swept[0]

    def fresh(self) -> Target:
        """A target without moves."""
        return Target(self)

    def reference(self) -> Array:
        """A tensor of the same shape, dtype and device with the memory of one number."""
        return torch.zeros((), dtype=self.dtype, device=self.device).expand(self.shape)

    def examined(self) -> float:
        """The size of the largest entry; NaN if one is not finite."""
        sizes = [tile.abs().max() for _, tile in self.tiles()]
        return float(torch.stack(sizes).max())

    def beside(self, given: Any) -> Streamed:
        """An array on the host that is read in tiles beside these, which share the memory."""
        other = copy(self)
        other.host, other.unit, other._swept, other.shape = given, 1.0, [0], given.shape
        other.dtype = getattr(torch, str(given.dtype))
        other.direct = self.device.type == "cpu"
        wide = BESIDE * given.shape[1] / self.shape[1]
        wide *= given.dtype.itemsize / self.host.dtype.itemsize
        rows = int(self.rows * TILES / (TILES + wide))
        other.rows = max(ALIGNED, rows - rows % ALIGNED)
        return other

    def tiles(self, most: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Slices of rows and these rows on the device, which are overwritten later.

        `most` is the number of rows in a slice, if it differs.
        """
        self._swept[0] += 1
        step = self.rows if most is None else most
        places = [slice(i, min(i + step, self.shape[0])) for i in range(0, self.shape[0], step)]
        source = _on_host if self.device.type == "cpu" else _on_device
        with source(self, places) as tiles:
            for rows, tile in zip(places, tiles, strict=True):
                yield rows, tile if self.unit == 1.0 else tile.div_(self.unit)


class Move(NamedTuple):
    """One step of z, without its array beside C; the first has no point X."""

    step: Step
    change: float = 1.0
    X: LowRank | None = None


@dataclass(eq=False, repr=False)
class Target(Rows, Replayed):
    """The z of a splitting, given by the moves that led to it."""

    source: Streamed
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape, self.dtype = self.source.shape, self.source.dtype
        self.device = self.source.device
        self.known: deque[tuple[Array, Array]] = deque(maxlen=REMEMBERED)  # P and z' P

    def take_over(self, other: Target) -> None:
        """Become equal to another target."""
        self.moves, self.known = list(other.moves), copy(other.known)

    def moved(self, k: Step, change: float = 1.0, X: LowRank | None = None) -> None:
        """Add a move, after which earlier products are no longer valid."""
        self.moves = [*([] if X is None else self.moves), Move(k.bare, change, X)]
        self.known.clear()

    def tiles(self) -> Iterator[tuple[slice, Array, Array, Array | None]]:
        """Slices of rows with these rows of C, of z and of the array beside C."""
        room = None
        for rows, c, w in _beside(self.source, self.beside):
            room = torch.empty_like(c) if room is None else room  # the first is the largest
            z = room[: c.shape[0]]
            self._replay(rows, c, z, w)
            yield rows, c, z, w

    def _replay(self, rows: slice, c: Array, z: Array, w: Array | None) -> None:
        run = passes_for(z, c)
        for step, change, X in self.moves:
            k = step._replace(beside=w)
            if X is None:
                run.first(c, z, k)
            else:
                run.advance(c, z, _part(X, rows), k, change)

    def __getitem__(self, rows: slice) -> Array:
        """These rows of z, for a proof file."""
        c, w = torch.from_numpy(self.source[rows]).to(self.device), None
        if self.beside is not None:
            w = torch.from_numpy(self.beside[rows]).to(self.device)
        z = torch.empty_like(c)
        self._replay(slice(*rows.indices(self.shape[0])[:2]), c, z, w)
        return z


def _beside(C: Streamed, other: Streamed | None) -> Iterator[tuple[slice, Array, Array | None]]:
    """Slices of rows with these rows of C and of the array beside it."""
    if other is None:
        for rows, c in C.tiles():
            yield rows, c, None
    else:
        pairs = zip(C.tiles(other.rows), other.tiles(), strict=True)
        for (rows, c), (_, w) in pairs:
            yield rows, c, w


def beside(C: Streamed, given: Any) -> Streamed:
    """As `reference.beside`: weights and bounds stay on the host."""
    whole = given.shape == C.shape or isinstance(given, Bounds)
    return C.beside(given if whole else np.broadcast_to(given, C.shape))


def first(C: Streamed, z: Target, k: Step, Q: Array | None = None) -> Array | None:
    """As `reference.first`."""
    z.moved(k)
    return None if Q is None else times(z, Q)


def look(C: Streamed, z: Target | None, X: LowRank, k: Step) -> Sums:
    """As `reference.look`."""
    found = []
    if z is None:
        for rows, c, w in _beside(C, k.beside):
            here = k._replace(beside=w)
            found.append(passes_for(c).look(c, None, _part(X, rows), here))
    else:
        for rows, c, at, w in z.tiles():
            here = k._replace(beside=w)
            found.append(passes_for(at, c).look(c, at, _part(X, rows), here))
    return _added(found)


def advance(
    C: Streamed, z: Target, X: LowRank, k: Step, change: float, Q: Array | None = None
) -> tuple[Sums, Array | None]:
    """As `reference.advance`."""
    found, products = [], _Products(z)
    for rows, c, at, w in z.tiles():
        here = k._replace(beside=w)
        sums, _ = passes_for(at, c).advance(c, at, _part(X, rows), here, change)
        found.append(sums)
        if Q is not None:
            products.add(at, Q)
    z.moved(k, change, X)
    sums = _added(found)._replace(square=sqnorm(wide(X.s)))
    return sums, None if Q is None else products.joined()


def times(z: Target, V: Array) -> Array:
    """z V for a narrow block, summed in float64; z'(z V) is remembered."""
    products = _Products(z)
    for _, _, at, _ in z.tiles():
        products.add(at, V)
    return products.joined()


def transpose_times(z: Target, U: Array) -> Array:
    """z' U for a narrow block, summed in float64, without a sweep if that is possible."""
    found = _from_known(z, wide(U))
    if found is None:
        for rows, c, at, _ in z.tiles():
            part = passes_for(at, c).transpose_times(at, wide(U[rows]))
            found = part if found is None else found + part
    z.known.append((wide(U), found))
    return found


quick_times, quick_transpose_times = times, transpose_times


class _Products:
    """Collects z Q and z'(z Q) over the tiles of z."""

    def __init__(self, z: Target) -> None:
        self._z, self._parts = z, list[Array]()
        self._pushed: Array | None = None

    def add(self, at: Array, Q: Array) -> None:
        run = passes_for(at)
        product = run.times(at, wide(Q))
        pushed = run.transpose_times(at, product)
        self._parts.append(product)
        self._pushed = pushed if self._pushed is None else self._pushed + pushed

    def joined(self) -> Array:
        product = torch.cat(self._parts)
        self._z.known.append((product, self._pushed))
        return product


def _from_known(z: Target, U: Array) -> Array | None:
    """z' U if U is in the span of products whose transposed products are known."""
    known = list(z.known)[::-1]
    for others in ([], *([other] for other in known[1:])):
        if not known:
            return None
        P, pushed = (torch.cat(parts, dim=1) for parts in zip(known[0], *others, strict=True))
        scale = 1.0 / torch.linalg.vector_norm(P, dim=0).clamp_min(torch.finfo(P.dtype).tiny)
        P, pushed = P * scale, pushed * scale
        root, failed = torch.linalg.cholesky_ex(P.T @ P)
        if bool(failed):
            continue
        T = torch.cholesky_solve(P.T @ U, root)
        T = T + torch.cholesky_solve(P.T @ (U - P @ T), root)  # corrects rounding errors
        size, left, long = (torch.linalg.vector_norm(x, dim=0) for x in (U, U - P @ T, T))
        if bool(((left <= SPANNED * size) & (long <= LONGEST * size)).all()):
            return pushed @ T
    return None


def _part(X: LowRank, rows: slice) -> LowRank:
    """These rows of X."""
    return LowRank(X.U[rows], X.s, X.Vt)


def _added(parts: list[Sums]) -> Sums:
    return Sums._make(map(math.fsum, zip(*parts, strict=True)))


def _is_pinned(host: np.ndarray[Any, Any]) -> bool:
    return not on_disk(host) and bool(torch.from_numpy(host).is_pinned())


@contextmanager
def _on_host(source: Streamed, places: list[slice]) -> Iterator[Iterator[Array]]:
    """Copies of the tiles, for the device "cpu"."""
    yield (torch.from_numpy(np.array(source.host[rows])) for rows in places)


@contextmanager
def _on_device(source: Streamed, places: list[slice]) -> Iterator[Iterator[Array]]:
    """Tiles on a CUDA device, copied by a stream of their own."""
    with ThreadPoolExecutor(READERS) as readers:
        yield _copied(source, places, readers)


def _copied(
    source: Streamed, places: list[slice], readers: ThreadPoolExecutor
) -> Iterator[Array]:
    shape, count = (places[0].stop, source.shape[1]), min(AHEAD + 1, len(places))
    tiles = [torch.empty(shape, dtype=source.dtype, device=source.device) for _ in range(count)]
    cuda: Any = torch.cuda
    copies, main = cuda.Stream(source.device), cuda.current_stream(source.device)
    arrived, used = ([cuda.Event() for _ in tiles] for _ in range(2))
    buffers = [] if source.direct else _buffers(shape, source, count)
    reads: dict[int, list[Future[None]]] = {}
    # a buffer that is being filled must not delay the use of the tile before
    ahead, read, sent = AHEAD if source.direct else 1, 0, 0
    try:
        for i, rows in enumerate(places):
            while buffers and read < min(i + count, len(places)):
                arrived[read % count].synchronize()  # the buffer has been copied
                reads[read] = _filled(source.host, places[read], buffers[read % count], readers)
                read += 1
            while sent <= min(i + ahead, len(places) - 1):
                at, size = sent % count, places[sent].stop - places[sent].start
                if buffers:
                    for one in reads.pop(sent):
                        one.result()
                    let_go(source.host)
                    part = buffers[at][:size]
                else:
                    part = torch.from_numpy(source.host[places[sent]])
                with cuda.stream(copies):
                    copies.wait_event(used[at])
                    tiles[at][:size].copy_(part, non_blocking=True)
                    arrived[at].record(copies)
                sent += 1
            main.wait_event(arrived[i % count])
            yield tiles[i % count][: rows.stop - rows.start]
            used[i % count].record(main)
    finally:
        copies.synchronize()  # the allocator may use the tiles again


def _buffers(shape: tuple[int, int], source: Streamed, count: int) -> list[Array]:
    return [torch.empty(shape, dtype=source.dtype, pin_memory=True) for _ in range(count)]


def _filled(
    host: np.ndarray[Any, Any], rows: slice, buffer: Array, readers: ThreadPoolExecutor
) -> list[Future[None]]:
    """Copy rows to a buffer by several threads."""
    out, size = buffer.numpy(), rows.stop - rows.start
    step = -(-size // READERS)

    def fill(i: int) -> None:
        stop = min(i + step, size)
        np.copyto(out[i:stop], host[rows.start + i : rows.start + stop])

    return [readers.submit(fill, i) for i in range(0, size, step)]

"""The engine for float32 on CUDA, with few transfers between host and device.

An iteration is queued as a whole, with one transfer to the host for the small eigenproblem.
If arrays are so small that kernels finish before the host has launched the next ones, launches
that repeat are recorded as graphs and replayed. Graphs are bound to their arrays, so the arrays
are kept, also between runs, and the data are copied into them.

There is a queue for each width of the block, up to those whose eigenproblems suit the device
better than the host.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from weakprox.linalg.arrays import Array, gaussian, like
from weakprox.linalg.bounds import least_bound, log_exceeded
from weakprox.linalg.decompositions import DEPENDENT
from weakprox.linalg.lowrank import LowRank, Projection, squared_norm
from weakprox.passes import Step, Sums, passes_for
from weakprox.passes.device_queue import FIRST, RANDOM, Queue
from weakprox.passes.engine import POWERS, Engine
from weakprox.passes.reference import TERMS, group_norms
from weakprox.passes.ritz import (
    GRADED,
    LEAST,
    Ritz,
    Vector,
    refined,
    spanned,
    straightened,
    turned,
)

WIDTHS = (FIRST, 2 * FIRST, 4 * FIRST)  # of blocks with a queue
RECORDED = 1 << 28  # bytes of C and z up to which launches are recorded ...
SHARE = 0.01  # ... or this share of the memory of the device, if that is more

_lock = threading.Lock()
_idle: list[DeviceEngine] = []  # the last one that records launches


def applies(C: Array, width: int) -> bool:
    """Whether there are kernels for such data that do not wait for the host."""
    fits = width == FIRST and min(C.shape) >= 4 * FIRST and C.element_size() == 4
    return bool(fits and passes_for(C).COMPILED)


@contextmanager
def lent(C: Array, arena: Any, k: Step) -> Iterator[DeviceEngine]:
    """Lend an engine to one run at a time; small ones are reused."""
    how: Any = {"groups": k.groups, "weights": k.beside}
    if not _records(C):
        engine = DeviceEngine(C, arena.like(C), **how)
        try:
            yield engine
        finally:
            engine.release()
        return
    with _lock:
        idle = _idle.pop() if _idle else None
    if idle is None or not idle.serves(C, k.groups):
        if k.weighted:
            how["weights"] = torch.empty_like(C)
        idle = DeviceEngine(torch.empty_like(C), torch.empty_like(C), recorded=True, **how)
    idle.use(FIRST)
    idle.C.copy_(C)
    if k.weighted:
        idle.weights.copy_(k.beside)
    try:
        yield idle
    finally:
        idle.queue.wait()  # however the run ended, no work is pending
        with _lock:
            _idle[:] = [idle]


def _records(C: Array) -> bool:
    """Whether launches take longer than kernels, and C and z may be kept between runs."""
    memory = torch.cuda.get_device_properties(C.device).total_memory
    return bool(2 * C.nbytes <= max(RECORDED, SHARE * memory))


class DeviceEngine(Engine):
    """An engine that exchanges a few numbers per step with a queue on the device."""

    def __init__(
        self,
        C: Array,
        z: Array,
        *,
        recorded: bool = False,
        groups: int = 0,
        weights: Any = None,
    ) -> None:
        super().__init__(C, z)
        self.weights = weights
        self._own: Ritz | None = None
        self._queues: dict[int, Queue] = {}
        self._recorded, self._groups = recorded, groups
        self.use(FIRST)

    def use(self, width: int) -> None:
        """Continue with blocks of this width."""
        queue = self._queues.get(width)
        if queue is None:
            how: Any = {"groups": self._groups, "width": width, "recorded": self._recorded}
            how["weights"] = self.weights
            queue = self._queues[width] = Queue(self.C, self.z, **how)
        queue.follow()
        self.queue, self._own, self._whole = queue, None, None  # C may hold other data

    def release(self) -> None:
        """Return what the queues have borrowed."""
        for queue in self._queues.values():
            queue.release()

    def serves(self, C: Array, groups: int) -> bool:
        """Whether the recorded launches fit such data and penalties."""
        same = self.z.shape == C.shape and self.z.device == C.device
        return bool(same and self._groups == groups)

    def begin(self, k: Step, block: Array, powers: int) -> Ritz:
        if k.grouped:
            return self.adopt(super().begin(k, block, powers))
        self.queue.V.copy_(block)
        self.queue.sent[3 * FIRST :] = (*k.numbers, 1.0)
        self.queue.do("begin", wait=False)
        for _ in range(powers - 1):
            self.queue.do("again", wait=False)
        self.queue.do("span")
        found = self._found() if self.queue.told[self.queue.pivot] > DEPENDENT else None
        return found or self.adopt(super().begin(k, block, powers))

    def advance(
        self, X: LowRank | None, values: Vector, k: Step, change: float, near: Ritz, powers: int
    ) -> tuple[LowRank, Sums, Callable[[], Ritz]]:
        """As `Engine.advance`; the triplets are computed at once."""
        self._same = False
        if near is not self._own or powers != 1:
            self._own = None
            X, sums, follow = super().advance(X, values, k, change, near, powers)
            return X, sums, lambda: self.adopt(follow())
        self.queue.follow()
        self._send(values, (*k.numbers, change))
        quick = near.s[-1] > GRADED * near.s[0]
        self.queue.do("quick_advance" if quick else "advance", wait=False)
        X = X or self.rounded(near, values)  # while the device works
        self.queue.wait()
        sums, kept = self._sums()._replace(groups=group_norms(X, k)), len(values)
        found = self._found(kept)
        if found is None:
            Y, V = self.queue.Y, self.queue.V
            found = spanned(self.products, Y, kept) or refined(self.products, V.clone())
        known = self.adopt(found)
        return X, sums, lambda: known

    def rounded(self, found: Ritz, values: Vector) -> LowRank:
        if not self._owns(found):
            return super().rounded(found, values)
        r = len(values)
        U, Vt = self.queue.split(self.queue.factors.clone())
        U = U[:, :r].contiguous()
        return Projection(U, like(values, self.z), Vt[:r], found.s[:r])

    def look(self, found: Ritz, values: Vector, k: Step, allowed: float = 0.0) -> Sums:
        if not self._owns(found):
            return super().look(found, values, k, allowed)
        self.queue.follow()
        self._send(values, (*k.numbers, 1.0))
        self.queue.do("look")
        sums, U = self._sums(), self.queue.U
        if k.grouped:
            X = LowRank(found.U, like(values, found.U), found.V.T)
            sums = sums._replace(groups=group_norms(X, k))
        if not k.curvature:
            return sums
        return sums._replace(square=squared_norm(U, like(values, U), self.queue.V))

    def squares(self, found: Ritz, rng: np.random.Generator) -> Vector:
        if not self._owns(found):
            return super().squares(found, rng)
        r, width = len(found.s), self.queue.width
        self.queue.sent[width : 3 * width] = 0.0
        self.queue.sent[width : width + r] = 1.0
        self.queue.sent[2 * width : 2 * width + r] = found.s
        self.queue.W.copy_(gaussian(rng, self.queue.W.shape, self.z))
        self.queue.do("squares", wait=False)
        self.queue.do("tail")
        return np.stack([self._squares(i)[:r, :r] for i in range(4)])

    def tail(
        self, found: Ritz, rng: np.random.Generator, enough: float, level: float = 0.0
    ) -> float:
        """As `Engine.tail`, after `squares`, which sets the kept triplets and starts."""
        if not self._owns(found):
            return super().tail(found, rng, enough, level)
        sure, scale, best = log_exceeded(RANDOM), 0.0, math.inf
        for q in range(POWERS + 1):
            if q:
                self.queue.do("more_tail")
            length, size, growth = self._told(3)
            if 0.0 in (length, size):
                return 0.0
            scale += math.log(size)
            logs = math.log(length) + scale - sure
            best = min(best, math.exp(logs / (2 * q + 1)) * (1 + 100 * self.eps))
            if best <= enough:
                return best
            if q > 1 and least_bound(logs, growth, q, POWERS) > enough > 0.0:
                break
        return min(best, self._exact_tail(found))

    def kept(self) -> Array:
        return self.z.clone() if self._recorded else self.z

    def ritz(self, block: Array, product: Array | None = None, powers: int = 1) -> Ritz:
        return self.adopt(super().ritz(block, product, powers))

    def own(self, found: Ritz) -> Ritz:
        return Ritz(found.U.clone(), found.s, found.V.clone(), found.exact)

    def adopt(self, found: Ritz) -> Ritz:
        width = len(found.s)
        graded = not found.s[-1] > LEAST * found.s[0]  # the next step divides by the squares
        if found is self._own or graded or width not in WIDTHS:
            return found
        self.use(width)
        self.queue.B.copy_(found.U)
        self.queue.Y.copy_(found.V)
        return self._turned(found.s, np.eye(width), np.eye(width))

    def _sums(self) -> Sums:
        return Sums(*self._told(TERMS))

    def _told(self, count: int) -> list[float]:
        """The first numbers of the reply."""
        queue = self.queue
        numbers: list[float] = queue.told[queue.squares : queue.squares + count].tolist()
        return numbers

    def _send(self, values: Any, constants: tuple[float, ...]) -> None:
        width = self.queue.width
        self.queue.sent[:width] = 0.0
        self.queue.sent[: len(values)] = values
        self.queue.sent[3 * width :] = constants

    def _owns(self, found: Ritz) -> bool:
        return self._own is not None and found.U.data_ptr() == self.queue.U.data_ptr()

    def _squares(self, which: int) -> Vector:
        square = self.queue.square
        told: Vector = self.queue.told[which * square : (which + 1) * square]
        return told.reshape(self.queue.width, -1)

    def _found(self, needed: int | None = None) -> Ritz | None:
        """Triplets from the Gram matrices received; their vectors are queued."""
        solved = turned(self._squares(0), self._squares(1), needed)
        self._own = None
        if solved is None:
            return None
        s, W, upright, _ = solved
        if upright:
            return self._turned(s, W / s, W)
        self._send_turns(s, W / s, W)
        self.queue.do("check")
        again = straightened(self._squares(0), s)
        return None if again is None else self._turned(*again)

    def _turned(self, s: Vector, left: Vector, right: Vector) -> Ritz:
        """Queue U = B left and V = Y right."""
        self._send_turns(s, left, right)
        self.queue.do("turn", wait=False)
        self._own = Ritz(self.queue.U, s, self.queue.V, exact=True)
        return self._own

    def _send_turns(self, s: Vector, left: Vector, right: Vector) -> None:
        self.queue.turns[:] = np.concatenate([left.ravel(), right.ravel(), 1.0 / s**2])

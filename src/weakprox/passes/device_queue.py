"""The work that the engine queues on a CUDA device, recorded as graphs when it repeats.

Narrow arrays stay on the device. The host writes a few numbers into a mailbox, starts some
work and reads a few numbers back. None of the work waits for the host.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import torch

from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import passes_for
from weakprox.passes.reference import NUMBERS

FIRST = 16  # width of the block of a start
RANDOM = 16  # vectors of a randomised bound
CONSTANTS = NUMBERS + 1  # of a step, and the change of gamma
OFTEN = 2  # times that work has been done when its launches are recorded

_mailboxes: dict[int, list[list[Any]]] = defaultdict(list)  # unused ones, by width of the
# block: pinned memory is slow to allocate


class Queue:
    """Narrow arrays for the data C and the target z, and the work on them.

    `groups` is the kind of groups of the penalty, as in `Step.groups`, `weights` those of a
    step and `width` that of the block. `squares` is the length of the Gram matrices in a
    reply, before the numbers, and `pivot` the position of the least pivot. If `recorded`,
    launches that repeat are replayed.
    """

    def __init__(
        self,
        C: Array,
        z: Array,
        groups: int = 0,
        width: int = FIRST,
        *,
        weights: Any = None,
        recorded: bool = False,
    ) -> None:
        self.C, self.z, self.groups = C, z, groups
        self.passes: Any = passes_for(z, C)  # those of `cuda`, which can be queued
        self.weights, self.recorded, self._done = weights, recorded, Counter[str]()
        self.width, self.square = width, width * width
        self.squares, self.pivot = 4 * self.square, 4 * self.square + 6
        m, n = C.shape
        self.graphs: dict[str, Any] = {}
        self.stream = torch.cuda.current_stream(C.device)  # of the run
        # Sent by the host before a step: two rotations and 1/s^2; the values, a mask of those
        # kept, the values they come from, and constants. The last array is the reply.
        sizes = [2 * self.square + width, 3 * width + CONSTANTS, self.squares + 8]
        tall, flat = m * width, n * width
        sizes = [tall, tall, flat, flat, m * RANDOM, n * RANDOM, *sizes]
        narrow = torch.zeros(sum(sizes), dtype=torch.float64, device=C.device)
        *blocks, self._turns, self._numbers, self._answers = torch.split(narrow, sizes)
        self._pivot = self._answers[self.pivot]
        self.U, self.B, self.V, self.Y = (x.view(-1, width) for x in blocks[:4])
        self._T, self.W = (x.view(-1, RANDOM) for x in blocks[4:])
        self.factors = torch.zeros(tall + flat, dtype=C.dtype, device=C.device)
        self._U, self._Vt = self.split(self.factors)
        there = (self._turns, self._numbers, self._answers)
        try:
            self.mailbox = _mailboxes[width].pop()
        except IndexError:
            self.mailbox = [torch.zeros_like(x, device="cpu").pin_memory() for x in there]
        self.turns, self.sent, self.told = (x.numpy() for x in self.mailbox)

    def split(self, factors: Any) -> tuple[Any, Any]:
        """U and V' stored one after the other."""
        m, width = self.U.shape
        return factors[: m * width].view(m, width), factors[m * width :].view(width, -1)

    def release(self) -> None:
        """Return the mailbox once no pending work can change it."""
        self.wait()
        _mailboxes[self.width].append(self.mailbox)

    def do(self, name: str, *, wait: bool = True) -> None:
        """Queue some work, and wait for it if asked to."""
        graph = self.graphs.get(name)
        if graph is None and self.recorded and self._done[name] >= OFTEN:
            try:
                graph = self.graphs[name] = self._record(name)
            except RuntimeError:  # such as too little memory: launches continue without graphs
                self.recorded = False
        if graph is None:
            getattr(self, f"_enqueue_{name}")()
        else:
            graph.replay()
        self._done[name] += 1
        if wait:
            self.wait()

    def _record(self, name: str) -> Any:
        """The launches of some work as a graph; they are compiled, but not executed here.

        `torch.cuda.graph` would also collect garbage and release cached memory.
        """
        with torch.cuda.device(self.z.device):
            graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    getattr(self, f"_enqueue_{name}")()
                finally:
                    graph.capture_end()
            torch.cuda.current_stream().wait_stream(side)
        return graph

    def follow(self) -> None:
        """Continue in the current stream, which callbacks may have changed."""
        now = torch.cuda.current_stream(self.z.device)
        if now != self.stream:
            self.wait()
            self.stream = now

    def wait(self) -> None:
        """Wait until all queued work is done."""
        self.stream.synchronize()

    def _enqueue_begin(self) -> None:
        self._receive(numbers=True)
        product = self.passes.enqueue_first(
            self.C, self.z, self._constants, self.V, self.groups, self.weights
        )
        self._power(product.double())
        self._pivot.fill_(1.0)

    def _enqueue_again(self) -> None:
        self._power(self.passes.times(self.z, self._whitened()))

    def _enqueue_span(self) -> None:
        self.Y.copy_(self._whitened())
        self.B.copy_(self.passes.times(self.z, self.Y))
        self._tell(self.B.T @ self.B, self.Y.T @ self.Y)

    def _whitened(self) -> Any:
        """Y with orthonormal columns if they are independent, as the least pivot shows."""
        turn, least = self.passes.enqueue_whitening(self.Y.T @ self.Y)
        torch.minimum(self._pivot, least, out=self._pivot)
        return self.Y @ turn

    def _enqueue_turn(self) -> None:
        self._receive(turns=True)
        torch.mm(self.B, self._turn(0), out=self.U)
        torch.mm(self.Y, self._turn(1), out=self.V)
        self._U.copy_(self.U)
        self._Vt.copy_(self.V.T)

    def _enqueue_check(self) -> None:
        self._enqueue_turn()
        self.B.copy_(self.U)
        self.Y.copy_(self.V)
        self._tell(self.U.T @ self.U)

    def _enqueue_advance(self, precise: bool = True) -> None:
        self._receive(numbers=True)
        X = LowRank(self._U, self._numbers[: self.width].float(), self._Vt)
        how: Any = {"precise": precise, "groups": self.groups, "weights": self.weights}
        sums, product = self.passes.enqueue_advance(
            self.C, self.z, X, self._constants, self.V, **how
        )
        damped = product.double() * self._turns[2 * self.square :]
        self.Y.copy_(self.passes.transpose_times(self.z, damped))
        self.B.copy_(self.passes.times(self.z, self.Y))
        self._tell(self.B.T @ self.B, self.Y.T @ self.Y, numbers=sums)

    def _enqueue_quick_advance(self) -> None:
        self._enqueue_advance(precise=False)

    def _enqueue_look(self) -> None:
        self._receive(numbers=True)
        X = LowRank(self.U, self._numbers[: self.width], self.V.T)
        sums = self.passes.enqueue_look(
            self.C, self.z, X, self._constants, self.groups, self.weights
        )
        self._tell(numbers=sums)

    def _enqueue_squares(self) -> None:
        self._receive(numbers=True)
        kept, values = self._numbers[self.width : 3 * self.width].view(2, -1)
        U, V = self.U * kept, self.V * kept
        R = self.passes.transpose_times(self.z, U)
        R -= V * values
        self._tell(R.T @ R, U.T @ U, V.T @ V, V.T @ R)

    def _enqueue_tail(self) -> None:
        self._stretch(torch.ones_like(self._answers[0]))

    def _enqueue_more_tail(self) -> None:
        W = self.passes.transpose_times(self.z, self._T)
        size = W.abs().max()
        self.W.copy_(W / torch.where(size > 0, size, torch.ones_like(size)))
        self._stretch(size)

    def _stretch(self, size: Any) -> None:
        """Set T to the deflated z times W; report its longest column, and its growth."""
        kept = self._numbers[self.width : 2 * self.width]
        U, V = self.U * kept, self.V * kept
        W = self.W - V @ (V.T @ self.W)
        Y = self.passes.times(self.z, W)
        torch.sub(Y, U @ (U.T @ Y), out=self._T)
        lengths, before = (torch.linalg.vector_norm(x, dim=0) for x in (self._T, W))
        growth = (lengths / torch.where(before > 0, before, torch.ones_like(before))).min()
        self._tell(numbers=torch.stack([lengths.max(), size, growth]))

    def _power(self, B: Any) -> None:
        """Set Y to z'B up to a factor."""
        size = B.abs().max()
        scaled = B / torch.where(size > 0, size, torch.ones_like(size))
        self.Y.copy_(self.passes.transpose_times(self.z, scaled))

    @property
    def _constants(self) -> Any:
        return self._numbers[3 * self.width :]

    def _turn(self, which: int) -> Any:
        return self._turns[which * self.square : (which + 1) * self.square].view(self.width, -1)

    def _receive(self, *, turns: bool = False, numbers: bool = False) -> None:
        if turns:
            self._turns.copy_(self.mailbox[0], non_blocking=True)
        if numbers:
            self._numbers.copy_(self.mailbox[1], non_blocking=True)

    def _tell(self, *squares: Any, numbers: Any = None) -> None:
        for i, square in enumerate(squares):
            self._answers[i * self.square : (i + 1) * self.square] = square.reshape(-1)
        if numbers is not None:
            self._answers[self.squares : self.squares + len(numbers)] = numbers
        self.mailbox[2].copy_(self._answers, non_blocking=True)

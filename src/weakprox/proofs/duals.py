"""Dual points of a proof: read by rows where the penalty allows it, stored in few bytes.

They are stored as shares of the largest slope, as integers if these are accurate enough.
Storing y + delta for y costs the bound at most -<X, delta> + |delta| sqrt(2 gap/w) +
|delta|^2/(2w): as a function of y it is concave with gradient V(y), 1/w-Lipschitz, and V(y) is
within sqrt(2 gap/w) of X. For the target of a step in factors, on a bounded set, the bound is a
known function of its residual q, and the middle term is <q, delta>/w, which is far smaller.
Without curvature it costs at most rho |delta|, rho a bound on the nuclear norm of V.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.certificates.evidence import Target
from weakprox.certificates.split import FixedDual, SplitDual, reflected_dual
from weakprox.distributed.blocked import Target as RemoteTarget
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step
from weakprox.passes.reference import cut
from weakprox.penalties.base import Smoothed, parts_of
from weakprox.proofs.pieces import blocks_of, compiled_passes, piece
from weakprox.protocols import penalty_capabilities
from weakprox.resources.memory import scratch
from weakprox.run.state import Evidence
from weakprox.verifier import Box, Factors, Groups
from weakprox.verifier.sums import blocks

Matrix = np.ndarray[Any, np.dtype[np.float64]]

HELD = 1 << 28  # bytes of a stored dual point that are kept in memory
WIDTHS = (np.int8, np.int16, np.int32, np.float64)
ENTRIES = 1 << 15  # entries of a block: its temporaries stay in cache


@dataclass(frozen=True)
class Rows:
    """A dual point of one part; `read(first, last)` returns rows of y in float64."""

    read: Callable[[int, int], Matrix]
    shape: tuple[int, int]
    point: Callable[[], Matrix] | None = None  # rows of a point near X, as returned by `read`
    target: Target | None = None  # its ingredients, for a compiled pass

    def scaled(self, factor: float) -> Rows:
        """The dual point in another unit."""
        if factor == 1.0:
            return self
        return Rows(lambda first, last: factor * self.read(first, last), self.shape)


def dual_parts(evidence: Evidence) -> list[Any]:
    """One dual point for each part of the penalty: rows, or whole arrays."""
    penalty, dual = evidence.problem.penalty, evidence.dual
    shape = evidence.problem.shape
    if not parts_of(penalty):
        return []
    if isinstance(dual, Target):
        return _of_target(dual, penalty, shape)
    by_rows = penalty.separable and penalty.rowwise
    if isinstance(dual, Smoothed):
        at = evidence.at
        X: Any = at.dense() if isinstance(at, LowRank) else at
        if by_rows:
            return [Rows(lambda a, b: _host(penalty.pull(dual.dual(X[a:b]))), shape)]
        y = dual.dual(X)
    elif isinstance(dual, SplitDual) and dual.y is None:
        if by_rows:
            return [Rows(_of_split(evidence, dual), shape)]
        X, loss = dual.at.dense(), evidence.problem.loss
        y = reflected_dual(penalty, X, loss.grad(X, loss.everything()), dual.A, dual.weight)
    else:
        assert isinstance(dual, (FixedDual, SplitDual))
        y = dual.y
    return [_stored(one, shape) for one in _duals(penalty, y)]


def _duals(penalty: Any, y: Any) -> list[Any]:
    """The dual points of the terms of `parts_of`."""
    parts = penalty_capabilities(penalty).parts
    if not parts:
        return [y] if parts is None else []
    return [one for part, dual in zip(parts, y, strict=True) for one in _duals(part, dual)]


def _stored(y: Any, shape: tuple[int, int]) -> Any:
    """A whole dual point: rows if it is a matrix like X, otherwise arrays."""
    if isinstance(y, (tuple, list)):
        return [_stored(one, (-1, -1)) for one in y]
    host = _host(y)
    return Rows(lambda a, b: host[a:b], shape) if host.shape == shape else host


def _of_split(evidence: Evidence, dual: SplitDual) -> Callable[[int, int], Matrix]:
    problem = evidence.problem
    loss, V = problem.loss, dual.at
    centred = problem.of_loss.centre is not None
    C: Any = problem.centre() if centred else None
    G = None if centred else loss.grad(V.dense(), loss.everything())
    left, smooth = V.U * V.s, loss.smoothness if centred else 0.0

    def read(a: int, b: int) -> Matrix:
        X = left[a:b] @ V.Vt
        g = smooth * (X - C[a:b]) if G is None else G[a:b]
        R = problem.penalty
        return _host(R.pull(reflected_dual(R, X, g, dual.A[a:b], dual.weight)))

    return read


def _of_target(dual: Target, penalty: Any, shape: tuple[int, int]) -> list[Rows]:
    """Dual points of the parts of a penalty in separable form."""
    k, z = dual.step, dual.z
    U, s, Vt = (_host(x) for x in (dual.at.U, dual.at.s, dual.at.Vt))
    left, ahead = U * s, 2.0 / k.gamma - k.beta - k.curvature
    C = piece("C", dual.C).read
    if isinstance(z, RemoteTarget):
        read_z = blocks_of(z.slices, z.held(), lambda state: state.z)
    else:
        read_z = piece("z", z).read
    room = np.empty((3, 0, shape[1]))
    rows = 0

    def steep(a: int, b: int) -> Any:
        """(2/gamma - beta - curvature) X + beta C - z/gamma, in reused arrays."""
        nonlocal room, rows
        rows = b - a
        if room.shape[1] < rows:
            room = np.empty((3, rows, shape[1]))
        X, y, more = room[:, :rows]
        np.matmul(left[a:b], Vt, out=X)
        np.multiply(read_z(a, b), np.float64(-1.0 / k.gamma), out=y)
        y += C(a, b) if k.beta == 1.0 else np.float64(k.beta) * C(a, b)
        if ahead == 1.0:
            y += X
        elif ahead:
            y += np.multiply(X, ahead, out=more)
        return y

    def entries(a: int, b: int) -> Any:
        t = steep(a, b)
        if k.shifted:
            ends: Any = _bounds(parts, shape, a, b) if k.bounded else (k.low, k.high)
            t -= np.clip(t, *(end / k.gamma for end in ends))
        below, above = slopes(a, b)
        return np.clip(t, -below, above, out=t)

    def remainder(a: int, b: int) -> Any:
        t, (below, above) = steep(a, b), slopes(a, b)
        t -= np.clip(t, -below, above)
        return t

    def slopes(a: int, b: int) -> tuple[Any, Any]:
        return _slopes(parts, shape, a, b) if k.weighted else (k.below, k.above)

    parts = parts_of(penalty)
    point = lambda: room[0, :rows]  # noqa: E731
    if len(parts) == 1 and not k.grouped:
        return [Rows(entries, shape, point, dual)]
    cuts: Any = None
    if k.columns:
        squares: Any = 0.0
        for a, b in blocks(*shape):
            squares = squares + np.square(remainder(a, b)).sum(axis=0)
        cuts = cut(np.sqrt(squares), k._replace(gamma=1.0), shape[0])

    def grouped(a: int, b: int) -> Any:
        t, shares = remainder(a, b), cuts
        if shares is None:
            norms = np.linalg.norm(t, axis=1, keepdims=True)
            shares = cut(norms, k._replace(gamma=1.0), shape[1])
        t *= shares
        return t

    return [_share(part, parts, k, shape, entries, grouped) for part in parts]


def _bounds(parts: list[Any], shape: tuple[int, int], a: int, b: int) -> Iterator[Matrix]:
    """The bounds of rows a to b, those of the one part that has arrays."""
    forms: list[Any] = [penalty_capabilities(part).form for part in parts]
    for end in next(form.bounds for form in forms if form.bounds is not None):
        yield np.asarray(np.broadcast_to(end, shape)[a:b], dtype=float)


def _slopes(parts: list[Any], shape: tuple[int, int], a: int, b: int) -> tuple[Any, Any]:
    """The slopes of these parts below and above zero, at the entries of rows a to b."""
    forms: list[Any] = [penalty_capabilities(part).form for part in parts]
    more: Any = 0.0
    for factor, weights in (pair for form in forms for pair in form.weights):
        more = more + factor * np.asarray(np.broadcast_to(weights, shape)[a:b], dtype=float)
    return sum(form.below for form in forms) + more, sum(form.above for form in forms) + more


def _weighted_share(part: Any, parts: list[Any], shape: tuple[int, int], entries: Any) -> Rows:
    """The share of one part in the dual point, in proportion to its slopes of each entry."""

    def read(a: int, b: int) -> Any:
        y = entries(a, b)
        (down, up), (below, above) = (_slopes(some, shape, a, b) for some in ([part], parts))
        mine, whole = np.where(y > 0.0, up, down), np.where(y > 0.0, above, below)
        return y * (mine / np.where(whole > 0.0, whole, np.inf))

    return Rows(read, shape)


def _share(
    part: Any, parts: list[Any], k: Step, shape: tuple[int, int], entries: Any, grouped: Any
) -> Rows:
    """The share of one part in the dual point, in proportion to its weights."""
    form = penalty_capabilities(part).form
    assert form is not None
    if form.rows or form.columns:
        weight = (form.rows or form.columns) / k.weight
        return Rows(lambda a, b: weight * grouped(a, b), shape)
    if k.weighted:
        return _weighted_share(part, parts, shape, entries)
    up, down = form.above / (k.above or 1.0), form.below / (k.below or 1.0)

    def read(a: int, b: int) -> Any:
        y = entries(a, b)
        return np.where(y > 0.0, up, down) * y

    return Rows(read, shape)


def _host(y: Any) -> Matrix:
    return np.asarray(to_numpy(y), dtype=np.float64)


@dataclass
class Loss:
    """Change of the bound from storing dual points: sums over their entries."""

    along: float = 0.0  # <X, delta>
    length: float = 0.0  # |delta|
    across: float | None = None  # <q, delta> with the residual q of a step, if it is known

    def cost(self, gap: float, w: float, rho: float) -> float:
        """Upper bound on the decrease of the lower bound."""
        if w > 0.0:
            bent = self.length**2 / (2 * w)
            far = 2 * math.sqrt(max(gap, 0.0)) * math.sqrt(bent)
            if self.across is not None:
                far = min(far, max(0.0, self.across) / w)
            return max(0.0, -self.along) + far + bent
        return rho * self.length


def width_for(
    y: Rows, part: Any, gap: float, most: float, w: float, reach: float, *, bounded: bool
) -> Any:
    """The narrowest type whose rounding is expected to lower the bound by at most `most`.

    `reach` bounds |X|_F (w > 0) or the nuclear norm of V (w = 0).
    """
    size = math.prod(y.shape)
    across = 0.0 if bounded and _compiles(y, part) else None  # about zero, as errors vary
    for kind in WIDTHS[:-1]:
        length = part.steepest / np.iinfo(kind).max * math.sqrt(size / 12)
        if w == 0.0 or isinstance(part, Groups):  # shrunk into the ball: <X, delta> is unknown
            cost = 2 * reach * length + (4 * length**2 / (2 * w) if w > 0.0 else 0.0)
        else:
            cost = Loss(-reach * length / math.sqrt(size), length, across).cost(gap, w, reach)
        if cost <= most:
            return kind
    return WIDTHS[-1]


def stored(
    y: Rows, part: Box | Groups, kind: Any, X: Factors, loss: Loss, *, bounded: bool
) -> Any:
    """Store the dual point as shares in this type; its cost is added to `loss`."""
    m, d = y.shape
    size = m * d * np.dtype(kind).itemsize
    q = np.empty((m, d), kind) if size <= HELD else scratch((m, d), kind)
    whole = float(np.iinfo(kind).max) if np.dtype(kind).kind == "i" else 1.0
    above, below = (part.above, part.below) if isinstance(part, Box) else (part.lam, part.lam)
    found = _compiled(y, part, q, whole) if whole > 1.0 else None
    square, along, across = found or (0.0, 0.0, 0.0)
    loss.across = across if found and bounded else None
    room: Any = None
    for first, last in [] if found else blocks(m, d, entries=ENTRIES):
        exact = y.read(first, last)
        room = np.empty(exact.shape) if room is None else room  # the first is the largest
        slope: Any = above if above == below else np.where(exact > 0.0, above, below)
        unit = whole / np.where(slope > 0.0, slope, np.inf)
        share = np.multiply(exact, unit, out=room[: len(exact)])
        np.clip(share, -whole, whole, out=share)  # lam may have been rounded up to float32
        if whole > 1.0:
            np.rint(share, out=share)
        q[first:last] = share
        share *= slope / whole
        share -= exact
        square += float(np.vdot(share, share))
        near = X.rows(first, last) if y.point is None else y.point()
        along += float(np.vdot(near, share))
    length = math.sqrt(square)
    if isinstance(part, Groups):  # the verifier may shrink groups by as much again
        along -= float(np.linalg.norm(X.s)) * 2 * length
        length *= 2
    loss.along, loss.length = loss.along + along, loss.length + length
    return q


def _compiles(y: Rows, part: Box | Groups) -> bool:
    """Return True if there is a compiled pass for the arrays of this dual point."""
    dual = y.target
    even = isinstance(part, Box) and part.above == part.below > 0.0
    if dual is None or not even:
        return False
    plain = all(type(x) is np.ndarray and x.flags.c_contiguous for x in (dual.C, dual.z))
    return plain and compiled_passes(math.prod(y.shape)) is not None


def _compiled(
    y: Rows, part: Box | Groups, q: Any, whole: float
) -> tuple[float, float, float] | None:
    """Sums of the rounding errors by a compiled pass, if there is one for these arrays."""
    if not _compiles(y, part):
        return None
    dual: Any = y.target
    U, s, Vt = (np.ascontiguousarray(x, np.float64) for x in (dual.at.U, dual.at.s, dual.at.Vt))
    k = dual.step
    ahead = 2.0 / k.gamma - k.beta - k.curvature
    numbers = (ahead, k.beta, 1.0 / k.gamma, k.above, whole)
    stored = compiled_passes(math.prod(y.shape)).stored
    return stored(dual.C, dual.z, U * s, Vt, q, numbers)  # type: ignore[no-any-return]

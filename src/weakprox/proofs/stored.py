"""Dual points in few bytes: shares of the largest slope, as integers where these suffice.

Storing y + delta for y costs the bound at most -<X, delta> + |delta| sqrt(2 gap/w) +
|delta|^2/(2w): as a function of y it is concave with gradient V(y), 1/w-Lipschitz, and V(y)
is within sqrt(2 gap/w) of X. Without curvature it costs at most rho |delta|, rho a bound on
the nuclear norm of V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.passes import COMPILED_FROM
from weakprox.proofs.duals import Rows
from weakprox.resources.memory import scratch
from weakprox.verifier import Box, Factors, Groups
from weakprox.verifier.sums import blocks

HELD = 1 << 28  # bytes of a stored dual point that are kept in memory
WIDTHS = (np.int8, np.int16, np.int32, np.float64)
ENTRIES = 1 << 15  # of a block: its temporaries stay in cache


@dataclass
class Loss:
    """What storing dual points has cost: sums over their entries."""

    along: float = 0.0  # <X, delta>
    length: float = 0.0  # |delta|

    def cost(self, gap: float, w: float, rho: float) -> float:
        """Upper bound on what the lower bound loses."""
        if w > 0.0:
            bent = self.length**2 / (2 * w)
            return max(0.0, -self.along) + 2 * math.sqrt(max(gap, 0.0)) * math.sqrt(bent) + bent
        return rho * self.length


def width_for(part: Any, size: int, gap: float, most: float, w: float, reach: float) -> Any:
    """The narrowest type whose rounding is expected to cost at most so much.

    `reach` bounds |X|_F (w > 0) or the nuclear norm of V (w = 0).
    """
    slope = max(part.above, part.below) if isinstance(part, Box) else part.lam
    for kind in WIDTHS[:-1]:
        length = slope / np.iinfo(kind).max * math.sqrt(size / 12)
        if w == 0.0 or isinstance(part, Groups):  # shrunk into the ball: along no longer known
            cost = 2 * reach * length + (4 * length**2 / (2 * w) if w > 0.0 else 0.0)
        else:
            expected = Loss(-reach * length / math.sqrt(size), length)
            cost = expected.cost(gap, w, reach)
        if cost <= most:
            return kind
    return WIDTHS[-1]


def stored(y: Rows, part: Box | Groups, kind: Any, X: Factors, loss: Loss) -> Any:
    """The dual point as shares in this type; what it costs is added to the loss."""
    m, d = y.shape
    size = m * d * np.dtype(kind).itemsize
    q = np.empty((m, d), kind) if size <= HELD else scratch((m, d), kind)
    whole = float(np.iinfo(kind).max) if np.dtype(kind).kind == "i" else 1.0
    above, below = (part.above, part.below) if isinstance(part, Box) else (part.lam, part.lam)
    compiled = _compiled(y, part, q, whole)
    along, square = compiled or (0.0, 0.0)
    room: Any = None
    for first, last in [] if compiled else blocks(m, d, entries=ENTRIES):
        exact = y.read(first, last)
        room = np.empty(exact.shape) if room is None else room  # the first is the largest
        slope: Any = above if above == below else np.where(exact > 0.0, above, below)
        share = np.multiply(
            exact, whole / np.where(slope > 0.0, slope, np.inf), out=room[: len(exact)]
        )
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


def _compiled(y: Rows, part: Box | Groups, q: Any, whole: float) -> tuple[float, float] | None:
    """<X, delta> and |delta|^2 by a compiled pass, where there is one for such arrays."""
    dual = y.target
    if dual is None or whole == 1.0 or not isinstance(part, Box) or not part.above > 0.0:
        return None
    if part.above != part.below:
        return None
    arrays = (dual.C, dual.z)
    plain = all(type(x) is np.ndarray and x.flags.c_contiguous for x in arrays)
    if not plain or q.size < COMPILED_FROM:
        return None
    try:
        from weakprox.proofs import compiled
    except (ImportError, RuntimeError):  # without numba, or a folder for what it compiles
        return None
    U, s, Vt = (np.ascontiguousarray(x, np.float64) for x in (dual.at.U, dual.at.s, dual.at.Vt))
    k = dual.step
    ahead = 2.0 / k.gamma - k.beta - k.curvature
    numbers = (ahead, k.beta, 1.0 / k.gamma, k.above, whole)
    square, along = compiled.stored(*arrays, U * s, Vt, q, numbers)
    return along, square

"""The passes of `weakprox.passes` for C and z on workers.

Only narrow blocks are sent to the workers and back, never an array of the size of z.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from weakprox.distributed import work
from weakprox.distributed.engine import each, fetch, keep, shared, tree
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank, Projection
from weakprox.linalg.lowrank import blend_into as blend_into
from weakprox.passes.beside import Bounds
from weakprox.passes.reference import Step, Sums

# as in `passes.interface`; workers without numba use the passes of NumPy
COMPILED, IN_FLOAT64 = True, False
SPANNED = 1e-12  # distance at which vectors count as spanned by others


def beside(C: Any, given: Any) -> list[Any]:
    """As `reference.beside`: rows are sent to the workers once, block after block."""
    bounds, found = isinstance(given, Bounds), []
    spread = given if bounds else np.broadcast_to(given, C.shape)
    for part, rows in zip(C.held(), C.slices, strict=True):
        sent = np.array(spread[rows])
        found += keep(each(work.kept, [sent]) if bounds else each(work.beside, [part], [sent]))
    return found


def first(C: Any, z: Any, k: Step, Q: Any = None) -> Any:
    """Set z to prox_{gamma R}(gamma beta C); return z Q if a block Q is given."""
    found = z.move(work.Move(k.bare), Q)
    return None if Q is None else np.concatenate([product for _, product in found])


def look(C: Any, z: Any, X: LowRank, k: Step) -> Sums:
    """The sums at X, in float64."""
    parts = C.held()
    held = [None] * len(parts) if z is None else z.held()
    right, step = shared((X.s, X.Vt)), [k.bare] * len(parts)
    left, others = [X.U[rows] for rows in C.slices], C.beside(k.beside)
    looked = each(work.looked, parts, others, held, left, [right] * len(parts), step)
    sums = tree(work.added, looked)
    found = fetch([sums], [*parts, *(() if z is None else held)])[0]
    return Sums(*(float(x) for x in found))


def advance(
    C: Any, z: Any, X: Projection, k: Step, change: float, Q: Any = None
) -> tuple[Sums, Any]:
    """Overwrite z by the next target; return estimates of sums at X (no `across`), and z Q."""
    sizes = np.asarray(X.sizes, dtype=float)
    values = np.asarray(X.s, dtype=float)
    shrink = np.divide(values, sizes, out=np.zeros_like(values), where=sizes > 0.0)
    V = np.ascontiguousarray(X.Vt.T, dtype=z.dtype)
    # V = Y T and B = z Y, from the last product of z if it fits
    Y, T, B = V, np.eye(V.shape[1]), None
    if z.product is not None and z.dtype.itemsize == 8:
        solved = decompositions.lstsq(z.product[0], V)
        if np.linalg.norm(z.product[0] @ solved - V) <= SPANNED:
            Y, T, B = z.product[0], solved, z.product[1]
    move = work.Move(k.bare, change, V, Y, (T * shrink).astype(z.dtype))
    found = z.move(move, Q, B)
    sums = Sums(*(float(x) for x in work.added([sums for sums, _ in found])))
    sums = sums._replace(square=float(values @ values))
    return sums, None if Q is None else np.concatenate([product for _, product in found])


def _times(z: Any, V: Any, *, quick: bool) -> Any:
    """z V for a narrow block: `quick` in the fastest precision, else summed in float64."""
    held = z.held()
    many = [shared(V)] * len(held)
    parts = keep(each(work.multiplied, held, many, [quick] * len(held)))
    if quick:  # the next step is likely to need it
        z.product = V, parts
    return np.concatenate(fetch(parts, held))


def _transpose_times(z: Any, U: Any, *, quick: bool) -> Any:
    """z' U, summed over the blocks."""
    held = z.held()
    parts = each(work.pushed, held, [U[rows] for rows in z.slices], [quick] * len(held))
    return fetch([tree(work.added, parts)], held)[0]


times, quick_times = partial(_times, quick=False), partial(_times, quick=True)
transpose_times = partial(_transpose_times, quick=False)
quick_transpose_times = partial(_transpose_times, quick=True)

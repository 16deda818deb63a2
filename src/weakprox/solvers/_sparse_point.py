"""The point Y of a splitting step as an answer, scaled into the domain of h.

X = prox_{gamma h}(z) has the singular values that h requires, and Y = prox_{gamma R}(...) the
zeros that R produces. If the solution is not low-rank, the bound that the dual points of the
first steps give is already close to the optimum, and so is f at Y. f at X is not, because its
many small entries add up in R. Y only has to be scaled into the ball, by its nuclear norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, like, namespace, to_numpy, wide
from weakprox.linalg.gram_svd import squared
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.simplex import ValueForm, rounded_on_host
from weakprox.linalg.threads import all_threads

FAR = 30.0  # ratio to the other values from which a triplet is computed and removed first
LEADING = 0.01  # share of the largest value above which a triplet of X may be one of these
BESIDE = 16  # extra columns, which show the other values
STEPS = 3  # power iterations
SEEN = 1e-5  # share of the largest other value above which its square shows a triplet


def scale_within(form: ValueForm, size: float) -> float:
    """Factor that takes a matrix of this nuclear norm into the domain of h."""
    return 1.0 if size <= form.tau else form.tau / size


def nuclear_norm(Y: Array) -> float:
    """Nuclear norm of Y to several digits."""
    B = wide(Y.T if Y.shape[0] < Y.shape[1] else Y)
    with all_threads(int(B.shape[1])):
        return float(_roots(decompositions.eigvalsh(squared(B))).sum())


def scaled(Y: Array, X: LowRank, form: ValueForm) -> tuple[LowRank, float]:
    """Y as factors, scaled into the domain of h, and its nuclear norm before; X is near.

    Small values matter, since many small entries make the difference between Y and X. The
    eigenvectors of Y'Y show them after the far larger values have been removed.
    """
    xp, flat = namespace(Y), Y.shape[0] < Y.shape[1]
    B, near = (wide(Y.T), wide(X.U)) if flat else (wide(Y), wide(X.Vt.T))
    leading = int((to_numpy(X.s) > LEADING * float(X.s[0])).sum())
    with all_threads(int(B.shape[1])):
        first = _far(B, near[:, : leading + BESIDE])
        BV = B @ first
        rest = B - BV @ first.T
        del B  # these arrays have the size of Y
        squares, W = decompositions.eigh(squared(rest))
        s = _roots(squares)[::-1]
        kept = min(int((s > SEEN * s[0]).sum()), int(W.shape[1]) - int(first.shape[1]))
        others = xp.flip(W, axis=1)[:, :kept]
        U = xp.concat([BV, rest @ others], axis=1)
        del BV, rest
        V = xp.concat([first, others - first @ (first.T @ others)], axis=1)
        del W, others
        lengths = xp.linalg.vector_norm(U, axis=0)
        U /= lengths
    sizes = np.asarray(to_numpy(lengths), dtype=float)
    size = float(sizes.sum())
    values = rounded_on_host(sizes * scale_within(form, size), form.tau, Y)
    order = np.argsort(-values, kind="stable")
    if np.any(np.diff(order) != 1):
        values, U, V = values[order], U[:, order.tolist()], V[:, order.tolist()]
    U, V, s = *(xp.astype(x, Y.dtype, copy=False) for x in (U, V)), like(values, Y)
    return (LowRank(V, s, U.T) if flat else LowRank(U, s, V.T)), size


def _far(B: Array, Q: Array) -> Array:
    """The right singular vectors of B with values far above the others; a start for them."""
    qr = namespace(B).linalg.qr
    for _ in range(STEPS):
        Q = qr(B.T @ (B @ Q))[0]
    _, s, Wt = decompositions.svd(B @ Q)
    return Q @ Wt.T[:, : int((to_numpy(s) > FAR * float(s[-1])).sum())]


def _roots(squares: Array) -> np.ndarray[Any, Any]:
    """Square roots, as float64 on the host; rounding may have made squares negative."""
    roots: np.ndarray[Any, Any] = np.sqrt(np.maximum(to_numpy(squares), 0.0))
    return roots

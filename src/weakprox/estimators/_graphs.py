"""Graphs as matrices: normalised by degrees, and scores of pairs mapped back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array, csr_array, diags_array, triu
from scipy.special import expit

from weakprox.arguments import one_of
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import decompositions
from weakprox.linalg.filtered import filtered, ritz
from weakprox.linalg.krylov import KrylovSpace
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.operators import products
from weakprox.linalg.threads import one_thread
from weakprox.linalg.tiled import LowRankPlusSparse

Vector = np.ndarray[Any, np.dtype[Any]]
KINDS = ("auto", "undirected", "directed", "bipartite")
PAIRS = 1 << 16  # pairs whose entries are computed at a time
THIN = 64  # usual width of blocks, for the number of threads
BLOCK = 16  # number of vectors that N is multiplied by at a time
KEPT = 0.625  # share of the vectors of a Krylov space that may be used as singular vectors
TINY = 1e-300  # smaller than the square of any singular value
TIES = 0.01  # weight of the degrees in a score: enough to order pairs where X is zero


@dataclass(frozen=True)
class Graph:
    """Non-negative weights as a sparse matrix; `loops` says whether (i, i) is a pair."""

    A: csr_array
    symmetric: bool
    loops: bool

    @property
    def pairs(self) -> int:
        """Number of pairs of nodes that could be an edge."""
        m, d = self.A.shape
        return int(m * d - (0 if self.loops else m)) // (2 if self.symmetric else 1)

    @property
    def count(self) -> int:
        """Number of edges."""
        return int(self.A.nnz) // (2 if self.symmetric else 1)

    def edges(self) -> tuple[Vector, Vector, Vector]:
        """Ends and weights, each edge once."""
        half = coo_array(triu(self.A, 1) if self.symmetric else self.A)
        return half.row, half.col, half.data

    def without(self, hidden: Vector, edges: tuple[Vector, Vector, Vector]) -> Graph:
        """The graph without some of its `edges`, given by their positions."""
        rows, cols, weights = edges
        keep = np.ones(rows.size, dtype=bool)
        keep[hidden] = False
        A = csr_array((weights[keep], (rows[keep], cols[keep])), shape=self.A.shape)
        return Graph(csr_array(A + A.T) if self.symmetric else A, self.symmetric, self.loops)

    def some_non_edges(self, count: int, rng: np.random.Generator) -> Vector:
        """Pairs without an edge, drawn with replacement, of shape (count, 2)."""
        m, d = self.A.shape
        share = 1.0 - self.A.nnz / (m * d)  # positive: the caller checked
        found = np.zeros((0, 2), dtype=np.int64)
        while len(found) < count:
            cells = rng.integers(0, m * d, int(1.2 * count / share) + 64)
            drawn = np.stack(np.divmod(cells, d), axis=1)
            open_ = np.asarray(self.A[drawn[:, 0], drawn[:, 1]]).ravel() == 0.0
            if not self.loops:
                open_ &= drawn[:, 0] != drawn[:, 1]
            found = np.vstack([found, drawn[open_]])
        return found[:count]


def read_graph(X: Any, kind: str) -> tuple[Graph, str]:
    """The graph in a checked matrix, and its kind."""
    one_of("kind", kind, KINDS)
    A = csr_array(X, copy=True)
    A.eliminate_zeros()
    square = A.shape[0] == A.shape[1]
    symmetric = square and (A != A.T).nnz == 0
    if kind == "undirected" and not symmetric:
        raise InputError("X", "a matrix that is not symmetric", "one that is, or another kind")
    if kind == "directed" and not square:
        raise ShapeError("X", f"shape {A.shape}", "a square matrix, or kind='bipartite'")
    if kind == "auto":
        kind = "undirected" if symmetric else "directed" if square else "bipartite"
    if kind != "bipartite":
        A = A - diags_array(A.diagonal(), format="csr")
        A.eliminate_zeros()
    if A.nnz == 0:
        raise InputError("X", "no edge", "a graph with at least one")
    return Graph(csr_array(A), kind == "undirected", kind == "bipartite"), kind


def checked_pairs(pairs: Any, shape: tuple[int, int]) -> Vector:
    """Pairs as an array of integers within the matrix."""
    ends = np.asarray(pairs)
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise ShapeError("pairs", f"shape {ends.shape}", "(k, 2): row and column")
    if not np.issubdtype(ends.dtype, np.integer):
        raise InputError("pairs", f"dtype {ends.dtype}", "integers")
    if ends.size and (ends.min() < 0 or bool(np.any(ends.max(axis=0) >= shape))):
        given = f"indices from {ends.min()} to {ends.max()}"
        wanted = f"rows and columns of a {shape[0]} x {shape[1]} matrix"
        raise InputError("pairs", given, wanted)
    return ends


def has_repeated(graph: Graph) -> bool:
    """Return True if the weights are integers and not all equal, such as numbers of events."""
    weights = graph.A.data
    return bool(weights.max() > weights.min() and np.array_equal(weights, np.rint(weights)))


def logs_of(graph: Graph) -> Graph:
    """The graph with log(1 + weight) as weights."""
    return replace(graph, A=csr_array(graph.A.log1p()))


def walks(A: Any, damping: float) -> Vector:
    """Probabilities that walks from one node end at another, in both directions together.

    They end at each step with the probability `1 - damping`: personalised PageRank.
    """
    dense = np.asarray(A.toarray())
    degrees = dense.sum(axis=1, keepdims=True)
    steps = np.divide(dense, degrees, out=np.zeros_like(dense), where=degrees > 0.0)
    ends = (1.0 - damping) * np.linalg.inv(np.eye(len(dense)) - damping * steps)
    return np.asarray(ends + ends.T)


def common_neighbors(A: Any) -> Vector:
    """Common neighbours, each divided by its degree (resource allocation)."""
    dense = np.asarray(A.toarray())
    degrees = dense.sum(axis=0)
    return np.asarray((dense / np.where(degrees > 0.0, degrees, 1.0)) @ dense.T)


def reverse_links(A: csr_array, pairs: Vector) -> Vector:
    """Weights of the links (j, i) for pairs (i, j)."""
    return np.asarray(A[pairs[:, 1], pairs[:, 0]]).ravel()


@dataclass(frozen=True)
class Degrees:
    r"""Degrees that turn A into :math:`N = D_r^{-1/2} (A + a) D_c^{-1/2}`, and X back.

    a, the `level`, is `smoothing` times the mean entry of A, and the degrees are those of
    A + a (Amini, Chen, Bickel and Levina 2013), so that the spectral norm of N is 1.
    Without a, nodes with few edges would dominate the spectrum.
    """

    level: float
    left: Vector  # square roots of the degrees
    right: Vector

    @classmethod
    def of(cls, graph: Graph, smoothing: float) -> Degrees:
        A = graph.A
        level = smoothing * float(A.sum()) / (A.shape[0] * A.shape[1])
        left = np.sqrt(np.asarray(A.sum(axis=1)) + level * A.shape[1])
        right = np.sqrt(np.asarray(A.sum(axis=0)) + level * A.shape[0])
        return cls(level, left, right)

    def normalised(self, graph: Graph) -> LowRankPlusSparse:
        """N, as a sparse matrix plus one of rank one."""
        A = graph.A
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        S = csr_array(A, copy=True)
        S.data /= self.left[rows]
        S.data /= self.right[A.indices]
        left, right = 1.0 / self.left[:, None], 1.0 / self.right[None, :]
        return LowRankPlusSparse(left, np.array([self.level]), right, S)

    def scores(self, X: LowRank, pairs: Vector) -> Vector:
        """Entries of X on the scale of A, plus a small multiple of the degrees' own score."""
        return self.scores_of(entries(X, *pairs.T), pairs)

    def scores_of(self, at: Vector, pairs: Vector) -> Vector:
        """The scores for known entries of X."""
        size = self.left[pairs[:, 0]] * self.right[pairs[:, 1]]
        found: Vector = np.maximum(size * at, 0.0)
        found += TIES * size**2 / float(self.left @ self.left)
        return found


def shrunk(values: Vector, lam: float) -> Vector:
    """Values moved towards zero by lam."""
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - lam, 0.0))


class Leading:
    """Leading singular triplets of N, at most `most`, from a Krylov space that can grow."""

    def __init__(self, N: LowRankPlusSparse, most: int) -> None:
        self.N, self.tall = N, N.shape[0] >= N.shape[1]
        settings: Any = {"most": most, "block": BLOCK, "rng": np.random.default_rng(0)}
        # not a method of this object: such a cycle would keep the basis in memory
        self.space = KrylovSpace(partial(_squared, N, self.tall), min(N.shape), **settings)

    def extended(self, width: int, tol: float) -> LowRank:
        """Triplets in a space of at least this width, as many as have this accuracy.

        These are the leading ones up to the first whose residual is too large: at least two,
        and at most the share KEPT of the width.
        """
        with one_thread(THIN * sum(self.N.shape)):
            self.space.extend(width)
            squares, W, residuals = self.space.ritz()
            far = residuals > tol * squares  # s times the residual of N, relative to s^2
            count = int(np.argmax(far)) if far.any() else squares.size
            if squares.size < min(self.N.shape):
                count = max(2, min(count, int(KEPT * squares.size)))
            s, V = np.sqrt(np.maximum(squares[:count], TINY)), self.space.vectors(W[:, :count])
            # V'N'NV is diagonal, so that the columns of N V are orthogonal
            if self.tall:
                return LowRank(self.N.times(V) / s, s, V.T)
            return LowRank(V, s, (self.N.transpose_times(V) / s).T)


def _squared(N: LowRankPlusSparse, tall: bool, B: Vector) -> Vector:
    """N'N B or NN'B, whichever is smaller."""
    return N.transpose_times(N.times(B)) if tall else N.times(N.transpose_times(B))


def improved(N: LowRankPlusSparse, V: Vector, edge: float) -> LowRank:
    """Triplets of N from approximate right singular vectors for values above `edge`."""
    ops = products(N)
    with one_thread(THIN * sum(N.shape)):
        return ritz(ops, filtered(ops, V, edge, largest=1.0), quick=True)


def every(N: LowRankPlusSparse, symmetric: bool) -> LowRank:
    """All singular triplets of N, which becomes dense."""
    if not symmetric:
        return LowRank(*decompositions.svd(N.dense()))
    values, V = decompositions.eigh(N.dense())  # much faster
    order = np.argsort(-np.abs(values))
    values, V = values[order], V[:, order]
    return LowRank(V, np.abs(values), (V * np.where(values < 0, -1.0, 1.0)).T)


def unshrunk(X: LowRank, N: LowRankPlusSparse) -> LowRank:
    """X times the factor that brings it nearest to N, which undoes the shrinkage."""
    return scaled(X, float(np.vdot(X.U * X.s, N.times(X.Vt.T))))


def refitted(X: LowRank, N: LowRankPlusSparse) -> LowRank:
    """The nearest matrix to N with the singular vectors of X."""
    return LowRank(X.U, np.einsum("ir,ir->r", X.U, N.times(X.Vt.T)), X.Vt)


def scaled(X: LowRank, product: float) -> LowRank:
    """X times the factor that brings it nearest to N, given their inner product."""
    factor = product / X.sqnorm if X.sqnorm > 0.0 else 1.0
    return LowRank(X.U, factor * X.s, X.Vt)


def entries(X: LowRank, rows: Vector, cols: Vector) -> Vector:
    """Entries of X at some positions, from its factors."""
    found = np.empty(len(rows))
    for first in range(0, len(rows), PAIRS):
        part = slice(first, first + PAIRS)
        found[part] = np.einsum("kr,kr->k", X.U[rows[part]] * X.s, X.Vt.T[cols[part]])
    return found


def triplets_at(X: LowRank, rows: Vector, cols: Vector) -> Vector:
    """Entries of each triplet of X at some positions, without its value: a column for each."""
    found: Vector = X.U[rows]
    found *= X.Vt.T[cols]
    return found


def placements(hidden: Vector, others: Vector) -> Vector:
    """Share of other pairs below each hidden edge, ties counted half; the mean is the AUC."""
    others = np.sort(others)
    below = np.searchsorted(others, hidden, "left") + np.searchsorted(others, hidden, "right")
    return below / (2.0 * others.size)


@dataclass(frozen=True)
class Calibration:
    """Increasing log-odds of an edge with score s: at + by log(s) + beyond s.

    Fitted by maximum likelihood, with the targets of Platt (1999), which keep it finite, and
    nonnegative slopes. The second slope bends the curve at large scores, as in beta calibration
    (Kull, Silva Filho and Flach 2017).
    """

    at: float
    by: float
    beyond: float

    @classmethod
    def of(cls, hidden: Vector, others: Vector, edges: int, non_edges: int) -> Calibration:
        """Fit to scores of hidden edges, weighted as all edges, and of other pairs."""
        sizes = [hidden.size, others.size]
        score = np.concatenate([hidden, others])
        unit = float(hidden.mean())
        inputs = np.stack([np.ones(score.size), np.log(score / unit), score / unit], axis=1)
        weights = np.repeat([edges / sizes[0], non_edges / sizes[1]], sizes)
        weights /= weights.sum()
        targets = np.repeat([(edges + 1) / (edges + 2), 1 / (non_edges + 2)], sizes)

        def loss(line: Vector) -> tuple[float, Vector]:
            odds = inputs @ line
            value = float(weights @ (np.logaddexp(0.0, odds) - targets * odds))
            return value, (weights * (expit(odds) - targets)) @ inputs

        begin = np.array([np.log((edges + 1) / (non_edges + 1)), 1.0, 0.0])
        bounds = [(None, None), (0.0, None), (0.0, None)]
        found = minimize(loss, begin, jac=True, bounds=bounds, options={"ftol": 1e-12}).x
        at, by, beyond = (float(value) for value in found)
        return cls(at - by * float(np.log(unit)), by, beyond / unit)

    def probability(self, score: Vector) -> Vector:
        return np.asarray(expit(self.at + self.by * np.log(score) + self.beyond * score))

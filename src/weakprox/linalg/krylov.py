"""A Krylov space of a symmetric matrix that is extended block by block.

Leading eigenpairs of a large matrix come from such a space (Golub & Underwood 1977). Methods
that restart it, such as ARPACK, start from scratch if more eigenpairs are required. Here the
whole basis is kept, so that a search can extend the space. All products with the basis are
products of blocks, which run at the speed of BLAS 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weakprox.linalg import decompositions
from weakprox.linalg._thin_svd import tall_qr

Block = np.ndarray[Any, np.dtype[np.float64]]

WEAK = 1e-10  # share of the norm below which a direction is a rounding error
SMALL = 1e-2  # share of the norm from which one round of orthogonalisation is enough


class KrylovSpace:
    """Orthonormal basis Q of span(B, A B, A^2 B, ...) and the small matrix Q'AQ.

    Parameters
    ----------
    times : callable
        `times(B)` is A B for a block B of shape (size, block); A is symmetric.
    size : int
        Number of rows of A.
    most : int
        Largest number of basis vectors.
    block : int
        Vectors that are multiplied at a time.
    rng : numpy Generator
        Generates the first block, and new directions where the space is invariant.
    """

    def __init__(
        self,
        times: Callable[[Block], Block],
        size: int,
        *,
        most: int,
        block: int,
        rng: np.random.Generator,
    ) -> None:
        self._times, self._rng = times, rng
        self.most, self.block = min(most, size), min(block, most, size)
        # columns that are never written take no memory
        blocks = 1 + math.ceil(self.most / self.block)
        self._Q = np.empty((size, min(size, blocks * self.block)), order="F")
        self._H = np.zeros((self._Q.shape[1], self._Q.shape[1]))
        self.width = 0  # vectors that were multiplied
        self._next = self.block  # known vectors
        self._Q[:, : self.block] = tall_qr(rng.standard_normal((size, self.block)))[0]

    @property
    def complete(self) -> bool:
        """Return True if the largest number of vectors is reached."""
        return self.width >= self.most

    def extend(self, width: int) -> None:
        """Extend the space to at least this many vectors, as far as is allowed."""
        while self.width < min(width, self.most):
            first, last = self.width, self._next
            W = np.asfortranarray(self._times(np.ascontiguousarray(self._Q[:, first:last])))
            scale = float(np.abs(W).max(initial=0.0)) * np.sqrt(W.shape[0])
            self._H[:last, first:last] = self._orthogonalised(W, last)
            fresh = min(last - first, self._Q.shape[1] - last)
            self.width, self._next = last, last + fresh
            if not fresh:
                return
            Q, R = tall_qr(W)
            least = float(np.abs(np.diagonal(R)).min())
            if least <= WEAK * scale:
                Q, R = self._continued(W, WEAK * scale, last)
            elif least <= SMALL * scale:  # the division by R amplified rounding errors of W
                self._orthogonalised(Q, last)
                Q, again = tall_qr(Q)
                R = again @ R
            self._Q[:, last : last + fresh] = Q[:, :fresh]
            self._H[last : last + fresh, first:last] = R[:fresh]

    def _orthogonalised(self, W: Block, last: int) -> Block:
        """Subtract from W its part in the span of the basis, in place; return its coefficients.

        This is repeated if little is left, so that the basis stays orthonormal nearly to
        rounding.
        """
        Q = self._Q[:, :last]
        coefficients: Block = Q.T @ W
        W -= Q @ coefficients
        left, gone = np.linalg.norm(W, axis=0), np.linalg.norm(coefficients, axis=0)
        if np.any(left < SMALL * gone):
            again = Q.T @ W
            W -= Q @ again
            coefficients += again
        return coefficients

    def _continued(self, W: Block, least: float, last: int) -> tuple[Block, Block]:
        """The next block Q and Q'W, with random directions in addition to the few of W.

        The space is then partly invariant, and random directions lead out of it.
        """
        Q, sizes, _ = decompositions.svd(W)
        weak = sizes <= least
        Q[:, weak] = self._rng.standard_normal((Q.shape[0], int(weak.sum())))
        self._orthogonalised(Q, last)
        Q = tall_qr(Q)[0]
        return Q, Q.T @ W

    def ritz(self) -> tuple[Block, Block, Block]:
        """Ritz values by descending size, their coefficients, and norms of their residuals."""
        width = self.width
        H = self._H[:width, :width]
        values, W = decompositions.eigh(0.5 * (H + H.T))
        order = np.argsort(-np.abs(values))
        values, W = values[order], W[:, order]
        last = self._H[width : self._next, :width]
        return values, W, np.linalg.norm(last @ W, axis=0)

    def vectors(self, coefficients: Block) -> Block:
        """Vectors with these coefficients in the basis."""
        found: Block = self._Q[:, : self.width] @ coefficients
        return found

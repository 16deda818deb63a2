"""Singular values of an answer, and its nonzero entries."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from weakprox.arguments import one_of
from weakprox.linalg.arrays import to_numpy
from weakprox.plots._cells import as_matrix, draw_support, mark_blocks, support
from weakprox.plots._display import ResultDisplay
from weakprox.plots._panels import COLOURS

SUPPORT = 1e-2  # entries below this share of the largest are drawn as zero


class SpectrumDisplay(ResultDisplay):
    """Singular values and support of a low-rank, sparse matrix.

    Parameters
    ----------
    values : array of shape (r,)
        Singular values.
    matrix : array of shape (m, d)
        The matrix itself.
    labels : sequence of str, optional
        One per row; runs of equal ones are marked as blocks.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    """

    def __init__(self, *, values: Any, matrix: Any, labels: Any = None) -> None:
        self.values = np.sort(np.asarray(values, dtype=float).ravel())[::-1]
        self.matrix = as_matrix("matrix", matrix)
        self.labels = labels

    @classmethod
    def _of(cls, result: Any, model: Any) -> SpectrumDisplay:
        low_rank = getattr(model, "low_rank_", result.low_rank)
        return cls(values=to_numpy(low_rank.s), matrix=low_rank)

    def plot(self, ax: Any = None, *, kind: Literal["values", "support"] = "values") -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        kind : {"values", "support"}
            Singular values, or the nonzero entries.
        """
        one_of("kind", kind, ("values", "support"))
        ax = self._draw_on(ax)
        if kind == "values":
            ax.bar(np.arange(1, self.values.size + 1), self.values, color=COLOURS[0])
            ax.locator_params(axis="x", integer=True)
            ax.set(xlabel="index", ylabel="singular value")
            rank = int((self.values > 0.0).sum())
            ax.set_title(f"rank {rank}, nuclear norm {self.values.sum():.4g}")
            return self
        nonzero = support(self.matrix, SUPPORT)
        draw_support(ax, nonzero)
        mark_blocks(ax, nonzero.shape, self.labels)
        ax.set_title(f"support: {nonzero.mean():.0%} of entries")
        ax.set_xlabel(f"black: above {SUPPORT:.0%} of the largest entry")
        return self

"""Singular values of an answer, and which of its entries are not zero."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weakprox.errors import InputError
from weakprox.plots._draw import BLUE, as_matrix, axes_on, fitted_result, mark_blocks, one_of

SUPPORT = 1e-2  # entries below this share of the largest are drawn as zero


class SpectrumDisplay:
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
        Where it was drawn last.
    """

    def __init__(self, *, values: Any, matrix: Any, labels: Any = None) -> None:
        self.values = np.sort(np.asarray(values, dtype=float).ravel())[::-1]
        self.matrix = as_matrix("matrix", matrix)
        self.labels = labels
        self.ax_: Any = None
        self.figure_: Any = None

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **options: Any) -> SpectrumDisplay:
        """Draw the answer of a `Result`; keywords go to `plot`."""
        if not hasattr(result, "low_rank"):
            raise InputError("result", type(result).__name__, "a Result of minimize")
        return cls._of(result.low_rank, ax, options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, **options: Any
    ) -> SpectrumDisplay:
        """Draw the matrix that a model has learnt; keywords go to `plot`."""
        result = fitted_result(estimator)
        return cls._of(getattr(estimator, "low_rank_", result.low_rank), ax, options)

    @classmethod
    def _of(cls, low_rank: Any, ax: Any, options: dict[str, Any]) -> SpectrumDisplay:
        s = low_rank.s
        values = np.asarray(s.detach().cpu() if hasattr(s, "detach") else s, dtype=float)
        return cls(values=values, matrix=low_rank).plot(ax, **options)

    def plot(
        self, ax: Any = None, *, kind: Literal["values", "support"] = "values"
    ) -> SpectrumDisplay:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; on a new figure by default.
        kind : {"values", "support"}
            Singular values, or the entries that are not zero.

        Returns
        -------
        self
        """
        one_of("kind", kind, ("values", "support"))
        self.figure_, self.ax_ = axes_on(ax)
        if kind == "values":
            count = np.arange(1, self.values.size + 1)
            self.ax_.bar(count, self.values, color=BLUE)
            self.ax_.locator_params(axis="x", integer=True)
            self.ax_.set(xlabel="index", ylabel="singular value")
            rank = int((self.values > 0.0).sum())
            self.ax_.set_title(f"rank {rank}, nuclear norm {self.values.sum():.4g}")
            return self
        size = np.abs(self.matrix)
        nonzero = (size > SUPPORT * size.max()) & (size > 0.0)
        self.ax_.imshow(nonzero, cmap="Greys", vmin=0, vmax=1.25, interpolation="none")
        self.ax_.set_title(f"support: {nonzero.mean():.0%} of entries")
        mark_blocks(self.ax_, self.matrix.shape, self.labels, names=self.labels is not None)
        self.ax_.set_xlabel(f"black: above {SUPPORT:.0%} of the largest entry")
        return self

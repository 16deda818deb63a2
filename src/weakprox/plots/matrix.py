"""A labelled matrix: a covariance, a graph, an affinity, an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.plots._draw import (
    MOST_TICKS,
    as_matrix,
    axes_on,
    colour_limit,
    fitted_result,
    mark_blocks,
)

# What models call the matrix that they are about, in the order of preference.
NAMES = (
    "covariance_",
    "affinity_matrix_",
    "infectivity_",
    "adjacency_",
    "matrix_",
    "coef_",
)


class MatrixDisplay:
    """A matrix as a heat map, with names or blocks where there are labels.

    Parameters
    ----------
    matrix : array of shape (m, d)
        What to draw.
    labels : sequence of str, optional
        One per row. Runs of equal ones are marked as blocks, so sort rows by group first
        (see `order`).
    columns : sequence of str, optional
        One per column; shown if there are at most 30.
    order : sequence of int, optional
        Rows in the order to draw them, and columns too where the matrix is square.
    title : str
        Above the picture.

    Attributes
    ----------
    ax_, figure_, image_
        Where it was drawn last, and matplotlib's image.
    """

    def __init__(
        self,
        *,
        matrix: Any,
        labels: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        order: Any = None,
        title: str = "",
    ) -> None:
        M = as_matrix("matrix", matrix)
        labels = None if labels is None else [str(label) for label in labels]
        if labels is not None and len(labels) != M.shape[0]:
            raise ShapeError("labels", f"{len(labels)} of them", f"{M.shape[0]}, one per row")
        if columns is not None and len(columns) != M.shape[1]:
            given = f"{len(columns)} of them"
            raise ShapeError("columns", given, f"{M.shape[1]}, one per column")
        if order is not None:
            rows = np.asarray(order)
            if sorted(rows.tolist()) != list(range(M.shape[0])):
                raise InputError("order", "other numbers", f"each of 0 to {M.shape[0] - 1}")
            square = M.shape[0] == M.shape[1]
            M = M[rows][:, rows] if square else M[rows]
            labels = None if labels is None else [labels[row] for row in rows]
            if square and columns is not None:
                columns = [columns[row] for row in rows]
        self.matrix, self.labels, self.columns, self.title = M, labels, columns, title
        self.ax_: Any = None
        self.figure_: Any = None
        self.image_: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        attribute: str | None = None,
        ax: Any = None,
        labels: Sequence[str] | None = None,
        order: Any = None,
        **options: Any,
    ) -> MatrixDisplay:
        """Draw the matrix that a model is about; other keywords go to `plot`.

        `attribute` names it; by default `covariance_`, `affinity_matrix_` and the like,
        whichever the model has. Columns are named as those of the data were.
        """
        fitted_result(estimator)
        found = [name for name in NAMES if getattr(estimator, name, None) is not None]
        name = attribute or next(iter(found), None)
        if name is None or not hasattr(estimator, name):
            wanted = "an attribute that holds a matrix"
            raise InputError("attribute", repr(attribute), wanted)
        M = as_matrix(name, getattr(estimator, name))
        columns = getattr(estimator, "feature_names_in_", None)
        if columns is not None and len(columns) != M.shape[1]:
            columns = None
        if labels is None and columns is not None and M.shape[0] == M.shape[1]:
            labels = [str(column) for column in columns]
        title = f"{type(estimator).__name__}: {name.rstrip('_').replace('_', ' ')}"
        display = cls(matrix=M, labels=labels, columns=columns, order=order, title=title)
        return display.plot(ax, **options)

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **options: Any) -> MatrixDisplay:
        """Draw the answer of a `Result`; keywords go to `plot`."""
        if not hasattr(result, "low_rank"):
            raise InputError("result", type(result).__name__, "a Result of minimize")
        title = f"the answer, rank {result.rank}"
        return cls(matrix=result.low_rank, title=title).plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        cmap: str | None = None,
        limit: float | None = None,
        colorbar: bool = True,
    ) -> MatrixDisplay:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; on a new figure by default.
        cmap : str, optional
            Colours; by default blue to red, or white to blue where no entry is negative.
        limit : float, optional
            Size at which colours end; by default one that a few huge entries do not decide.
        colorbar : bool
            Whether to draw a scale.

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = axes_on(ax)
        signed = bool(np.nanmin(self.matrix) < 0.0)
        most = colour_limit(self.matrix) if limit is None else float(limit)
        self.image_ = self.ax_.imshow(
            self.matrix,
            cmap=cmap or ("RdBu_r" if signed else "Blues"),
            vmin=-most if signed else 0.0,
            vmax=most,
            interpolation="none",
            aspect="equal" if self.matrix.shape[0] == self.matrix.shape[1] else "auto",
        )
        mark_blocks(self.ax_, self.matrix.shape, self.labels, names=True)
        if self.columns is not None and len(self.columns) <= MOST_TICKS:
            names = [str(name) for name in self.columns]
            self.ax_.set_xticks(range(len(names)), names, rotation=90, fontsize="small")
        if colorbar:
            self.figure_.colorbar(self.image_, ax=self.ax_, shrink=0.8)
        self.ax_.set_title(self.title)
        return self

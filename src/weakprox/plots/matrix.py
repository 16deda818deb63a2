"""A labelled matrix: a covariance, a graph, an affinity, an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakprox.arguments import positive
from weakprox.errors import InputError, ShapeError
from weakprox.plots._cells import as_matrix, draw_cells, mark_blocks, name_lines
from weakprox.plots._display import ResultDisplay, fitted_result

# Attributes that hold a model's matrix, in the order of preference.
NAMES = ("covariance_", "affinity_matrix_", "infectivity_", "adjacency_", "matrix_", "coef_")


class MatrixDisplay(ResultDisplay):
    """A matrix as a heat map, with names or blocks if there are labels.

    Parameters
    ----------
    matrix : array of shape (m, d)
        The matrix to draw.
    labels : sequence of str, optional
        One per row. Runs of equal ones are marked as blocks, so sort rows by group first
        (see `order`).
    columns : sequence of str, optional
        One per column; shown if there are at most 30.
    order : sequence of int, optional
        Order of the rows, and of the columns too if the matrix is square.
    title : str
        Above the picture.

    Attributes
    ----------
    ax_, figure_, image_
        Axes, figure and matplotlib's image of the last call of `plot`.
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
        columns = None if columns is None else [str(column) for column in columns]
        named = (("labels", labels, "row"), ("columns", columns, "column"))
        for (name, texts, line), size in zip(named, M.shape, strict=True):
            if texts is not None and len(texts) != size:
                raise ShapeError(name, f"{len(texts)} of them", f"{size}, one per {line}")
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
        """Draw a model's matrix; other keywords go to `plot`.

        `attribute` names it; by default the first of `covariance_`, `affinity_matrix_`,
        `infectivity_`, `adjacency_`, `matrix_` and `coef_` that the model has. Columns have
        the names of the data's columns.
        """
        found = [name for name in NAMES if getattr(estimator, name, None) is not None]
        if not found:
            fitted_result(estimator)
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
    def _of(cls, result: Any, model: Any) -> MatrixDisplay:
        return cls(matrix=result.low_rank, title=f"the answer, rank {result.rank}")

    def plot(
        self,
        ax: Any = None,
        *,
        cmap: str | None = None,
        limit: float | None = None,
        colorbar: bool = True,
    ) -> MatrixDisplay:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        cmap : str, optional
            Colours; by default blue to red, or white to blue if no entry is negative.
        limit : float, optional
            Size at which colours end; by default the 0.99 quantile of nonzero entries.
        colorbar : bool
            Whether to draw a scale.
        """
        ax, signed = self._draw_on(ax), bool(np.nanmin(self.matrix) < 0.0)
        self.image_ = draw_cells(
            ax,
            self.matrix,
            limit=None if limit is None else positive("limit", limit),
            cmap=cmap or ("RdBu_r" if signed else "Blues"),
            signed=signed,
            colorbar=colorbar,
        )
        mark_blocks(ax, self.matrix.shape, self.labels)
        name_lines(ax, None, self.columns)
        ax.set_title(self.title)
        return self

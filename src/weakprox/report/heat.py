"""Heat maps: a matrix as at most 300 x 300 coloured cells with names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from weakprox.errors import InputError
from weakprox.report.blocks import Figure
from weakprox.report.encode import rounded
from weakprox.report.reduce import Reduced, as_rows, cell_names, colour_limit, reduced

DIGITS = 5  # of an entry: the eye sees two, and pages stay small


@dataclass(frozen=True)
class Heatmap(Figure):
    """A matrix in colours: diverging about zero, or black and white."""

    cells: list[list[float | int | None]]
    rows: list[str]
    columns: list[str]
    limit: float
    binary: bool
    reduced: bool
    kind: ClassVar[str] = "heatmap"

    def data(self) -> dict[str, Any]:
        """Cells with the names of their rows and columns."""
        return {
            "kind": self.kind,
            "title": self.title,
            "cells": self.cells,
            "rows": self.rows,
            "columns": self.columns,
            "limit": self.limit,
            "binary": self.binary,
            "reduced": self.reduced,
        }

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        note: str | None,
        matrix: Any,
        row_labels: Sequence[Any] | None,
        column_labels: Sequence[Any] | None,
        *,
        limit: float | None,
        binary: bool,
        most: int,
    ) -> Heatmap:
        """Reduce the matrix if it must be, name its cells, choose where colours end."""
        done = isinstance(matrix, Reduced)
        small = matrix if done else reduced(as_rows("matrix", matrix), most)
        ends = colour_limit(small.cells) if limit is None else float(limit)
        if not ends > 0.0:
            raise InputError("limit", limit, "a number > 0")
        words = " ".join(part for part in (note, small.words) if part)
        return cls(
            name,
            title,
            words or None,
            rounded(small.cells, DIGITS),
            cell_names("row_labels", row_labels, small.row_edges),
            cell_names("column_labels", column_labels, small.column_edges),
            ends,
            bool(binary),
            small.words is not None,
        )

"""A problem stated by a file and a few numbers."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.arguments import positive
from weakprox.cli.defaults import Choice, choose, value_at_zero
from weakprox.distributed.remote import handed_over
from weakprox.errors import InputError
from weakprox.linalg.arrays import largest
from weakprox.linalg.tiled import Tiled, as_tiled, is_chunked
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.resources.limits import room
from weakprox.resources.memory import budget, on_disk
from weakprox.solvers.base import ARRAYS
from weakprox.spectral import NuclearBall, TracePSD
from weakprox.storage import FileError, Table, read_matrix
from weakprox.storage.table import claim

DEFAULT_TOL = 1e-3


@dataclass(frozen=True)
class Case:
    """What is to be solved, where it comes from, and how accurately."""

    table: Table
    matrix: Any  # dense; a memory map where the file is one
    problem: Problem
    choice: Choice
    psd: bool
    eps: float
    tol: float | None

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers that state the problem."""
        return {
            "file": str(self.table.source),
            "shape": list(self.table.shape),
            "dtype": str(self.matrix.dtype),
            "row_labels": self.table.rows is not None,
            "column_labels": self.table.columns is not None,
            "lam": self.choice.lam,
            "tau": self.choice.tau,
            "chosen": self.choice.notes,
            "noise": self.choice.noise,
            "psd": self.psd,
            "eps": self.eps,
            "tol": self.tol,
        }

    def lines(self) -> list[tuple[str, str]]:
        """For the reader: what was taken for labels, the weights and how they were chosen."""
        found = []
        if self.table.format in ("csv", "tsv"):  # where that was found out by looking
            sides = ("first row", self.table.columns), ("first column", self.table.rows)
            read = " and ".join(side for side, labels in sides if labels is not None)
            if read:
                found.append(("labels", f"the {read} of the file"))
        for name in ("lam", "tau"):
            note = self.choice.notes.get(name)
            text = f"{getattr(self.choice, name):.6g}"
            found.append((name, text if note is None else f"{text}   (chosen: {note})"))
        return found


def load(
    file: Path,
    *,
    lam: float | None,
    tau: float | None,
    psd: bool,
    eps: float | None,
    tol: float | None,
    key: str | None = None,
    header: bool | None = None,
    run: bool = True,
    client: Any = None,
) -> Case:
    """Read the file and state the problem; bad input is refused before any work.

    With `run` there must be room for a run as well; with a dask client that is on its
    workers, to whom the matrix is handed over.
    """
    if eps is not None and tol is not None:
        raise InputError("eps", "both --eps and --tol", "one of them")
    if eps is not None:
        eps = positive("eps", eps)
    tol = positive("tol", DEFAULT_TOL if tol is None else tol) if eps is None else None
    table = read_matrix(file, key=key, header="auto" if header is None else header)
    matrix = _placed(table)
    if psd and matrix.shape[0] != matrix.shape[1]:
        m, d = matrix.shape
        raise FileError(file, f"a matrix of {m} x {d}", "a square one, for --psd")
    if client is None and (run or lam is None or tau is None):  # to choose takes as much
        _check_room(table, matrix, psd)
    try:
        loss = Denoising(matrix if client is None else handed_over(client, file, matrix))
        _check_squares(file, matrix)
        choice = choose(matrix, lam, tau, psd)
        spectral = TracePSD(choice.tau) if psd else NuclearBall(choice.tau)
        problem = Problem(loss, L1(choice.lam), spectral)
    except InputError as error:
        if error.argument != "M":
            raise
        given = str(error.given).removesuffix(", with TracePSD")
        raise FileError(file, given, str(error.wanted)) from None
    if eps is None:
        assert tol is not None
        eps = tol * value_at_zero(matrix)
        if eps == 0.0:
            raise FileError(file, "only zeros", "an accuracy by --eps, or another matrix")
    _check_weights(matrix, problem, choice.lam, eps, "eps" if tol is None else "tol")
    return Case(table, matrix, problem, choice, psd, eps, tol)


def _placed(table: Table) -> Any:
    """The matrix in memory if a run fits there with it; where it lies on disk if not."""
    values = table.values
    if not is_chunked(values) and not on_disk(values):
        return table.dense()
    size = math.prod(table.shape) * max(4, values.dtype.itemsize)
    if (1 + ARRAYS["LeanSplitting"].peak) * size <= room():
        return np.array(table.dense())
    return as_tiled(values) if is_chunked(values) else values


def _check_room(table: Table, matrix: Any, psd: bool) -> None:
    """Raise unless the arrays of a run fit into memory.

    What is on disk may stay there, together with X, where a budget says so.
    """
    parts = isinstance(matrix, Tiled) or on_disk(matrix)
    if parts and not psd and budget() is not None:
        return
    m, d = table.shape
    more = int(ARRAYS["SVRGCG" if psd else "LeanSplitting"].peak) + (1 if parts and psd else 0)
    what = f"{m} x {d} entries of {matrix.dtype}: a run takes {more} more arrays of this size"
    claim(table.source, more * m * d * matrix.dtype.itemsize, None, what)


def _check_squares(file: Path, matrix: Any) -> None:
    """Raise where the squares of small entries vanish, and with them the value at zero."""
    most = largest(matrix)
    if most > 0.0 and value_at_zero(matrix) < sys.float_info.min:
        given = f"entries up to {most:.1e}, whose squares underflow"
        wanted = f"larger ones: multiply the matrix, --lam and --tau by {1.0 / most:.0e}, say"
        raise FileError(file, given, wanted)


def _check_weights(matrix: Any, problem: Problem, lam: float, eps: float, asked: str) -> None:
    """Raise where lam is so large, or eps so small, that the smoothing underflows."""
    limit = 0.01 * math.sqrt(float(np.finfo(matrix.dtype).max) / matrix.size)
    constants = problem.constants()
    # beta, and the number of steps, which is some thousands of it
    endless = constants.theta * constants.gamma / eps > 1e-9 * sys.float_info.max
    most = largest(matrix)
    if lam > limit or (endless and lam > most):
        given = f"{lam:g}, with which the smoothing underflows"
        raise InputError("lam", given, f"less: from {most:.6g}, the largest entry, X is 0")
    if endless:
        given = f"an accuracy of {eps:.1e} in the value, with which the smoothing underflows"
        raise InputError(asked, given, "a larger one")

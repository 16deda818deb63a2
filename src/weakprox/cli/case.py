"""A problem given by a file and a few numbers."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakprox._minimize import SMALLEST
from weakprox.arguments import accuracy, nonnegative, positive
from weakprox.cli.reading import AS_FOUND, Reading
from weakprox.distributed.remote import handed_over
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, largest, norm
from weakprox.linalg.tiled import Tiled, as_tiled, is_chunked
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.resources.memory import budget, on_disk, room
from weakprox.solvers.base import ARRAYS, SMALL
from weakprox.spectral import NuclearBall, TracePSD
from weakprox.storage import FileError, Table
from weakprox.storage.table import claim

GUESSED = ("csv", "tsv", "txt", "xlsx", "ods")  # formats whose labels are guessed
TOL = 1e-4  # of `minimize` and of `SparseLowRank`, relative to the value


@dataclass(frozen=True)
class Case:
    """The problem to solve, its source, and the accuracy."""

    table: Table
    matrix: Any  # dense; a memory map if the file can be mapped
    problem: Problem
    lam: float
    tau: float
    psd: bool
    eps: float  # with tol, that of the value at zero, since the answer is not known
    tol: float | None  # None if eps was given
    noise: float | None = None  # estimated, if lam or tau was chosen,
    scale: float | None = None  # and the factor that undoes the shrinkage
    chosen: tuple[str, ...] = ()  # "lam", "tau"

    @property
    def accuracy(self) -> dict[str, Any]:
        """The accuracy for `minimize`."""
        return {"eps": self.eps} if self.tol is None else {"tol": self.tol}

    def eps_at(self, X: Array) -> float:
        """The absolute accuracy if X is the answer, as in `minimize`."""
        if self.tol is None:
            return self.eps
        size = 0.5 * norm(X) ** 2
        return self.tol * max(abs(self.problem.smooth_value(X)), SMALL * size)

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers that define the problem."""
        return {
            "file": str(self.table.source),
            "shape": list(self.table.shape),
            "dtype": str(self.matrix.dtype),
            "row_labels": self.table.rows is not None,
            "column_labels": self.table.columns is not None,
            "lam": self.lam,
            "tau": self.tau,
            "chosen": dict.fromkeys(self.chosen, "held-out data"),
            "noise": self.noise,
            "scale": self.scale,
            "psd": self.psd,
            "eps": self.eps,
            "tol": self.tol,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Lines for the reader: labels found, lam and tau, and how they were chosen."""
        found = []
        if self.table.notes:
            found.append(("read as", ", ".join(self.table.notes)))
        if self.table.format in GUESSED:
            sides = ("first row", self.table.columns), ("first column", self.table.rows)
            read = " and ".join(side for side, labels in sides if labels is not None)
            if read:
                found.append(("labels", f"the {read} of the file"))
        for name, value in (("lam", self.lam), ("tau", self.tau)):
            note = "   (chosen by held-out data)" if name in self.chosen else ""
            found.append((name, f"{value:.6g}{note}"))
        if self.chosen:
            how = "by which X is multiplied to undo the shrinkage"
            found.append(("noise", f"{self.noise:.4g} in each entry (estimated)"))
            found.append(("scale", f"{self.scale:.4g}   ({how})"))
        return found


def load(
    file: Path,
    *,
    lam: float | None,
    tau: float | None,
    psd: bool,
    eps: float | None,
    tol: float | None,
    reading: Reading = AS_FOUND,
    max_seconds: float | None = None,
    run: bool = True,
    client: Any = None,
    **search: Any,
) -> Case:
    """Read the file and set up the problem; bad input is rejected before any work.

    With `run` there must be room for a run as well. With a dask client, the matrix is sent to
    the workers, which need the room instead. Further keywords are for the choice of lam and
    tau.
    """
    if eps is not None and tol is not None:
        raise InputError("eps", "both --eps and --tol", "one of them")
    if eps is not None:
        eps = positive("eps", eps)
    tol = accuracy("tol", TOL if tol is None else tol) if eps is None else None
    lam = None if lam is None else nonnegative("lam", lam)
    tau = None if tau is None else positive("tau", tau)
    chosen = tuple(name for name, x in (("lam", lam), ("tau", tau)) if x is None)
    table = reading.table(file)
    matrix = _placed(table)
    if psd and matrix.shape[0] != matrix.shape[1]:
        m, d = matrix.shape
        raise FileError(file, f"a matrix of {m} x {d}", "a square one, for --psd")
    if client is None and (run or chosen):  # the choice takes as much
        _check_room(table, matrix, psd)
    try:
        loss = Denoising(matrix if client is None else handed_over(client, file, matrix))
        _check_squares(file, matrix)
        term = TracePSD if psd else NuclearBall
        noise = scale = None
        if lam is None or tau is None:
            from weakprox.selection.denoise import choose_weights

            Problem(loss, L1(0.0), term(1.0))  # rejects unsuitable data before any work
            search |= {"psd": psd, "max_seconds": max_seconds}
            noise, found = choose_weights(matrix, lam, tau, **search)
            lam, tau, scale = found.lam, found.tau, found.scale
        problem = Problem(loss, L1(lam), term(tau))
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
    _check_weights(matrix, problem, lam, eps, "eps" if tol is None else "tol")
    return Case(table, matrix, problem, lam, tau, psd, eps, tol, noise, scale, chosen)


def value_at_zero(M: Array) -> float:
    """Half the squared Frobenius norm, the loss at X = 0."""
    return 0.5 * norm(M) ** 2


def _placed(table: Table) -> Any:
    """The matrix in memory if a run with it fits there, else on disk."""
    values = table.values
    if not is_chunked(values) and not on_disk(values):
        return table.dense()
    size = math.prod(table.shape) * max(4, values.dtype.itemsize)
    if (1 + ARRAYS["LeanSplitting"].peak) * size <= room():
        return np.array(table.dense())
    return as_tiled(values) if is_chunked(values) else values


def _check_room(table: Table, matrix: Any, psd: bool) -> None:
    """Raise unless a run's arrays fit into memory; with a budget, M and X may stay on disk."""
    parts = isinstance(matrix, Tiled) or on_disk(matrix)
    if parts and not psd and budget() is not None:
        return
    m, d = table.shape
    more = int(ARRAYS["SVRGCG" if psd else "LeanSplitting"].peak) + (1 if parts and psd else 0)
    what = f"{m} x {d} entries of {matrix.dtype}: a run takes {more} more arrays of this size"
    claim(table.source, more * m * d * matrix.dtype.itemsize, None, what)


def _check_squares(file: Path, matrix: Any) -> None:
    """Raise if the squares of small entries underflow."""
    most = largest(matrix)
    if 0.0 < most < SMALLEST:
        given = f"entries up to {most:.1e}, whose squares underflow"
        wanted = f"larger ones: multiply the matrix, --lam and --tau by {1.0 / most:.0e}, say"
        raise FileError(file, given, wanted)


def _check_weights(matrix: Any, problem: Problem, lam: float, eps: float, asked: str) -> None:
    """Raise if lam is so large, or eps so small, that the smoothing underflows."""
    limit = 0.01 * math.sqrt(float(np.finfo(matrix.dtype).max) / matrix.size)
    constants = problem.constants()
    # beta, and the number of steps, which is some thousand times larger
    endless = constants.theta * constants.gamma / eps > 1e-9 * sys.float_info.max
    most = largest(matrix)
    if lam > limit or (endless and lam > most):
        given = f"{lam:g}, with which the smoothing underflows"
        raise InputError("lam", given, f"less: from {most:.6g}, the largest entry, X is 0")
    if endless:
        given = f"an accuracy of {eps:.1e} in the value, with which the smoothing underflows"
        raise InputError(asked, given, "a larger one")

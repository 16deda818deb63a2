"""A problem stated by a file and a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weakprox.cli.defaults import Choice, choose, value_at_zero
from weakprox.errors import InputError, positive
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.spectral import NuclearBall, TracePSD
from weakprox.storage import FileError, Table, read_matrix

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
            "lam": self.choice.lam,
            "tau": self.choice.tau,
            "chosen": self.choice.notes,
            "noise": self.choice.noise,
            "psd": self.psd,
            "eps": self.eps,
            "tol": self.tol,
        }

    def lines(self) -> list[tuple[str, str]]:
        """The weights for the reader, with how they were chosen."""
        found = []
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
) -> Case:
    """Read the file and state the problem; bad input is refused before any work."""
    if eps is not None and tol is not None:
        raise InputError("eps", "both --eps and --tol", "one of them")
    if eps is not None:
        eps = positive("eps", eps)
    tol = positive("tol", DEFAULT_TOL if tol is None else tol) if eps is None else None
    table = read_matrix(file, key=key, header="auto" if header is None else header)
    matrix = table.dense()
    if psd and matrix.shape[0] != matrix.shape[1]:
        m, d = matrix.shape
        raise FileError(file, f"a matrix of {m} x {d}", "a square one, for --psd")
    try:
        loss = Denoising(matrix)
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
    return Case(table, matrix, problem, choice, psd, eps, tol)

"""How many arrays of the size of X a solver holds: one statement, for plans and choices."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from weakprox.linalg.arrays import BLOCK_BYTES, is_numpy, itemsize
from weakprox.passes import COMPILED_FROM
from weakprox.resources.limits import room

TILES = 7  # blocks of rows that passes hold at once
COMPILER = 120 << 20  # bytes of numba and what it has compiled
ON_DEVICE = 16 << 30  # bytes of an accelerator that may be taken up without asking
EACH_SIDE = 6  # thin blocks that a decomposition holds at once, for rows and for columns


@dataclass(frozen=True)
class Arrays:
    """Arrays of the size of X held at the peak, beside the data.

    `first` in the first 16 iterations (before there is a checkpoint beside the state), `work`
    while iterating on, `proof` more for a moment, while f is evaluated or a bound proved
    or the answer cut to its rank; `width` is the usual width of thin blocks. `wide` is what
    all of that can grow to where decompositions are full ones. `tiles` says whether data are
    read in parts, and X is too if it has to be.
    """

    first: float
    work: float
    proof: float = 0.0
    width: int = 16
    wide: float | None = None
    tiles: bool = False

    @property
    def peak(self) -> float:
        """Of an ordinary run."""
        return self.work + self.proof

    @property
    def most(self) -> float:
        """Of any run."""
        return self.peak if self.wide is None else self.wide


# Measured by benchmarks/memory.py, which prints them anew.
ARRAYS = {
    "LeanSplitting": Arrays(1, 2, tiles=True),
    "DavisYin": Arrays(7.5, 22.5, wide=27),
    "DualAscent": Arrays(7.5, 7.5),
    "Extragradient": Arrays(23, 28),
    "SVRGCG": Arrays(2.5, 3.5),
    "AdaptiveSVRGCG": Arrays(6.5, 6.5),
    "SampleAverage": Arrays(66, 66),
    "SCG": Arrays(4, 4, proof=6),
    "SCGS": Arrays(4, 4, proof=4.5),
    "STORC": Arrays(4, 4, proof=6),
    "SVRF": Arrays(4, 4, proof=5.5),
    "HCGM": Arrays(4, 4, proof=5.5),
    "SHCGM": Arrays(4, 4, proof=6.5),
    "FISTA": Arrays(10, 10, proof=6),
    "ProjectedSubgradient": Arrays(4, 4, proof=6.5),
}


def arrays_of(solver: Any) -> Arrays | None:
    """What the solver holds: its own statement, or that of the table; None if unknown."""
    own = getattr(solver, "arrays", None)
    name = solver.__name__ if isinstance(solver, type) else type(solver).__name__
    return own if isinstance(own, Arrays) else ARRAYS.get(name)


def library_bytes(problem: Any, arrays: Arrays) -> int:
    """Bytes of the compiler behind compiled passes, where it is yet to be loaded."""
    large = math.prod(problem.shape) >= COMPILED_FROM
    wanted = arrays.tiles and large and is_numpy(problem.loss.reference)
    return compiler_bytes() if wanted else 0


def compiler_bytes() -> int:
    """Bytes of numba, if it is there and not loaded yet."""
    absent = "numba" in sys.modules or find_spec("numba") is None
    return 0 if absent else COMPILER


def left_for_arrays() -> int:
    """Bytes that arrays may take: the compiler may come, too."""
    return max(0, room() - compiler_bytes())


def array_bytes(problem: Any) -> int:
    """Bytes of one array of the size of X."""
    return int(math.prod(problem.shape)) * itemsize(problem.loss.reference)


def thin_bytes(problem: Any, arrays: Arrays) -> int:
    """Bytes of thin blocks and of tiles: what is held beside whole arrays."""
    m, d = problem.shape
    width = min(arrays.width, m, d)
    row = d * itemsize(problem.loss.reference)
    tile = max(row, min(BLOCK_BYTES, m * row))
    return int(EACH_SIDE * width * (m + d) * 8 + TILES * tile)

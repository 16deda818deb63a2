"""The base class of solvers: what a run reads of one, with a default for each member."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from weakprox.errors import InputError
from weakprox.linalg.arrays import BLOCK_BYTES, Array, itemsize
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint

if TYPE_CHECKING:
    from weakprox.certificates.sampled import Proof
    from weakprox.solvers.tools import Tools
    from weakprox.solvers.warm import Warmth

REQUIRED = ("check", "start", "step", "finished", "candidate", "dual")
TILES = 7  # blocks of rows that passes hold at once
EACH_SIDE = 6  # thin blocks that a decomposition holds at once, for rows and for columns
ON_DEVICE = 16 << 30  # bytes of an accelerator that a run may use without asking


@dataclass(frozen=True)
class Arrays:
    """Arrays of the size of X that a solver holds at its peak, beside the data."""

    first: float  # in the first 16 iterations, before a checkpoint is held beside the state
    work: float  # in a longer run
    proof: float = 0.0  # more while f is evaluated, a bound proved or the answer cut
    width: int = 16  # usual width of thin blocks
    wide: float | None = None  # the largest total, if decompositions become full ones
    tiles: bool = False  # whether data are read in parts, and X too if it has to be

    @property
    def peak(self) -> float:
        """Arrays of an ordinary run."""
        return self.work + self.proof

    @property
    def most(self) -> float:
        """Arrays of any run."""
        return self.peak if self.wide is None else self.wide


# Measured by benchmarks/memory.py, which prints the table.
ARRAYS = {
    "LeanSplitting": Arrays(1, 2, tiles=True),
    "Thresholding": Arrays(0, 0, width=64, tiles=True),
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


def array_bytes(problem: Problem) -> int:
    """Return the bytes of one array of the size of X."""
    return int(math.prod(problem.shape)) * itemsize(problem.loss.reference)


def thin_bytes(problem: Problem, arrays: Arrays) -> int:
    """Return the bytes of thin blocks and of tiles, which are held beside whole arrays."""
    m, d = problem.shape
    width = min(arrays.width, m, d)
    row = d * itemsize(problem.loss.reference)
    tile = max(row, min(BLOCK_BYTES, m * row))
    return int(EACH_SIDE * width * (m + d) * 8 + TILES * tile)


class Method:
    """A solver: a frozen dataclass of settings. All state lives in the memory.

    A subclass defines `check`, `start`, `step`, `finished`, `candidate` and `dual`, and
    overrides what differs from the defaults. A run reads of a memory: `X`, `epoch`, `rank`
    and `parameters`.
    """

    __slots__ = ()

    relative: ClassVar[bool] = False  # works towards `tol`; otherwise plans for an `eps`
    elsewhere: ClassVar[bool] = False  # can work if data and X are not in this process
    warm_starts: ClassVar[bool] = False  # `warm` continues from the dual point of a neighbour
    stores: ClassVar[tuple[type, ...]] = ()  # classes that a memory consists of, for files

    @property
    def answer(self) -> Literal["low_rank", "iterate"]:
        """Which point is returned: the best low-rank point, or the last iterate."""
        return "low_rank"

    @property
    def arrays(self) -> Arrays | None:
        """Arrays the size of X that it holds; None if unknown."""
        return ARRAYS.get(type(self).__name__)

    @property
    def fallback(self) -> Method | None:
        """Method that takes over after `TooWide`; None if there is none."""
        return None

    def check(self, problem: Problem) -> None:
        """Raise on settings that cannot work for this problem."""
        raise NotImplementedError

    def start(self, problem: Problem, X: Array | None, tools: Tools) -> Any:
        """Return the memory before the first step."""
        raise NotImplementedError

    def warm(self, problem: Problem, past: Warmth, tools: Tools) -> Any:
        """Return the memory to start with near the end of a neighbouring problem's run."""
        raise NotImplementedError

    def step(self, problem: Problem, memory: Any, tools: Tools) -> Any:
        """Return the memory after one outer step; call `tools.tick` after each inner one."""
        raise NotImplementedError

    def finished(self, memory: Any) -> bool:
        """Return True if the work that the theory asks for is done."""
        raise NotImplementedError

    def candidate(self, memory: Any) -> Candidate:
        """Return the point that the run evaluates between outer steps."""
        raise NotImplementedError

    def dual(self, problem: Problem, memory: Any) -> DualPoint:
        """Return the dual point to certify with."""
        raise NotImplementedError

    def promised(self, memory: Any) -> float:
        """Return a bound on the expected error of a finished run; infinite if none."""
        return math.inf

    def oracle_excess(self, memory: Any) -> float:
        """Return what the oracle's measured inexactness adds to the promise."""
        return 0.0

    def affordable(self, problem: Problem) -> bool:
        """Return True if there is room for a proof that needs more arrays than a step."""
        return True

    def proof(self, memory: Any) -> Proof | None:
        """Return the solver's own certificate from samples, if it has one."""
        return None

    def stalled(self, memory: Any) -> int:
        """Return the iterations since the gap last shrank; 0 if it is not known."""
        return 0

    def is_cut(self, memory: Any) -> bool:
        """Return True if a cap on the rank left out more than the accuracy allows."""
        return bool(getattr(memory, "cut", False))

    def predicted_svds(self, memory: Any) -> int:
        """Return the number of decompositions planned; 0 if there is no plan."""
        return int(getattr(memory.parameters, "predicted_svds", 0))


def as_method(solver: Any) -> Method:
    """Return the solver as a `Method`; one that does not derive from it gets the defaults.

    Raises
    ------
    InputError
        If it is not a dataclass of settings, or lacks a required member.
    """
    kind: Any = type(solver)
    settings = isinstance(solver, Method) or (is_dataclass(solver) and hasattr(kind, "step"))
    if isinstance(solver, type) or not settings:
        given = solver.__name__ if isinstance(solver, type) else repr(solver)
        wanted = "a solver object such as SVRGCG(rank=10), a solver class or a solver's name"
        raise InputError("solver", given, wanted)
    # an inherited declaration of `Method` is no definition
    required = (*REQUIRED, "warm") if getattr(kind, "warm_starts", False) else REQUIRED
    declared = [vars(Method)[name] for name in required]
    missing = [
        name
        for name, own in zip(required, declared, strict=True)
        if not callable(getattr(kind, name, None)) or getattr(kind, name) is own
    ]
    if missing:
        given = f"{kind.__name__}, which has no {', '.join(missing)}"
        wanted = f"a solver with {', '.join(REQUIRED)}: see docs/extend.md"
        raise InputError("solver", given, wanted)
    if isinstance(solver, Method):
        return solver
    twin: Any = copy.copy(solver)
    object.__setattr__(twin, "__class__", _with_defaults(kind))
    return twin  # type: ignore[no-any-return]


@cache
def _with_defaults(kind: type) -> type:
    """Return the class with those members of `Method` that it does not define itself."""
    same = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (kind, Method), {**same, "__slots__": ()})

"""The base class of solvers, copies of their state, and what a run passes to them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from weakprox.certificates.sampled import Proof
from weakprox.certificates.split import SplitDual, reflected_dual
from weakprox.errors import InputError
from weakprox.linalg.arrays import (
    BLOCK_BYTES,
    SHARED,
    Arena,
    Array,
    namespace,
    on_cpu,
    sqnorm,
    zeros,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.metering import Meter, MeteredLoss, MeteredSpectral, gradient
from weakprox.passes.blocks import BlockPattern
from weakprox.problem import Problem
from weakprox.protocols import Candidate, DualPoint, OwnBound, Penalty, Tick
from weakprox.resources.memory import room

REQUIRED = ("check", "start", "step", "finished", "candidate", "dual")
TILES = 7  # blocks of rows that passes hold at once
EACH_SIDE = 6  # thin blocks that a decomposition holds at once, for rows and for columns
ON_DEVICE = 16 << 30  # bytes that are assumed to be free on an accelerator other than CUDA
SMALL = 1e-5  # smallest value of f, as a share of the size of its point, that `tol` refers to

T = TypeVar("T")


def replace(record: T, /, **changes: Any) -> T:
    """Copy of a frozen dataclass with other values of some fields.

    Like `dataclasses.replace`, which calls the constructor and takes ten times as long. The
    class must have neither slots nor `__post_init__`.
    """
    old = record.__dict__
    if not changes.keys() <= old.keys():
        unknown = ", ".join(sorted(changes.keys() - old.keys()))
        raise TypeError(f"{type(record).__name__} has no field {unknown}")
    new = object.__new__(type(record))
    new.__dict__.update(old)
    new.__dict__.update(changes)
    return new


@dataclass(frozen=True)
class Arrays:
    """Arrays of the size of X that a solver holds at its peak, beside data and weights."""

    # in the first 16 iterations, before a checkpoint is kept in addition to the state
    first: float
    work: float  # in a longer run
    proof: float = 0.0  # more while f is evaluated, a bound proved or the answer truncated
    width: int = 16  # usual width of thin blocks
    wide: float | None = None  # the largest total, if full decompositions are needed
    tiles: bool = False  # whether data are read in parts, and X too if it has to be
    vectors: float = 0.0  # vectors with one number for each observed entry

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
    "FactoredProximal": Arrays(0, 0, width=64, vectors=12),
    "FilledProximal": Arrays(8, 14, proof=2, width=64),
    "DenseProximal": Arrays(0, 0, width=32),
    "ADMM": Arrays(16, 20),
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
    return int(math.prod(problem.shape) * problem.loss.reference.dtype.itemsize)


def thin_bytes(problem: Problem, arrays: Arrays) -> int:
    """Return the bytes of thin blocks, vectors and tiles, held beside whole arrays."""
    m, d = problem.shape
    width = min(arrays.width, m, d)
    data = problem.observed if arrays.vectors else None
    if data is not None:  # X is in factors
        taken = arrays.vectors * data.size * 8
        if isinstance(data.pattern, BlockPattern):
            taken = data.pattern.read_bytes
        return int(EACH_SIDE * width * (m + d) * 8 + taken)
    row = d * problem.loss.reference.dtype.itemsize
    tile = max(row, min(BLOCK_BYTES, m * row))
    return int(EACH_SIDE * width * (m + d) * 8 + TILES * tile)


@dataclass(frozen=True)
class Tools:
    """Oracles that count their calls, named random streams, and callbacks of the run.

    `tick` reports an inner step; `choose` returns the default solver of a problem. `eps` is
    the absolute accuracy to aim at; if `tol` is not 0, the aim is relative to f instead.
    """

    problem: Problem
    meter: Meter
    eps: float
    seed: int
    tick: Tick
    choose: Callable[[Problem, int | None], Method]
    arena: Arena = SHARED
    tol: float = 0.0
    # objects that a method computes from the data once and needs in every step
    kept: dict[str, Any] = field(init=False, default_factory=dict)

    @cached_property
    def loss(self) -> MeteredLoss:
        """The loss, with its calls counted."""
        return MeteredLoss(self.problem.loss, self.meter, self.problem.of_loss)

    @cached_property
    def spectral(self) -> MeteredSpectral:
        """The spectral term, with its calls counted."""
        return MeteredSpectral(self.problem.spectral, self.meter, self.problem.of_spectral)

    def accuracy(self, value: float, guess: float = 0.0, size: float = 0.0) -> float:
        """Return the accuracy to aim at if f has this value, or this guess while unknown.

        With `tol`, it is relative to max(|value|, SMALL size), where size is smoothness/2
        |X|^2 at the point with that value: the optimum may be zero.
        """
        if not self.tol:
            return self.eps
        value = value if math.isfinite(value) else guess
        return self.tol * max(abs(value), SMALL * size) if math.isfinite(value) else self.eps

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the random stream of this name; it yields the same numbers every time."""
        return np.random.default_rng([self.seed, *stream])

    def compressed(self, X: Array | LowRank, rank: int | None = None) -> LowRank:
        """Return a feasible point as factors, of full rank unless a rank is given."""
        return X if isinstance(X, LowRank) else self.problem.factored(X, self.rng(0), rank)


@dataclass(frozen=True)
class Warmth:
    """The end of a neighbouring problem's run.

    The ratio of two values of `size` shows how a penalty's weight, and with it the dual
    point, has changed, whatever the weight is.
    """

    X: LowRank | Array  # the answer
    pull: Array  # K'y, the dual point as a matrix: nearly a subgradient of R's nonsmooth part
    size: float  # value of that part at the answer
    weight: float  # of the last proximal step, 1/gamma
    rank: int  # of the answer
    basis: Array | None  # block to start the first decomposition from

    @classmethod
    def of(cls, problem: Problem, dual: SplitDual) -> Warmth:
        """Return the warm start that the dual points of a run with the same loss give."""
        R, V, y = dual.penalty, dual.prox.V, dual.y
        X = V.dense()
        if y is None:
            slope = gradient(problem.loss, X, problem.loss.everything(), None)
            y = reflected_dual(R, X, slope, dual.A, dual.weight)
        return cls(V, R.pull(y), nonsmooth(R, X), dual.weight, V.rank, dual.prox.basis)

    def step(self, beta: float) -> float:
        """A gamma to begin with, between the first and the last one of the earlier run."""
        return math.sqrt(1.0 / (beta * max(beta, self.weight))) if self.size else 1.0 / beta

    @property
    def point(self) -> Array:
        """The answer as a dense matrix."""
        return self.X.dense() if isinstance(self.X, LowRank) else self.X

    def scaled(self, penalty: Penalty) -> Warmth:
        """Return the warm start for another weight of the penalty, with a guessed dual."""
        size = nonsmooth(penalty, self.point)
        factor = size / self.size if self.size > 0.0 else 1.0
        if factor == 1.0 or not math.isfinite(factor):
            return self
        return replace(self, pull=self.pull * factor, size=size)

    def beside(self, before: Warmth, across: Warmth) -> Warmth:
        """Extrapolate to a corner of a grid cell from the other three.

        This corner and `across` share a row, `before` is below this one. The error is a
        second difference, so that a fine grid costs few iterations.
        """
        X = self.point + (before.point - across.point)
        pull = self.pull + (before.pull - across.pull)
        rank = max(self.rank, before.rank)
        return replace(before, X=X, pull=pull, rank=rank)


def nonsmooth(penalty: Penalty, X: Array) -> float:
    """Return R(X) without its quadratic part."""
    value = penalty.value(X)
    return value - 0.5 * penalty.curvature * sqnorm(X) if penalty.curvature else value


def fits(problem: Problem, needed: float) -> bool:
    """Return True if this many bytes fit in memory, or on the device of the problem."""
    reference = problem.loss.reference
    return needed <= (room() if on_cpu(reference) else device_room(reference))


def undeclared(problem: Problem, *needs: str) -> list[str]:
    """Say which of these capabilities, such as "loss.centre", the terms do not declare."""
    found = []
    for role in ("loss", "penalty", "spectral"):
        offers = getattr(problem, f"of_{role}")
        names = [need.partition(".")[2] for need in needs if need.startswith(f"{role}.")]
        lacking = [f"`{name}`" for name in names if getattr(offers, name) is None]
        if lacking:
            kind = type(getattr(problem, role)).__name__
            found.append(f"{kind} declares no {' and '.join(lacking)} (see docs/extend.md)")
    return found


def device_room(reference: Array) -> int:
    """Return the bytes that are free on the device of an array, or held for reuse there."""
    if not getattr(reference, "is_cuda", False):
        return ON_DEVICE
    cuda, device = namespace(reference).cuda, reference.device
    held = cuda.memory_reserved(device) - cuda.memory_allocated(device)
    return int(cuda.mem_get_info(device)[0] + held)


def first_point(problem: Problem, X: Array | None) -> Array:
    """Return the user's first point, or zero."""
    return zeros(problem.shape, problem.loss.reference) if X is None else X


class Method:
    """A solver: a frozen dataclass of settings. All state lives in the memory.

    A subclass defines `check`, `start`, `step`, `finished`, `candidate` and `dual`, and
    overrides what differs from the defaults. A run reads of a memory: `X`, `epoch`, `rank`
    and `parameters`.
    """

    __slots__ = ()

    relative: ClassVar[bool] = False  # works towards `tol`; otherwise plans for an `eps`
    elsewhere: ClassVar[bool] = False  # can work if data and X are not in this process
    factored: ClassVar[bool] = False  # X is in factors throughout, its first point too
    narrow: ClassVar[bool] = False  # its own products of dense arrays are with narrow blocks
    double: ClassVar[bool] = False  # computes in float64, whatever the dtype of the data
    coarse: ClassVar[float] = 0.0  # accuracy below which float32 arrays prove nothing
    warm_starts: ClassVar[bool] = False  # `warm` continues from the dual point of a neighbour
    units: ClassVar[tuple[str, ...]] = ()  # settings in the units of the problem
    stores: ClassVar[tuple[type, ...]] = ()  # classes that a memory consists of, for files
    matrices: ClassVar[tuple[str, ...]] = ("X",)  # members of a memory that are like X

    @property
    def answer(self) -> Literal["low_rank", "iterate"]:
        """The point that is returned: the best low-rank point, or the last iterate."""
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

    def continued(self, memory: Any, signal: Any) -> Any:
        """Return the first memory, moved to the point of the `TooWide` that led here."""
        return memory

    def step(self, problem: Problem, memory: Any, tools: Tools) -> Any:
        """Return the memory after one outer step; call `tools.tick` after each inner one."""
        raise NotImplementedError

    def finished(self, memory: Any) -> bool:
        """Return True if the work that the theory requires is done."""
        raise NotImplementedError

    def candidate(self, memory: Any) -> Candidate:
        """Return the point that the run evaluates between outer steps."""
        raise NotImplementedError

    def dual(self, problem: Problem, memory: Any) -> DualPoint | OwnBound:
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
        return False

    def predicted_svds(self, memory: Any) -> int:
        """Return the number of decompositions planned; 0 if there is no plan."""
        return 0

    def in_float64(self, memory: Any, problem: Problem) -> Any:
        """Return a memory from a file for the problem in float64, which it was written for."""
        return memory


def as_method(solver: Any) -> Method:
    """Return the solver as a `Method`; one that does not derive from it gets the defaults.

    Raises `InputError` if it is not a dataclass of settings, or lacks a required member.
    """
    kind: Any = type(solver)
    settings = isinstance(solver, Method) or (is_dataclass(solver) and hasattr(kind, "step"))
    if isinstance(solver, type) or not settings:
        given = solver.__name__ if isinstance(solver, type) else repr(solver)
        wanted = (
            "a solver object such as SVRGCG(rank=10), a solver class or the name of a solver"
        )
        raise InputError("solver", given, wanted)
    # an inherited declaration of `Method` is no definition
    required = (*REQUIRED, "warm") if getattr(kind, "warm_starts", False) else REQUIRED
    own = {name: getattr(kind, name, None) for name in required}
    missing = [n for n, f in own.items() if not callable(f) or f is vars(Method)[n]]
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

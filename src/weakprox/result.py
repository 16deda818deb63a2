"""What a run gives back: Result, with its Status, Counts, Trace and Certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, namespace
from weakprox.linalg.lowrank import LowRank


class Status(Enum):
    """Why a run ended; each member carries what it means and what to do."""

    CERTIFIED = (
        "certified",
        "The duality gap proves that the value is within eps of the optimum.",
    )
    EXPECTED = (
        "done as the theorem asks",
        "The work that makes the expected error at most eps is done, with an oracle as "
        "accurate as the theorem asks. It rests on the constants; the gap, where shown, is "
        "what is proved for this very answer.",
    )
    RANK_LIMITED = (
        "rank not shown to suffice",
        "The theorem's work is done, but nothing shows that the rank asked for is enough: "
        "the proximal oracle left out more than the theorem allows, or the iterate is "
        "better than its rank-limited answer. Raise rank.",
    )
    MAX_SECONDS = ("out of time", "Raise max_seconds, or ask for a larger eps.")
    MAX_SAMPLES = ("out of samples", "Raise max_samples, or ask for a larger eps.")
    MAX_SVDS = ("out of SVDs", "Raise max_svds, or ask for a larger eps.")
    FINISHED = (
        "finished, nothing promised",
        "The settings given were run to their end, but no theorem promises eps for them. "
        "Look at the gap, or leave mu, eta, k_s, k_t, inner and epochs to the theory.",
    )
    CALLBACK = ("stopped by the callback", "The callback returned True.")
    INTERRUPTED = ("interrupted", "Ctrl-C; this is the best point so far.")

    def __init__(self, label: str, advice: str) -> None:
        self.label = label
        self.advice = advice

    @property
    def reached(self) -> bool:
        """Whether the accuracy asked for was reached, proved or in expectation."""
        return self in (Status.CERTIFIED, Status.EXPECTED)


@dataclass
class Counts:
    """Work done, in the paper's units.

    Attributes
    ----------
    samples : int
        Samples drawn from the distribution (pilot draws for constants included).
    gradients : int
        Gradients of single terms evaluated; an inner sample costs two.
    full_gradients : int
        Passes over all terms of a finite sum.
    svds, rank_one_svds : int
        Thin decompositions the method asked for, and the sum of their ranks; those of
        certificates and of C0 are not counted.
    passes : int
        Products of the proximal target with a thin block.
    evaluation_samples : int
        Samples spent on reporting values, not on solving.
    """

    samples: int = 0
    gradients: int = 0
    full_gradients: int = 0
    svds: int = 0
    rank_one_svds: int = 0
    passes: int = 0
    evaluation_samples: int = 0

    def copy(self) -> Counts:
        """The numbers as they stand now."""
        return Counts(**{f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(frozen=True)
class Certificate:
    """A proved lower bound on the optimum next to the value reached.

    Attributes
    ----------
    value, lower_bound : float
        f at the answer, and a number that f exceeds everywhere.
    rests_on : str
        "exact", or "high-probability" where a randomised bound on singular values was
        used (wrong with probability at most 1e-10).
    """

    value: float
    lower_bound: float
    rests_on: str

    @property
    def gap(self) -> float:
        """The answer is at most this far above the optimum."""
        gap = self.value - self.lower_bound
        return 0.0 if gap < 0.0 else gap  # not max(0, gap), which would hide a NaN

    def __str__(self) -> str:
        how = "" if self.rests_on == "exact" else " (except with probability 1e-10)"
        return (
            f"The optimum lies between {self.lower_bound:.6g} and {self.value:.6g}"
            f"{how}: the answer is within {self.gap:.3g} of it."
        )


COLUMNS = (
    "seconds",
    "epoch",
    "step",
    "samples",
    "gradients",
    "svds",
    "rank_one_svds",
    "value",
    "value_low_rank",
    "lower_bound",
    "delta",
)


@dataclass
class Trace:
    """History of a run, one row per look: `trace["value"]` is a NumPy column.

    Columns: seconds, epoch, step, samples, gradients, svds, rank_one_svds, value (f at
    the iterate), value_low_rank (f at the last oracle point), lower_bound (NaN until
    certified) and delta (the oracle's own estimate of its inexactness).
    """

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, **row: float) -> None:
        """Append one row; every column must be given."""
        self.rows.append(tuple(float(row[name]) for name in COLUMNS))

    def __getitem__(self, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        if column not in COLUMNS:
            raise InputError("column", repr(column), f"one of {', '.join(COLUMNS)}")
        index = COLUMNS.index(column)
        return np.array([row[index] for row in self.rows], dtype=float)

    def __len__(self) -> int:
        return len(self.rows)

    def epochs(self) -> Trace:
        """Only the rows at epoch ends (step 0)."""
        index = COLUMNS.index("step")
        return Trace([row for row in self.rows if row[index] == 0])

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists, for a data frame or JSON."""
        return {name: self[name].tolist() for name in COLUMNS}


@dataclass(frozen=True, repr=False)
class Result:
    """A low-rank answer and what is known about it; every number is recomputed from X.

    Attributes
    ----------
    low_rank : LowRank
        The answer as factors.
    value : float
        f(X); an unbiased estimate from samples that served nothing else if G is sampled.
    violation : float
        Relative distance from the constraint set.
    status : Status
        Why the run ended.
    eps : float
        Accuracy asked for.
    certificate : Certificate or None
        Proved bounds; None where G is only known through samples.
    counts : Counts
        Work done.
    trace : Trace
        History.
    parameters : object
        What the solver used (T, eta, k_s, ...).
    solver, seconds, seed, sampled
        The method's name, time, seed, and whether the value is an estimate.
    checkpoint : object
        State at the last epoch end, for `minimize(..., resume=result)`.
    iterate_value : float
        f at the full-rank iterate the answer comes from.
    """

    low_rank: LowRank
    value: float
    violation: float
    status: Status
    eps: float
    certificate: Certificate | None
    counts: Counts
    trace: Trace
    parameters: Any
    solver: str
    seconds: float
    seed: int
    sampled: bool
    checkpoint: Any
    iterate_value: float

    @cached_property
    def X(self) -> Array:
        """The answer as a dense m x d array."""
        return self.low_rank.dense()

    @property
    def factors(self) -> tuple[Array, Array, Array]:
        """(U, s, Vt) with X = U diag(s) Vt."""
        return self.low_rank.U, self.low_rank.s, self.low_rank.Vt

    @property
    def rank(self) -> int:
        """Rank of the answer."""
        return self.low_rank.rank

    @property
    def gap(self) -> float | None:
        """Proved distance from the optimal value, None if nothing is proved."""
        return None if self.certificate is None else self.certificate.gap

    def nonzeros(self, tol: float = 1e-3) -> int:
        """Entries larger in size than tol times the largest entry."""
        xp = namespace(self.X)
        size = xp.abs(self.X)
        above = (size > tol * float(xp.max(size))) & (size > 0)
        return int(xp.sum(xp.astype(above, xp.int64)))

    @property
    def certified(self) -> bool:
        """Whether the gap proves the accuracy asked for."""
        return self.gap is not None and self.gap <= self.eps

    def __repr__(self) -> str:
        m, d = self.low_rank.shape
        reached = self.status.reached or self.certified
        about = "about " if self.sampled else ""
        lines = [
            f"{self.solver} on {m} x {d}: {self.status.label}"
            + ("" if reached else "  ** TARGET NOT CONFIRMED **"),
            f"  value      {about}{self.value:.6g}   (eps asked for: {self.eps:.3g})",
        ]
        if self.certificate is not None:
            mark = "" if self.certified else f"  ** NOT PROVED to be within {self.eps:.3g} **"
            lines.append(f"  gap        {self.certificate.gap:.3g}{mark}")
        else:
            why = "G is known only through samples" if self.sampled else "nothing proved yet"
            lines.append(f"  gap        not available: {why}")
        lines += [
            f"  rank       {self.rank}, {self.nonzeros()} of {m * d} entries nonzero "
            "(above 1e-3 of the largest)",
            f"  feasible   to {self.violation:.1e}",
            f"  work       {self.counts.samples} samples, {self.counts.gradients} "
            f"gradients, {self.counts.svds} SVDs ({self.counts.rank_one_svds} rank-one), "
            f"{self.seconds:.2f} s",
            f"  {self.status.advice}",
        ]
        return "\n".join(lines)

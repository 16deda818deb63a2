"""How a run ended: Status, Counts of work, Certificate, and Trace."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

import numpy as np

from weakprox.errors import InputError


class Status(Enum):
    """Why a run ended; each member carries what it means and what to do."""

    CERTIFIED = (
        "certified",
        "The duality gap proves that the value is within eps of the optimum.",
    )
    CONFIDENT = (
        "certified at the stated confidence",
        "The duality gap and the sampling error together are at most eps, at the confidence "
        "that the certificate names. Values too rare to be seen in its samples are not "
        "covered.",
    )
    EXPECTED = (
        "done as the theorem asks",
        "The work that makes the expected error at most eps is done, with an oracle as "
        "accurate as the theorem asks. It rests on the constants; the gap, where shown, is "
        "what is proved for this very answer.",
    )
    RANK_LIMITED = (
        "rank not shown to suffice",
        "The work is done, but nothing shows that the rank asked for is enough: the proximal "
        "oracle left out more than allowed, or the iterate is better than its rank-limited "
        "answer. Raise rank, or leave it out.",
    )
    MAX_SECONDS = ("out of time", "Raise max_seconds, or ask for a larger eps.")
    MAX_SAMPLES = ("out of samples", "Raise max_samples, or ask for a larger eps.")
    MAX_SVDS = ("out of SVDs", "Raise max_svds, or ask for a larger eps.")
    MAX_MEMORY = (
        "out of memory for samples",
        "More samples than fit in memory would have to be kept. Ask for a larger eps, or use "
        "SVRGCG, which keeps none.",
    )
    FINISHED = (
        "finished, nothing promised",
        "The method went as far as its settings or rounding let it, and no theorem promises "
        "the accuracy asked for. Look at the gap; ask for a larger tol or eps, or leave the "
        "method's settings to the theory.",
    )
    CALLBACK = ("stopped by the callback", "The callback returned True.")
    INTERRUPTED = ("interrupted", "Ctrl-C; this is the best point so far.")
    SAMPLER_FAILED = (
        "the sampler failed",
        "The sampler raised, stalled or returned no numbers; this is the best point so far.",
    )

    def __init__(self, label: str, advice: str) -> None:
        self.label = label
        self.advice = advice

    @property
    def reached(self) -> bool:
        """Whether the accuracy was reached: proved, at a confidence or in expectation."""
        return self in (Status.CERTIFIED, Status.CONFIDENT, Status.EXPECTED)


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
    """A lower bound on the optimum next to the value reached: how good the answer is.

    Attributes
    ----------
    value, lower_bound : float
        f at the answer, and a number that f exceeds everywhere; minus infinity where
        nothing is proved. Where G is sampled, the value is an estimate and the statement
        is about the gap alone: the bound lies that far below the estimate.
    rests_on : {"exact", "high-probability", "sampled"}
        "high-probability" where a randomised bound on singular values was used (wrong
        with probability at most 1e-10), "sampled" where G is known through samples.
    sampling_error : float
        The part of the gap that is due to samples, at that confidence.
    rounding : float
        What rounding may add to the value of the X that is returned, and part of the gap.
    confidence : float
        Probability with which the statement holds; 1 where nothing is sampled.
    samples : int
        Samples that the statement rests on, where G is sampled.
    rarest : float
        Where G is sampled, values that at least this share of the draws has are accounted
        for. Rarer values that no sample showed are assumed not to move the mean further
        than the largest value seen would.
    """

    value: float
    lower_bound: float
    rests_on: str
    sampling_error: float = 0.0
    confidence: float = 1.0
    samples: int = 0
    rarest: float = 0.0
    rounding: float = 0.0

    @classmethod
    def nothing(cls, value: float, *, sampled: bool = False) -> Certificate:
        """The certificate that proves nothing."""
        return cls(value, -math.inf, "sampled" if sampled else "exact")

    @property
    def proves(self) -> bool:
        """Whether there is a bound at all."""
        return math.isfinite(self.lower_bound)

    @property
    def gap(self) -> float:
        """The answer is at most this far above the optimum; infinite if nothing is proved."""
        gap = self.value - self.lower_bound + self.rounding
        return 0.0 if gap < 0.0 else gap  # not max(0, gap), which would hide a NaN

    def __str__(self) -> str:
        if not self.proves:
            return "Nothing is proved: no lower bound on the optimum was found."
        if self.rests_on == "sampled":
            share = self.sampling_error / self.gap if self.gap > 0.0 else 0.0
            return (
                f"The answer is within {self.gap:.3g} of the optimum at "
                f"{100 * self.confidence:.4g} % confidence; {100 * share:.0f} % of that "
                f"is sampling error. The statement rests on {self.samples} samples."
            )
        how = "" if self.rests_on == "exact" else " (except with probability 1e-10)"
        return (
            f"The optimum lies between {self.lower_bound:.6g} and "
            f"{self.value + self.rounding:.6g}"
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

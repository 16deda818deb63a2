"""The result of a run: the answer, how the run ended, and what is known about the answer."""

from __future__ import annotations

import math
import sys
import weakref
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from weakprox.display import card, counted, spark
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, namespace, on_cpu, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.resources.memory import room, shown_bytes
from weakprox.storage.results import read_result, write_result
from weakprox.storage.table import FileError, PathLike
from weakprox.storage.tree import plain

__all__ = [
    "COLUMNS",
    "Certificate",
    "Counts",
    "Look",
    "Result",
    "SparsePoint",
    "Status",
    "Trace",
]

ENTRIES = 1 << 18  # entries of X that are examined at once
COUNTED = 1 << 28  # entries of X up to which `repr` counts those that are not zero
LARGE = 1 << 26  # bytes from which X might not fit in memory
# Names that other libraries give to what a result has.
ELSEWHERE = {
    **dict.fromkeys(("x", "solution", "matrix"), "X"),
    **dict.fromkeys(("U", "s", "S", "V", "Vt"), "factors, a tuple of U, s and Vt"),
    **dict.fromkeys(("fun", "objective", "cost", "loss"), "value"),
    **dict.fromkeys(("success", "converged"), "certified"),
    **dict.fromkeys(("message", "summary"), "explain()"),
    **dict.fromkeys(("nit", "n_iter", "n_iter_", "iterations"), "counts"),
    **dict.fromkeys(("time", "elapsed", "runtime"), "seconds"),
    **dict.fromkeys(("history", "losses"), "trace"),
    **dict.fromkeys(("lower_bound", "bound"), "certificate.lower_bound"),
}


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
        "done as the theorem requires",
        "The work that makes the expected error at most eps is done, with an oracle as "
        "accurate as the theorem requires. The statement relies on the constants; the gap, if "
        "there is one, is proved for this answer.",
    )
    RANK_LIMITED = (
        "rank not shown to suffice",
        "The work is done, but nothing shows that the given rank is enough: the proximal "
        "oracle left out more than allowed, or the iterate is better than its rank-limited "
        "answer. Raise rank, or leave it out.",
    )
    MAX_SECONDS = ("out of time", "Raise max_seconds, or use a larger tol or eps.")
    MAX_SAMPLES = ("out of samples", "Raise max_samples, or use a larger tol or eps.")
    MAX_SVDS = ("out of SVDs", "Raise max_svds, or use a larger tol or eps.")
    MAX_MEMORY = (
        "out of memory for samples",
        "More samples than fit in memory would have to be kept. Use a larger tol or eps, or "
        "SVRGCG, which keeps none.",
    )
    FINISHED = (
        "finished without a guarantee",
        "The method stopped improving before it reached the requested accuracy, and no theorem "
        "guarantees it. Check the gap, use a larger tol or eps, or leave the method's settings "
        "to the theory.",
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
        """True if the accuracy was reached: proved, at a confidence or in expectation."""
        return self in (Status.CERTIFIED, Status.CONFIDENT, Status.EXPECTED)


@dataclass
class Counts:
    """Work done, in the paper's units.

    Gradients are those of single terms (of single entries for `Completion`): an inner sample
    costs two, a full gradient as many as there are terms. Decompositions are those of the
    method, excluding those for certificates and for C0.
    """

    samples: int = 0  # drawn from the distribution, pilot draws for constants included
    gradients: int = 0
    full_gradients: int = 0  # passes over all terms of a finite sum
    svds: int = 0  # thin decompositions,
    rank_one_svds: int = 0  # and the sum of their ranks
    passes: int = 0  # products of the proximal target with a thin block
    evaluation_samples: int = 0  # for reporting values, not for solving

    def copy(self) -> Counts:
        """The numbers as they stand now."""
        return replace(self)


@dataclass(frozen=True)
class Certificate:
    """The value reached and a lower bound on the optimum: how good the answer is.

    Attributes
    ----------
    value, lower_bound : float
        f at the answer, and a lower bound on f; minus infinity if nothing is proved. If G is
        sampled, the value is an estimate and the statement is about the gap alone: the bound
        lies that far below the estimate.
    rests_on : {"exact", "high-probability", "sampled"}
        "high-probability" if a randomised bound on singular values was used (wrong with
        probability at most 1e-10), "sampled" if G is known through samples.
    sampling_error : float
        The part of the gap that is due to samples, at that confidence.
    rounding : float
        What rounding may add to the value of the X that is returned, and part of the gap.
    confidence : float
        Probability with which the statement holds; 1 if nothing is sampled.
    samples : int
        Samples that the statement rests on, if G is sampled.
    rarest : float
        If G is sampled, values that occur in at least this share of the draws are accounted
        for. Rarer values that were not observed are assumed not to move the mean further than
        the largest observed value would.
    """

    value: float
    lower_bound: float
    rests_on: str
    sampling_error: float = 0.0
    confidence: float = 1.0
    samples: int = 0
    rarest: float = 0.0
    rounding: float = 0.0

    def __post_init__(self) -> None:
        for name in ("value", "lower_bound"):  # plain numbers, also where NumPy computed them
            object.__setattr__(self, name, float(getattr(self, name)))

    @classmethod
    def nothing(cls, value: float, *, sampled: bool = False) -> Certificate:
        """Return the certificate that proves nothing."""
        return cls(value, -math.inf, "sampled" if sampled else "exact")

    def times(self, factor: float) -> Certificate:
        """Return the certificate for f times a factor."""
        names = ("value", "lower_bound", "sampling_error", "rounding")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    @property
    def proves(self) -> bool:
        """True if there is a lower bound."""
        return math.isfinite(self.lower_bound)

    @property
    def gap(self) -> float:
        """Bound on the distance of the value from the optimum; infinite without a proof."""
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
                f"is sampling error. The statement rests on {counted(self.samples, 'sample')}."
            )
        how = "" if self.rests_on == "exact" else " (except with probability 1e-10)"
        between = f"between {self.lower_bound:.6g} and {self.value + self.rounding:.6g}{how}"
        return f"The optimum lies {between}: the answer is within {self.gap:.3g} of it."

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows: list[tuple[str, Any]] = [("value", self.value)]
        if self.proves:
            rows += [("lower bound", self.lower_bound), ("gap", self.gap)]
            rows.append(("rests on", self.rests_on))
        return card("Certificate", rows, [str(self)])


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


@dataclass(repr=False)
class Trace:
    """History of a run, one row per look: `trace["value"]` is a NumPy column.

    Columns: seconds, epoch, step, samples, gradients, svds, rank_one_svds, value (f at
    the iterate; NaN while constraints had smaller slopes than in the end), value_low_rank (f
    at the last oracle point), lower_bound (NaN until certified) and delta (the oracle's own
    estimate of its inexactness).
    """

    rows: list[tuple[float, ...]] = field(default_factory=list)

    def __getitem__(self, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        if column not in COLUMNS:
            raise InputError("column", repr(column), f"one of {', '.join(COLUMNS)}")
        index = COLUMNS.index(column)
        return np.array([row[index] for row in self.rows], dtype=float)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        if not self.rows:
            return "Trace(no rows)"
        value = self["value"]
        value = value[np.isfinite(value)] if np.isfinite(value).any() else value
        spent = f"{self['seconds'][-1]:.2f} s, {counted(self['svds'][-1], 'SVD')}"
        rows = counted(len(self), "row")
        return f"Trace({rows}, {spent}, value {value[0]:.6g} to {value[-1]:.6g})"

    def forget_values(self) -> None:
        """Replace the values of all rows so far by NaN: those of the next are of another f."""
        forgotten = [column in ("value", "value_low_rank") for column in COLUMNS]
        self.rows[:] = [
            tuple(math.nan if gone else x for gone, x in zip(forgotten, row, strict=True))
            for row in self.rows
        ]

    def epochs(self) -> Trace:
        """The rows at epoch ends (step 0)."""
        index = COLUMNS.index("step")
        return Trace([row for row in self.rows if row[index] == 0])

    def to_dict(self) -> dict[str, list[float]]:
        """Columns as lists, for a data frame or JSON."""
        return {name: self[name].tolist() for name in COLUMNS}

    def gaps(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The least value so far minus the best lower bound of the whole run."""
        value, bound = self["value"], self["lower_bound"]
        if not np.isfinite(bound).any():
            return np.full(len(self), np.nan)
        found: np.ndarray[Any, Any] = np.fmin.accumulate(value) - np.nanmax(bound)
        return found

    def _repr_html_(self) -> str:
        """A table for notebooks, with the gap as a line."""
        rows: list[tuple[str, Any]] = [("rows", len(self))]
        if len(self):
            last = dict(zip(COLUMNS, self.rows[-1], strict=True))
            rows += [(name, last[name]) for name in ("seconds", "svds", "value", "lower_bound")]
            rows.append(("gap", spark(self.gaps().tolist(), "gap") or "not proved"))
        note = f'Columns, as in trace["value"]: {", ".join(COLUMNS)}.'
        return card("Trace of a run", rows, [note])


@dataclass(frozen=True)
class Look:
    """The argument of a callback; returning True from it ends the run.

    Attributes
    ----------
    epoch, step : int
        Position of the run; step 0 is the end of an epoch.
    value, value_low_rank : float
        f at the iterate and at the latest point of the requested rank.
    lower_bound : float
        The best lower bound on the optimum so far; minus infinity without one.
    seconds, counts
        Time and work so far.
    X : Array
        The iterate itself: read it, do not write to it. Its factors (a `LowRank`) if the
        data live on workers, and for losses of observed entries without a penalty.
    V : LowRank or None
        The latest point of the requested rank, None for methods that have none.
    """

    epoch: int
    step: int
    value: float
    value_low_rank: float
    lower_bound: float
    seconds: float
    counts: Counts
    X: Array
    V: LowRank | None = None


class Source:
    """The problem that was solved: kept alive if `keep`, otherwise by weak reference.

    It is not pickled, since the pickle would contain the data.
    """

    def __init__(self, problem: Any, *, keep: bool = False) -> None:
        self._problem: Any = (lambda: problem) if keep else weakref.ref(problem)

    def __call__(self) -> Any:
        return self._problem()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(None), ()


@dataclass(frozen=True)
class SparsePoint:
    """The penalty's own point near an answer: exactly sparse, but not low-rank.

    Attributes
    ----------
    matrix : csr_array
        The point; entries that are not stored are exactly zero.
    value : float
        f there.
    distance : float
        Its distance to the answer X, in Frobenius norm.
    violation : float
        Relative distance from the constraint set.
    certificate : Certificate
        How far from the optimum this point can be: the lower bound is that of the answer.
    """

    matrix: Any
    value: float
    distance: float
    violation: float
    certificate: Certificate

    @property
    def gap(self) -> float:
        """The certificate's bound on the distance from the optimal value."""
        return self.certificate.gap


@dataclass(frozen=True, repr=False)
class Result:
    """A low-rank answer and its certificate; every number is recomputed from X.

    Attributes
    ----------
    low_rank : LowRank
        The answer as factors.
    value : float
        f(X); if G is sampled, an unbiased estimate from samples used for nothing else.
    violation : float
        Relative distance from the constraint set.
    status : Status
        Why the run ended.
    eps : float
        Requested accuracy.
    certificate : Certificate
        How good the answer is, and what that statement rests on.
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
    reason : str
        Why this solver was used.
    dual : object
        Dual points at the end of a splitting, for `minimize(neighbour, start=result)`.
    unit : float
        1; for data of extreme size a power of two that the run divided X by. `parameters`,
        `checkpoint` and `dual` are those of that run.
    evidence : object
        The dual point of the lower bound, for `proof`; None if it was not kept.
    labels : pair of lists of str or None
        Names of the rows and columns of X, if the data came as a frame.
    source : object
        A weak reference to the problem, for `proof` and `report`; a strong one if the result
        keeps the problem.
    estimate : LowRank, array or None
        The matrix that a model reports, if it differs from the answer, for example because
        the shrinkage is undone; an array if it is not of low rank. `report` shows it; value
        and certificate are the answer's.
    """

    low_rank: LowRank
    value: float
    violation: float
    status: Status
    eps: float
    certificate: Certificate
    counts: Counts
    trace: Trace
    parameters: Any
    solver: str
    seconds: float
    seed: int
    sampled: bool
    checkpoint: Any
    iterate_value: float
    reason: str = ""
    dual: Any = None
    unit: float = 1.0
    evidence: Any = None
    labels: tuple[list[str] | None, list[str] | None] = (None, None)
    source: Any = None
    estimate: LowRank | Array | None = None

    def __getattr__(self, name: str) -> Any:
        """Raise an error that gives the name here of an attribute of other libraries."""
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        here = ELSEWHERE.get(name)
        raise AttributeError(
            f"{said}; use result.{here}" if here else said, name=name, obj=self
        )

    @cached_property
    def X(self) -> Array:
        """The answer as a dense m x d array: the factors' product, rounded once.

        Raises InputError if such an array does not fit in memory; see `factors` then.
        """
        like, (m, d) = self.low_rank.reference, self.low_rank.shape
        needed = m * d * like.dtype.itemsize
        if needed >= LARGE and on_cpu(like) and needed > room():
            given = f"the answer as an array of {m} x {d}, which takes {shown_bytes(needed)}"
            wanted = f"at most the available {shown_bytes(room())}: use result.factors"
            raise InputError("X", given, wanted)
        return self.low_rank.rounded()

    @property
    def factors(self) -> tuple[Array, Array, Array]:
        """(U, s, Vt) with X = U diag(s) Vt."""
        return self.low_rank.U, self.low_rank.s, self.low_rank.Vt

    @property
    def rank(self) -> int:
        """Rank of the answer."""
        return self.low_rank.rank

    @property
    def gap(self) -> float:
        """The certificate's bound on the distance from the optimal value, perhaps infinite."""
        return self.certificate.gap

    def nonzeros(self, tol: float = 1e-3) -> int:
        """Entries larger in size than tol times the largest entry."""
        U, s, Vt = self.factors
        xp = namespace(U)
        step = max(1, ENTRIES // int(Vt.shape[1]))  # X may not fit in memory

        def sizes(first: int) -> Array:
            return xp.abs((U[first : first + step] * s) @ Vt)

        starts = range(0, int(U.shape[0]), step)
        bound = tol * max(float(xp.max(sizes(first))) for first in starts)
        above = ((size > bound) & (size > 0) for size in map(sizes, starts))
        return sum(int(xp.sum(xp.astype(part, xp.int64))) for part in above)

    @property
    def certified(self) -> bool:
        """True if the gap proves the requested accuracy, at the certificate's confidence."""
        return bool(self.gap <= self.eps)

    @cached_property
    def sparse(self) -> SparsePoint:
        """The answer with exact zeros: the penalty's own point, with its certificate.

        The entries of X that the penalty makes zero are zero within the accuracy only, since
        X is a product of factors. This point is not low-rank, but exactly sparse, feasible
        and as near to X as the accuracy allows. It is computed from the dual point of the
        lower bound and takes a full decomposition. Its attributes are `matrix` (a CSR array),
        `value`, `distance` (to X, in Frobenius norm), `violation`, `certificate` and `gap`.

        Raises ProofError in the cases in which `proof` does, and for a penalty that makes no
        entry zero.
        """
        # proofs are computed in a layer above this one
        found: SparsePoint = import_module("weakprox.proofs").sparse_of(self)
        return found

    @cached_property
    def proof(self) -> Any:
        """A `weakprox.Proof` of the certificate, to save and to verify.

        Raises ProofError if there is none: G is sampled, nothing is proved, or the dual
        point of the bound was too large to keep (pass `proof=True` to `minimize`).
        """
        return import_module("weakprox.proofs").proof_of(self)

    def explain(self) -> str:
        """Explain the choice of the solver, its cost, and what the certificate leaves open."""
        counts, proof = self.counts, self.certificate
        mean = counts.rank_one_svds / max(1, counts.svds)
        parts = {
            "Solver": f"{self.solver}: {self.reason or 'it was requested'}.",
            "End": f"{self.status.label}. {self.status.advice}",
            "Cost": f"{counted(counts.svds, 'SVD')} (of rank {mean:.0f} on average), "
            f"{_gradients(self)}, {self.seconds:.2f} s.",
            "Answer": f"f = {self.value:.6g}, rank {self.rank}, feasible to "
            f"{self.violation:.1e}.",
            "Proof": str(proof),
        }
        alpha = getattr(self.parameters, "alpha", None)
        if proof.proves and alpha:
            distance = (2.0 * proof.gap / alpha) ** 0.5
            parts["Distance"] = (
                f"With strong convexity {alpha:.3g}, the answer is within {distance:.3g} of "
                "the optimal matrix (Frobenius norm)."
            )
        restated = None if self.checkpoint is None else self.checkpoint.restated
        if restated is not None:
            parts["Constants"] = (
                "Gradients contradicted the declared strong convexity of the loss; the run "
                f"continued with {restated:.3g}."
            )
        parts["Not covered"] = " ".join(_open_questions(self, alpha))
        return "\n".join(f"{name + ':':<13}{text}" for name, text in parts.items())

    def report(
        self,
        path: PathLike,
        *,
        problem: Any = None,
        data: Any = None,
        title: str | None = None,
    ) -> Path:
        """Write the answer, its certificate and its history as one HTML file.

        If the result is that of a model whose estimate differs from the answer (`estimate`),
        the page shows the estimate.

        Parameters
        ----------
        path : str or Path
            File to write, such as "report.html".
        problem : Problem, optional
            The problem that was solved; by default the one given to `minimize`, if it still
            exists.
        data : array of shape (m, d), optional
            The matrix to draw beside the answer; by default that of the problem, if it has
            one.
        title : str, optional
            Title of the page, such as the name of the data.

        Returns
        -------
        Path
            The file written. `weakprox.report.write_report` has more options.
        """
        if problem is None and self.source is not None:
            problem = self.source()
        if data is None and problem is not None:
            target = problem.of_loss.target
            data = target if isinstance(target, np.ndarray) else None
        rows, columns = self.labels
        # pages are written in a layer above this one
        write = import_module("weakprox.report").write_report
        written: Path = write(
            path, self, problem=problem, data=data, rows=rows, columns=columns, title=title
        )
        return written

    def to_dict(self, *, trace: bool = False) -> dict[str, Any]:
        """Return all numbers about the answer as plain types, for JSON.

        NaN and infinite numbers become None. X is not contained; its singular values are.

        Parameters
        ----------
        trace : bool
            Whether to add the history, a list for each column.
        """
        found = {**_numbers(self), "parameters": _settings(self.parameters)}
        found["shape"] = list(self.low_rank.shape)
        found["rank"], found["gap"] = self.rank, self.gap
        found["certified"] = self.certified
        found["singular_values"] = to_numpy(self.low_rank.s).tolist()
        if trace:
            found["trace"] = self.trace.to_dict()
        return dict(plain(found, str))

    def save(self, path: PathLike) -> Path:
        """Write the result to a .safetensors file, from which `Result.load` reads it.

        The file holds the factors, the certificate, the counts, the history and the estimate
        of a model, but neither the data nor the dual point: use `result.proof.save` for a
        proof that others can check, and `minimize(..., checkpoint=)` for a run to be resumed.

        Parameters
        ----------
        path : str or Path
            Such as "result.safetensors"; an existing file is replaced once the new one is
            complete.
        """
        about = {**_numbers(self), "parameters": _settings(self.parameters)}
        rows = np.array(self.trace.rows, dtype=float).reshape(-1, len(COLUMNS))
        arrays = {**_named(self.low_rank), "trace": rows}
        if isinstance(self.estimate, LowRank):
            arrays |= _named(self.estimate, "estimate_")
        elif self.estimate is not None:
            arrays["estimate"] = to_numpy(self.estimate)
        return write_result(path, about, arrays)

    @classmethod
    def load(cls, path: PathLike) -> Result:
        """Return the result in a file that `save` wrote, with its arrays in NumPy.

        Nothing in the file is executed. The numbers are those that were saved: the file is
        not a proof.
        """
        about, arrays = read_result(path)
        try:
            return _restored(about, arrays)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            given = f"a damaged file ({type(problem).__name__}: {problem})"
            raise FileError(path, given, "a file that Result.save wrote") from None

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw value and lower bound against the work done; returns a ConvergenceDisplay.

        Keywords as in `weakprox.plots.ConvergenceDisplay.plot`; needs matplotlib.
        """
        from weakprox.plots import ConvergenceDisplay

        return ConvergenceDisplay.from_result(self, ax=ax, **options)

    def _repr_html_(self) -> str:
        """A small table for notebooks: the answer, the certificate and the gap as a line."""
        m, d = self.low_rank.shape
        asked = f"requested: {self.eps:.3g}"
        gap = f"{self.gap:.3g} ({asked})" if self.certificate.proves else f"none ({asked})"
        rows: list[tuple[str, Any]] = [
            ("value", f"{'about ' if self.sampled else ''}{self.value:.6g}"),
            ("gap", gap),
            ("rank", self.rank),
        ]
        if m * d <= COUNTED:
            zeros = 1.0 - self.nonzeros() / (m * d)
            rows.append(("zeros", f"{zeros:.1%} (below 1e-3 of the largest entry)"))
        rows.append(("work", f"{counted(self.counts.svds, 'SVD')}, {self.seconds:.2f} s"))
        line = spark(self.trace.gaps().tolist(), "gap")
        if line:
            rows.append(("gap by step", line))
        confirmed = self.status.reached or self.certified
        notes = [str(self.certificate)]
        if not confirmed:
            notes.append(f"Accuracy not confirmed. {self.status.advice}")
        return card(f"{self.solver} on {m} x {d}: {self.status.label}", rows, notes)

    def __repr__(self) -> str:
        (m, d), proof, counts = self.low_rank.shape, self.certificate, self.counts
        reached = self.status.reached or self.certified
        filled = ""
        if m * d <= COUNTED:
            filled = (
                f", {self.nonzeros()} of {m * d} entries nonzero (above 1e-3 of the largest)"
            )
        gap = "nothing proved"
        if proof.proves:
            mark = "" if self.certified else f"  ** NOT PROVED to be within {self.eps:.3g} **"
            gap = f"{proof.gap:.3g}"
            if proof.rests_on == "sampled":
                gap += f" at {100 * proof.confidence:.4g} % confidence, "
                gap += f"{proof.sampling_error:.3g} of it by sampling"
            gap += mark
        return "\n".join(
            [
                f"{self.solver} on {m} x {d}: {self.status.label}"
                + ("" if reached else "  ** TARGET NOT CONFIRMED **"),
                f"  value      {'about ' if self.sampled else ''}{self.value:.6g}   "
                f"(requested eps: {self.eps:.3g})",
                f"  gap        {gap}",
                f"  rank       {self.rank}{filled}",
                f"  feasible   to {self.violation:.1e}",
                f"  work       {_gradients(self)}, {counted(counts.svds, 'SVD')} "
                f"({counts.rank_one_svds} rank-one), {self.seconds:.2f} s",
                f"  {self.status.advice}",
            ]
        )


def _gradients(result: Result) -> str:
    """Return the samples or the full gradients that a run took."""
    counts = result.counts
    if result.sampled:
        return (
            f"{counted(counts.samples, 'sample')} and {counts.evaluation_samples} to evaluate"
        )
    drawn = f" and {counted(counts.samples, 'sample')}" if counts.samples else ""
    return f"{counted(counts.full_gradients, 'full gradient')}{drawn}"


def _open_questions(result: Result, alpha: float | None) -> list[str]:
    """Return what the certificate does not cover."""
    proof = result.certificate
    left = ["Whether the model, its weights and its radius suit the data."]
    if not proof.proves:
        return ["How far the answer is from the optimum.", *left]
    if alpha:
        left.insert(0, "A strong convexity or other constants declared larger than they are.")
    if proof.rests_on == "high-probability":
        left.insert(0, "A randomised bound on singular values fails with probability 1e-10.")
    if proof.rests_on == "sampled":
        left.insert(
            0,
            f"The other {100 * (1 - proof.confidence):.3g} % of cases. Values that occur in "
            f"fewer than one draw in {1 / proof.rarest:.0f} and in none of {proof.samples} "
            "samples: they are assumed not to move the mean further than the largest "
            "observed value would.",
        )
    if not result.certified:
        left.insert(0, f"The requested accuracy, {result.eps:.3g}, is not proved.")
    return left


# Fields of a result that are saved as they are, by type.
SAVED: dict[str, type] = {
    **dict.fromkeys(("value", "violation", "eps", "seconds", "iterate_value", "unit"), float),
    **dict.fromkeys(("solver", "reason"), str),
    "seed": int,
    "sampled": bool,
}


def _numbers(result: Result) -> dict[str, Any]:
    """Return everything about a result that is neither an array nor an object of a run."""
    return {
        **{name: getattr(result, name) for name in SAVED},
        "status": result.status.name.lower(),
        "certificate": asdict(result.certificate),
        "counts": asdict(result.counts),
        "labels": list(result.labels),
        "weakprox": str(sys.modules["weakprox"].__version__),
    }


def named_parameters(given: Any) -> dict[str, Any]:
    """Return a solver's parameters by name; those of a result from a file are plain."""
    if is_dataclass(given):
        return {field.name: getattr(given, field.name) for field in fields(given)}
    return dict(vars(given)) if isinstance(given, SimpleNamespace) else {}


def _settings(parameters: Any) -> dict[str, Any]:
    """Return the numbers and words among a solver's parameters, by name."""
    found = named_parameters(parameters)
    return {name: x for name, x in found.items() if isinstance(x, (bool, int, float, str))}


def _restored(about: dict[str, Any], arrays: dict[str, Any]) -> Result:
    """Return the result of a record and arrays; raise if they do not fit together."""
    X = _factored(arrays)
    estimate = _factored(arrays, "estimate_") if "estimate_U" in arrays else None
    estimate = arrays.get("estimate", estimate)
    if estimate is not None and tuple(estimate.shape) != X.shape:
        raise ShapeError("estimate", estimate.shape, f"the answer's shape {X.shape}")
    rows = [tuple(row) for row in arrays["trace"].reshape(-1, len(COLUMNS)).tolist()]
    labels = [None if names is None else [str(x) for x in names] for names in about["labels"]]
    row_names, column_names = labels
    return Result(
        low_rank=X,
        estimate=estimate,
        status=Status[about["status"].upper()],
        certificate=_rebuilt(Certificate, about["certificate"]),
        counts=_rebuilt(Counts, about["counts"]),
        trace=Trace(rows),
        parameters=SimpleNamespace(**about["parameters"]),
        checkpoint=None,
        labels=(row_names, column_names),
        **{name: kind(about[name]) for name, kind in SAVED.items()},
    )


def _named(X: LowRank, prefix: str = "") -> dict[str, Any]:
    """Return the factors by name, in NumPy."""
    return {prefix + name: to_numpy(getattr(X, name)) for name in ("U", "s", "Vt")}


def _factored(arrays: dict[str, Any], prefix: str = "") -> LowRank:
    """Return the matrix whose factors have these names; raise if they do not fit."""
    U, s, Vt = (arrays[prefix + name] for name in ("U", "s", "Vt"))
    if s.ndim != 1 or U.ndim != 2 or Vt.ndim != 2 or not U.shape[1] == len(s) == len(Vt):
        raise ShapeError("factors", (U.shape, s.shape, Vt.shape), "those of one matrix")
    return LowRank(U, s, Vt)


def _rebuilt(kind: Any, about: dict[str, Any]) -> Any:
    """Return an object of a record; every field is converted to the type that it has."""
    types = {"float": float, "int": int, "str": str}
    return kind(**{one.name: types[str(one.type)](about[one.name]) for one in fields(kind)})

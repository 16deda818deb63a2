"""`weakprox certify`: how good a matrix is, whoever found it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weakprox.cli import options
from weakprox.cli.console import DONE, UNCONFIRMED, as_json, show, shown_file
from weakprox.errors import InputError

if TYPE_CHECKING:
    from weakprox.linalg.arrays import Array
    from weakprox.problem import Problem

# Multiples of the theory's smoothing at which the dual point is tried.
SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Judgement:
    """What is known of a point: its value and feasibility, and a proved lower bound."""

    value: float
    violation: float
    feasible: bool
    lower_bound: float
    rests_on: str

    @property
    def gap(self) -> float | None:
        """The point is at most this far above the optimum; None if that is not known."""
        if not (self.feasible and self.bounded):
            return None
        gap = self.value - self.lower_bound
        return 0.0 if gap < 0.0 else gap  # not max(0, gap), which would hide a NaN

    @property
    def bounded(self) -> bool:
        """Whether there is a lower bound at all."""
        return math.isfinite(self.lower_bound)


def certify(
    x_file: Annotated[
        Path, typer.Argument(metavar="X_FILE", help=f"The matrix X: a {options.FORMATS} file.")
    ],
    data: Annotated[Path, typer.Option(help="The matrix M that X estimates.")],
    lam: Annotated[float, typer.Option(help="Weight of the l1 penalty.")],
    tau: Annotated[
        float, typer.Option(help="Bound on the nuclear norm (the trace with --psd).")
    ],
    psd: options.Psd = False,
    eps: options.Eps = None,
    tol: options.Tol = None,
    seed: options.Seed = 0,
    max_svds: Annotated[
        int, typer.Option(help="Thin SVDs to spend on a better lower bound.")
    ] = 200,
    x_key: Annotated[
        str | None, typer.Option(help="Which array of an .npz X_FILE.", show_default=False)
    ] = None,
    x_header: Annotated[
        bool | None,
        typer.Option(
            "--x-header/--no-x-header", help="As --header, of X_FILE.", show_default=False
        ),
    ] = None,
    key: options.Key = None,
    header: options.Header = None,
    json: options.Json = False,
) -> None:
    """Prove how far a given X is from the optimum.

    The lower bound comes from dual points: at X itself, and if that does not settle it,
    from a short run. It holds whatever X is and wherever it comes from.
    """
    from weakprox import __version__
    from weakprox.cli.case import load

    case = load(data, lam=lam, tau=tau, psd=psd, eps=eps, tol=tol, key=key, header=header)
    X = _read_point(x_file, x_key, x_header, case.matrix)
    found = judge(case.problem, X, case.eps, seed, max_svds)
    reached = found.gap is not None and found.gap <= case.eps
    summary = {
        **case.settings,
        "x_file": str(x_file),
        "value": found.value,
        "violation": found.violation,
        "feasible": found.feasible,
        "lower_bound": found.lower_bound,
        "gap": found.gap,
        "rests_on": found.rests_on if found.bounded else None,
        "reached": reached,
        "version": __version__,
    }
    if json:
        typer.echo(as_json(summary))
    else:
        _show(shown_file(x_file), found, case.eps, reached)
    raise typer.Exit(DONE if reached else UNCONFIRMED)


def _read_point(file: Path, key: str | None, header: bool | None, data: Array) -> Array:
    """X in the data's precision; one that does not fit it is refused."""
    import numpy as np

    from weakprox.linalg.arrays import largest
    from weakprox.storage import FileError, read_matrix

    try:
        X = read_matrix(file, key=key, header="auto" if header is None else header).dense()
    except InputError as error:
        if error.argument == "key":
            raise InputError("x_key", error.given, error.wanted) from None
        wanted = error.wanted.replace("key= (--key)", "--x-key").replace(
            "header= (--header, --no-header)", "--x-header or --no-x-header"
        )
        raise type(error)(error.argument, error.given, wanted) from None
    if X.shape != data.shape:
        given = f"{X.shape[0]} x {X.shape[1]}"
        raise FileError(file, given, f"{data.shape[0]} x {data.shape[1]}, as the data")
    limit = 0.01 * math.sqrt(float(np.finfo(data.dtype).max) / data.size)
    if largest(X) > limit:
        wanted = f"at most {limit:.1e}, or their squares overflow in the data's {data.dtype}"
        raise FileError(file, f"entries up to {largest(X):.1e}", wanted)
    return X.astype(data.dtype)


def judge(problem: Problem, X: Array, eps: float, seed: int, max_svds: int) -> Judgement:
    """Value and feasibility of X, and the best lower bound that little work gives."""
    import numpy as np

    from weakprox.linalg.arrays import norm

    if max_svds < 0:
        raise InputError("max_svds", max_svds, "an integer >= 0")
    factors = problem.spectral.compress(X, min(problem.shape), np.random.default_rng(0))
    # a full factorisation loses only what the set does not allow (negative eigenvalues)
    lost = norm(X - factors.dense()) / max(norm(X), np.finfo(float).tiny)
    violation = max(problem.spectral.violation(factors), lost if lost > 1e-9 else 0.0)
    slack = 1e-9 + 1e3 * float(np.finfo(X.dtype).eps)
    feasible = lost <= slack and math.isfinite(problem.spectral.value(factors))
    value = problem.smooth_value(X)
    reached = value + problem.spectral.value(factors) if feasible else math.inf
    bound, rests_on = _bound_at(problem, X, eps, seed, reached)
    if max_svds > 0 and not (feasible and value - bound <= eps):
        other = _bound_by_run(problem, eps, seed, max_svds)
        if other is not None and _sound(other[0]) > bound:
            bound, rests_on = other
    return Judgement(value, violation, feasible, bound, rests_on)


def _bound_at(
    problem: Problem, X: Array, eps: float, seed: int, reached: float
) -> tuple[float, str]:
    """The best bound from dual points at X: gradients of the penalty, smoothed variously."""
    import numpy as np

    from weakprox.certificates.split import lower_bound
    from weakprox.penalties import Smoothed

    gamma = problem.constants(strongly_convex=False).gamma
    mus = [scale * eps / gamma for scale in SCALES] if gamma > 0 else [0.0]
    rank = min(32, *problem.shape)
    bounds = [
        lower_bound(
            problem,
            X,
            Smoothed.of(problem.penalty, mu, problem.shape),
            rank=rank,
            rng=np.random.default_rng([seed, i]),
            accuracy=0.01 * eps,
            reached=reached,
        )
        for i, mu in enumerate(mus)
    ]
    return max(((_sound(bound), rests_on) for bound, rests_on in bounds), key=lambda b: b[0])


def _sound(bound: float) -> float:
    """The bound; if it is no number, one below everything, which is all that is known."""
    return bound if math.isfinite(bound) else -math.inf


def _bound_by_run(
    problem: Problem, eps: float, seed: int, max_svds: int
) -> tuple[float, str] | None:
    """The bound that a short run proves on its way to half of eps."""
    from weakprox import minimize
    from weakprox.result import Status

    result = minimize(problem, eps=0.5 * eps, seed=seed, max_svds=max_svds)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # a run ends well on Ctrl-C; here nobody asked for its answer
    proof = result.certificate
    return (proof.lower_bound, proof.rests_on) if proof.proves else None


def _show(name: str, found: Judgement, eps: float, reached: bool) -> None:
    """The judgement for a reader."""
    how = "exact" if found.rests_on == "exact" else "true except with probability 1e-10"
    lines: list[tuple[str, str]] = [
        ("value", f"{found.value:.6g}"),
        ("feasible", f"{'to' if found.feasible else 'NO, off by'} {found.violation:.1e}"),
        (
            "optimum",
            f"at least {found.lower_bound:.6g} (proved by duality, {how})"
            if found.bounded
            else "no lower bound found",
        ),
    ]
    if found.gap is not None:
        lines.append(("gap", f"{found.gap:.3g}   (accuracy asked for: {eps:.3g})"))
    if reached:
        show(f"{name}: within {eps:.3g} of the optimum, proved", lines)
        return
    why = "there is no lower bound" if not found.bounded else "the gap is larger"
    if not found.feasible:
        why = "it is not feasible"
    show(
        f"{name}: not proved to be within {eps:.3g} of the optimum",
        lines,
        f"Accuracy not confirmed: {why}."
        + (" More --max-svds may give a better bound." if found.feasible else ""),
    )

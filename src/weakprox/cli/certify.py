"""`weakprox certify`: how far a given matrix is from the optimum."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from weakprox import __version__, minimize
from weakprox.arguments import integer, positive
from weakprox.certificates.split import lower_bound
from weakprox.cli import options
from weakprox.cli.case import load
from weakprox.cli.console import DONE, UNCONFIRMED, as_json, show, shown_path
from weakprox.cli.options import unset
from weakprox.cli.reading import AS_FOUND, Reading, layout_options
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, largest, norm
from weakprox.problem import Problem
from weakprox.result import Certificate, Status
from weakprox.storage import FileError, read_matrix

# Multiples of the theory's smoothing at which the dual point is tried.
SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)


@layout_options
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
    tol: Annotated[
        float | None,
        unset("Accuracy relative to the value of X. Default: 1e-4, unless --eps is given."),
    ] = None,
    seed: options.Seed = 0,
    max_svds: Annotated[
        int, typer.Option(help="Largest number of thin SVDs for a better lower bound.")
    ] = 200,
    x_key: Annotated[str | None, unset("Which array of an .npz X_FILE.")] = None,
    x_header: Annotated[
        bool | None, unset("Like --header, for X_FILE.", "--x-header/--no-x-header")
    ] = None,
    scale: Annotated[
        float,
        typer.Option(help="Factor by which estimate multiplied X; it is undone first."),
    ] = 1.0,
    reading: Reading = AS_FOUND,
    json: options.Json = False,
) -> None:
    """Prove how far a given X is from the optimum.

    The lower bound comes from dual points at X and, if that is not enough, from a short run. It
    is valid for any X, whatever its origin.
    """
    positive("scale", scale)
    case = load(data, lam=lam, tau=tau, psd=psd, eps=eps, tol=tol, reading=reading)
    X = _read_point(x_file, x_key, x_header, case.matrix) / case.matrix.dtype.type(scale)
    eps = case.eps_at(X)
    proof, violation, feasible = judge(case.problem, X, eps, seed, max_svds)
    gap = proof.gap if feasible and proof.proves else None
    reached = gap is not None and gap <= eps
    summary = {
        **case.settings,
        "eps": eps,
        "x_file": str(x_file),
        "scale": scale,
        "value": proof.value,
        "violation": violation,
        "feasible": feasible,
        "lower_bound": proof.lower_bound,
        "gap": gap,
        "rests_on": proof.rests_on if proof.proves else None,
        "reached": reached,
        "version": __version__,
    }
    if json:
        typer.echo(as_json(summary))
    else:
        _show(shown_path(x_file), proof, violation, feasible, eps, reached)
    raise typer.Exit(DONE if reached else UNCONFIRMED)


def _read_point(file: Path, key: str | None, header: bool | None, data: Array) -> Array:
    """X in the precision of the data; raises if its values do not fit."""
    try:
        X = read_matrix(file, key=key, header="auto" if header is None else header).dense()
    except InputError as error:
        if error.argument == "key":
            raise InputError("x_key", error.given, error.wanted) from None
        wanted = error.wanted.replace("key= (--key)", "--x-key")
        wanted = wanted.replace(
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


def judge(
    problem: Problem, X: Array, eps: float, seed: int, max_svds: int
) -> tuple[Certificate, float, bool]:
    """Return the value, a cheap lower bound, the violation, and whether X is feasible."""
    integer("max_svds", max_svds, least=0)
    factors = problem.spectral.compress(X, min(problem.shape), np.random.default_rng(0))
    # a full factorisation loses only parts outside the set (negative eigenvalues)
    lost = norm(X - factors.dense()) / max(norm(X), np.finfo(float).tiny)
    violation = max(problem.spectral.violation(factors), lost if lost > 1e-9 else 0.0)
    slack = 1e-9 + 1e3 * float(np.finfo(X.dtype).eps)
    feasible = lost <= slack and math.isfinite(problem.spectral.value(factors))
    value = problem.smooth_value(X)
    reached = value + problem.spectral.value(factors) if feasible else math.inf
    bound, rests_on = _bound_at(problem, X, eps, seed, reached)
    if max_svds > 0 and not (feasible and value - bound <= eps):
        result = minimize(problem, eps=0.5 * eps, seed=seed, max_svds=max_svds)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # the answer of an interrupted run is not used here
        if result.certificate.lower_bound > bound:
            bound, rests_on = result.certificate.lower_bound, result.certificate.rests_on
    return Certificate(value, bound, rests_on), violation, feasible


def _bound_at(
    problem: Problem, X: Array, eps: float, seed: int, reached: float
) -> tuple[float, str]:
    """The best bound from dual points at X, with several smoothings of the penalty."""
    gamma = problem.constants(strongly_convex=False).gamma
    mus = [scale * eps / gamma for scale in SCALES] if gamma > 0 else [0.0]
    limits: Any = {"rank": min(32, *problem.shape), "accuracy": 0.01 * eps, "reached": reached}
    bounds = []
    for i, mu in enumerate(mus):
        dual = problem.smoothed(mu)
        rng = np.random.default_rng([seed, i])
        bounds.append(lower_bound(problem, X, dual, rng=rng, **limits))
    finite = [found for found in bounds if math.isfinite(found[0])]
    return max(finite, key=lambda found: found[0], default=(-math.inf, bounds[0][1]))


def _show(
    name: str, proof: Certificate, violation: float, feasible: bool, eps: float, reached: bool
) -> None:
    how = "exact" if proof.rests_on == "exact" else "true except with probability 1e-10"
    optimum = f"at least {proof.lower_bound:.6g} (proved by duality, {how})"
    lines: list[tuple[str, str]] = [
        ("value", f"{proof.value:.6g}"),
        ("feasible", f"{'to' if feasible else 'NO, off by'} {violation:.1e}"),
        ("optimum", optimum if proof.proves else "no lower bound found"),
    ]
    if feasible and proof.proves:
        lines.append(("gap", f"{proof.gap:.3g}   (requested accuracy: {eps:.3g})"))
    if reached:
        show(f"{name}: within {eps:.3g} of the optimum, proved", lines)
        return
    why = "the gap is larger" if proof.proves else "there is no lower bound"
    if not feasible:
        why = "X is not feasible"
    advice = " More --max-svds may give a better bound." if feasible else ""
    title = f"{name}: not proved to be within {eps:.3g} of the optimum"
    show(title, lines, f"Accuracy not confirmed: {why}.{advice}")

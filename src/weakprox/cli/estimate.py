"""`weakprox estimate`: a low-rank and sparse matrix from a noisy one."""

from __future__ import annotations

import shlex
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from weakprox import minimize
from weakprox.arguments import nonnegative
from weakprox.cli import options
from weakprox.cli.case import Case, load
from weakprox.cli.console import as_json, plain_warnings, show, shown_path
from weakprox.cli.options import unset
from weakprox.cli.outputs import Outputs, ended
from weakprox.cli.reading import AS_FOUND, Reading, layout_options
from weakprox.display import counted
from weakprox.distributed.remote import connected
from weakprox.errors import InputError, ProofError
from weakprox.linalg.lowrank import LowRank
from weakprox.resources.memory import as_bytes, limited
from weakprox.result import Result
from weakprox.run.choose import solver_class, solver_named
from weakprox.solvers.base import Method
from weakprox.storage.matrices import write_factors, write_matrix, write_text

# Solvers of the library that do not apply to a matrix file, with the reason.
ELSEWHERE = {
    "factoredproximal": "is for observed entries: see weakprox complete",
    "filledproximal": "is for observed entries: see weakprox complete",
    "denseproximal": "is for losses other than the squared distance, which this command uses",
    "thresholding": "is for a sparse matrix without a penalty; this command uses the l1 norm",
    "dualascent": "is for the penalty MaxAffine; this command uses the l1 norm",
    "sampleaverage": "is for a loss known through samples, but a file holds all data",
}


@layout_options
def estimate(
    file: options.File,
    lam: options.Lam = None,
    tau: options.Tau = None,
    rank: Annotated[
        int | None,
        unset("Largest rank of the answer. Default: not limited."),
    ] = None,
    psd: options.Psd = False,
    solver: Annotated[
        str,
        typer.Option(
            help="auto, davisyin, leansplitting, admm, extragradient, svrgcg, adaptivesvrgcg, "
            "scg, scgs, storc, svrf, hcgm, shcgm, fista or projectedsubgradient."
        ),
    ] = "auto",
    eps: options.Eps = None,
    tol: options.Tol = None,
    seed: options.Seed = 0,
    max_seconds: Annotated[
        float,
        typer.Option(help="Time limit in seconds, including the choice of lam and tau."),
    ] = 300.0,
    max_memory: options.MaxMemory = None,
    max_svds: Annotated[int | None, unset("Stop after this number of thin SVDs.")] = None,
    output: Annotated[
        Path | None, unset(f"Write X: {options.FORMATS}.", "--output", "-o")
    ] = None,
    factors: Annotated[Path | None, unset("Write U, s, Vt: .npz.")] = None,
    proof: Annotated[Path | None, unset("Write a proof for `weakprox verify`: .npz.")] = None,
    report: options.Report = None,
    figures: Annotated[
        Path | None, unset("Directory for the report's plots as PNG, SVG.")
    ] = None,
    summary: options.Summary = None,
    checkpoint: Annotated[
        Path | None,
        unset(
            "Write the state of the run to this file, so that it can be resumed: .safetensors."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        unset("Seconds between checkpoints; 0: after every outer step. Default: 60."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume from the checkpoint; start a new run if there is none."
        ),
    ] = False,
    no_debias: Annotated[
        bool,
        typer.Option(
            "--no-debias",
            help="Write the minimiser itself. By default, if lam or tau is chosen, it is "
            "multiplied by a factor that undoes its shrinkage, as in SparseLowRank.",
        ),
    ] = False,
    scheduler: Annotated[
        str | None,
        unset(
            "Address of a dask scheduler, such as tcp://HOST:8786, whose workers hold the "
            "matrix and do the work."
        ),
    ] = None,
    reading: Reading = AS_FOUND,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the low-rank and sparse matrix in a noisy one, and prove how good it is.

    Minimises 1/2 |X - M|^2 + lam |X|_1 over matrices of nuclear norm at most tau.
    """
    begun = time.monotonic()
    nonnegative("max_seconds", max_seconds)
    method = solver_of(solver, rank)
    paths: dict[str, Any] = {"output": output, "factors": factors, "proof": proof}
    if output is not None:
        paths["certify"] = Path(f"{output}.certify.sh")
    outputs = Outputs.planned([file], figures, **paths, report=report, summary=summary)
    if checkpoint is not None:
        outputs.keep_apart(checkpoint, file)
    most = None if max_memory is None else as_bytes("max_memory", max_memory)
    with ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(connected(scheduler))
        with limited(most):
            given: dict[str, Any] = {"lam": lam, "tau": tau, "eps": eps, "tol": tol, "psd": psd}
            search: dict[str, Any] = {"rank": rank, "seed": seed, "max_seconds": max_seconds}
            search["progress"] = False if quiet else "auto"
            case = load(file, **given, reading=reading, **search, client=client)
        stack.enter_context(plain_warnings())
        result = minimize(
            case.problem,
            method,
            rank=rank if method == "auto" else None,
            **case.accuracy,
            seed=seed,
            max_seconds=max(0.0, max_seconds - (time.monotonic() - begun)),
            max_svds=max_svds,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            max_memory=most,
            progress=False if quiet else "auto",
            proof=proof is not None,
        )
        # the data of a proof may be on the workers
        outputs = _provable(result, outputs)
        scale = 1.0 if no_debias or case.scale is None else case.scale
        found = summarise(case, result, outputs)
        found["applied_scale"] = scale
        command = None
        if output is not None:
            command = certify_command(output, case, reading, result.eps, scale)
            found["certify"] = command
        estimate = _scaled(result, scale)
        labels = case.table.rows, case.table.columns
        outputs.write(
            found,
            output=lambda path: write_matrix(path, estimate.X, *labels),
            certify=lambda path: write_text(path, f"{command}\n"),
            factors=lambda path: write_factors(path, *estimate.factors, *labels),
            proof=lambda path: result.proof.save(path),
            report=lambda path: _report(path, case, result, scale, figures),
        )
        if json:
            typer.echo(as_json(found))
        elif not quiet:
            _show(case, result, found, outputs, automatic=method == "auto")
            if command is not None:
                typer.echo(f"To certify it again:\n  {command}")
    raise ended(result, found)


def _scaled(result: Result, scale: float) -> Result:
    """The result with its factors multiplied, as `SparseLowRank` does to undo shrinkage."""
    if scale == 1.0:
        return result
    X = result.low_rank
    return replace(result, low_rank=LowRank(X.U, X.s * X.s.dtype.type(scale), X.Vt))


def certify_command(
    output: Path, case: Case, reading: Reading, eps: float, scale: float
) -> str:
    """The command line that recomputes the certificate of the written matrix."""
    words = ["weakprox", "certify", str(output), "--data", str(case.table.source)]
    words += ["--lam", repr(case.lam), "--tau", repr(case.tau), "--eps", repr(eps)]
    words += ["--scale", repr(scale)] if scale != 1.0 else []
    words += ["--psd"] if case.psd else []
    return shlex.join([*words, *reading.words()])


def solver_of(name: str, rank: int | None) -> Method | Literal["auto"]:
    """Return the solver of this name, with the rank if it has one; "auto" is left as it is."""
    if name.lower() == "auto":
        return "auto"
    why = ELSEWHERE.get(solver_class(name).__name__.lower())
    if why is not None:
        wanted = "another one, such as auto or davisyin"
        raise InputError("solver", f"{name!r}, which {why}", wanted)
    return solver_named(name, rank)


def _provable(result: Result, outputs: Outputs) -> Outputs:
    """The outputs that can be written: without the proof if there is none."""
    if "proof" not in outputs.paths:
        return outputs
    try:
        _ = result.proof
    except ProofError as problem:
        typer.echo(f"weakprox: no proof written. {problem}", err=True)
        return outputs.without("proof")
    return outputs


def summarise(case: Case, result: Result, outputs: Outputs) -> dict[str, Any]:
    proof = result.certificate
    return {
        **case.settings,
        **outputs.summary(result),
        "reason": result.reason,
        "seed": result.seed,
        "rests_on": proof.rests_on if proof.proves else None,
        "rank": result.rank,
        "nonzeros": result.nonzeros(),
        "violation": result.violation,
        "eps": result.eps,
        "counts": asdict(result.counts),
    }


def _report(path: Path, case: Case, result: Result, scale: float, figures: Path | None) -> None:
    from weakprox.report import write_report

    # The report states the accuracy by the result, and a scale only if it is applied.
    settings = {k: v for k, v in case.settings.items() if k not in ("eps", "tol")}
    settings["scale"] = None if scale == 1.0 else scale
    write_report(
        path,
        result,
        problem=case.problem,
        data=case.matrix,
        rows=case.table.rows,
        columns=case.table.columns,
        settings=settings,
        figures=figures,
        scale=scale,
        noise=case.noise,
    )


def _show(
    case: Case, result: Result, found: dict[str, Any], outputs: Outputs, *, automatic: bool
) -> None:
    """The summary for a reader, with the reason for the solver if it was chosen."""
    m, d = case.table.shape
    nonzeros = f"{found['nonzeros']} of {m * d} entries nonzero (above 1e-3 of the largest)"
    lines = [
        *case.lines(),
        *([("solver", f"{result.solver}: {result.reason}")] if automatic else []),
        ("value", f"{result.value:.6g}   (requested accuracy: {result.eps:.3g})"),
        ("proof", str(result.certificate)),
        ("rank", f"{result.rank}; {nonzeros}"),
        ("feasible", f"to {result.violation:.1e}"),
        ("work", f"{counted(result.counts.svds, 'SVD')}, {result.seconds:.2f} s"),
        *outputs.lines(),
    ]
    title = f"{result.solver} on {shown_path(case.table.source)}, {m} x {d}"
    warning = None
    if not found["reached"]:
        warning = f"Accuracy not confirmed. {found['advice']}"
        if "SVRGCG" in result.solver and "--rank" not in warning:
            warning += " A larger --rank may also help."
    show(f"{title}: {result.status.label}", lines, warning)

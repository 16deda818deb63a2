"""`weakprox estimate`: a low-rank and sparse matrix from a noisy one."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weakprox.cli import options
from weakprox.cli.console import (
    DONE,
    INTERRUPTED,
    UNCONFIRMED,
    as_json,
    plain_warnings,
    show,
    shown_advice,
    shown_file,
)

if TYPE_CHECKING:
    from weakprox.cli.case import Case
    from weakprox.cli.outputs import Outputs
    from weakprox.result import Result


def estimate(
    file: options.File,
    lam: options.Lam = None,
    tau: options.Tau = None,
    rank: Annotated[
        int | None,
        typer.Option(
            help="Largest rank of the answer. Default: as large as it turns out to be.",
            show_default=False,
        ),
    ] = None,
    psd: options.Psd = False,
    solver: Annotated[
        str,
        typer.Option(
            help="auto, davisyin, leansplitting, extragradient, svrgcg, adaptivesvrgcg, scg, "
            "scgs, storc, svrf, hcgm, shcgm, fista or projectedsubgradient."
        ),
    ] = "auto",
    eps: options.Eps = None,
    tol: options.Tol = None,
    seed: options.Seed = 0,
    max_seconds: options.MaxSeconds = 300.0,
    max_memory: options.MaxMemory = None,
    max_svds: Annotated[
        int | None, typer.Option(help="Stop after so many thin SVDs.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=f"Write X: {options.FORMATS}.", show_default=False),
    ] = None,
    factors: Annotated[
        Path | None, typer.Option(help="Write U, s, Vt: .npz.", show_default=False)
    ] = None,
    proof: Annotated[
        Path | None,
        typer.Option(help="Write a proof for `weakprox verify`: .npz.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to read: .html.", show_default=False)
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="Directory for the report's plots as PNG, SVG.", show_default=False),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option(help="Write the summary: .json.", show_default=False)
    ] = None,
    checkpoint: options.Checkpoint = None,
    checkpoint_every: options.CheckpointEvery = 60.0,
    resume: options.Resume = False,
    scheduler: options.Scheduler = None,
    key: options.Key = None,
    header: options.Header = None,
    json: options.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no summary.")] = False,
) -> None:
    """Find the low-rank and sparse matrix in a noisy one, and prove how good it is.

    Minimises 1/2 |X - M|^2 + lam |X|_1 over matrices of nuclear norm at most tau.
    """
    from weakprox import minimize
    from weakprox.arguments import nonnegative
    from weakprox.cli.case import load
    from weakprox.cli.outputs import Outputs
    from weakprox.cli.solvers import solver_of
    from weakprox.distributed.remote import connected
    from weakprox.resources.memory import as_bytes, limited

    begun = time.monotonic()
    nonnegative("max_seconds", max_seconds)
    method = solver_of(solver, rank)
    outputs = Outputs.planned(
        [file],
        figures=figures,
        output=output,
        factors=factors,
        proof=proof,
        report=report,
        summary=summary,
    )
    if checkpoint is not None:
        outputs.keep_apart(checkpoint, file)
    most = None if max_memory is None else as_bytes("max_memory", max_memory)
    with ExitStack() as stack:
        client = None if scheduler is None else stack.enter_context(connected(scheduler))
        with limited(most):
            case = load(
                file,
                lam=lam,
                tau=tau,
                psd=psd,
                eps=eps,
                tol=tol,
                key=key,
                header=header,
                rank=rank,
                seed=seed,
                max_seconds=max_seconds,
                client=client,
            )
        stack.enter_context(plain_warnings())
        result = minimize(
            case.problem,
            method,
            rank=rank if method == "auto" else None,
            eps=case.eps,
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
    outputs = _provable(result, outputs)
    found = summarise(case, result, outputs)
    outputs.write(result, case, found)
    if json:
        typer.echo(as_json(found))
    elif not quiet:
        _show(case, result, found, automatic=method == "auto")
    raise typer.Exit(exit_code(result))


def _provable(result: Result, outputs: Outputs) -> Outputs:
    """The outputs that can be written: without the proof if there is none."""
    from weakprox.errors import ProofError

    if "proof" not in outputs.paths:
        return outputs
    try:
        _ = result.proof
    except ProofError as problem:
        typer.echo(f"weakprox: no proof written. {problem}", err=True)
        return outputs.without("proof")
    return outputs


def exit_code(result: Result) -> int:
    """The exit code of a run."""
    from weakprox.result import Status

    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return DONE if result.status.reached or result.certified else UNCONFIRMED


def summarise(case: Case, result: Result, outputs: Outputs) -> dict[str, Any]:
    """The summary of a run, for JSON."""
    from weakprox import __version__

    proof = result.certificate
    return {
        **case.settings,
        "solver": result.solver,
        "reason": result.reason,
        "seed": result.seed,
        "status": result.status.name.lower(),
        "advice": shown_advice(result.status.advice),
        "reached": result.status.reached or result.certified,
        "value": result.value,
        "lower_bound": proof.lower_bound,  # infinite, which JSON writes as null, if unknown
        "gap": result.gap,
        "rests_on": proof.rests_on if proof.proves else None,
        "rank": result.rank,
        "nonzeros": result.nonzeros(),
        "violation": result.violation,
        "counts": result.counts,
        "seconds": result.seconds,
        "outputs": outputs.names(),
        "version": __version__,
    }


def _show(case: Case, result: Result, found: dict[str, Any], *, automatic: bool) -> None:
    """The summary for a reader, with the reason for the solver if it was chosen."""
    m, d = case.table.shape
    proof = result.certificate
    lines = [
        *case.lines(),
        *([("solver", f"{result.solver}: {result.reason}")] if automatic else []),
        ("value", f"{result.value:.6g}   (accuracy asked for: {case.eps:.3g})"),
        ("proof", str(proof)),
        (
            "rank",
            f"{result.rank}; {found['nonzeros']} of {m * d} entries nonzero (above 1e-3 of "
            "the largest)",
        ),
        ("feasible", f"to {result.violation:.1e}"),
        ("work", f"{result.counts.svds} SVDs, {result.seconds:.2f} s"),
    ]
    if found["outputs"]:
        written = [shown_file(Path(name)) for name in found["outputs"].values()]
        lines.append(("written", ", ".join(written)))
    title = f"{result.solver} on {shown_file(case.table.source)}, {m} x {d}"
    warning = None
    if not found["reached"]:
        warning = f"Accuracy not confirmed. {found['advice']}"
        if "SVRGCG" in result.solver and "--rank" not in warning:
            warning += " A larger --rank may help, too."
    show(f"{title}: {result.status.label}", lines, warning)

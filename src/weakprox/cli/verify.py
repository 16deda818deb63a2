"""`weakprox verify`: check a proof file with code that is independent of the solvers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weakprox import __version__
from weakprox.cli import options
from weakprox.cli.console import DONE, REFUSED, as_json, show, shown_path
from weakprox.cli.reading import AS_FOUND, Reading, layout_options
from weakprox.errors import ProofError
from weakprox.linalg.tiled import as_tiled, is_chunked
from weakprox.proofs import Proof
from weakprox.proofs.file import read_data
from weakprox.proofs.proof import verify_data
from weakprox.storage import FileError


@layout_options
def verify(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="The proof: an .npz file.")],
    data: Annotated[
        Path,
        typer.Option(
            help=f"The matrix M that the proof is about: a {options.FORMATS} file or a .zarr "
            "folder. For Completion an .npz file with rows, cols, values; for Sensing one with "
            "A (or U, V) and b."
        ),
    ],
    reading: Reading = AS_FOUND,
    json: options.Json = False,
) -> None:
    """Check a proof file against the data with code that is independent of the solvers.

    Recomputes the value of X, its feasibility and the lower bound in float64, with an
    allowance for every rounding error. The exit code is 0 if the claim holds, 1 if it is
    rejected, and 2 if a file cannot be read or belongs to other data.
    """
    found = Proof.load(proof)
    try:
        verdict = verify_data(found, _arrays(found, data, reading))
    except ProofError as error:
        files = {"proof": proof, "data": data}
        if error.argument not in files:
            raise
        raise FileError(files[error.argument], error.given, error.wanted) from None
    summary = {
        "file": str(proof),
        "data": str(data),
        "valid": verdict.valid,
        "reason": verdict.reason,
        "terms": found.terms,
        "value": verdict.value,
        "lower_bound": verdict.lower_bound,
        "gap": verdict.gap,
        "violation": verdict.violation,
        "claimed_value": verdict.claimed_value,
        "claimed_lower_bound": verdict.claimed_bound,
        "eps": verdict.eps,
        "trusted": list(verdict.trusted),
        "rests_on": verdict.rests_on,
        "version": __version__,
    }
    if json:
        typer.echo(as_json(summary))
    else:
        lines = [
            ("loss", _said(found.terms["loss"])),
            *(("penalty", _said(part)) for part in found.terms["penalty"]),
            ("spectral", _said(found.terms["spectral"])),
            ("value", f"{verdict.value:.10g}   (claimed: {verdict.claimed_value:.10g})"),
            ("optimum", f"at least {verdict.lower_bound:.10g}"),
            ("gap", f"{verdict.gap:.3g}   (requested accuracy: {verdict.eps:.3g})"),
            ("feasible", f"to {verdict.violation:.1e}"),
        ]
        show(f"{shown_path(proof)}: {'valid' if verdict else 'REFUSED'}", lines, str(verdict))
    raise typer.Exit(DONE if verdict else REFUSED)


def _said(term: dict[str, Any]) -> str:
    """A term with its parameters, for a reader."""
    numbers = ", ".join(f"{name} {value}" for name, value in term.items() if name != "kind")
    return f"{term['kind']} ({numbers})" if numbers else str(term["kind"])


def _arrays(found: Proof, data: Path, reading: Reading) -> dict[str, Any]:
    with_arrays = ("largest", "weighted", "range")
    several = any(part["kind"] in with_arrays for part in found.terms["penalty"])
    if found.terms["loss"]["kind"] != "Denoising" or several:
        return read_data(data)
    table = reading.table(data)
    values = table.values
    return {"M": as_tiled(values) if is_chunked(values) else table.dense()}

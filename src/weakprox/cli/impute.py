"""`weakprox impute`: a table whose missing entries are filled in."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from weakprox.cli import options
from weakprox.cli.console import as_json, plain_warnings, shown_path
from weakprox.cli.options import unset
from weakprox.cli.outputs import Outputs, ended
from weakprox.cli.reading import AS_FOUND, Reading, layout_options, naming
from weakprox.storage import FileError
from weakprox.storage.matrices import write_matrix

if TYPE_CHECKING:
    from weakprox.estimators import SparseLowRankImputer


@layout_options
def impute(
    file: options.File,
    lam: Annotated[
        float | None, unset("Weight of the l1 norm. Default: chosen by hidden entries.")
    ] = None,
    tau: Annotated[
        float | None, unset("Bound on the nuclear norm. Default: chosen by hidden entries.")
    ] = None,
    scaling: Annotated[
        str, typer.Option(help="auto, none, center or standard: preparation of columns.")
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Accuracy to prove, relative to f.")] = 1e-3,
    seed: options.Seed = 0,
    max_seconds: Annotated[
        float, typer.Option(help="Time limit in seconds, including the choice of weights.")
    ] = 300.0,
    output: Annotated[
        Path | None, unset(f"Write the filled table: {options.FORMATS}.", "--output", "-o")
    ] = None,
    report: options.Report = None,
    summary: options.Summary = None,
    reading: Reading = AS_FOUND,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill the missing entries of a table of measurements; observed ones are kept.

    Columns may have different units. For ratings, with intercepts of rows and columns, see
    `weakprox complete`.
    """
    begun = time.monotonic()
    outputs = Outputs.planned([file], output=output, report=report, summary=summary)
    table = reading.table(file, missing=True)
    M = np.asarray(table.dense(), dtype=float)
    gone = np.isnan(M)
    if not gone.any():
        raise FileError(file, "no missing entry", "empty cells or NaN for missing entries")
    if gone.all():
        raise FileError(file, "no number at all", "at least one observed entry")
    for j in np.flatnonzero(gone.all(axis=0)).tolist():
        name = j + 1 if table.columns is None else repr(table.columns[j])
        said = f"column {name} has no number and is filled with 0; leave it out"
        typer.echo(f"weakprox: {shown_path(file)}: {said}", err=True)
    from weakprox.estimators import SparseLowRankImputer  # needs scikit-learn

    model = SparseLowRankImputer(
        "auto" if lam is None else lam,
        "auto" if tau is None else tau,
        scaling=scaling,
        tol=tol,
        max_seconds=max(0.0, max_seconds - (time.monotonic() - begun)),
        random_state=seed,
        verbose=not quiet and sys.stderr.isatty(),
    )
    with plain_warnings(), naming(file):
        filled = model.fit_transform(M)
    found: dict[str, Any] = {
        "file": str(file),
        "shape": list(M.shape),
        "missing": int(gone.sum()),
        "lam": model.lam_,
        "tau": model.tau_,
        "scaling": model.scaling_,
        "weights": model.weights_,
        "rank": model.result_.rank,
        "svds": model.result_.counts.svds,
        **outputs.summary(model.result_),
    }
    labels = table.rows, table.columns
    outputs.write(
        found,
        output=lambda path: write_matrix(path, filled, *labels),
        report=lambda path: _report(path, model, M, file, labels),
    )
    if json:
        typer.echo(as_json(found))
    elif not quiet:
        outputs.show(model, found, file, _lines(model, found))
    raise ended(model.result_, found)


def _report(path: Path, model: SparseLowRankImputer, M: Any, file: Path, labels: Any) -> None:
    from weakprox.report.imputation import write_imputation_report

    settings = {
        "file": file.name,
        "scaling": model.scaling_,
        "weights": "chosen by hidden entries" if model.cv_results_ else "as given",
    }
    write_imputation_report(path, model, M, title=file.name, labels=labels, settings=settings)


def _lines(model: SparseLowRankImputer, found: dict[str, Any]) -> list[tuple[str, str]]:
    """Lines for the reader: what was filled, and how."""
    from weakprox.report.imputation import in_words

    size = math.prod(found["shape"])
    missing = (
        f"{found['missing']} of {size} entries ({found['missing'] / size:.1%}), now filled"
    )
    weights = f"lam {model.lam_:.4g}, tau {model.tau_:.4g}, scaling {model.scaling_}"
    return [
        ("missing", missing),
        ("filled by", in_words(model.weights_)),
        ("settings", weights),
        ("value", f"{model.result_.value:.6g}"),
        ("proof", f"of the low-rank part: {model.certificate_}"),
    ]

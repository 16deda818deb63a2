"""`weakprox complete`: predictions of missing entries from observed ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from weakprox.arguments import one_of
from weakprox.cli import options
from weakprox.cli.console import as_json, plain_warnings
from weakprox.cli.options import unset
from weakprox.cli.outputs import Outputs, ended
from weakprox.cli.reading import AS_FOUND, STDIN, Reading, layout_options, naming, stored
from weakprox.errors import InputError
from weakprox.storage.long import READS, read_long, write_long
from weakprox.storage.matrices import write_matrix
from weakprox.storage.table import FileError, Table

if TYPE_CHECKING:
    from weakprox.estimators import MatrixCompletion

LOSSES = ("squared", "huber", "logistic", "poisson")
INTERCEPTS = ("both", "rows", "columns", "none")
PREDICTION = "prediction"  # name of the column that is added to a long table


@layout_options
def complete(
    file: Annotated[
        Path,
        typer.Argument(
            help="A long table (.csv, .tsv or .parquet) with --row, --col and --value; or a "
            f"matrix ({options.FORMATS}) with NaN or empty cells for missing entries; of a "
            "sparse one, entries that are not stored."
        ),
    ],
    row: Annotated[str | None, unset("Column of the table that names rows.")] = None,
    col: Annotated[str | None, unset("Column of the table that names columns.")] = None,
    value: Annotated[str | None, unset("Column of the table with the values.")] = None,
    loss: Annotated[str, typer.Option(help=f"{', '.join(LOSSES[:-1])} or {LOSSES[-1]}.")] = (
        "squared"
    ),
    intercepts: Annotated[str, typer.Option(help="both, rows, columns or none.")] = "both",
    lam: Annotated[
        float | None, unset("Weight of the nuclear norm. Default: chosen by held-out data.")
    ] = None,
    rank: Annotated[int | None, unset("Largest rank of the answer.")] = None,
    tol: Annotated[float, typer.Option(help="Accuracy to prove, relative to f.")] = 1e-3,
    seed: options.Seed = 0,
    max_seconds: Annotated[
        float, typer.Option(help="Time limit in seconds, including the choice of lam.")
    ] = 300.0,
    pairs: Annotated[
        Path | None,
        unset("A long table of other pairs to predict, with the columns --row and --col."),
    ] = None,
    output: Annotated[
        Path | None,
        unset(
            "Write predictions: of all lines of the table or of --pairs, or the whole matrix.",
            "--output",
            "-o",
        ),
    ] = None,
    report: options.Report = None,
    summary: options.Summary = None,
    reading: Reading = AS_FOUND,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict missing entries of a matrix from observed ones, and prove how good the fit is.

    Minimises the loss of the observed entries plus lam times the nuclear norm, with
    intercepts.
    """
    begun = time.monotonic()
    one_of("loss", loss, LOSSES)
    one_of("intercepts", intercepts, INTERCEPTS)
    names = _names(row, col, value, pairs)
    paths = {"output": output, "report": report, "summary": summary}
    read = [file] if pairs is None else [file, pairs]
    outputs = Outputs.planned(read, tables=() if names is None else READS, **paths)
    if names is None:
        table = _matrix(file, reading)
        # stored entries of a sparse matrix are the observations
        M = table.values if _is_sparse(table) else table.dense()
        given: tuple[Any, ...] = (M, None, None)
        wanted = None
    else:
        _check_table(names, reading, output)
        layout = {"sep": reading.sep, "decimal": reading.decimal}
        columns = _read(file, names, names[2:], **layout)
        kept = ~np.isnan(columns[names[2]])
        if not kept.any():
            raise FileError(file, f"no number in column '{names[2]}'", "observations")
        given = tuple(columns[name][kept] for name in names)
        wanted = columns if pairs is None else _read(pairs, names[:2], (), **layout)
    from weakprox.estimators import MatrixCompletion  # needs scikit-learn

    left = max(0.0, max_seconds - (time.monotonic() - begun))
    model = MatrixCompletion(
        "auto" if lam is None else lam,
        loss=loss,
        intercepts=intercepts,
        rank=rank,
        tol=tol,
        max_seconds=left,
        random_state=seed,
        verbose=not quiet and sys.stderr.isatty(),
    )
    with plain_warnings(), naming(file):
        model.fit(*given)
    found = {
        "shape": [len(model.row_ids_), len(model.column_ids_)],
        "lam": model.lam_,
        "intercept_ridge": model.intercept_ridge_,
        "scaling": model.scaling_,
        "rank": model.rank_,
        "mean": model.intercept_,
        "svds": model.result_.counts.svds,
        **outputs.summary(model.result_),
    }

    def predict(path: Path) -> None:
        if names is None or wanted is None:
            write_matrix(path, _filled(model, table), table.rows, table.columns)
        else:
            predicted = model.predict(wanted[names[0]], wanted[names[1]])
            write_long(path, {**wanted, PREDICTION: predicted})

    labels = (model.row_ids_, model.column_ids_)
    if names is None:
        labels = (table.rows, table.columns)
    settings = {
        "file": file.name,
        "ridge of the intercepts": model.intercept_ridge_,
        "scaling": model.scaling_,
        "weights": "chosen by held-out entries" if model.cv_results_ else "as given",
    }

    def write_report(path: Path) -> None:
        from weakprox.report.completion import write_completion_report

        about: Any = {"title": file.name, "labels": labels, "settings": settings}
        write_completion_report(path, model, given, **about)

    outputs.write(found, output=predict, report=write_report)
    if json:
        typer.echo(as_json(found))
    elif not quiet:
        ridge = f"; ridge of the intercepts {model.intercept_ridge_:.3g}"
        lines = [
            ("lam", f"{model.lam_:.4g}{ridge}; scaling {model.scaling_}"),
            ("value", f"{model.result_.value:.6g}"),
            ("proof", str(model.certificate_)),
        ]
        outputs.show(model, found, file, lines)
    raise ended(model.result_, found)


def _matrix(file: Path, reading: Reading) -> Table:
    """Read a matrix; a file with text among its cells may be a long table."""
    try:
        return reading.table(file, missing=True)
    except FileError as error:
        if not str(error.given).startswith("the text "):
            raise
        wanted = f"{error.wanted}; a long table needs --row, --col and --value"
        raise FileError(file, error.given, wanted) from None


def _names(
    row: str | None, col: str | None, value: str | None, pairs: Path | None
) -> tuple[str, str, str] | None:
    """Names of the columns of a long table; None for a matrix."""
    if row is not None and col is not None and value is not None:
        return row, col, value
    if row is None and col is None and value is None:
        if pairs is not None:
            raise InputError("pairs", str(pairs), "together with --row, --col and --value")
        return None
    missing = "row" if row is None else "col" if col is None else "value"
    raise InputError(missing, "nothing", "a column: all of --row, --col and --value, or none")


def _check_table(names: tuple[str, str, str], reading: Reading, output: Path | None) -> None:
    """Raise on names and options that a long table cannot have."""
    row, col, value = names
    if row == col or value in (row, col):
        option, same = ("col", row) if row == col else ("value", value)
        raise InputError(option, repr(same), "three different columns")
    if output is not None and PREDICTION in names:
        option = ("row", "col", "value")[names.index(PREDICTION)]
        wanted = "another name: the predictions are written to a column of this name"
        raise InputError(option, repr(PREDICTION), wanted)
    for word in replace(reading, sep=None, decimal=None).words():
        if word.startswith("--") and word != "--header":
            raise InputError(word, "a long table", "a matrix for this option")


def _read(
    file: Path, names: Sequence[str], numbers: Sequence[str], **layout: Any
) -> dict[str, Any]:
    """Read columns of a long table, or of standard input for "-"."""
    if file != STDIN:
        return read_long(file, names, numbers, **layout)
    try:
        return read_long(stored(), names, numbers, **layout)
    except FileError as error:
        raise FileError(STDIN, error.given, error.wanted) from None


def _is_sparse(table: Table) -> bool:
    from scipy.sparse import issparse  # slow to import

    return bool(issparse(table.values))


def _filled(model: MatrixCompletion, table: Table) -> Any:
    """The matrix with predictions where it has NaN or, if it is sparse, no stored entry."""
    filled = np.array(table.dense(), dtype=float)
    if _is_sparse(table):
        stored = np.zeros(filled.shape, dtype=bool)
        stored[table.values.coords] = True
        filled[~stored] = np.nan
    rows, columns = np.nonzero(np.isnan(filled))
    if len(rows):
        filled[rows, columns] = model.predict(rows, columns)
    return filled

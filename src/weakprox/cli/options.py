"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

FORMATS = ".npy, .npz, .csv, .tsv, .mtx or .parquet"
READS = ".npy, .npz, .csv, .tsv, .txt, .mtx, .parquet, .xlsx or .ods"


def unset(words: str, *names: str) -> Any:
    """An option that is None unless given, which its help does not show."""
    return typer.Option(*names, help=words, show_default=False)


File = Annotated[
    Path,
    typer.Argument(
        help=f"The matrix: a {READS} file, a .zarr folder, or - for standard input.",
        allow_dash=True,
    ),
]
MaxMemory = Annotated[
    str | None,
    unset("Memory that the command may use, such as 2GB: arrays that do not fit stay on disk."),
]
Lam = Annotated[
    float | None, unset("Weight of the l1 penalty. Default: chosen by held-out data.")
]
Tau = Annotated[
    float | None,
    unset(
        "Bound on the nuclear norm (the trace with --psd). Default: chosen by held-out data."
    ),
]
Psd = Annotated[
    bool, typer.Option("--psd", help="X is positive semidefinite; M must be symmetric.")
]
Eps = Annotated[float | None, unset("Accuracy in the value, absolute.")]
Tol = Annotated[
    float | None,
    unset(
        "Accuracy relative to the value at the answer. Default: 1e-4, unless --eps is given."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random choices.")]
Report = Annotated[Path | None, unset("Write a report: .html.")]
Summary = Annotated[Path | None, unset("Write the summary: .json.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the summary, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no summary.")]

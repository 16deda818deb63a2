"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORMATS = ".npy, .npz, .csv, .tsv, .mtx or .parquet"

File = Annotated[Path, typer.Argument(help=f"The matrix: a {FORMATS} file.")]
Lam = Annotated[
    float | None,
    typer.Option(
        help="Weight of the l1 penalty. Default: noise level x sqrt(2 log(m d)).",
        show_default=False,
    ),
]
Tau = Annotated[
    float | None,
    typer.Option(
        help="Bound on the nuclear norm (the trace with --psd). Default: 0.9 of the leading "
        "singular values of M soft-thresholded by lam, as many as stand above the noise.",
        show_default=False,
    ),
]
Psd = Annotated[
    bool, typer.Option("--psd", help="X symmetric and positive semidefinite; so must M be.")
]
Eps = Annotated[
    float | None,
    typer.Option(help="Accuracy in the value, absolute.", show_default=False),
]
Tol = Annotated[
    float | None,
    typer.Option(
        help="Accuracy relative to the value at zero. Default: 1e-3, unless --eps is given.",
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(help="Which array of an .npz file.", show_default=False),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of a .csv or .tsv file names the columns; found out if "
        "neither is given.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]
MaxSeconds = Annotated[float, typer.Option(help="Stop after so many seconds.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, nothing else.")]

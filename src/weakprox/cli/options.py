"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORMATS = ".npy, .npz, .csv, .tsv, .mtx or .parquet"

File = Annotated[Path, typer.Argument(help=f"The matrix: a {FORMATS} file, or a .zarr folder.")]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        help="Memory the command may use, such as 2GB: arrays that do not fit stay on disk.",
        show_default=False,
    ),
]
Lam = Annotated[
    float | None,
    typer.Option(
        help="Weight of the l1 penalty. Default: chosen by held-out data.",
        show_default=False,
    ),
]
Tau = Annotated[
    float | None,
    typer.Option(
        help="Bound on the nuclear norm (the trace with --psd). Default: chosen by "
        "held-out data.",
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
        help="Whether the first row of a .csv or .tsv file names the columns; guessed by "
        "default.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a dask scheduler, such as tcp://HOST:8786, whose workers hold the "
        "matrix and do the work.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random choice.")]
MaxSeconds = Annotated[
    float, typer.Option(help="Time limit in seconds, for the choice of lam and tau as well.")
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of the run to this file, so that it can be resumed: "
        ".safetensors.",
        show_default=False,
    ),
]
CheckpointEvery = Annotated[
    float, typer.Option(help="Seconds between checkpoints; 0: after every outer step.")
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Resume from the checkpoint; start a new run if there is none."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON, nothing else.")]

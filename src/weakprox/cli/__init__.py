"""The command `weakprox`: estimate, impute, complete, certify, verify, info and others.

Modules that `import weakprox` does not load (experiments, reports, rich) are imported on
demand.
"""

from __future__ import annotations

from typing import Annotated

import typer

from weakprox import __version__
from weakprox.cli import certify, complete, estimate, impute, info, reproduce, verify
from weakprox.cli.compile import compile_passes
from weakprox.cli.console import EXIT_CODES, Shell

app = typer.Typer(
    cls=Shell,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weakprox {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def weakprox(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Low-rank and sparse matrices from noisy ones, with a proof of how good they are."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (
    estimate.estimate,
    impute.impute,
    complete.complete,
    certify.certify,
    verify.verify,
    info.info,
    reproduce.reproduce,
):
    app.command(epilog=EXIT_CODES)(command)
app.command("compile", epilog=EXIT_CODES)(compile_passes)


def main() -> None:
    """Entry point of the command; ends the process with one of the documented exit codes."""
    app(prog_name="weakprox")

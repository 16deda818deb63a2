"""`weakprox reproduce`: reproduce the paper's tables and figures."""

from __future__ import annotations

from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from weakprox.cli import options
from weakprox.cli.console import INTERRUPTED, as_json, shown_path


def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(
            help="table1, figure1, figure2, table2, ablation, epochs, or all.",
            show_default=False,
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and smaller runs: no conclusions.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print only JSON: the summary, or one per name if several are requested.",
        ),
    ] = False,
    out: Annotated[
        Path,
        typer.Option(help="Directory for NAME.json, report.html and finished jobs (cache)."),
    ] = Path("reproduction"),
    seed: options.Seed = 0,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Worker processes. Default: one per CPU it may use.", show_default=False
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Repeat finished jobs.")] = False,
) -> None:
    """Reproduce tables and figures of the paper; an interrupted run continues."""
    from weakprox.experiments import ALL, Interrupted, run
    from weakprox.experiments.harness import write_json

    names = _names(what, list(ALL))
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{shown_path(out)} is not a directory", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    try:
        summaries = run(
            names, quick=quick, seed=seed, processes=processes, cache=out / "cache", fresh=fresh
        )
    except Interrupted as stopped:
        typer.echo(f"weakprox: {stopped}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for name, summary in summaries.items():
        write_json(out / f"{name}.json", summary)
    from weakprox.report.reproduction import write_reproduction

    write_reproduction(out, _together(out, list(ALL), summaries))
    if json:
        typer.echo(as_json(summaries[names[0]] if len(names) == 1 else summaries))
        return
    for name, summary in summaries.items():
        _show(name, ALL[name].title + (" (quick run)" if quick else ""), summary)
    if quick:
        typer.echo("A quick run: fewer and smaller runs, from which no conclusion is drawn.")
    typer.echo(f"Everything is in {shown_path(out)}; start with report.html.")


def _together(out: Path, known: list[str], new: dict[str, Any]) -> dict[str, Any]:
    """The new summaries, and those in the directory that were computed in the same way."""
    made = next(iter(new.values()))["made"]
    found = {}
    for name in known:
        summary = new.get(name)
        if summary is None:
            try:
                summary = loads((out / f"{name}.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
        if isinstance(summary, dict) and summary.get("made") == made:
            found[name] = summary
    return found


def _names(what: list[str], known: list[str]) -> list[str]:
    """The requested experiments, once each, the paper's first."""
    unknown = [name for name in what if name not in (*known, "all")]
    if unknown:
        message = f"{', '.join(unknown)}; choose from {', '.join(known)} or all"
        raise typer.BadParameter(message, param_hint="WHAT")
    return [name for name in known if name in what or "all" in what]


def _show(name: str, title: str, summary: dict[str, Any]) -> None:
    """The experiment's main table."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from weakprox.report.reproduction import MAIN, rounded

    headers, rows = rounded(MAIN[name](summary))
    table = Table(*headers, title=title, box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*["-" if cell is None else str(cell) for cell in row])
    width = max(Console().width, 130)  # long lines rather than truncated numbers
    Console(highlight=False, width=width).print(table)

"""Output files of a run, checked before it and written together after it, and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

from weakprox import __version__
from weakprox.cli import console
from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.result import Result, Status
from weakprox.storage.atomic import atomic_all, checked_target
from weakprox.storage.matrices import known_suffix, write_text
from weakprox.storage.parquet import arrow
from weakprox.storage.table import FileError

SUFFIXES = {
    "certify": (".sh",),
    "factors": (".npz",),
    "proof": (".npz",),
    "report": (".html", ".htm"),
    "summary": (".json",),
}


@dataclass(frozen=True)
class Outputs:
    """Files to write, by contents."""

    paths: dict[str, Path]
    figures: Path | None = None

    @classmethod
    def planned(
        cls,
        inputs: list[Path],
        figures: Path | None = None,
        tables: tuple[str, ...] = (),
        **paths: Path | None,
    ) -> Outputs:
        """The requested outputs, checked; `tables` are suffixes of a long table as output."""
        suffixes = SUFFIXES | ({"output": tables} if tables else {})
        if figures is not None:
            _check_figures(figures, paths.get("report"))
        wanted = {kind: path for kind, path in paths.items() if path is not None}
        taken = {path.resolve(): "the input file itself" for path in inputs}
        for kind, path in wanted.items():
            if str(path) == "-":
                given = "- (standard output)"
                raise InputError(kind, given, "the name of a file, such as found.csv")
            if kind not in suffixes:
                known_suffix(path)
            elif path.suffix.lower() not in suffixes[kind]:
                given = f"the suffix '{path.suffix}' for the {kind}"
                raise FileError(path, given, " or ".join(suffixes[kind]))
            if path.suffix.lower() == ".parquet":
                arrow()
            target = checked_target(path)
            if target in taken:
                raise FileError(path, taken[target], "another name to write to")
            taken[target] = f"the same file for the {kind} and another output"
        return cls(wanted, figures)

    def keep_apart(self, checkpoint: Path, file: Path) -> None:
        """Raise if a checkpoint cannot be written, or only over the input or an output."""
        taken = {path.resolve() for path in (file, *self.paths.values())}
        if checked_target(checkpoint) in taken:
            raise FileError(checkpoint, "the name of an input or output", "one of its own")

    def without(self, kind: str) -> Outputs:
        return Outputs({k: p for k, p in self.paths.items() if k != kind}, self.figures)

    def names(self) -> dict[str, str]:
        """File names by kind, for the summary."""
        found = {kind: str(path) for kind, path in self.paths.items()}
        return found if self.figures is None else {**found, "figures": str(self.figures)}

    def summary(self, result: Result) -> dict[str, Any]:
        """The summary of a run that every command reports as JSON."""
        return {
            "solver": result.solver,
            "status": result.status.name.lower(),
            "advice": console.shown_advice(result.status.advice),
            "reached": result.status.reached or result.certified,
            "value": result.value,
            "lower_bound": result.certificate.lower_bound,  # JSON writes infinity as null
            "gap": result.gap,
            "seconds": result.seconds,
            "outputs": self.names(),
            "version": __version__,
        }

    def lines(self) -> list[tuple[str, str]]:
        """Lines for the reader: the files written, if there are any."""
        written = [console.shown_path(Path(name)) for name in self.names().values()]
        return [("written", ", ".join(written))] if written else []

    def show(self, model: Any, found: dict[str, Any], file: Path, lines: Any) -> None:
        """Print these lines and what is known about the fit of a model."""
        m, d = found["shape"]
        work = f"{counted(found['svds'], 'SVD')}, {found['seconds']:.2f} s"
        lines = [*lines, ("rank", str(found["rank"])), ("work", work), *self.lines()]
        warning = None if found["reached"] else f"Accuracy not confirmed. {found['advice']}"
        title = f"{found['solver']} on {console.shown_path(file)}, {m} x {d}"
        console.show(f"{title}: {model.result_.status.label}", lines, warning)

    def write(self, summary: dict[str, Any], **writers: Callable[[Path], Any]) -> None:
        """Write all files or none: the summary, and the others by a writer for each kind."""
        writers["summary"] = lambda path: write_text(path, console.as_json(summary) + "\n")
        with atomic_all(list(self.paths.values())) as temporaries:
            for kind, path in zip(self.paths, temporaries, strict=True):
                writers[kind](path)


def ended(result: Result, summary: dict[str, Any]) -> typer.Exit:
    """End a command with the exit code of its result."""
    if result.status is Status.INTERRUPTED:
        return typer.Exit(console.INTERRUPTED)
    return typer.Exit(console.DONE if summary["reached"] else console.UNCONFIRMED)


def _check_figures(figures: Path, report: Path | None) -> None:
    """Raise unless the plots of the report can be saved."""
    if report is None:
        wanted = "together with --report, whose plots they are"
        raise InputError("figures", str(figures), wanted)
    if not figures.is_dir():
        raise FileError(figures, "no such directory", "an existing one, for the plots")
    if find_spec("matplotlib") is None:
        wanted = 'matplotlib; get it by: pip install "weakprox[plot]"'
        raise InputError("figures", str(figures), wanted)

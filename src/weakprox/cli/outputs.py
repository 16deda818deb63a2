"""Output files of a run, checked before it and written together after it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weakprox.cli.case import Case
from weakprox.cli.console import as_json
from weakprox.errors import InputError
from weakprox.result import Result
from weakprox.storage.atomic import atomic_all, checked_target
from weakprox.storage.matrices import known_suffix, write_factors, write_matrix, write_text
from weakprox.storage.parquet import arrow
from weakprox.storage.table import FileError

SUFFIXES = {
    "factors": (".npz",),
    "proof": (".npz",),
    "report": (".html", ".htm"),
    "summary": (".json",),
}


@dataclass(frozen=True)
class Outputs:
    """Files to write, by what they hold."""

    paths: dict[str, Path]
    figures: Path | None = None

    @classmethod
    def planned(
        cls, inputs: list[Path], figures: Path | None = None, **paths: Path | None
    ) -> Outputs:
        """The outputs asked for; raises if one of them cannot be written."""
        if figures is not None:
            _check_figures(figures, paths.get("report"))
        wanted = {kind: path for kind, path in paths.items() if path is not None}
        taken = {path.resolve(): "the input file itself" for path in inputs}
        for kind, path in wanted.items():
            if kind not in SUFFIXES:
                if known_suffix(path) == ".parquet":
                    arrow()
            elif path.suffix.lower() not in SUFFIXES[kind]:
                given = f"the suffix '{path.suffix}' for the {kind}"
                raise FileError(path, given, " or ".join(SUFFIXES[kind]))
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
        """The other outputs."""
        return Outputs({k: p for k, p in self.paths.items() if k != kind}, self.figures)

    def names(self) -> dict[str, str]:
        """File names by kind, for the summary."""
        found = {kind: str(path) for kind, path in self.paths.items()}
        return found if self.figures is None else {**found, "figures": str(self.figures)}

    def write(self, result: Result, case: Case, summary: dict[str, Any]) -> None:
        """Write all of them, or none."""
        rows, columns = case.table.rows, case.table.columns
        with atomic_all(list(self.paths.values())) as temporaries:
            for kind, path in zip(self.paths, temporaries, strict=True):
                if kind == "output":
                    write_matrix(path, result.X, rows, columns)
                elif kind == "factors":
                    write_factors(path, *result.factors, rows, columns)
                elif kind == "proof":
                    result.proof.save(path)
                elif kind == "report":
                    from weakprox.report import write_report

                    write_report(
                        path,
                        result,
                        problem=case.problem,
                        data=case.matrix,
                        rows=rows,
                        columns=columns,
                        settings=case.settings,
                        figures=self.figures,
                    )
                else:
                    write_text(path, as_json(summary) + "\n")


def _check_figures(figures: Path, report: Path | None) -> None:
    """Raise unless the plots of the report can be saved."""
    if report is None:
        raise InputError(
            "figures", str(figures), "together with --report, whose plots they are"
        )
    if not figures.is_dir():
        raise FileError(figures, "no such directory", "an existing one, for the pictures")
    if find_spec("matplotlib") is None:
        wanted = 'matplotlib; get it by: pip install "weakprox[plot]"'
        raise InputError("figures", str(figures), wanted)

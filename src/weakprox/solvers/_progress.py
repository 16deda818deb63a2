"""One line of progress on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Literal

from weakprox.result import Counts


class Progress:
    """A rich progress bar over the predicted SVDs, or nothing at all."""

    def __init__(self, wanted: bool | Literal["auto"], name: str) -> None:
        self._bar: Any = None
        shown = sys.stderr.isatty() if wanted == "auto" else wanted
        if shown:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(name, total=None, note="")

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, counts: Counts, epoch: int, value: float) -> None:
        """Update the line."""
        if self._bar is not None:
            note = f"epoch {epoch}  SVDs {counts.svds}  samples {counts.samples}"
            if value < float("inf"):
                note += f"  f {value:.5g}"
            self._bar.update(self._task, completed=counts.svds, note=note)

    def aim(self, total: int) -> None:
        """Set the number of SVDs expected."""
        if self._bar is not None:
            self._bar.update(self._task, total=total)

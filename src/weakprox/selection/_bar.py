"""A progress bar for searches and paths."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Literal


class Bar:
    """A rich progress bar on stderr, or nothing."""

    def __init__(self, wanted: bool | Literal["auto"], name: str, *, total: int) -> None:
        self._bar: Any = None
        if not (sys.stderr.isatty() if wanted == "auto" else wanted):
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(name, total=total, note="")

    def __enter__(self) -> Bar:
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

    def step(self, note: str = "") -> None:
        """Count one more candidate."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, note=note)

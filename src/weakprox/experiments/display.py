"""One progress display for all experiments: a line each on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Literal


class Display:
    """Bars that fill by the cost of the jobs done, not by their number.

    Parameters
    ----------
    wanted : bool or "auto"
        Whether to show anything; "auto" shows it if stderr is a terminal.
    totals : dict
        The cost of all jobs of each experiment, by name.
    titles : dict
        What to call each experiment.
    """

    def __init__(
        self, wanted: bool | Literal["auto"], totals: dict[str, float], titles: dict[str, str]
    ) -> None:
        self._bars: Any = None
        if not (sys.stderr.isatty() if wanted == "auto" else wanted):
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._lines = {
            name: self._bars.add_task(titles[name], total=total)
            for name, total in totals.items()
        }

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def advance(self, name: str, cost: float) -> None:
        """Count a finished job."""
        if self._bars is not None:
            self._bars.advance(self._lines[name], cost)

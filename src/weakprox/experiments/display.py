"""One progress display for all experiments: a line each on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Literal


class Display(ExitStack):
    """Bars that fill by the cost of the jobs done, not by their number.

    Parameters
    ----------
    wanted : bool or "auto"
        Whether to show anything; "auto" shows it if stderr is a terminal.
    totals : dict
        Title and cost of all jobs of each experiment, by name.
    """

    def __init__(
        self, wanted: bool | Literal["auto"], totals: dict[str, tuple[str, float]]
    ) -> None:
        super().__init__()
        self._bars: Any = None
        if sys.stderr.isatty() if wanted == "auto" else wanted:
            from rich.console import Console
            from rich.progress import Progress, TimeElapsedColumn

            columns = (*Progress.get_default_columns(), TimeElapsedColumn())
            self._bars = self.enter_context(Progress(*columns, console=Console(stderr=True)))
            self._lines = {
                name: self._bars.add_task(title, total=total)
                for name, (title, total) in totals.items()
            }

    def advance(self, name: str, cost: float) -> None:
        """Count a finished job."""
        if self._bars is not None:
            self._bars.advance(self._lines[name], cost)

"""The progress display: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

import math
import sys
from typing import Any, Literal, Self


class Progress:
    """Bars on stderr, one line each, if `wanted`; "auto" wants them on a terminal.

    Beside a bar stands "3/12" if `counted`, otherwise a percentage. If `kept`, the bars stay on
    the screen at the end.
    """

    def __init__(
        self, wanted: bool | Literal["auto"], *, counted: bool = False, kept: bool = False
    ) -> None:
        self._bars: Any = None
        if not (sys.stderr.isatty() if wanted == "auto" else wanted):
            return
        from rich import progress
        from rich.console import Console

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn() if counted else progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[note]}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=not kept,
        )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def add(self, title: str, total: float = 1.0) -> int:
        """Add a bar and return its number; `total` is the amount of work it stands for."""
        if self._bars is None:
            return 0
        return int(self._bars.add_task(title, total=total, note=""))

    def advance(self, bar: int, amount: float = 1.0, note: str = "") -> None:
        """Fill a bar by some more work; the note stands beside it."""
        if self._bars is not None:
            self._bars.update(bar, advance=amount, note=note)

    def fill(self, bar: int, done: float, note: str = "") -> None:
        """Fill a bar up to an amount of work."""
        if self._bars is not None:
            self._bars.update(bar, completed=done, note=note)


class RunProgress(Progress):
    """The bar of one run, with its counts, value and gap.

    It fills with the share of the predicted SVDs done, or with the decrease of the gap
    towards the accuracy (on a logarithmic scale), whichever is larger.
    """

    def __init__(self, wanted: bool | Literal["auto"], name: str) -> None:
        super().__init__(wanted)
        self._bar = self.add(name)
        self._predicted = 0
        self._first_gap = math.inf
        self._share = 0.0

    def say(self, note: str) -> None:
        """Show a note until the next step."""
        self.fill(self._bar, 0.0, note)

    def predict(self, svds: int) -> None:
        """Set the number of SVDs expected in all."""
        self._predicted = svds

    def show(
        self, *, epoch: int, svds: int, samples: int, value: float, gap: float, accuracy: float
    ) -> None:
        """Update the bar; an infinite value or gap is unknown and not shown."""
        if self._bars is None:
            return
        note = f"epoch {epoch}  SVDs {svds}  samples {samples}"
        if value < math.inf:
            note += f"  f {value:.5g}"
        if self._predicted:
            self._share = max(self._share, svds / self._predicted)
        if gap < math.inf:
            note += f"  gap {gap:.3g} (eps {accuracy:.3g})"
            if self._first_gap == math.inf:
                self._first_gap = max(gap, 2 * accuracy)
            decrease = self._first_gap / max(gap, accuracy)
            wanted = self._first_gap / accuracy
            self._share = max(self._share, math.log(decrease) / math.log(wanted))
        self.fill(self._bar, min(1.0, self._share), note)

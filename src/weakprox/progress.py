"""The progress display: bars on a terminal, lines elsewhere on request."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, Literal, Self

FIRST, GROWTH, LONGEST = 1.0, 1.5, 60.0  # seconds to the first line, and between later ones


class Progress:
    """Progress on stderr, one bar for each task, if `wanted`; "auto" means on a terminal only.

    Elsewhere, in a log or a notebook, lines are printed at intervals instead of bars. A bar is
    followed by "3/12" if `counted`, otherwise by a percentage. If `kept`, the bars stay on the
    screen at the end.
    """

    def __init__(
        self, wanted: bool | Literal["auto"], *, counted: bool = False, kept: bool = False
    ) -> None:
        self._bars: Any = None
        terminal = sys.stderr.isatty()
        if not (terminal if wanted == "auto" else wanted):
            return
        self._bars = _rich_bars(counted, kept) if terminal else Lines(counted)

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


def _rich_bars(counted: bool, kept: bool) -> Any:
    """Return bars of the library rich."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=20),  # leave room for the note
        progress.MofNCompleteColumn() if counted else progress.TaskProgressColumn(),
        progress.TextColumn("{task.fields[note]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=not kept,
    )


class Lines:
    """Lines instead of bars, with the members of rich's bars that `Progress` uses.

    The first comes after a second, later ones at growing intervals; the last state of every
    task is always printed.
    """

    def __init__(self, counted: bool) -> None:
        self._counted = counted
        self._tasks: list[dict[str, Any]] = []
        self._begun = self._last = time.monotonic()
        self._interval = FIRST

    def start(self) -> None:
        """Begin to count the seconds."""
        self._begun = self._last = time.monotonic()

    def stop(self) -> None:
        """Print the last state of every task that no line has shown."""
        for task in self._tasks:
            if task["fresh"]:
                self._print(task)

    def add_task(self, title: str, total: float, note: str) -> int:
        """Add a task and return its number."""
        task = {"title": title, "total": total, "done": 0.0, "note": note, "fresh": False}
        self._tasks.append(task)
        return len(self._tasks) - 1

    def update(
        self, number: int, *, advance: float = 0.0, completed: float | None = None, note: str
    ) -> None:
        """Record the state of a task; print it if a line is due."""
        task = self._tasks[number]
        task["done"] = task["done"] + advance if completed is None else completed
        task |= {"note": note, "fresh": True}
        if time.monotonic() - self._last >= self._interval:
            self._interval = min(LONGEST, GROWTH * self._interval)
            self._print(task)

    def _print(self, task: dict[str, Any]) -> None:
        self._last = time.monotonic()
        task["fresh"] = False
        share = f"{task['done']:.0f}/{task['total']:.0f}"
        if not self._counted:
            share = f"{100 * min(1.0, task['done'] / (task['total'] or 1.0)):3.0f} %"
        parts = (task["title"], share, task["note"], f"{self._last - self._begun:.1f} s")
        sys.stderr.write("  ".join(part for part in parts if part) + "\n")
        sys.stderr.flush()


class RunProgress(Progress):
    """The bar of one run, with its counts, value, rank and gap.

    It fills with the decrease of the gap towards the accuracy, on a logarithmic scale, or
    with the share of the predicted SVDs done, whichever is larger.
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
        self,
        *,
        epoch: int,
        svds: int,
        samples: int,
        value: float,
        gap: float,
        accuracy: float,
        rank: int | None = None,
    ) -> None:
        """Update the bar; an infinite value or gap is unknown and not shown."""
        if self._bars is None:
            return
        note = f"epoch {epoch}  SVDs {svds}"
        if samples:
            note += f"  samples {samples}"
        if rank is not None:
            note += f"  rank {rank}"
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

    def end(self, label: str, reached: bool, rank: int, gap: float) -> None:
        """Show how the run ended; the bar is full if it reached its accuracy."""
        proved = f"  gap {gap:.3g}" if gap < math.inf else ""
        share = 1.0 if reached else min(0.99, self._share)
        self.fill(self._bar, share, f"{label}  rank {rank}{proved}")

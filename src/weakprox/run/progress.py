"""One line of progress on a terminal."""

from __future__ import annotations

import math
from types import TracebackType

from weakprox.result import Counts


class Progress:
    """A progress bar on stderr.

    It shows the larger of two shares: predicted SVDs done, and how far the gap has come
    down towards eps (on a logarithmic scale).
    """

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(name, total=1.0, note="")
        self._predicted = 0
        self._first_gap = math.inf
        self._share = 0.0

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, counts: Counts, epoch: int, value: float, gap: float, eps: float) -> None:
        """Update the line."""
        note = f"epoch {epoch}  SVDs {counts.svds}  samples {counts.samples}"
        if value < math.inf:
            note += f"  f {value:.5g}"
        if self._predicted:
            self._share = max(self._share, counts.svds / self._predicted)
        if gap < math.inf:
            note += f"  gap {gap:.3g} (eps {eps:.3g})"
            if self._first_gap == math.inf:
                self._first_gap = max(gap, 2 * eps)
            come, way = self._first_gap / max(gap, eps), self._first_gap / eps
            self._share = max(self._share, math.log(come) / math.log(way))
        self._bar.update(self._task, completed=min(1.0, self._share), note=note)

    def aim(self, predicted: int) -> None:
        """Set the number of SVDs expected in all."""
        self._predicted = predicted

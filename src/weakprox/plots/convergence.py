"""History of a run: value, lower bound and gap."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weakprox.arguments import one_of
from weakprox.plots._display import ResultDisplay
from weakprox.plots._panels import GREY, Panel, Series, draw_panel

AXES = {"svds": "thin SVDs", "seconds": "seconds", "samples": "samples"}
WIDE_RANGE = 50.0  # an x axis that spans more than this factor is logarithmic


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay(ResultDisplay):
    """Value, lower bound and gap of a run against the work done.

    Parameters
    ----------
    work : dict of str to array
        Columns "svds", "seconds" and "samples", one number per look at the run.
    value, lower_bound : array
        f at each look, and the lower bound proved by then (NaN if none).
    final_value, final_bound : float
        The same for the answer.
    title : str
        The certificate in words.
    low_rank : array, optional
        f of the low-rank point at each look.
    eps : float, optional
        The requested accuracy.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    """

    work: dict[str, Any]
    value: Any
    lower_bound: Any
    final_value: float
    final_bound: float
    title: str = ""
    low_rank: Any = None
    eps: float | None = None

    def __post_init__(self) -> None:
        self.work = {name: np.asarray(x, dtype=float) for name, x in self.work.items()}
        self.value = np.asarray(self.value, dtype=float)
        self.lower_bound = np.asarray(self.lower_bound, dtype=float)
        if self.low_rank is not None:
            self.low_rank = np.asarray(self.low_rank, dtype=float)

    @classmethod
    def _of(cls, result: Any, model: Any = None) -> ConvergenceDisplay:
        trace, proof = result.trace, result.certificate
        return cls(
            work={name: trace[name] for name in AXES},
            value=trace["value"],
            lower_bound=trace["lower_bound"],
            # the bound does not apply to values that are estimated from samples
            final_bound=-np.inf if result.sampled else proof.lower_bound,
            final_value=proof.value,
            title=str(proof),
            low_rank=trace["value_low_rank"],
            eps=result.eps,
        )

    @property
    def _proved(self) -> bool:
        return bool(np.isfinite(self.final_bound))

    def _panel(self, x: str, kind: str) -> Panel:
        """The lines to draw, for matplotlib and for the pages of `weakprox.report`."""
        work, points = self.work[x], {"iterate": self.value}
        if self.low_rank is not None:
            points["low-rank point"] = self.low_rank
        bound = self.lower_bound  # the best so far; NaN until there is one
        bound = np.fmax.accumulate(bound) if bound.size else bound
        positive = work[work > 0]
        log_x = positive.size > 0 and bool(positive.max() > WIDE_RANGE * positive.min())
        if kind == "value":
            lines = [Series(name, work, value) for name, value in points.items()]
            lines.append(Series("proved lower bound", work, bound, dashed=True, steps=True))
            return Panel(lines, AXES[x], "f", log_x=log_x, y_range=self._view(points))
        least = np.fmin.reduce(list(points.values()))
        lines = [Series(name, work, v - self.final_bound) for name, v in points.items()]
        lines.append(Series("proved at the time", work, least - bound, steps=True))
        if self.eps is not None:
            ends = [self.eps, self.eps]
            lines.append(Series("requested (eps)", work[[0, -1]], ends, dashed=True))
        return Panel(lines, AXES[x], "value minus bound", log_x=log_x, log_y=True)

    def _view(self, points: dict[str, Any]) -> tuple[float, float] | None:
        """A y range that is not stretched by early, poor bounds and first steps."""
        values = np.concatenate(list(points.values()))
        seen = values[np.isfinite(values)]
        if seen.size == 0:
            return None
        gap = self.final_value - self.final_bound if self._proved else 0.0
        lowest = min(self.final_value, float(seen.min()))
        height = max(float(seen[0]) - lowest, 3.0 * gap, 1e-12 * abs(lowest))
        return (lowest - 0.3 * height, lowest + 1.1 * height) if height > 0 else None

    def plot(
        self,
        ax: Any = None,
        *,
        x: Literal["svds", "seconds", "samples"] = "svds",
        kind: Literal["value", "gap"] = "value",
    ) -> ConvergenceDisplay:
        """Draw the run.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        x : {"svds", "seconds", "samples"}
            The measure of work on the x axis.
        kind : {"value", "gap"}
            Value and lower bound, or the distance between them.
        """
        one_of("x", x, tuple(AXES))
        one_of("kind", kind, ("value", "gap"))
        ax = self._draw_on(ax)
        if self.value.size and (kind == "value" or self._proved):
            draw_panel(ax, self._panel(x, kind))
            if kind == "gap":
                gap = max(self.final_value - self.final_bound, np.finfo(float).tiny)
                ax.plot(self.work[x][-1:], [gap], "ko", label="answer")
            elif self._proved:
                ax.axhspan(self.final_bound, self.final_value, color=GREY, alpha=0.15)
            ax.legend(fontsize="small")
        ax.set_xlabel(AXES[x])
        ax.set_title(textwrap.fill(self.title, 60), fontsize="medium")
        return self

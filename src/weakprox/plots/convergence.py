"""How a run got to its answer, with what is proved about it."""

from __future__ import annotations

import textwrap
from typing import Any, Literal

import numpy as np

from weakprox.errors import InputError
from weakprox.plots._draw import BLUE, GREY, axes_on, fitted_result, one_of

Column = np.ndarray[Any, np.dtype[np.float64]]

AXES = {"svds": "decompositions", "seconds": "seconds", "samples": "samples"}


class ConvergenceDisplay:
    """Value, lower bound and gap of a run against the work done.

    Parameters
    ----------
    work : dict of str to array
        Columns "svds", "seconds" and "samples", one number per look at the run.
    value, lower_bound : array
        f at each look, and what was proved about the optimum by then (NaN if nothing).
    final_value, final_bound : float
        The same for the answer.
    title : str
        The certificate in words.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn last.
    """

    def __init__(
        self,
        *,
        work: dict[str, Any],
        value: Any,
        lower_bound: Any,
        final_value: float,
        final_bound: float,
        title: str = "",
    ) -> None:
        self.work = {name: np.asarray(column, dtype=float) for name, column in work.items()}
        self.value = np.asarray(value, dtype=float)
        self.lower_bound = np.asarray(lower_bound, dtype=float)
        self.final_value, self.final_bound = float(final_value), float(final_bound)
        self.title = title
        self.ax_: Any = None
        self.figure_: Any = None

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **options: Any) -> ConvergenceDisplay:
        """Draw the history of a `Result`; keywords go to `plot`."""
        if not hasattr(result, "trace") or not hasattr(result, "certificate"):
            raise InputError("result", type(result).__name__, "a Result of minimize")
        trace, proof = result.trace, result.certificate
        return cls(
            work={name: trace[name] for name in AXES},
            value=trace["value"],
            lower_bound=trace["lower_bound"],
            final_value=proof.value,
            final_bound=proof.lower_bound,
            title=str(proof),
        ).plot(ax, **options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, **options: Any
    ) -> ConvergenceDisplay:
        """Draw how the fit of a model went; keywords go to `plot`."""
        return cls.from_result(fitted_result(estimator), ax=ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        x: Literal["svds", "seconds", "samples"] = "svds",
        kind: Literal["value", "gap"] = "value",
    ) -> ConvergenceDisplay:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; on a new figure by default.
        x : {"svds", "seconds", "samples"}
            Which kind of work to draw against.
        kind : {"value", "gap"}
            Value and lower bound, or the distance between the best of each.

        Returns
        -------
        self
        """
        one_of("x", x, tuple(AXES))
        one_of("kind", kind, ("value", "gap"))
        self.figure_, self.ax_ = axes_on(ax)
        if self.value.size:
            self._values(self.work[x]) if kind == "value" else self._gaps(self.work[x])
        self.ax_.set_xlabel(AXES[x])
        self.ax_.set_title(textwrap.fill(self.title, 60), fontsize="medium")
        return self

    def _values(self, work: Column) -> None:
        ax, reached = self.ax_, self.final_value
        ax.plot(work, self.value, ".-", color=BLUE, label="value")
        gap = 0.0
        if np.isfinite(self.final_bound):
            gap = reached - self.final_bound
            ax.step(work, _best(self.lower_bound), where="post", color=GREY, linewidth=1.0)
            ax.axhline(self.final_bound, color=GREY, linestyle="--", label="proved lower bound")
            ax.axhspan(self.final_bound, reached, color=GREY, alpha=0.15, linewidth=0)
        height = max(float(self.value[0]) - reached, 3.0 * gap, 1e-9 * abs(reached))
        ax.set_ylim(reached - 0.3 * height, reached + 1.1 * height)
        ax.set_ylabel("f")
        ax.legend(fontsize="small")

    def _gaps(self, work: Column) -> None:
        ax = self.ax_
        bound = _best(self.lower_bound)
        seen = np.minimum.accumulate(self.value) - bound
        proved = np.isfinite(seen) & (seen > 0.0)
        if proved.any():
            ax.plot(work[proved], seen[proved], ".", color=GREY, label="proved on the way")
        if np.isfinite(self.final_bound):
            last = max(self.final_value - self.final_bound, np.finfo(float).tiny)
            ax.plot(work[-1:], [last], "o", color=BLUE, label="proved for the answer")
            above = self.value - self.final_bound
            kept = above > 0.0
            label = "value above the final bound"
            ax.plot(work[kept], above[kept], "-", color=BLUE, linewidth=1.0, label=label)
            ax.set_yscale("log")
            ax.legend(fontsize="small")
        ax.set_ylabel("distance from the optimum, at most")


def _best(bound: Column) -> Column:
    """The best bound so far; NaN until there is one."""
    filled = np.where(np.isnan(bound), -np.inf, bound)
    best = np.maximum.accumulate(filled)
    return np.where(np.isfinite(best), best, np.nan)

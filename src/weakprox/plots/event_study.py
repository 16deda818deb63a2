"""Effects of a treatment over time: event studies, and paths with and without treatment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from weakprox.arguments import one_of
from weakprox.errors import InputError, ShapeError
from weakprox.plots._display import Display
from weakprox.plots._panels import COLOURS, GREY


@dataclass(kw_only=True, eq=False, repr=False)
class EventStudyDisplay(Display):
    """Mean effects by period since adoption, and mean outcomes of treated units.

    Parameters
    ----------
    event_times, effects : arrays of shape (k,)
        Periods since adoption, and mean effects; residuals of the fit before adoption.
    low, high : arrays of shape (k,), optional
        Ends of confidence intervals.
    times : array of shape (periods,), optional
        Labels of periods.
    observed, counterfactual : arrays of shape (periods,), optional
        Mean outcomes of the treated units, and the same without treatment.
    adoption : float, optional
        Index of the first treated period.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last call of `plot`.
    """

    event_times: Any
    effects: Any
    low: Any = None
    high: Any = None
    times: Any = None
    observed: Any = None
    counterfactual: Any = None
    adoption: float | None = None

    def __post_init__(self) -> None:
        self.event_times = np.asarray(self.event_times)
        for name in ("effects", "low", "high"):
            given = getattr(self, name)
            if given is None:
                continue
            setattr(self, name, np.asarray(given, dtype=float))
            if getattr(self, name).shape != self.event_times.shape:
                wanted = f"an array of shape {self.event_times.shape}"
                raise ShapeError(name, getattr(self, name).shape, wanted)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, interval: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw a fitted `MatrixCompletionPanel`; keywords go to `plot`.

        Parameters
        ----------
        estimator : MatrixCompletionPanel
            The model.
        interval : PanelInterval, optional
            From its method `interval`, for a band.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **options
            See `plot`.
        """
        if not hasattr(estimator, "att_by_event_time_"):
            what = f"{type(estimator).__name__} without att_by_event_time_"
            raise InputError("estimator", what, "a fitted MatrixCompletionPanel")
        paths = estimator.mean_paths()
        low, high = (None, None) if interval is None else interval.by_event_time
        display = cls(
            event_times=estimator.event_times_,
            effects=estimator.att_by_event_time_,
            low=low,
            high=high,
            times=estimator.times_,
            observed=paths.observed,
            counterfactual=paths.counterfactual,
            adoption=paths.adoption,
        )
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, kind: Literal["effects", "paths"] = "effects") -> Self:
        """Draw effects or paths.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        kind : {"effects", "paths"}
            Mean effects by period since adoption, or mean outcomes of treated units with and
            without treatment over time.
        """
        both = self.observed is not None and self.counterfactual is not None
        if one_of("kind", kind, ("effects", "paths")) == "paths" and not both:
            wanted = "'effects', or a display with observed and counterfactual"
            raise InputError("kind", "'paths', without observed outcomes", wanted)
        ax = self._draw_on(ax)
        if kind == "paths":
            return self._paths(ax)
        ax.axhline(0.0, color=GREY, lw=1)
        ax.axvline(-0.5, color=GREY, lw=1, ls="--")
        if self.low is not None and self.high is not None:
            band = {"color": COLOURS[0], "alpha": 0.2, "lw": 0}
            ax.fill_between(self.event_times, self.low, self.high, **band)
        ax.plot(self.event_times, self.effects, "o-", color=COLOURS[0], ms=4)
        ax.set(xlabel="periods since adoption", ylabel="mean effect")
        return self

    def _paths(self, ax: Any) -> Self:
        times = np.asarray(self.times)  # of objects if there are none
        place = times if times.dtype.kind in "iufM" else np.arange(len(self.observed))
        ax.plot(place, self.observed, color=COLOURS[0], label="treated units")
        without = {"color": COLOURS[1], "ls": "--", "label": "without treatment (model)"}
        ax.plot(place, self.counterfactual, **without)
        if self.adoption is not None:
            ax.axvline(place[int(self.adoption)], color=GREY, lw=1, ls="--")
        ax.set(xlabel="period", ylabel="mean outcome")
        ax.legend()
        return self

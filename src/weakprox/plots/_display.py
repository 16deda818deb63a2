"""Axes and checks that all displays share; matplotlib is imported here, when drawing."""

from __future__ import annotations

from typing import Any, Self

from weakprox.errors import InputError


def matplotlib_for(what: str) -> Any:
    """Import matplotlib, or say how to install it."""
    try:
        import matplotlib as mpl
        import matplotlib.pyplot
    except ModuleNotFoundError as missing:
        hint = f"{what} needs matplotlib: pip install weakprox[plot]"
        raise ModuleNotFoundError(hint, name=missing.name) from missing
    return mpl


def canvas_of(width: float, height: float) -> Any:
    """Return a new figure of this size in inches, which pyplot does not keep."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


class Display:
    """Base of the displays."""

    ax_: Any = None  # axes, figure and image of the last call of `plot`
    figure_: Any = None
    image_: Any = None

    def _draw_on(self, ax: Any) -> Any:
        """Return the user's axes, or those of a new figure."""
        plt = matplotlib_for("weakprox.plots").pyplot
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        elif not hasattr(ax, "imshow"):
            raise InputError("ax", type(ax).__name__, "matplotlib Axes, or None")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class ResultDisplay(Display):
    """Base of displays of a result or of a model that has one."""

    @classmethod
    def from_result(cls, result: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw a `Result`; keywords go to `plot`."""
        if not hasattr(result, "trace") or not hasattr(result, "low_rank"):
            # this layer cannot import the class
            raise InputError("result", type(result).__name__, "a Result of minimize")
        return cls._of(result, None).plot(ax, **options)  # type: ignore[no-any-return]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw a fitted model; keywords go to `plot`."""
        display = cls._of(fitted_result(estimator), estimator)
        return display.plot(ax, **options)  # type: ignore[no-any-return]

    @classmethod
    def _of(cls, result: Any, model: Any) -> Any:
        """The display of a result, and of its model if there is one."""
        raise NotImplementedError


def fitted_result(model: Any) -> Any:
    result = getattr(model, "result_", None)
    if result is None and hasattr(model, "labels_"):
        return model.result_  # the model explains how to get one
    if result is None:
        what = f"{type(model).__name__} without result_"
        raise InputError("estimator", what, "a fitted model of weakprox.estimators")
    return result

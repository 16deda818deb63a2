"""Scores over a grid of weights and radii, and the point that was chosen."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.plots._display import Display
from weakprox.plots._panels import COLOURS

WIDEST = 12  # ticks on an axis


class PathDisplay(Display):
    """A heat map of scores over lam and tau.

    Parameters
    ----------
    lams : array of shape (n,)
        Weights, one per row.
    taus : array of shape (n, k)
        Radii, a row for each weight.
    scores : array of shape (n, k)
        Errors, ranks or values to draw.
    chosen : (int, int), optional
        Row and column of the point that was chosen.
    name : str
        Name of the scores.

    Attributes
    ----------
    ax_, figure_, image_
        Axes, figure and matplotlib's image of the last call of `plot`.
    """

    def __init__(
        self, *, lams: Any, taus: Any, scores: Any, chosen: Any = None, name: str = "score"
    ) -> None:
        self.lams = np.asarray(lams, dtype=float)
        self.taus = np.asarray(taus, dtype=float)
        self.scores = np.asarray(scores, dtype=float)
        self.chosen, self.name = chosen, name
        if self.taus.ndim != 2 or self.lams.shape != self.taus.shape[:1]:
            wanted = f"an array with a row for each of {self.lams.size} lams"
            raise ShapeError("taus", self.taus.shape, wanted)
        if self.scores.shape != self.taus.shape:
            wanted = f"an array of shape {self.taus.shape}"
            raise ShapeError("scores", self.scores.shape, wanted)

    @classmethod
    def from_path(
        cls,
        path: Any,
        scores: Any,
        *,
        chosen: Any = None,
        name: str = "score",
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw scores over the grid of a `selection.Path`; keywords go to `plot`.

        Scores with folds, of shape (folds, n, k), are averaged.
        """
        found = np.asarray(scores, dtype=float)
        mean = found.mean(axis=0) if found.ndim == 3 else found
        display = cls(lams=path.lams, taus=path.taus, scores=mean, chosen=chosen, name=name)
        return display.plot(ax, **options)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> Self:
        """Draw held-out errors of a model that searched a grid; keywords go to `plot`."""
        if not hasattr(estimator, "path_") or not hasattr(estimator, "errors_"):
            what = f"{type(estimator).__name__} without path_"
            raise InputError("estimator", what, "a fitted model that searched, such as ...CV")
        shown = {"chosen": estimator.best_index_, "name": "held-out error"}
        return cls.from_path(estimator.path_, estimator.errors_, ax=ax, **shown, **options)

    def plot(self, ax: Any = None, *, cmap: str = "viridis_r", log: bool = False) -> Self:
        """Draw the scores.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        cmap : str
            Colours; by default small scores are bright.
        log : bool
            Colour by the logarithm of the excess over the best score.
        """
        ax = self._draw_on(ax)
        shown, name = self.scores, self.name
        if log:
            above = shown - np.nanmin(shown)
            least = above[above > 0.0].min(initial=np.inf)
            shown = np.log10(np.maximum(above, least if np.isfinite(least) else 1.0))
            name = f"log10 of {self.name} above the best"
        self.image_ = ax.imshow(
            shown, cmap=cmap, aspect="auto", interpolation="none", origin="upper"
        )
        self.figure_.colorbar(self.image_, ax=ax, label=name)
        rows, columns = self.scores.shape
        every = range(0, rows, -(-rows // WIDEST))
        ax.set_yticks(list(every), [f"{self.lams[i]:.3g}" for i in every])
        same = bool(np.allclose(self.taus, self.taus[:1]))
        row = 0 if same or self.chosen is None else self.chosen[0]
        every = range(0, columns, -(-columns // WIDEST))
        ax.set_xticks(list(every), [f"{self.taus[row, j]:.3g}" for j in every])
        ax.tick_params(axis="x", rotation=45)
        where = "" if same else f", in the row of lam = {self.lams[row]:.3g}"
        ax.set(xlabel=f"tau{where}", ylabel="lam")
        if self.chosen is not None:
            i, j = self.chosen[0], self.chosen[1]
            ax.plot([j], [i], "o", mfc="none", mec=COLOURS[1], ms=14, mew=2.5)
            ax.set_title(f"chosen: lam = {self.lams[i]:.3g}, tau = {self.taus[i, j]:.3g}")
        return self

"""What all models share: one way to solve, and a certificate wherever the model is shown."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from weakprox._minimize import minimize
from weakprox.estimators._callbacks import CallbackSupportMixin, called_back, forwarded
from weakprox.problem import Problem
from weakprox.result import Certificate, Result


class Certified(CallbackSupportMixin, BaseEstimator):
    """A model whose `fit` ends with `self.result_`, a `Result` of `minimize`.

    Subclasses have the parameters `tol`, `max_seconds`, `random_state` and `verbose`, as
    far as they use them. With scikit-learn 1.9 or later, callbacks set by `set_callbacks`
    hear of every look at the run, and may end it.
    """

    result_: Result

    def __init_subclass__(cls, **named: Any) -> None:
        """Let callbacks hear of `fit`, wherever it is written."""
        if "fit" in vars(cls):
            cls.fit = called_back(cls.fit)
        super().__init_subclass__(**named)

    def _solve(self, problem: Problem, **settings: Any) -> Result:
        """Minimise with the model's own settings; keywords go to `minimize`."""
        settings.setdefault("tol", getattr(self, "tol", None))
        settings.setdefault("max_seconds", getattr(self, "max_seconds", None))
        settings.setdefault("seed", self._seed())
        settings.setdefault("progress", bool(getattr(self, "verbose", False)))
        settings["callback"] = _both(settings.get("callback"), forwarded(self))
        return minimize(problem, **settings)

    def _seed(self) -> int:
        """A seed for everything random, drawn from `random_state`."""
        state = getattr(self, "random_state", None)
        if isinstance(state, (int, np.integer)):
            return int(state)
        return 0 if state is None else int(check_random_state(state).randint(2**31 - 1))

    @property
    def certificate_(self) -> Certificate:
        """How far from the optimum of its own problem the fitted model can be."""
        check_is_fitted(self, "result_")
        return self.result_.certificate

    def plot(self, ax: Any = None) -> Any:
        """Draw how the fit got to its answer; `weakprox.plots` has more pictures.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; on a new figure by default.

        Returns
        -------
        ConvergenceDisplay
        """
        from weakprox.plots import ConvergenceDisplay

        return ConvergenceDisplay.from_estimator(self, ax=ax)

    def _with_certificate(self, picture: str) -> str:
        """A picture of the model, and what is proved about it below."""
        result = getattr(self, "result_", None)
        if result is None:
            return picture
        return f"{picture}<p class='weakprox-certificate'>{escape(str(result.certificate))}</p>"

    def _repr_html_inner(self) -> str:
        """scikit-learn's picture of the model, with the certificate."""
        return self._with_certificate(super()._repr_html_inner())

    def _repr_mimebundle_(self, **named: Any) -> dict[str, str]:
        """The same for notebooks, which prefer this one."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**named)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_certificate(bundle["text/html"])
        return bundle


def _both(
    one: Callable[[Any], bool | None] | None, other: Callable[[Any], bool | None] | None
) -> Callable[[Any], bool | None] | None:
    """A callback that asks two of them, and ends the run if one wants to."""
    if one is None or other is None:
        return one or other

    def ask(look: Any) -> bool:
        answers = [bool(one(look)), bool(other(look))]
        return any(answers)

    return ask

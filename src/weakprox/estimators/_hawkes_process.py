"""What a fitted Hawkes process is asked: its intensity, its likelihood, new records."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import positive
from weakprox.errors import InputError
from weakprox.estimators._hawkes_events import (
    Events,
    Kernel,
    Matrix,
    Vector,
    excitation,
    exposure,
    simulate,
)
from weakprox.estimators._hawkes_records import record


class ProcessMixin:
    """For models with `baseline_`, `infectivity_`, `nodes_`, and the training record."""

    baseline_: Vector
    infectivity_: Matrix
    nodes_: np.ndarray[Any, Any]
    n_features_in_: int
    random_state: Any
    _events: Events
    _kernel: Kernel

    def intensity(self, times: Any) -> np.ndarray[Any, Any]:
        """Rates of all nodes at these times, given the training events: (times, nodes)."""
        check_is_fitted(self, "infectivity_")
        at = np.asarray(times, dtype=float)
        if at.ndim > 1 or not np.all(np.isfinite(at)):
            raise InputError("times", f"shape {at.shape}", "a number or a list of numbers")
        pulls = excitation(self._events, self._kernel, np.atleast_1d(at))
        rates: Matrix = self.baseline_ + pulls.T @ self.infectivity_.T
        return rates[0] if at.ndim == 0 else rates

    def score(
        self, X: Any, y: Any = None, *, period: tuple[float, float] | None = None
    ) -> float:
        """Log-likelihood per event, in the units of time of the data.

        Parameters
        ----------
        X : array or frame, as in `fit`
            Events of a later period, or of another record.
        y : ignored
        period : (float, float), optional
            The period that X covers: by default from the end of the training period, or
            from the first event where that is earlier, to the last event. A period that
            begins at the end of training or later has the training events as its past;
            another has none.
        """
        check_is_fitted(self, "infectivity_")
        data = validate_data(self, X, dtype=None, reset=False)
        before = self._events
        later = float(np.asarray(data[:, 0], dtype=float).min()) >= before.stop
        events, _ = record(data, self.nodes_, period, start=before.stop if later else None)
        together = before.then(events) if events.start >= before.stop else events
        pulls = excitation(together, self._kernel, events.times)
        due = exposure(together, self._kernel, events.start, events.stop)
        rates = self.baseline_[events.nodes]
        rates = rates + np.einsum("vn,nv->n", pulls, self.infectivity_[events.nodes])
        expected = self.baseline_.sum() * events.length + float((self.infectivity_ @ due).sum())
        return float((np.log(rates).sum() - expected) / len(events.times))

    def simulate(self, horizon: float, random_state: Any = None) -> np.ndarray[Any, Any]:
        """A record over [0, horizon] that begins with an empty past: columns as in `fit`."""
        check_is_fitted(self, "infectivity_")
        horizon = positive("horizon", horizon)
        state = self.random_state if random_state is None else random_state
        seed = check_random_state(state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        drawn = simulate(self.baseline_, self.infectivity_, self._kernel, horizon, rng)
        if self.n_features_in_ == 1:
            return drawn.times[:, None]
        labels = self.nodes_[drawn.nodes].reshape(len(drawn.times), -1)
        kind = object if labels.dtype.kind not in "biuf" else float
        return np.column_stack([drawn.times.astype(kind), labels.astype(kind)])

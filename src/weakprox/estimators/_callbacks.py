"""scikit-learn's callbacks (1.9 and later), told of every look at a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9: models work, nobody is told

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    with_callbacks = None

__all__ = ["SUPPORTED", "CallbackSupportMixin", "called_back", "forwarded"]

SUPPORTED = with_callbacks is not None


def called_back(fit: Callable[..., Any]) -> Callable[..., Any]:
    """`fit` with a task that callbacks hear of, where any are set."""
    if not SUPPORTED:
        return fit

    @wraps(fit)
    def told(model: Any, *args: Any, **named: Any) -> Any:
        if not hasattr(model, "_skl_callbacks"):
            return fit(model, *args, **named)
        task = model._init_callback_context(max_subtasks=None)
        data = dict(zip(("X", "y"), args, strict=False))
        data |= {name: named[name] for name in ("X", "y") if name in named}
        task.call_on_fit_task_begin(estimator=model, **data)
        fitted = fit(model, *args, **named)
        task.call_on_fit_task_end(estimator=model, **data)
        return fitted

    managed: Callable[..., Any] = with_callbacks(told)  # tears down, whatever happens
    return managed


def forwarded(model: Any) -> Callable[[Any], bool] | None:
    """A callback of `minimize` that makes every look a task; True ends the run."""
    task = getattr(model, "_callback_fit_ctx", None)
    if task is None:
        return None

    def tell(look: Any) -> bool:
        step = task.subcontext(task_name="look")
        step.call_on_fit_task_begin(estimator=model)
        about = {
            "value": look.value,
            "lower_bound": look.lower_bound,
            "svds": look.counts.svds,
            "seconds": look.seconds,
        }
        return bool(step.call_on_fit_task_end(estimator=model, metadata=about))

    return tell

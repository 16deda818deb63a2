"""Code shared by all models: seed, time limit, the solve, and the certificate in displays."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from html import escape
from inspect import cleandoc
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from weakprox._minimize import minimize
from weakprox.arguments import flag, integer, is_integer, or_auto
from weakprox.errors import InputError, ProofError
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.passes.compiling import limited
from weakprox.problem import Problem
from weakprox.result import Certificate, Result, Status
from weakprox.selection.path import rough, warm
from weakprox.selection.search import Deadline, Search

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """A substitute for scikit-learn's class of this name."""

    with_callbacks = None

C = TypeVar("C", bound=tuple[Any, ...])
CALLBACKS = with_callbacks is not None
DEPRECATED = "deprecated"  # default of parameters that were renamed
SIZES = (1e-60, 1e60)  # limits for the largest number, since fourth powers are computed
RETURNS = "\n\nReturns\n-------\nself\n"  # ends the docstring of every `fit`
# Parts of the docstrings of all models, by their place holders.
DOCUMENTED = {
    "{tol, max_seconds, random_state, verbose}": """tol : float
        Accuracy to prove, relative to the optimal value of the problem.
    {max_seconds, random_state, verbose}""",
    "{max_seconds, random_state, verbose}": """max_seconds : float, optional
        Time limit of the whole fit; a search uses at most three quarters of it.
    random_state : int, RandomState, Generator or None
        Seed of all random choices. None draws new random numbers in every fit.
    verbose : bool
        Whether to show progress.""",
    "{rank}": """rank : int or None
        Largest rank of the answer; None for the rank found. The certificate's gap includes the
        cost of the limit.""",
    "{cv, times hidden}": """cv : int or "auto"
        How many times the search hides observations and predicts them: a tenth each time,
        or less if they are hidden more than ten times. "auto" hides about a thousand or two
        in all, in at most four turns.""",
    "{cv, one_standard_error}": """cv : int, float or "auto"
        Number of folds of the search, or the share of the observations that is held out
        once. "auto" uses five folds, or one tenth from 20,000 observations on.
    one_standard_error : bool or "auto"
        Whether to take the largest weight whose error exceeds the least by at most one standard
        error of their difference. It needs two folds or more. "auto" is False here.""",
    "{result_, certificate_}": """result_ : Result
        The solution of the problem above, with its certificate.
    certificate_ : Certificate
        How far from the optimum the solution can be.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Names of the columns, if the data have any.""",
    "{cv_results_}": """cv_results_ : dict
        The candidates tried, with one column per quantity as in scikit-learn: parameters
        ("param_lam", ..., and "params" with a dict for each candidate), other settings
        (without prefix), "mean_test_score", "std_test_score", "rank_test_score" and the
        score of each fold ("split0_test_score", ...). Empty without a search.""",
}


@dataclass(eq=False, repr=False, kw_only=True)
class Shared:
    """Parameters that all models have."""

    max_seconds: float | None = None
    random_state: Any = None
    verbose: bool = False


class Certified(Shared, CallbackSupportMixin, BaseEstimator):
    """A model whose `fit` ends with `self.result_`, a `Result` of `minimize`.

    Subclasses have the parameter `tol`. During a fit, `_seed` is drawn from `random_state`,
    and `_deadline` and `_search_end` follow from `max_seconds`. With scikit-learn 1.9 or
    later, callbacks set by `set_callbacks` are called at every look at a run and may end it.
    """

    result_: Result
    tol: float
    one_standard_error: bool | Literal["auto"]  # of models that choose by cross-validation
    cv_results_: dict[str, Any]
    _seed: int
    _deadline: Deadline
    _search_end: Deadline
    _accepts: ClassVar[tuple[str, ...]] = ()  # input tags of scikit-learn that are true
    _reads_masks: ClassVar[bool] = False  # whether masked entries count as missing

    def __init_subclass__(cls, **named: Any) -> None:
        """Wrap the methods that fit, and complete the docstring."""
        for place, text in DOCUMENTED.items():
            cls.__doc__ = (cls.__doc__ or "").replace(place, text)
        for name in ("fit", "partial_fit"):
            if name in vars(cls):
                setattr(cls, name, _managed(vars(cls)[name], name))
        super().__init_subclass__(**named)

    def _solve(self, problem: Problem, *, trial: bool = False, **settings: Any) -> Result:
        """Minimise with the model's own settings; keywords go to `minimize`.

        A solve with `trial` belongs to the search: it shows no progress and leaves time for
        the final one.
        """
        settings.setdefault("tol", self.tol)
        settings.setdefault("progress", bool(self.verbose) and not trial)
        settings["max_seconds"] = (self._search_end if trial else self._deadline).left
        return minimize(problem, seed=self._seed, callback=_forwarded(self), **settings)

    def _unproved(
        self, problem: Problem, start: Result | None = None, **accuracy: Any
    ) -> Result:
        """Solve a problem of the search from a neighbouring answer, without a proof."""
        how: Any = {"seed": self._seed, "deadline": self._search_end}
        return rough(problem, warm(problem, start), **how, **accuracy)

    def _with_zeros(self) -> Any:
        """The solution with exact zeros, a CSR array; None if no such point is known.

        The problem of `result_` must still exist.
        """
        try:
            return self.result_.sparse.matrix
        except ProofError:
            return None

    def _search(self, folds: Sequence[Any], trial: Any, **settings: Any) -> Search[Any]:
        """A search within the time limit of the fit; keywords go to `Search`."""
        settings |= {"deadline": self._search_end, "progress": bool(self.verbose)}
        return Search(folds, trial, **settings)

    def _one_standard_error(self, automatic: bool) -> bool:
        """Whether the one-standard-error rule applies; `automatic` is the value for "auto"."""
        found = or_auto("one_standard_error", self.one_standard_error, flag)
        return automatic if found is None else found

    def _renamed(self, old: str, new: str) -> Any:
        """The parameter `new`, or `old` if its deprecated name was used."""
        value = getattr(self, old)
        if isinstance(value, str) and value == DEPRECATED:
            return getattr(self, new)
        text = f"{type(self).__name__}: {old} is now called {new}; {old} will be removed."
        warnings.warn(text, DeprecationWarning, stacklevel=4)
        return value

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for name in self._accepts:
            setattr(tags.input_tags, name, True)
        return tags

    @property
    def certificate_(self) -> Certificate:
        """Bound on the distance of the fitted model from the optimum of its problem."""
        return self.result_.certificate

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains why an attribute does not exist, or not yet."""
        if hasattr(type(self), name):  # a property that raised: raise its own error
            return object.__getattribute__(self, name)
        said = f"{type(self).__name__!r} object has no attribute {name!r}"
        learnt = any(x.endswith("_") and not x.startswith("_") for x in vars(self))
        if name.endswith("_") and not name.startswith("_") and not learnt:
            raise NotFittedError(f"{said} before it is fitted: call fit first")
        if name == "predict" and hasattr(type(self), "transform"):
            said += "; use transform, or fit_transform"
        raise AttributeError(said, name=name, obj=self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the convergence of the fit; `weakprox.plots` has more plots.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        ConvergenceDisplay
        """
        from weakprox.plots import ConvergenceDisplay

        check_is_fitted(self)
        return ConvergenceDisplay.from_estimator(self, ax=ax)

    def _with_certificate(self, picture: str) -> str:
        """The HTML of a model, followed by its certificate."""
        if not hasattr(self, "result_"):
            return picture
        text = escape(str(self.result_.certificate))
        return f"{picture}<p class='weakprox-certificate'>{text}</p>"

    def _repr_html_inner(self) -> str:
        """scikit-learn's diagram of the model, with the certificate."""
        return self._with_certificate(super()._repr_html_inner())

    def _repr_mimebundle_(self, **named: Any) -> dict[str, str]:
        """The representation that notebooks prefer."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**named)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_certificate(bundle["text/html"])
        return bundle


def cut(
    result: Result,
    problem: Problem,
    rank: int | None,
    nearest: Callable[[LowRank, int], LowRank] = LowRank.leading,
) -> Result:
    """The result with a matrix of at most this rank, with its new gap.

    The lower bound on the optimum holds for any point, so no further iterations are needed.
    `nearest` returns the matrix, whose nuclear norm is no larger. The default is the one of the
    largest singular values.
    """
    found = result.low_rank
    if rank is None or found.rank <= rank:
        return result
    order = np.argsort(-np.asarray(found.s), kind="stable")
    kept = nearest(LowRank(found.U[:, order], found.s[order], found.Vt[order]), rank)
    value = problem.value(kept)
    proof = replace(result.certificate, value=value)
    status = result.status if proof.gap <= result.eps else Status.RANK_LIMITED
    return replace(result, low_rank=kept, value=value, certificate=proof, status=status)


def framed(values: Any, given: Any) -> Any:
    """The values as a frame with the labels of the given frame, or unchanged without one."""
    return labeller(given)(values)


def labeller(given: Any) -> Callable[[Any], Any]:
    """A function that converts arrays to frames with the labels of the given frame."""
    kind: Callable[..., Any] = type(given)
    if hasattr(given, "iloc"):  # pandas
        return partial(kind, index=given.index, columns=given.columns)
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):  # polars
        return partial(kind, schema=list(given.columns))
    return np.asarray


def drawn_seed(state: Any) -> int:
    """An integer seed from `random_state`; None draws a new one, as in scikit-learn."""
    if is_integer(state) and state >= 0:
        return int(state)
    if isinstance(state, np.random.Generator):
        return int(state.integers(2**31 - 1))
    try:
        return int(check_random_state(state).randint(2**31 - 1))
    except ValueError:
        wanted = "None, an integer >= 0, a RandomState or a Generator"
        raise InputError("random_state", repr(state), wanted) from None


def times_hidden(cv: Any) -> int | None:
    """How many times a search hides observations, at least 2; None for "auto"."""
    return or_auto("cv", cv, lambda name, given: integer(name, given, least=2))


def at_most(cv: Any, most: int) -> Any:
    """`cv` for scikit-learn; a number of folds (at least 2) is limited to `most`."""
    if not is_integer(cv):
        return cv
    return min(integer("cv", cv, least=2, instead="a splitter or an iterable"), most)


def check_size(name: str, size: float, what: str = "deviations from the mean") -> None:
    """Raise if fourth powers of the largest number would overflow or underflow."""
    if size and not SIZES[0] <= size <= SIZES[1]:
        wanted = "{:g} to {:g}: rescale the data".format(*SIZES)
        raise InputError(name, f"{what} up to {size:.1e}", wanted)


@contextmanager
def _hints(data: dict[str, Any]) -> Iterator[None]:
    """Add advice to scikit-learn's errors about X and y."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError) as refusal:
        said = str(refusal)
        dates = re.search(r"not '(Time|date|timedelta)", said)  # among objects
        if dates or isinstance(refusal, np.exceptions.DTypePromotionError):
            given = "dates or durations among numbers"
            raise InputError("X", given, "numbers, such as days since a date") from None
        if "inhomogeneous shape" in said:
            name = "y" if _is_ragged(data.get("y")) and not _is_ragged(data.get("X")) else "X"
            given = "lists of different lengths"
            raise InputError(name, given, "arrays of one shape") from None
        if said.startswith("Input y contains NaN"):
            wanted = "finite numbers; leave out the rows without a response"
            raise InputError("y", "NaN", wanted) from None
        if _lacks_some(data.get("y")) and not _has_text(data.get("X")):
            wanted = "one in every row; leave out the rows without a response"
            raise InputError("y", "missing entries", wanted) from None
        if said.startswith("Input X contains NaN"):
            wanted = (
                "finite numbers; SparseLowRankImputer fills the missing entries of a table, "
            )
            wanted += "MatrixCompletion those of ratings"
            raise InputError("X", "NaN", wanted) from None
        if "could not convert string" in said:
            text = re.sub(r"np\.str_\((.*)\)", r"\1", said.partition(":")[2].strip())
            text = f"the text {text}"
            if re.search(r"'[+-]?\d{1,3}(,\d{3})+", text):
                wanted = "numbers; pandas.read_csv(path, thousands=',') reads such files"
                raise InputError("X", text, wanted) from None
            if _has_text(data.get("X")):
                index = "make a column of names the index of the frame, or leave it out"
                raise InputError("X", text, f"numbers; {index}") from None
            if _has_text(data.get("y")):
                raise InputError("y", text, "numbers") from None
        raise


def _is_ragged(given: Any) -> bool:
    """Return True for lists of different lengths."""
    try:
        np.asarray(given)
    except ValueError:
        return True
    return False


def _lacks_some(given: Any) -> bool:
    """Return True if a list or column has None or pandas.NA among other entries."""
    if given is None or _is_ragged(given):
        return False
    found = np.asarray(given)
    return found.dtype == object and any(map(_is_missing, found.ravel()))


def _is_missing(one: Any) -> bool:
    """Return True if an entry is None, NaN or pandas.NA."""
    try:
        return one is None or bool(one != one)
    except TypeError:  # pandas.NA is neither equal nor different
        return True
    except ValueError:  # an array or a sparse matrix
        return False


def _has_text(given: Any) -> bool:
    """Return True if data cannot be read as numbers."""
    try:
        np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        return True
    return False


def _managed(fit: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a method with one seed and one deadline; `fit` notifies scikit-learn's callbacks."""
    told = CALLBACKS and name == "fit"
    level = 4 if told else 3  # of warnings: scikit-learn's wrapper is one more call

    @wraps(fit)
    def fitted(model: Any, *args: Any, **named: Any) -> Any:
        model._deadline = Deadline.after(model.max_seconds)
        model._search_end = model._deadline.share()
        model._seed = drawn_seed(model.random_state)
        try:
            data = dict(zip(("X", "y"), args, strict=False))
            data |= {name: named[name] for name in ("X", "y") if name in named}
            _check_masks(model, data)
            few = one_thread(_entries(data))  # many short calls of BLAS
            if not told or not hasattr(model, "_skl_callbacks"):
                with _hints(data), limited(model.max_seconds), few:
                    return _proved(fit(model, *args, **named), level)
            task = model._init_callback_context(max_subtasks=None)
            task.call_on_fit_task_begin(estimator=model, **data)
            with _hints(data), limited(model.max_seconds), few:
                found = fit(model, *args, **named)
            task.call_on_fit_task_end(estimator=model, **data)
            return _proved(found, level)
        finally:
            del model._deadline, model._search_end, model._seed

    if "Returns" not in (fit.__doc__ or ""):
        fitted.__doc__ = cleandoc(fit.__doc__ or "") + RETURNS
    # with_callbacks also cleans up after errors
    return with_callbacks(fitted) if told else fitted


def _check_masks(model: Certified, data: dict[str, Any]) -> None:
    """Raise if entries are masked, since scikit-learn reads them as if they were not."""
    for name, given in data.items():
        if not model._reads_masks and np.ma.is_masked(given):
            wanted = "a plain array; models that accept missing entries take "
            raise InputError(name, "a masked array", f"{wanted}{name}.filled(np.nan)")


def _entries(data: dict[str, Any]) -> int:
    """Number of entries of the largest array of these data, zeros of sparse ones included."""
    return max((math.prod(getattr(given, "shape", ())) for given in data.values()), default=0)


def _proved(model: Any, level: int) -> Any:
    """Warn if nothing is proved about the fitted model's solution."""
    result = getattr(model, "result_", None)
    if result is not None and not result.certificate.proves:
        text = (
            f"{type(model).__name__}: nothing is proved about the solution "
            f"({result.status.label}). {result.status.advice}"
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=level)
    return model


def _forwarded(model: Any) -> Callable[[Any], bool] | None:
    """A callback of `minimize` that reports every look as a task; True ends the run."""
    task = getattr(model, "_callback_fit_ctx", None)
    if task is None:
        return None

    def tell(look: Any) -> bool:
        step = task.subcontext(task_name="look")
        step.call_on_fit_task_begin(estimator=model)
        about = {name: getattr(look, name) for name in ("value", "lower_bound", "seconds")}
        about["svds"] = look.counts.svds
        return bool(step.call_on_fit_task_end(estimator=model, metadata=about))

    return tell

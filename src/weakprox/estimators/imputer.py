"""Missing entries filled in by a low-rank and sparse matrix."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import nonnegative, positive
from weakprox.errors import InputError
from weakprox.estimators._base import Certified
from weakprox.estimators._completion_choice import (
    SCALINGS,
    Given,
    Scaled,
    Spectral,
    Vector,
    choose,
)
from weakprox.estimators._completion_rows import RowSpace
from weakprox.losses import Completion
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.solvers import DavisYin
from weakprox.spectral import NuclearBall

ROUGH = 1e-2  # relative accuracy of the fits that only serve to choose
FULL = 4000  # size up to which all singular values are computed: fewer and surer steps
LEAST = 1e-3  # a bound that leaves nothing, relative to the largest singular value


class SparseLowRankImputer(OneToOneFeatureMixin, TransformerMixin, Certified):
    r"""Fills missing entries by a matrix that is low rank and sparse.

    Solves, over the observed entries of the data on the scale below,

    .. math::
        \min_X \tfrac12 \sum_{(i,j)\ \text{observed}} (x_{ij} - z_{ij})^2
        + \lambda \|X\|_1 + \tfrac{\rho}{2} \|X\|_F^2
        \quad\text{subject to}\quad \|X\|_* \le \tau .

    Parameters
    ----------
    lam : float or "auto"
        Price of an entry, at least 0. "auto" hides a tenth of the observed entries and
        takes the price that predicts them best.
    tau : float or "auto"
        Bound on the nuclear norm of X. "auto" finds by the same hidden entries a price of
        the nuclear norm, and takes the norm that this leads to.
    ridge : float
        :math:`\rho`, positive: it makes the problem strongly convex, on which the
        certificate rests. An observed entry has the weight 1 beside it.
    scaling : {"auto", "none", "center", "standard"}
        What is done to columns before: nothing, subtract their mean, or divide by the
        standard deviation too. "auto" takes what predicts hidden entries best.
    missing_values : float
        What stands for a missing entry, NaN by default.
    tol : float
        Accuracy to prove, relative to the value of the problem.
    max_seconds : float, optional
        Limit for the last fit; the best point so far is kept.
    random_state : int, RandomState or None
        Fixes which entries are hidden; None is the same as 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    result_ : Result
        Of the problem above, with its certificate.
    lam_, tau_, scaling_
        What was used.
    components_ : array of shape (rank, columns)
        Orthonormal basis of the rows of X.
    mean_, scale_ : arrays of shape (columns,)
        What is subtracted from columns, and what they are divided by.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Names of the columns, where the data have any.

    Notes
    -----
    `transform` keeps observed entries. It completes each row by the same problem with the
    row space held fixed, so that rows the model was fitted to get back what the fit found,
    to its accuracy. A column without any observed entry is filled with 0.

    The scale is chosen by errors in standard deviations of the columns, the rest by errors
    on that scale: columns may have units of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    >>> seen = np.where(rng.random(X.shape) < 0.7, X, np.nan)
    >>> filled = SparseLowRankImputer().fit_transform(seen)
    >>> bool(np.mean((filled - X) ** 2) < 0.05 * np.mean(X**2))
    True
    """

    def __init__(
        self,
        *,
        lam: float | Literal["auto"] = "auto",
        tau: float | Literal["auto"] = "auto",
        ridge: float = 3e-4,
        scaling: Literal["auto", "none", "center", "standard"] = "auto",
        missing_values: float = np.nan,
        tol: float = 1e-3,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.ridge = ridge
        self.scaling = scaling
        self.missing_values = missing_values
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """NaN is what it is for; float32 comes back as such."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _is_nan(self.missing_values)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> SparseLowRankImputer:
        """Learn from rows with missing entries.

        Parameters
        ----------
        X : array or frame of shape (rows, columns)
            The data.
        y : ignored
            For scikit-learn's sake.

        Returns
        -------
        SparseLowRankImputer
            The model itself.
        """
        given = self._given()
        self._ridge = positive("ridge", self.ridge)
        X = self._read(X, reset=True)[1]
        if np.isnan(X).all():
            raise InputError("X", "no observed entry", "at least one")
        settings = choose(X, given, self._rough, self._seed())
        data = Scaled(X, settings.scaling)
        self.scaling_, self._scale = settings.scaling, data.scale
        self.mean_, self.scale_ = data.scale.centre, data.scale.unit
        self.lam_, spectral = data.weights(settings, given)
        if given.tau is None:
            norm = self._rough(data.loss, self.lam_, spectral).low_rank.nuclear_norm
        self.tau_ = given.tau or max(norm, LEAST * (data.top or 1.0))
        self.result_ = self._fitted(data.loss, self.lam_, NuclearBall(self.tau_))
        self._rows = RowSpace.of(data.Z, self.result_.low_rank, self.lam_, self._ridge)
        self.components_ = self.result_.low_rank.Vt
        return self

    def transform(self, X: Any) -> Vector:
        """The same rows with their missing entries filled.

        Parameters
        ----------
        X : array or frame of shape (rows, columns)
            Rows, those of `fit` or new ones.

        Returns
        -------
        array of shape (rows, columns)
            Observed entries as they are, the others predicted.
        """
        check_is_fitted(self)
        given, X = self._read(X, reset=False)
        missing = np.isnan(X)
        rows = missing.any(axis=1)
        filled: Vector = given.copy()
        if rows.any():
            guess = self._scale.undo(self._rows.complete(self._scale.apply(X[rows])))
            filled[missing] = guess[missing[rows]]
        return filled

    def _given(self) -> Given:
        """Parameters, checked."""
        if self.scaling not in ("auto", *SCALINGS):
            wanted = f"one of auto, {', '.join(SCALINGS)}"
            raise InputError("scaling", repr(self.scaling), wanted)
        return Given(
            None if self.lam == "auto" else nonnegative("lam", self.lam),
            None if self.tau == "auto" else positive("tau", self.tau),
            None if self.scaling == "auto" else self.scaling,
        )

    def _read(self, X: Any, *, reset: bool) -> tuple[Vector, Vector]:
        """The data as they came, and in double precision with NaN for missing entries."""
        finite = "allow-nan" if _is_nan(self.missing_values) else True
        X = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite=finite,
        )
        work = X.astype(np.float64)
        if not _is_nan(self.missing_values):
            work[np.equal(X, self.missing_values)] = np.nan
        return X, work

    def _rough(
        self, loss: Completion, lam: float, spectral: Spectral, start: Result | None = None
    ) -> Result:
        """The answer, roughly."""
        settings: dict[str, Any] = {"tol": ROUGH, "max_seconds": None, "progress": False}
        return self._fitted(loss, lam, spectral, start=start, **settings)

    def _fitted(
        self, loss: Completion, lam: float, spectral: Spectral, **settings: Any
    ) -> Result:
        """The problem solved."""
        if min(loss.shape) <= FULL:
            settings["solver"] = DavisYin(first_rank=min(loss.shape))
        penalty = ElasticNet(lam, 0.5 * self._ridge)
        return self._solve(Problem(loss, penalty, spectral), **settings)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))

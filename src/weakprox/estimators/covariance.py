"""Covariances of a few common factors, each on few variables, and variances of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from weakprox.arguments import flag, nonnegative, positive
from weakprox.errors import InputError
from weakprox.estimators._base import Certified
from weakprox.estimators._common_variance import (
    common_problem,
    cut,
    scatter,
    squared,
    with_own_variance,
)
from weakprox.estimators._covariance_choice import (
    FEWEST,
    FIRST_SHARE,
    FIRST_WEIGHT,
    Search,
    automatic,
    folds,
    scale_of,
    standard_error,
    units_differ,
)
from weakprox.selection.noise import Values


class SparseLowRankCovariance(EmpiricalCovariance, Certified):
    r"""Covariance as a low-rank, sparse part and a non-negative diagonal.

    A few common factors explain how variables vary together, L, and each variable has a
    variance of its own. With S the covariance of the samples, solves

    .. math:: \min_{L \succeq 0,\ \mathrm{tr} L \le \tau,\ d \ge 0}\
              \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2 + \lambda\|L\|_1 + \tfrac1{18}\|d\|^2 ,

    which is convex; the last term is what makes the split unique. The certificate speaks of
    this problem. Then the `rank` largest eigenvalues of L are kept and d is raised until
    the estimate has the variances of the samples, and to 1/n of them at least (but not to
    more than 5 %), so that it is positive definite. With ``diagonal=False`` there is no d,
    and the estimate is L itself.

    Shrinking the trace takes the same amount off all eigenvalues, which is what sampling
    adds to them where variables are many; off the smaller ones it takes everything.

    "auto" leaves out a tenth of the samples at a time and takes the tau and lam whose
    estimates come nearest to the covariance of those left out, in Frobenius norm and in
    units of the standard deviations of those kept. Tau is sought as a share of the trace,
    lam in multiples of the standard error of a covariance.

    Parameters
    ----------
    lam : float or "auto"
        Price of entries of L: covariances of less than lam become zero or nearly so.
    tau : float or "auto"
        Bound on the trace of L, the variance that is common.
    diagonal : bool
        Whether variables have variances of their own.
    rank : int or None
        Largest rank of L; None for that of the optimum. What the limit costs is part of
        the certificate's gap.
    standardize : bool or "auto"
        Whether to fit variables divided by their standard deviations, and to scale the
        answer back. lam and tau then refer to correlations. "auto" does so where the
        largest standard deviation is more than ten times the median, so that units must
        differ, and where all of them are equal: then somebody has divided by them already,
        and when samples are left out it is done again, as new samples are in such units.
    assume_centered : bool
        Whether the mean is known to be zero.
    store_precision : bool
        Whether to keep the inverse.
    tol : float
        Accuracy of the solution, relative to the value; proved by `certificate_`.
    max_seconds : float, optional
        Limit for the final solve.
    random_state : int, RandomState or None
        Fixes which samples are left out together. None means 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        The estimate, positive semidefinite; positive definite with a diagonal, but for
        variables that do not vary.
    precision_ : array of shape (n_features, n_features)
        Its inverse (pseudo-inverse if it has none).
    location_ : array of shape (n_features,)
        Mean of the samples.
    low_rank_ : LowRank
        The common part L as factors, in the units of X; ``low_rank_.dense()`` is the matrix.
    components_ : array of shape (rank, n_features)
        Loadings of the common factors: L is ``components_.T @ components_``.
    own_variance_ : array of shape (n_features,)
        The diagonal added to it; zeros without one.
    rank_ : int
        Rank of the common part.
    lam_, tau_ : float
        What was used.
    errors_ : dict
        (share of the trace, lam in standard errors) to the squared error on samples left
        out, for every pair tried.
    result_ : Result
        The solution, with its certificate.
    certificate_ : Certificate
        How far from the optimum the solution can be.
    n_features_in_, feature_names_in_
        Variables, and their names if they have any.

    See Also
    --------
    SparseLowRank : For a matrix that is itself observed.

    Notes
    -----
    About a hundred rough solutions are compared: ten seconds for 500 variables on one core.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankCovariance
    >>> rng = np.random.default_rng(0)
    >>> loadings = 2 * rng.standard_normal((2, 40)) * (rng.random((2, 40)) < 0.3)
    >>> X = rng.standard_normal((30, 2)) @ loadings + rng.standard_normal((30, 40))
    >>> model = SparseLowRankCovariance().fit(X)
    >>> truth = loadings.T @ loadings + np.eye(40)
    >>> sample = np.cov(X.T, bias=True)
    >>> error = model.error_norm(truth, scaling=False, squared=False)
    >>> bool(error < 0.9 * np.linalg.norm(sample - truth))
    True
    >>> bool(np.linalg.eigvalsh(model.covariance_)[0] > 0)
    True
    """

    def __init__(
        self,
        lam: float | str = "auto",
        tau: float | str = "auto",
        *,
        diagonal: bool = True,
        rank: int | None = 20,
        standardize: bool | str = "auto",
        assume_centered: bool = False,
        store_precision: bool = True,
        tol: float = 1e-3,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.diagonal = diagonal
        self.rank = rank
        self.standardize = standardize
        self.assume_centered = assume_centered
        self.store_precision = store_precision
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SparseLowRankCovariance:
        """Estimate the covariance of the columns of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Samples.
        y : ignored

        Returns
        -------
        self
        """
        self._check()
        X = validate_data(self, X, ensure_min_samples=2)
        Z = np.asarray(X, dtype=float)
        self.location_ = np.zeros(Z.shape[1]) if self.assume_centered else Z.mean(axis=0)
        Z = Z - self.location_
        scale = scale_of(Z)
        standardized = units_differ(scale) if self.standardize == "auto" else self.standardize
        scale = scale if standardized else np.ones(Z.shape[1])
        Z = Z / scale
        S = scatter(Z)
        self.lam_, self.tau_ = self._chosen(Z, S, bool(standardized))
        problem = common_problem(S, self.lam_, self.tau_, diagonal=self.diagonal)
        # where nothing varies f is 0 at the optimum, and no share of it can be asked for
        accuracy = {} if S.any() else {"tol": None, "eps": 1e-12}
        result = cut(self._solve(problem, **accuracy), problem, self.rank)
        self.result_ = replace(result, checkpoint=None)  # several matrices of S's size
        self._set_parts(S, scale, len(Z))
        return self

    def _set_parts(self, S: Values, scale: Values, count: int) -> None:
        """The learnt state, in the units of the data."""
        found = self.result_.low_rank
        self.rank_ = found.rank
        kept = np.asarray(found.s) > 0.0
        self.components_ = (np.sqrt(found.s[kept]) * found.U[:, kept]).T * scale
        self.low_rank_ = squared(self.components_)
        own = np.zeros(len(scale))
        if self.diagonal:
            _, own = with_own_variance(found.dense(), np.diag(S), count)
        self.own_variance_ = own * scale**2
        common = self.components_.T @ self.components_
        self._set_covariance(common + np.diag(self.own_variance_))

    def _chosen(self, Z: Values, S: Values, standardized: bool) -> tuple[float, float]:
        """Lam and tau as given, or by folds."""
        lam = None if automatic("lam", self.lam) else nonnegative("lam", self.lam)
        tau = None if automatic("tau", self.tau) else positive("tau", self.tau)
        self.errors_: dict[tuple[float, float], float] = {}
        trace, unit = float(np.trace(S)), standard_error(S, len(Z))
        if (lam is not None and tau is not None) or trace <= 0.0:
            return lam or 0.0, tau or 1.0
        share, weight = FIRST_SHARE, FIRST_WEIGHT
        if len(Z) >= FEWEST:
            seed, centred = self._seed(), self.assume_centered
            parts = folds(Z, centred=centred, standardized=standardized, seed=seed)
            search = Search(parts, self._compare, self.diagonal, self.rank, self.errors_)
            share, weight = search.best(
                None if tau is None else tau / trace, None if lam is None else lam / unit
            )
        return weight * unit if lam is None else lam, share * trace if tau is None else tau

    def _compare(self, problem: Any, **settings: Any) -> Any:
        """A solve that is only compared with others: no time limit, no progress shown."""
        return self._solve(problem, max_seconds=None, progress=False, **settings)

    def _check(self) -> None:
        """Raise on settings that cannot work, before any work."""
        for name in ("diagonal", "assume_centered", "store_precision"):
            flag(name, getattr(self, name))
        if not automatic("standardize", self.standardize, "True, False"):
            flag("standardize", self.standardize)
        rank = self.rank
        whole = isinstance(rank, (int, np.integer)) and not isinstance(rank, bool)
        if rank is not None and (not whole or rank < 1):
            raise InputError("rank", repr(rank), "an integer >= 1, or None")
        if not automatic("lam", self.lam):
            nonnegative("lam", self.lam)
        if not automatic("tau", self.tau):
            positive("tau", self.tau)

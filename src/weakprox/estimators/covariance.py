"""Covariances of a few common factors, each on few variables, plus specific variances."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import flag, integer, nonnegative, optional_counts, or_auto, positive
from weakprox.estimators._base import Certified
from weakprox.estimators._shrinkage import Shrinkage, candidates, shrunk_parts
from weakprox.estimators._shrinkage import losses as shrinkage_losses
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Custom, Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.protocols import Loss
from weakprox.result import Result, Status
from weakprox.selection.noise import Values
from weakprox.selection.search import Search, Weights, least
from weakprox.spectral import TracePSD

DIAGONAL_WEIGHT = 0.1  # of squared errors on the diagonal, relative to those off it
LEAST_OWN = (0.005, 0.05)  # least share of a variance that is specific: 1/n between these
FEWEST = 4  # samples with which folds make sense; fewer get the first candidate
SHARES = (0.02, *(round(0.05 * k, 2) for k in range(1, 21)))  # of the trace
ERRORS = (0.0, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # lam in standard errors of a covariance
LEAP = 4  # step between shares at first
EQUAL, APART = 1e-4, 10.0  # ratios of standard deviations: equal, and of different units
ROUGH = 1e-2  # relative accuracy of the fits of the search


class Candidate(NamedTuple):
    """tau as a share of the trace, and lam in standard errors of a covariance."""

    share: float = 0.6
    errors: float = 0.0


class FreeDiagonal(Custom):
    r"""Squared distance to S when a non-negative diagonal may be added at a price.

    .. math:: G(L) = \min_{d \ge 0}\ \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2
              + \tfrac{\rho}{2}\|d\|^2, \qquad \rho = \frac{w}{1 - w}.

    The minimum is at :math:`d_i = (1 - w)(s_{ii} - l_{ii})_+`. Squared errors on the
    diagonal therefore have the weight w if L is below S there, and 1 otherwise. Smoothness
    is 1 and strong convexity w, which is `DIAGONAL_WEIGHT`.
    """

    def __init__(self, S: Values) -> None:
        self._S, self._at = S, np.diag_indices(S.shape[0])
        constants: Any = {"smoothness": 1.0, "term_smoothness": 1.0}
        constants["strong_convexity"] = DIAGONAL_WEIGHT
        super().__init__(S.shape, value=self._distance, grad=self._slope, **constants)

    def __repr__(self) -> str:
        return f"FreeDiagonal({self.shape[0]} x {self.shape[1]})"

    def _weighted(self, L: Values) -> tuple[Values, Values]:
        """The residual, and the weights of its diagonal."""
        residual = L - self._S
        return residual, np.where(residual[self._at] > 0.0, 1.0, DIAGONAL_WEIGHT)

    def _slope(self, L: Values) -> Values:
        residual, weights = self._weighted(L)
        residual[self._at] *= weights
        return residual

    def _distance(self, L: Values) -> float:
        residual, weights = self._weighted(L)
        residual[self._at] *= np.sqrt(weights)
        return 0.5 * float(np.vdot(residual, residual))


def common_problem(S: Values, lam: float, tau: float, *, diagonal: bool) -> Problem:
    """Minimise G(L) + lam |L|_1 over positive semidefinite L of trace at most tau."""
    loss: Loss = FreeDiagonal(S) if diagonal else Denoising(S)
    return Problem(loss, L1(lam), TracePSD(tau))


def cut(result: Result, problem: Problem, rank: int | None) -> Result:
    """The result truncated to its `rank` largest eigenvalues, with its new gap.

    The lower bound on the optimum holds for any point. Truncating costs no iterations, and
    little value if the eigenvalues left out are small.
    """
    found = result.low_rank
    if rank is None or found.rank <= rank:
        return result
    leading = np.argsort(-np.asarray(found.s))[:rank]
    kept = LowRank(found.U[:, leading], found.s[leading], found.Vt[leading])
    value = problem.value(kept)
    proof = replace(result.certificate, value=value)
    status = result.status if proof.gap <= result.eps else Status.RANK_LIMITED
    return replace(result, low_rank=kept, value=value, certificate=proof, status=status)


def own_variance(L: Values, variances: Values, count: int) -> Values:
    """The diagonal that brings L to the given variances.

    It is at least 1/count of the variance, which keeps the sum positive definite and its
    inverse bounded.
    """
    least = min(max(LEAST_OWN[0], 1.0 / count), LEAST_OWN[1])
    return np.maximum(variances - np.diag(L), least * variances)


def scatter(Z: Values) -> Values:
    """Mean of z z' over the rows of Z."""
    return Z.T @ Z / len(Z)


@dataclass(frozen=True)
class Fold:
    """Covariances of the samples kept and of those left out, and the number kept."""

    kept: Values
    unseen: Values
    count: int


def folds(Z: Values, count: int, *, centred: bool, standardized: bool, seed: int) -> list[Fold]:
    """Random parts of the rows, each left out once; mean and scale are those of the others."""
    order = np.random.default_rng(seed).permutation(len(Z))
    found = []
    for part in np.array_split(order, min(count, len(Z))):
        others, unseen = np.delete(Z, part, axis=0), Z[part]
        if not centred:
            unseen, others = unseen - others.mean(axis=0), others - others.mean(axis=0)
        scale = scale_of(others) if standardized else 1.0
        found.append(Fold(scatter(others / scale), scatter(unseen / scale), len(others)))
    return found


def scale_of(Z: Values) -> Values:
    """Standard deviations of centred columns, 1 for those that do not vary."""
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    return np.where(scale > 0.0, scale, 1.0)


def units_differ(scale: Values) -> bool:
    """Whether standard deviations are all equal, or too different to be of one unit."""
    least, middle, most = float(scale.min()), float(np.median(scale)), float(scale.max())
    return most - least <= EQUAL * most or most > APART * middle


def standard_error(S: Values, count: int) -> float:
    """Typical standard error of an entry of S when variables are unrelated."""
    mean = float(np.trace(S)) / int(S.shape[0])
    return mean / math.sqrt(count)


def coordinate_search(
    search: Search[Candidate], share: float | None, errors: float | None
) -> Candidate:
    """The candidate of least loss, by turns along shares and errors; given values stay."""
    given = {"share": share, "errors": errors}
    best = Candidate()._replace(**{key: x for key, x in given.items() if x is not None})
    leap = LEAP
    while True:
        before = best
        if share is None:
            best = _along(search, [best._replace(share=x) for x in SHARES], best, leap)
        if errors is None:
            best = _along(search, [best._replace(errors=x) for x in ERRORS], best, 1)
        if best == before:
            search.best_of([best])  # where both are given, or time was short
            return best
        leap = 1


def _along(
    search: Search[Candidate], line: list[Candidate], at: Candidate, leap: int
) -> Candidate:
    """A candidate on a line that neither neighbour beats, by ever smaller leaps."""
    i = line.index(at)
    while leap:
        near = [line[k] for k in (i, i - leap, i + leap) if 0 <= k < len(line)]
        better = line.index(search.best_of(near, start="best"))
        if better == i:
            leap //= 2
        i = better
    return line[i]


def _as_good(parts: list[Fold], losses: Values) -> Shrinkage | None:
    """The best shrinkage if it is at most a standard error worse than these losses."""
    parts = parts[: len(losses)]  # time may have been short
    simple = np.array([shrinkage_losses(fold.kept, fold.unseen) for fold in parts])
    best = int(np.argmin(simple.mean(axis=0)))
    both = np.stack([simple[:, best], losses], axis=1)
    chosen = least(both, [0, 1] if len(parts) > 1 else None)
    return candidates()[best] if chosen == 0 else None


@dataclass(eq=False, repr=False)
class SparseLowRankCovariance(EmpiricalCovariance, Certified):
    r"""Covariance as a low-rank, sparse part and a non-negative diagonal.

    A few common factors explain how variables vary together, L, and each variable has a
    specific variance. With S the covariance of the samples, solves

    .. math:: \min_{L \succeq 0,\ \mathrm{tr} L \le \tau,\ d \ge 0}\
              \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2 + \lambda\|L\|_1 + \tfrac1{18}\|d\|^2 ,

    which is convex; the last term makes the split unique. The certificate is about this
    problem. Then the `rank` largest eigenvalues of L are kept, and d is raised until the
    estimate has the variances of the samples, but to at least 1/n of them (at most 5 %), so
    that the estimate is positive definite. With ``diagonal=False`` there is no d, and the
    estimate is L itself.

    The bound on the trace subtracts the same amount from all eigenvalues, which corrects
    the upward bias of sample eigenvalues with many variables, and removes the small ones.

    "auto" leaves out a tenth of the samples at a time and takes the tau and lam whose
    estimates are nearest to the covariance of those left out, in Frobenius norm and, with
    `standardize`, in standard deviations of the samples kept. The search goes by turns
    along shares of the trace for tau and multiples of the standard error of a covariance
    for lam, and begins with lam = 0: factors and a diagonal. If the sample covariance, shrunk
    towards a constant correlation or a multiple of the identity, is at most one standard
    error worse on the same folds, it becomes the estimate (`kind_`), and L is then its part
    without the diagonal. The certificate is about the problem above in any case.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm of L: covariances below lam become zero or nearly so.
    tau : float or "auto"
        Bound on the trace of L, the common variance.
    diagonal : bool
        Whether variables have specific variances.
    rank : int or None
        Largest rank of the solution; None for that of the optimum. The certificate's gap
        includes the cost of the limit. A shrunk sample covariance has the rank of the samples.
    cv : int
        Number of folds for "auto", no more than there are samples.
    standardize : bool or "auto"
        Whether to divide variables by their standard deviations for the fit and to scale
        the answer back. lam and tau then refer to correlations. "auto" does so if the
        largest standard deviation is more than ten times the median, so that units must
        differ, or if all of them are equal: then the data are standardized already, and
        every fold is standardized again.
    assume_centered : bool
        Whether the mean is known to be zero.
    store_precision : bool
        Whether to keep the inverse.
    {tol, max_seconds, random_state, verbose}

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
        The diagonal added to L, the specific variances; zeros without one.
    rank_ : int
        Rank of the common part.
    kind_ : {"factors", "constant correlation", "identity"}
        Which estimate was taken: that of the problem above, or the sample covariance shrunk
        towards one of two targets,
    shrinkage_ : float
        by this amount.
    lam_, tau_ : float
        The values used.
    {cv_results_}
        Scores are minus squared errors. "share" is tau over the trace and
        "standard_errors" is lam in standard errors.
    {result_, certificate_}

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
    >>> model = SparseLowRankCovariance(random_state=0).fit(X)
    >>> truth = loadings.T @ loadings + np.eye(40)
    >>> sample = np.cov(X.T, bias=True)
    >>> error = model.error_norm(truth, scaling=False, squared=False)
    >>> bool(error < 0.9 * np.linalg.norm(sample - truth))
    True
    >>> bool(np.linalg.eigvalsh(model.covariance_)[0] > 0)
    True
    """

    lam: float | str = "auto"
    tau: float | str = "auto"
    _: KW_ONLY
    diagonal: bool = True
    rank: int | None = 20
    cv: int = 10
    standardize: bool | str = "auto"
    assume_centered: bool = False
    store_precision: bool = True
    tol: float = 1e-3

    def fit(self, X: Any, y: Any = None) -> SparseLowRankCovariance:
        """Estimate the covariance of the columns of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Samples.
        y : ignored
        """
        for name in ("diagonal", "assume_centered", "store_precision"):
            flag(name, getattr(self, name))
        standardized = or_auto("standardize", self.standardize, flag)
        optional_counts(rank=self.rank)
        integer("cv", self.cv, least=2)
        lam, tau = or_auto("lam", self.lam, nonnegative), or_auto("tau", self.tau, positive)
        X = validate_data(self, X, ensure_min_samples=2)
        Z = np.asarray(X, dtype=float)
        self.location_ = np.zeros(Z.shape[1]) if self.assume_centered else Z.mean(axis=0)
        Z = Z - self.location_
        scale = scale_of(Z)
        standardized = units_differ(scale) if standardized is None else standardized
        scale = scale if standardized else np.ones(Z.shape[1])
        Z = Z / scale
        S = scatter(Z)
        self.lam_, self.tau_, simple = self._chosen(Z, S, standardized, lam, tau)
        problem = common_problem(S, self.lam_, self.tau_, diagonal=self.diagonal)
        # without variance f is 0 at the optimum, and a relative accuracy is impossible
        accuracy: dict[str, Any] = {} if S.any() else {"tol": None, "eps": 1e-12}
        result = cut(self._solve(problem, **accuracy), problem, self.rank)
        self.result_ = replace(result, checkpoint=None)  # several matrices of S's size
        found = self.result_.low_rank
        self.rank_ = found.rank
        kept = np.asarray(found.s) > 0.0
        A = (np.sqrt(found.s[kept]) * found.U[:, kept]).T
        own = np.zeros(len(scale))
        if simple is not None:
            A, own = shrunk_parts(Z, S, simple)
        elif self.diagonal:
            own = own_variance(found.dense(), np.diag(S), len(Z))
        self.kind_ = "factors" if simple is None else simple.target
        self.shrinkage_ = 0.0 if simple is None else simple.amount
        A = A * scale  # in the units of the data
        self.components_, self.low_rank_ = A, LowRank.zero((A.shape[1], A.shape[1]), A)
        if len(A):
            _, s, Vt = decompositions.svd(A)
            self.low_rank_ = LowRank(Vt.T, s**2, Vt)
            self.rank_ = self.low_rank_.rank if simple is not None else self.rank_
        self.own_variance_ = own * scale**2
        self._set_covariance(A.T @ A + np.diag(self.own_variance_))
        return self

    def score(self, X_test: Any, y: Any = None) -> float:
        """Mean log-likelihood of test samples, as in scikit-learn.

        Parameters
        ----------
        X_test : array or frame of shape (n_samples, n_features)
            Samples from the same distribution.
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self, "covariance_")
        return float(super().score(X_test, y))

    def mahalanobis(self, X: Any) -> Any:
        """Squared Mahalanobis distances of samples, as in scikit-learn.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples,)
        """
        check_is_fitted(self, "covariance_")
        return super().mahalanobis(X)

    def get_precision(self) -> Any:
        """The inverse of the covariance, computed if it was not stored."""
        check_is_fitted(self, "covariance_")
        return super().get_precision()

    def error_norm(self, comp_cov: Any, **settings: Any) -> float:
        """Distance to another covariance; keywords as in scikit-learn.

        Parameters
        ----------
        comp_cov : array of shape (n_features, n_features)
            The covariance to compare with.
        **settings
            `norm`, `scaling` and `squared`.

        Returns
        -------
        float
        """
        check_is_fitted(self, "covariance_")
        return float(super().error_norm(comp_cov, **settings))

    def _chosen(
        self, Z: Values, S: Values, standardized: bool, lam: float | None, tau: float | None
    ) -> tuple[float, float, Shrinkage | None]:
        """Lam and tau as given, or by folds; and a simple estimate if it is as good."""
        self.cv_results_ = {}
        trace, unit = float(np.trace(S)), standard_error(S, len(Z))
        if (lam is not None and tau is not None) or trace <= 0.0:
            return lam or 0.0, tau or 1.0, None
        best, simple = Candidate(), None
        if len(Z) >= FEWEST:
            prepared = {"centred": self.assume_centered, "standardized": standardized}
            parts = folds(Z, self.cv, seed=self._seed, **prepared)
            search = self._search(parts, self._trial)
            share = None if tau is None else tau / trace
            best = coordinate_search(search, share, None if lam is None else lam / unit)
            found = search.scores()
            shares, errors = np.array(found.candidates).T
            tried = [Weights(*pair) for pair in zip(unit * errors, trace * shares, strict=True)]
            if lam is None and tau is None and self.diagonal:
                simple = _as_good(parts, found.losses[:, found.candidates.index(best)])
            found = replace(found, candidates=tried)
            self.cv_results_ = found.table(share=shares, standard_errors=errors)
        lam = best.errors * unit if lam is None else lam
        return lam, best.share * trace if tau is None else tau, simple

    def _trial(self, fold: Fold, candidate: Candidate, start: Any) -> tuple[float, Any]:
        """Squared distance of the estimate to the covariance of the samples left out."""
        S = fold.kept
        trace = float(np.trace(S))
        if trace <= 0.0:  # all samples kept are equal: nothing to estimate from
            return float(np.sum(fold.unseen**2)), None
        lam = candidate.errors * standard_error(S, fold.count)
        problem = common_problem(S, lam, candidate.share * trace, diagonal=self.diagonal)
        result = self._unproved(problem, start, tol=ROUGH)
        estimate = cut(result, problem, self.rank).low_rank.dense()
        if self.diagonal:
            estimate = estimate + np.diag(own_variance(estimate, np.diag(S), fold.count))
        return float(np.sum((estimate - fold.unseen) ** 2)), result

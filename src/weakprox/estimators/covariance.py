"""Covariances of a few common factors, each on few variables, plus specific variances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from weakprox.arguments import (
    flag,
    integer,
    nonnegative,
    one_of,
    optional_counts,
    or_auto,
    positive,
)
from weakprox.estimators._averaged_covariances import Compared, averaged, averaging_weights
from weakprox.estimators._base import Certified, check_size, cut
from weakprox.estimators._simple_covariances import (
    AMOUNTS,
    TARGETS,
    Parts,
    Sample,
)
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.losses import Custom, Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.protocols import Loss
from weakprox.selection.noise import Values
from weakprox.selection.search import Search, least, near, stream
from weakprox.spectral import TracePSD

DIAGONAL_WEIGHT = 0.1  # weight of squared errors on the diagonal, relative to those off it
CLOSE = 3.0  # standard errors within which one set of folds is not decisive
FEWEST = 4  # least number of samples for folds; with fewer, the first candidate is used
SHARES = (0.02, *(round(0.05 * k, 2) for k in range(1, 21)))  # tau as a share of the trace
ERRORS = (0.0, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)  # lam in standard errors of a covariance
CUTS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, math.inf)  # thresholds, in standard errors
RANKS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 100)
# folds that show if a candidate is clearly worse, used from this number of variables on
FIRST, MANY = 2, 200
# Number of variables from which work of the order of their cube is avoided: fits of the search
# are in single precision, and the rank is searched with a diagonal rest first.
HUGE = 1000
# Steps along lines at first: of closed forms, and of "factors", whose estimates take longest if
# their rank is near n or if lam is large.
LEAPS = {"shrinkage": 4, "errors": 4, "rank": 4}
SHORT = {"share": 2, "errors": 1}
EQUAL, APART = 1e-4, 10.0  # ratios of standard deviations: equal, and of different units
ROUGH = 0.03  # relative accuracy of the fits of the search
FACTORS, SAMPLE, NONLINEAR, THRESHOLDED = "factors", "sample", "nonlinear", "thresholded"
LEDOIT_WOLF = "Ledoit-Wolf"
REPEATS = 4  # splits into folds if there are few variables, where the choice of a kind is noisy
SPLITTING = 0xC0  # name of the random stream of the additional splits


class Candidate(NamedTuple):
    """A kind of estimate and its settings; those of other kinds keep their defaults."""

    kind: str = FACTORS
    share: float = 0.6  # of "factors": tau as a share of the trace
    errors: float = 0.0  # lam, or the threshold, in standard errors of a covariance
    shrinkage: float = 0.0
    rank: int = 0  # of "thresholded"


class Row(NamedTuple):
    """A candidate in the units of the data, as `cv_results_` shows it."""

    kind: str
    lam: float
    tau: float
    shrinkage: float
    rank: int


class FreeDiagonal(Custom):
    r"""Squared distance to S, minimised over an added diagonal with a quadratic cost.

    .. math:: G(L) = \min_{d \ge 0}\ \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2
              + \tfrac{\rho}{2}\|d\|^2, \qquad \rho = \frac{w}{1 - w}.

    The minimum is at :math:`d_i = (1 - w)(s_{ii} - l_{ii})_+`. Squared errors on the
    diagonal therefore have the weight w if L is below S there, and 1 otherwise. Smoothness
    is 1 and strong convexity w, which is `DIAGONAL_WEIGHT`.
    """

    _trusted = True

    def __init__(self, S: Values) -> None:
        self._S, self._at = S, np.diag_indices(S.shape[0])
        constants: Any = {"smoothness": 1.0, "term_smoothness": 1.0}
        constants |= {"strong_convexity": DIAGONAL_WEIGHT, "like": S}
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


@dataclass(frozen=True)
class Fold:
    """The samples kept, centred and scaled, and those left out in the same units."""

    kept: Sample
    unseen: Values

    @cached_property
    def S(self) -> Values:
        """Covariance of the samples kept."""
        return self.kept.S

    @cached_property
    def rough_S(self) -> Any:
        """The covariance for fits of low accuracy, in single precision if it is large."""
        return self.S.astype(np.float32) if len(self.S) >= HUGE else self.S


def folds(Z: Values, count: int, *, centred: bool, standardized: bool, seed: int) -> list[Fold]:
    """Random parts of the rows, each left out once; mean and scale are those of the others.

    Variables that do not vary in the rows kept are left out of the fold.
    """
    order = np.random.default_rng(seed).permutation(len(Z))
    found = []
    for part in np.array_split(order, min(count, len(Z))):
        others, unseen = np.delete(Z, part, axis=0), Z[part]
        mean = 0.0 if centred else others.mean(axis=0)
        others, unseen = others - mean, unseen - mean
        varies = np.ptp(others, axis=0) > 0.0
        others, unseen = others[:, varies], unseen[:, varies]
        scale = scale_of(others) if standardized else 1.0
        degrees = len(others) - (not centred)
        found.append(Fold(Sample(others / scale, degrees), unseen / scale))
    return found


def scale_of(Z: Values) -> Values:
    """Standard deviations of centred columns, 1 for those that do not vary."""
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    return np.where(scale > 0.0, scale, 1.0)


def units_differ(scale: Values) -> bool:
    """Return True if standard deviations are all equal, or too different for a common unit."""
    least, middle, most = float(scale.min()), float(np.median(scale)), float(scale.max())
    return most - least <= EQUAL * most or most > APART * middle


def standard_error(S: Values, count: int) -> float:
    """Typical standard error of an entry of S when variables are unrelated."""
    mean = float(np.trace(S)) / int(S.shape[0])
    return mean / math.sqrt(count)


def coordinate_search(
    search: Search[Candidate],
    start: Candidate,
    lines: Mapping[str, Sequence[Any]],
    leaps: Mapping[str, int] = LEAPS,
) -> Candidate:
    """The candidate of least loss, by line searches along each setting in turn."""
    best = start
    while True:
        before = best
        for name, values in lines.items():
            line = [best._replace(**{name: value}) for value in values]
            best = search.along(line, best, leaps.get(name, 1))
        if best == before:
            search.best_of([best])  # if no setting is free, or time was short
            return best
        leaps = {}


def finite(losses: dict[Candidate, list[Any]]) -> dict[Candidate, list[Any]]:
    """The candidates whose estimates are positive definite on all folds."""
    return {c: found for c, found in losses.items() if np.isfinite(found).all()}


def closed_form(sample: Sample, candidate: Candidate) -> Parts:
    """The estimate of a kind that needs no iterations."""
    if candidate.kind == SAMPLE:
        return sample.unchanged()
    if candidate.kind == LEDOIT_WOLF:
        return sample.shrunk("identity", sample.ledoit_wolf)
    if candidate.kind == NONLINEAR:
        return sample.nonlinear()
    if candidate.kind == THRESHOLDED:
        return sample.factors(candidate.rank, candidate.errors)
    return sample.shrunk(candidate.kind, candidate.shrinkage)


def simple_search(search: Search[Candidate], most: int, *, large: bool) -> list[Candidate]:
    """The best estimates in closed form, one of each kind; ranks up to `most`.

    The order for many variables (`large`) takes less time and may end at a slightly worse
    estimate.
    """
    middle = AMOUNTS[len(AMOUNTS) // 2]
    starts = [Candidate(target, shrinkage=middle) for target in TARGETS]
    shrunk = [coordinate_search(search, start, {"shrinkage": AMOUNTS}) for start in starts]
    ranks = [rank for rank in RANKS if rank <= most]
    lines, first = {"errors": CUTS, "rank": ranks}, Candidate(THRESHOLDED, errors=2.0)
    if large:  # a diagonal rest takes no decomposition of a large matrix
        lines, first = {"rank": ranks, "errors": CUTS}, first._replace(errors=math.inf)
    thresholded = coordinate_search(search, first, lines)
    plain = [Candidate(kind) for kind in (LEDOIT_WOLF, SAMPLE, NONLINEAR)]
    for candidate in plain:
        search.best_of([candidate])
    return [*plain, *shrunk, thresholded]


@dataclass(eq=False, repr=False)
class SparseLowRankCovariance(EmpiricalCovariance, Certified):
    r"""Covariance as a low-rank, sparse part and a non-negative diagonal.

    A few common factors with covariance L explain how variables vary together, and each
    variable has a specific variance. With S the covariance of the samples, solves

    .. math:: \min_{L \succeq 0,\ \mathrm{tr} L \le \tau,\ d \ge 0}\
              \tfrac12\|L + \mathrm{diag}(d) - S\|_F^2 + \lambda\|L\|_1 + \tfrac1{18}\|d\|^2 ,

    which is convex; the last term makes the split unique. The certificate is about this
    problem. Then the `rank` largest eigenvalues of L are kept, and d is raised until the
    estimate has the variances of the samples, but to at least 1/n of them (at most 5 %), so
    that the estimate is positive definite. With ``diagonal=False`` there is no d, and the
    estimate is L itself.

    The bound on the trace subtracts the same amount from all eigenvalues, which corrects
    the upward bias of sample eigenvalues with many variables, and removes the small ones.

    "auto" leaves out one part of the samples at a time and chooses the estimate under which
    those left out are most likely. These estimates are compared:

    ==========================  =========================================================
    `kind_`                     estimate
    ==========================  =========================================================
    "Ledoit-Wolf"               the sample covariance, shrunk towards a multiple of the
                                identity by a formula for the amount
    "sample"                    the sample covariance
    "identity", "diagonal",     the sample covariance, shrunk towards a multiple of the
    "constant correlation"      identity, its diagonal, or equal correlations
    "nonlinear"                 sample eigenvectors with eigenvalues shrunk one by one
                                (Ledoit & Wolf 2020)
    "thresholded"               principal components, and the soft-thresholded rest of
                                the sample covariance (Fan, Liao & Mincheva 2013);
                                includes thresholding alone and components + diagonal
    "factors"                   the problem above
    ==========================  =========================================================

    All but the last have closed forms. For "factors", the search alternates between tau (shares
    of the trace) and lam (multiples of the standard error of a covariance), and begins with lam
    = 0. With fewer than 200 variables, kinds that are within three standard errors of the best
    are compared on four splits of the samples, and averaged with the weights of least loss on
    them (stacking). Weights depart from equal ones (with distances, from one half for Ledoit
    and Wolf's estimate) only as far as differences on the folds exceed their standard error.
    With more variables, or with ``average=False``, a single kind is used: the best one; with
    likelihood, only if it is better than Ledoit and Wolf's by more than one standard error. The
    certificate is about the problem above in any case. If lam or tau is given, the kind is
    "factors".

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm of L: covariances below lam become zero or nearly so.
    tau : float or "auto"
        Bound on the trace of L, the common variance.
    diagonal : bool
        Whether variables have specific variances.
    rank : int or None
        Largest rank of L; None for the rank found. The certificate's gap includes the cost
        of the limit. It does not limit shrunk covariances, which have the rank of the samples.
    scoring : {"likelihood", "distance"}
        Criterion of "auto": the Gaussian likelihood of the samples left out, or the Frobenius
        distance to their covariance. Likelihood depends on small eigenvalues, which matter for
        the inverse of the estimate, but not on units; distance depends on large eigenvalues
        only. With ``diagonal=False`` the estimate may be singular, and it is always "distance".
    average : bool
        Whether to average kinds that the folds hardly distinguish. An average predicts better,
        but is not of low rank. False selects one kind.
    cv : int
        Number of folds for "auto", no more than there are samples.
    one_standard_error : bool or "auto"
        Whether Ledoit and Wolf's estimate, the simplest one, is used unless another kind is
        better by one standard error, where a single kind is used. "auto" is True for the
        likelihood and False for the distance.
    standardize : bool or "auto"
        Whether to divide variables by their standard deviations for the fit and to scale
        the answer back. lam and tau then refer to correlations. "auto" does so if the largest
        standard deviation is more than ten times the median, so that units must differ. It also
        does so if all are equal, since the data are then already standardized, and standardizes
        every fold again.
    assume_centered : bool
        Whether the mean is known to be zero.
    store_precision : bool
        Whether to keep the inverse.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        The estimate, positive semidefinite; with a diagonal positive definite, except for
        variables that do not vary.
    precision_ : array of shape (n_features, n_features)
        Its inverse (pseudo-inverse if it has none).
    location_ : array of shape (n_features,)
        Mean of the samples.
    low_rank_ : LowRank
        The common part L as factors, in the units of X; ``low_rank_.dense()`` is the matrix.
    sparse_ : csr_array of shape (n_features, n_features)
        The sparse part without a diagonal; empty unless `kind_` is "thresholded". The
        estimate is the sum of the common part, this one and the specific variances.
    sparse_low_rank_ : csr_array of shape (n_features, n_features) or None
        The common part with exact zeros, and therefore not exactly low-rank: the point
        ``result_.sparse`` in the units of X, which has its own certificate. None if `kind_` is
        not "factors" alone, if lam is 0, or if nothing is proved.
    components_ : array of shape (rank, n_features)
        Loadings of the common factors: L is ``components_.T @ components_``.
    own_variance_ : array of shape (n_features,)
        The diagonal added to L, the specific variances; zeros without one.
    rank_ : int
        Rank of the common part.
    kind_ : str
        The estimate that was used, see the table above; the one of largest weight in an
        average.
    weights_ : dict
        The kinds that were averaged and their weights, the largest first.
    shrinkage_ : float
        Amount of shrinkage of `kind_` towards a target; 0 for other kinds.
    lam_, tau_ : float
        The values used.
    {cv_results_}
        Scores are twice the mean log-likelihood up to a constant, or minus squared distances.
        "share" is tau over the trace, and "standard_errors" is lam or the threshold in standard
        errors. Estimates that are not positive definite are left out, and from 200 variables on
        those that are clearly worse on the first two folds.
    {result_, certificate_}

    See Also
    --------
    SparseLowRank : For a matrix that is itself observed.

    Notes
    -----
    The methods `score` (the mean log-likelihood of samples), `mahalanobis`, `get_precision` and
    `error_norm` are those of scikit-learn's `EmpiricalCovariance`.

    ``benchmarks/fit_times.py`` measures how long the comparison takes.

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
    >>> bool(error < np.linalg.norm(sample - truth))
    True
    >>> bool(np.linalg.eigvalsh(model.covariance_)[0] > 0)
    True
    """

    lam: float | str = "auto"
    tau: float | str = "auto"
    _: KW_ONLY
    diagonal: bool = True
    rank: int | None = None
    scoring: str = "likelihood"
    average: bool = True
    cv: int = 5
    one_standard_error: bool | Literal["auto"] = "auto"
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
        for name in ("diagonal", "average", "assume_centered", "store_precision"):
            flag(name, getattr(self, name))
        standardized = or_auto("standardize", self.standardize, flag)
        one_of("scoring", self.scoring, ("likelihood", "distance"))
        optional_counts(rank=self.rank)
        integer("cv", self.cv, least=2)
        lam, tau = or_auto("lam", self.lam, nonnegative), or_auto("tau", self.tau, positive)
        X = validate_data(self, X, ensure_min_samples=2)
        Z = np.asarray(X, dtype=float)
        self.location_ = np.zeros(Z.shape[1]) if self.assume_centered else Z.mean(axis=0)
        Z = Z - self.location_
        check_size("X", float(np.abs(Z).max()))
        scale = scale_of(Z)
        standardized = units_differ(scale) if standardized is None else standardized
        scale = scale if standardized else np.ones(Z.shape[1])
        Z = Z / scale
        sample = Sample(Z, len(Z) - (not self.assume_centered))
        with one_thread(max(Z.shape) * Z.shape[1]):  # many short calls of BLAS
            chosen = self._chosen(sample, standardized, lam, tau)
        problem = common_problem(sample.S, self.lam_, self.tau_, diagonal=self.diagonal)
        # without variance f is 0 at the optimum, and a relative accuracy is impossible
        accuracy: dict[str, Any] = {} if sample.S.any() else {"tol": None, "eps": 1e-12}
        result = cut(self._solve(problem, **accuracy), problem, self.rank)
        self.result_ = replace(result, checkpoint=None)  # several matrices of S's size
        heaviest = next(iter(chosen))
        self.kind_, self.shrinkage_ = heaviest.kind, heaviest.shrinkage
        if heaviest.kind == LEDOIT_WOLF:
            self.shrinkage_ = sample.ledoit_wolf
        self.weights_ = {candidate.kind: weight for candidate, weight in chosen.items()}
        estimates = [
            self._with_diagonal(result.low_rank, sample)
            if candidate.kind == FACTORS
            else closed_form(sample, candidate)
            for candidate in chosen
        ]
        if len(estimates) > 1:
            self._set_parts(averaged(estimates, list(chosen.values())), scale)
        else:
            rank = result.rank if self.kind_ == FACTORS else None
            self._set_parts(estimates[0], scale, rank)
        # in the units of X, with all its parts, for the report
        self.result_ = replace(self.result_, estimate=self.covariance_)
        common = self.lam_ > 0.0 and self.kind_ == FACTORS and len(estimates) == 1
        exact = self._with_zeros() if common else None
        units = np.outer(scale, scale)
        self.sparse_low_rank_ = None if exact is None else csr_array(exact * units)
        return self

    def _set_parts(self, parts: Parts, scale: Values, rank: int | None = None) -> None:
        """Store an estimate in the units of the data."""
        A = parts.A * scale
        self.components_, self.low_rank_ = A, LowRank.zero((len(scale), len(scale)), A)
        if len(A):
            _, s, Vt = decompositions.svd(A)
            self.low_rank_ = LowRank(Vt.T, s**2, Vt)
        self.rank_ = self.low_rank_.rank if rank is None else rank
        self.own_variance_ = parts.own * scale**2
        self.sparse_ = csr_array((len(scale), len(scale)))
        if parts.sparse is not None:
            self.sparse_ = csr_array(parts.sparse * np.outer(scale, scale))
        inverse = parts.inverse() if self.store_precision else None
        if inverse is None:
            self._set_covariance(parts.dense * np.outer(scale, scale))
        else:  # by less work than the pseudo-inverse
            self.covariance_ = parts.dense * np.outer(scale, scale)
            self.precision_ = inverse / np.outer(scale, scale)

    def _with_diagonal(self, L: LowRank, sample: Sample) -> Parts:
        """L, and the diagonal that brings it to the variances of the samples."""
        kept = np.asarray(L.s) > 0.0
        A = (np.sqrt(L.s[kept]) * L.U[:, kept]).T
        if not self.diagonal:
            return Parts(A, np.zeros(A.shape[1]))
        short = sample.variances - np.sum(A * A, axis=0)
        return Parts(A, np.maximum(short, sample.least_own))

    def _chosen(
        self, sample: Sample, standardized: bool, lam: float | None, tau: float | None
    ) -> dict[Candidate, float]:
        """The kinds to average, by decreasing weight; sets `lam_` and `tau_`."""
        self._ruled()  # checks the argument before any work
        self.cv_results_ = {}
        trace, unit = float(np.trace(sample.S)), standard_error(sample.S, len(sample.Z))
        best = Candidate()
        chosen = {best: 1.0}
        if (lam is None or tau is None) and trace > 0.0 and len(sample.Z) >= FEWEST:
            prepared = {"centred": self.assume_centered, "standardized": standardized}
            parts = folds(sample.Z, self.cv, seed=self._seed, **prepared)
            first = FIRST if len(sample.S) >= MANY else None
            search: Search[Candidate] = self._search(parts, self._trial, first=first)
            free = lam is None and tau is None and self.diagonal
            fewest = min(min(len(fold.kept.Z) - 1, len(fold.S)) for fold in parts)
            most = fewest if self.rank is None else min(fewest, self.rank)
            large = len(sample.S) >= HUGE
            simple = simple_search(search, most, large=large) if free else []
            best = best._replace(
                share=best.share if tau is None else tau / trace,
                errors=best.errors if lam is None else lam / unit,
            )
            # all variance is common in the sample covariance only, which is singular if p > n
            shares = SHARES if fewest == len(sample.S) else SHARES[:-1]
            lines = {"share": shares} if tau is None else {}
            lines |= {"errors": ERRORS} if lam is None else {}
            best = coordinate_search(search, best, lines, SHORT)
            chosen = {best: 1.0}
            if simple:
                search.best_of([best])  # time may have been short
                chosen = self._weights(search, [*simple, best], sample.Z, prepared)
            self.cv_results_ = self._table(search, trace, unit)
        self.lam_ = best.errors * unit if lam is None else lam
        self.tau_ = (best.share * trace or 1.0) if tau is None else tau
        return chosen

    def _weights(
        self, search: Search[Candidate], kinds: list[Candidate], Z: Values, prepared: Any
    ) -> dict[Candidate, float]:
        """The kinds to average, with their weights; one kind if the folds are decisive.

        If one set of folds is not decisive, the kinds are compared on further sets.
        """
        tried = finite({c: search.losses[c] for c in kinds if c in search.losses})
        if not tried:
            return {Candidate(): 1.0}
        losses = np.array(list(tried.values())).T
        if len(losses) < FEWEST:  # too few folds for a standard error
            return {list(tried)[least(losses)]: 1.0}
        close = [c for c, is_close in zip(tried, near(losses, CLOSE), strict=True) if is_close]
        if Z.shape[1] >= MANY or len(close) == 1:
            return {self._simplest(list(tried), losses): 1.0}
        seeds = stream(self._seed, SPLITTING).integers(2**31, size=REPEATS - 1)
        parts = [folds(Z, self.cv, seed=seed, **prepared) for seed in seeds.tolist()]
        compared = [self._compared(part, close) for part in [list(search.folds), *parts]]
        sets = [one for one in compared if one is not None]
        if not sets:  # no time
            return {self._simplest(list(tried), losses): 1.0}
        joined = [one for part in sets for one in part]
        losses = np.array([one.losses for one in joined])
        kept = np.flatnonzero(np.isfinite(losses).all(axis=0))
        close, losses = [close[k] for k in kept], losses[:, kept]
        if not self.average:
            return {self._simplest(close, losses, len(sets)): 1.0}
        joined = [one.some(kept) for one in joined]
        # Ledoit and Wolf's formula minimises an expected distance: half of the weight at first
        count = len(close)
        half = not self._likely and count > 1
        first = [count - 1 if half and c.kind == LEDOIT_WOLF else 1 for c in close]
        prior = np.array(first, dtype=float) / sum(first)
        found = averaging_weights(joined, prior, likely=self._likely, sets=len(sets))
        order = np.argsort(-found, kind="stable").tolist()
        return {close[k]: float(found[k]) for k in order if found[k] > 0.0}

    def _compared(self, parts: list[Fold], kinds: list[Candidate]) -> list[Compared] | None:
        """Estimates of some kinds on one set of folds; None if there is no time."""
        found = []
        for fold in parts:
            if self._search_end.passed:
                return None
            if fold.S.size:
                estimates = [self._fold_estimate(fold, kind, None)[0] for kind in kinds]
                found.append(Compared.of(estimates, fold.unseen, likely=self._likely))
        return found

    def _simplest(self, kinds: list[Candidate], losses: Values, sets: int = 1) -> Candidate:
        """Ledoit and Wolf's estimate, unless another kind is better by a standard error.

        With distance the best kind is chosen: most of a distance is the noise of the samples
        left out, so its standard error hardly distinguishes kinds. The standard error is that
        of one set of folds, since further sets add no samples.
        """
        simplicity = None
        if self._ruled():
            simplicity = [c.kind != LEDOIT_WOLF for c in kinds]
        return kinds[least(losses, simplicity, sets)]

    def _ruled(self) -> bool:
        """Return True if Ledoit and Wolf's estimate has one standard error of advantage."""
        return self._one_standard_error(automatic=self.scoring == "likelihood")

    @property
    def _likely(self) -> bool:
        """Return True if estimates are compared by likelihood."""
        return self.diagonal and self.scoring == "likelihood"

    def _table(self, search: Search[Candidate], trace: float, unit: float) -> dict[str, Any]:
        """The table of candidates, in the units of the data."""
        found = search.scores().finite()
        candidates = found.candidates
        if not candidates:
            return {}
        tried = [
            Row(c.kind, unit * c.errors, trace * c.share, c.shrinkage, c.rank)
            if c.kind == FACTORS
            else Row(c.kind, math.nan, math.nan, c.shrinkage, c.rank)
            for c in candidates
        ]
        more = {
            "share": np.array([row.tau / trace for row in tried]),
            "standard_errors": np.array([c.errors for c in candidates]),
        }
        return replace(found, candidates=tried).table("kind", "shrinkage", "rank", **more)

    def _trial(self, fold: Fold, candidate: Candidate, start: Any) -> tuple[float, Any]:
        """Loss of the estimate on the samples left out."""
        if not fold.S.size:  # all samples kept are equal: nothing to estimate from
            return 0.0, None
        estimate, result = self._fold_estimate(fold, candidate, start)
        loss = estimate.log_loss if self._likely else estimate.distance_loss
        return loss(fold.unseen), result

    def _fold_estimate(self, fold: Fold, candidate: Candidate, start: Any) -> tuple[Parts, Any]:
        """The estimate from the samples kept, and the solution it was computed from."""
        if candidate.kind != FACTORS:
            return closed_form(fold.kept, candidate), None
        lam = candidate.errors * standard_error(fold.S, len(fold.kept.Z))
        tau = candidate.share * float(np.trace(fold.S))
        problem = common_problem(fold.rough_S, lam, tau, diagonal=self.diagonal)
        result = self._unproved(problem, start, tol=ROUGH)
        found = cut(result, problem, self.rank).low_rank
        return self._with_diagonal(found, fold.kept), result

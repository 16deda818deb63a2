"""Missing entries filled in by a low-rank and sparse matrix."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from weakprox.arguments import is_auto, nonnegative, one_of, or_auto, positive
from weakprox.errors import InputError
from weakprox.estimators._base import Certified
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Completion
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.result import Result
from weakprox.selection.observed_path import path_point
from weakprox.selection.search import Search, stream
from weakprox.solvers import DavisYin
from weakprox.spectral import NuclearBall, NuclearNorm

Vector = np.ndarray[Any, np.dtype[Any]]
Scaling = Literal["none", "center", "standard"]
SCALINGS: tuple[Scaling, ...] = ("none", "center", "standard")
HIDDEN = 0.1  # share of the observed entries that is hidden for the search
FEWEST = 20  # observed entries, with fewer of which nothing is hidden
HALVINGS = 12  # of the weight of the nuclear norm, from the one at which X is zero
PATIENCE = 3  # halvings without a gain after which the search ends
SHARES = (1 / 16, 1 / 4, 1.0)  # of the largest lam, tried as long as they help
RIDGE = 3e-4  # if lam is positive
GAIN = 1e-3  # of the error, relative to it, by which a candidate must be better
ROUGH = 1e-2  # relative accuracy of the fits of the search
STEADY = 1e-3  # the same without lam, where nothing is proved
FULL = 4000  # size up to which all singular values are computed: fewer and surer steps
LEAST = 1e-3  # least bound, relative to the largest singular value
CHUNK = 256  # rows completed at a time: each needs a small matrix
STEPS = 60  # of the splitting at most
STILL = 1e-4  # relative change at which the splitting ends
RELAXATION = 1.6  # over-relaxation, the usual one


class Candidate(NamedTuple):
    """Settings in units that carry over from a part of the entries to all of them.

    `nuclear` is the weight of the nuclear norm relative to the largest singular value of
    the data. `share` is lam in units of nuclear / (sqrt m + sqrt d): noise of that size in
    each entry has about the spectral norm `nuclear`. The defaults apply if there is too
    little to learn from.
    """

    scaling: Scaling = "standard"
    nuclear: float = 0.1
    share: float = 1 / 16


@dataclass(frozen=True)
class Scale:
    """Columns less `centre`, divided by `unit`."""

    centre: Vector
    unit: Vector

    @classmethod
    def of(cls, X: Vector, scaling: Scaling) -> Scale:
        """From the observed entries; empty and constant columns are not scaled."""
        seen = ~np.isnan(X)
        count = np.maximum(seen.sum(axis=0), 1)
        plain = cls(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        if scaling == "none":
            return plain
        mean = np.where(seen, X, 0.0).sum(axis=0) / count
        if scaling == "center":
            return replace(plain, centre=mean)
        off = np.where(seen, X - mean, 0.0)
        unit = np.sqrt((off**2).sum(axis=0) / count)
        flat = unit <= 1e-12 * np.maximum(np.abs(mean), 1e-300)  # constant up to rounding
        return cls(mean, np.where(flat, 1.0, unit))

    def apply(self, X: Vector) -> Vector:
        return np.asarray((X - self.centre) / self.unit)

    def undo(self, Z: Vector) -> Vector:
        return np.asarray(Z * self.unit + self.centre)


class Scaled:
    """Data on one scale: the loss, and the largest singular value of the observed part."""

    def __init__(self, X: Vector, scaling: Scaling) -> None:
        self.scale = Scale.of(X, scaling)
        self.Z = self.scale.apply(X)
        self.top = float(np.linalg.norm(np.nan_to_num(self.Z), 2))
        self.loss = Completion.from_dense(self.Z)

    def weights(
        self, candidate: Candidate, lam: float | None, tau: float | None
    ) -> tuple[float, NuclearBall | NuclearNorm]:
        """Lam and the spectral term of a candidate, or as given."""
        weight = candidate.nuclear * self.top or 1.0  # any weight will do for zeros
        noise = float(np.sum(np.sqrt(self.Z.shape)))
        lam = candidate.share * weight / noise if lam is None else lam
        return lam, NuclearNorm(weight) if tau is None else NuclearBall(tau)


class HiddenEntries:
    """Data with a tenth of the observed entries hidden."""

    def __init__(self, X: Vector, seed: int) -> None:
        rows, cols = np.nonzero(~np.isnan(X))
        chosen = stream(seed, 1).permutation(rows.size)[: round(HIDDEN * rows.size)]
        self.place = (rows[chosen], cols[chosen])
        self.truth = X[self.place]
        self.left = X.copy()
        self.left[self.place] = np.nan
        self.unit = Scale.of(self.left, "standard").unit[self.place[1]]
        self._scaled: dict[Scaling, Scaled] = {}

    def scaled(self, scaling: Scaling) -> Scaled:
        """The data on one scale, made once."""
        if scaling not in self._scaled:
            self._scaled[scaling] = Scaled(self.left, scaling)
        return self._scaled[scaling]

    def errors(self, data: Scaled, X: Vector) -> tuple[float, float]:
        """Mean squared errors: on the scale of the fit, and in deviations of the columns."""
        off = data.scale.undo(X)[self.place] - self.truth
        own = data.scale.unit[self.place[1]]
        return float(np.mean((off / own) ** 2)), float(np.mean((off / self.unit) ** 2))


@dataclass(frozen=True)
class RowSpace:
    r"""The answer :math:`X = A B^\top`, :math:`B = V S^{1/2}`, as a model of single rows.

    :math:`\|X\|_* = \min \tfrac12 (\|A\|_F^2 + \|B\|_F^2)` over all such factors. So at the
    optimum each row a of A solves, for that row's observed entries,

    .. math::
        \min_a \tfrac12 \|x_o - B_o a\|^2 + \tfrac{c}{2} \|a\|^2
        + \lambda \|B a\|_1 + \tfrac{\rho}{2} \|B a\|^2

    with c the multiplier of the bound on the nuclear norm. New rows are completed by the
    same problem, and rows of the training data get the values of the fit.
    """

    B: Vector  # columns x rank
    multiplier: float
    lam: float
    ridge: float

    @classmethod
    def of(cls, Z: Vector, X: LowRank, lam: float, ridge: float) -> RowSpace:
        """From data with NaN where nothing was observed, and the low-rank answer."""
        B = X.Vt.T * np.sqrt(X.s)
        dense = X.dense()
        pull = float(np.nansum((Z - dense) * dense))
        pull -= ridge * X.sqnorm + lam * float(np.abs(dense).sum())
        # at least a little, for rows with fewer entries than the rank
        multiplier = max(pull / max(X.nuclear_norm, np.finfo(float).tiny), 1e-9)
        return cls(B[:, X.s > 0], multiplier, lam, ridge)

    def complete(self, Z: Vector) -> Vector:
        """All entries of rows with NaN where nothing is known."""
        filled = np.empty(Z.shape)
        for first in range(0, len(Z), CHUNK):
            part = slice(first, first + CHUNK)
            filled[part] = self._some(Z[part])
        return filled

    def _some(self, Z: Vector) -> Vector:
        """The same for a few rows, by alternating directions where lam is not zero."""
        B, size = self.B, np.sum(self.B**2, axis=0)  # B'B is diagonal
        seen = ~np.isnan(Z)
        known = np.where(seen, Z, 0.0) @ B
        H = np.stack([B[row].T @ B[row] for row in seen])
        H += np.diag(self.ridge * size + self.multiplier)
        if self.lam == 0.0 or B.shape[1] == 0:
            return np.linalg.solve(H, known[..., None])[..., 0] @ B.T
        # a penalty of the splitting that weighs as much as the multiplier on average
        step = self.multiplier / float(size.mean())
        inverse = np.linalg.inv(H + np.diag(step * size))
        X, split, dual = np.zeros(Z.shape), np.zeros(Z.shape), np.zeros(Z.shape)
        for _ in range(STEPS):
            a = inverse @ (known + step * ((split - dual) @ B))[..., None]
            last, X = X, a[..., 0] @ B.T
            ahead = RELAXATION * X + (1.0 - RELAXATION) * split + dual
            split = np.sign(ahead) * np.maximum(np.abs(ahead) - self.lam / step, 0.0)
            dual = ahead - split
            if float(np.abs(X - last).max()) <= STILL * float(np.abs(X).max()):
                break
        return X


@dataclass(eq=False, repr=False)
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
        Weight of the l1 norm. "auto" hides a tenth of the observed entries and takes the
        weight that predicts them best.
    tau : float or "auto"
        Bound on the nuclear norm of X. "auto" finds a weight of the nuclear norm by the
        same hidden entries and takes the norm of its solution.
    ridge : float or "auto"
        :math:`\rho`, positive. It makes the problem strongly convex, which the certificate
        needs if lam is positive. The squared error of an observed entry has the weight 1.
        "auto" is 3e-4, and no ridge if lam is zero: X is then kept in factors, which is
        faster.
    scaling : {"auto", "none", "center", "standard"}
        Preparation of the columns: none, subtract the mean, or also divide by the standard
        deviation. "auto" takes the one that predicts hidden entries best.
    missing_values : float
        Marks a missing entry, NaN by default.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    lam_, tau_, scaling_
        The values used.
    {cv_results_}
        "param_nuclear" is the weight of the nuclear norm, relative to the largest singular
        value, and "param_share" is lam relative to that weight. Scores are minus mean
        squared errors in standard deviations of the columns.
    components_ : array of shape (rank, columns)
        Orthonormal basis of the rows of X.
    mean_, scale_ : arrays of shape (columns,)
        Centre and scale of the columns.
    {result_, certificate_}

    Notes
    -----
    `transform` keeps observed entries. It completes each row by the same problem with the
    row space held fixed, so that rows of the training data get the values of the fit, to
    its accuracy. A column without any observed entry is filled with 0.

    The scaling is chosen by errors in standard deviations of the columns, the other
    settings by errors on that scale: columns may have different units.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 30))
    >>> seen = np.where(rng.random(X.shape) < 0.7, X, np.nan)
    >>> filled = SparseLowRankImputer(random_state=0).fit_transform(seen)
    >>> bool(np.mean((filled - X) ** 2) < 0.05 * np.mean(X**2))
    True
    """

    lam: float | Literal["auto"] = "auto"
    tau: float | Literal["auto"] = "auto"
    _: KW_ONLY
    ridge: float | Literal["auto"] = "auto"
    scaling: Literal["auto", "none", "center", "standard"] = "auto"
    missing_values: float = np.nan
    tol: float = 1e-3

    def __sklearn_tags__(self) -> Any:
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
        """
        lam, tau = or_auto("lam", self.lam, nonnegative), or_auto("tau", self.tau, positive)
        one_of("scaling", self.scaling, ("auto", *SCALINGS))
        or_auto("ridge", self.ridge, positive)
        X = self._read(X, reset=True)[1]
        if np.isnan(X).all():
            raise InputError("X", "no observed entry", "at least one")
        best = self._choose(X, lam, tau)
        data = Scaled(X, best.scaling)
        self.scaling_, self._scale = best.scaling, data.scale
        self.mean_, self.scale_ = data.scale.centre, data.scale.unit
        self.lam_, spectral = data.weights(best, lam, tau)
        if tau is None:
            norm = self._rough(data.loss, self.lam_, spectral, None)
            tau = max(norm.nuclear_norm, LEAST * (data.top or 1.0))
        self.tau_ = tau
        self.result_ = self._fitted(data.loss, self.lam_, NuclearBall(tau))
        ridge = self._ridge(self.lam_)
        self._rows = RowSpace.of(data.Z, self.result_.low_rank, self.lam_, ridge)
        self.components_ = self.result_.low_rank.Vt
        return self

    def _choose(self, X: Vector, lam: float | None, tau: float | None) -> Candidate:
        """The settings that are not given, by the prediction of hidden entries.

        First the scaling and the nuclear weight at lam = 0, then the nuclear weight in
        smaller steps, then lam, until it no longer helps.
        """
        self.cv_results_: dict[str, Any] = {}
        scalings = SCALINGS if self.scaling == "auto" else (self.scaling,)
        given = lam is not None and tau is not None and len(scalings) == 1
        if given or int((~np.isnan(X)).sum()) < FEWEST:
            return Candidate() if len(scalings) > 1 else Candidate(scalings[0])

        def trial(
            hidden: HiddenEntries, candidate: Candidate, start: LowRank | None
        ) -> tuple[tuple[float, float], LowRank]:
            data = hidden.scaled(candidate.scaling)
            lam_, spectral = data.weights(candidate, lam, tau)
            found = self._rough(data.loss, lam_, spectral, start)
            return hidden.errors(data, found.dense()), found

        search: Search[Candidate] = self._search([HiddenEntries(X, self._seed)], trial)
        paths = []
        for scaling in scalings:
            first = Candidate(scaling, share=0.0)
            halved = [first._replace(nuclear=2.0**-k) for k in range(1, HALVINGS + 1)]
            line = halved if tau is None else [first]
            found = search.best_of(line, start="before", patience=PATIENCE, gain=GAIN)
            paths.append(found)
        tried = [each for each in paths if each in search.losses]
        best = min(tried, key=lambda each: search.mean(each, 1))
        if tau is None:
            finer = [best._replace(nuclear=f * best.nuclear) for f in (2**0.5, 0.5**0.5)]
            best = search.best_of([best, *finer], start="best", last_of_equals=True)
        if lam is None:
            larger = [best._replace(share=share) for share in SHARES]
            best = search.best_of([best, *larger], start="best", patience=1, gain=GAIN)
        self.cv_results_ = search.scores(1).table()
        # With more entries the largest singular value of the data grows like their number,
        # that of the noise like its root.
        return best._replace(nuclear=best.nuclear * float(np.sqrt(1.0 - HIDDEN)))

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

    def _read(self, X: Any, *, reset: bool) -> tuple[Vector, Vector]:
        """The data as they came, and in double precision with NaN for missing entries."""
        finite = "allow-nan" if _is_nan(self.missing_values) else True
        read: Any = {"dtype": [np.float64, np.float32], "ensure_all_finite": finite}
        X = validate_data(self, X, reset=reset, **read)
        work = X.astype(np.float64, order="C")  # the order of sums must not depend on frames
        if not _is_nan(self.missing_values):
            work[np.equal(X, self.missing_values)] = np.nan
        return X, work

    def _ridge(self, lam: float) -> float:
        if is_auto(self.ridge):
            return RIDGE if lam > 0.0 else 0.0
        return float(self.ridge)

    def _rough(
        self,
        loss: Completion,
        lam: float,
        spectral: NuclearBall | NuclearNorm,
        start: LowRank | None,
    ) -> LowRank:
        if self._ridge(lam) == 0.0 and isinstance(spectral, NuclearNorm):
            limits: dict[str, Any] = {"rank": None, "deadline": self._search_end}
            problem = Problem(loss, None, spectral)
            return path_point(problem, start, tol=STEADY, seed=self._seed, **limits)[0]
        if isinstance(spectral, NuclearBall) and start is not None:
            start = start if spectral.violation(start) <= 0.0 else None
        found = self._fitted(loss, lam, spectral, trial=True, tol=ROUGH, start=start)
        return found.low_rank

    def _fitted(
        self, loss: Completion, lam: float, spectral: NuclearBall | NuclearNorm, **settings: Any
    ) -> Result:
        """Solve the problem: in factors if there is nothing but the nuclear norm."""
        ridge = self._ridge(lam)
        if ridge == 0.0:
            return self._solve(Problem(loss, None, spectral), **settings)
        if min(loss.shape) <= FULL:
            settings["solver"] = DavisYin(first_rank=min(loss.shape))
        return self._solve(Problem(loss, ElasticNet(lam, 0.5 * ridge), spectral), **settings)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))

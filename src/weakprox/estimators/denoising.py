"""Denoising a matrix that is low rank and sparse, from one or several noisy copies."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from weakprox.arguments import flag, integer, is_auto, nonnegative, one_of, or_auto, positive
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._base import Certified, check_size, framed
from weakprox.linalg.arrays import largest
from weakprox.losses import Denoising
from weakprox.losses.moments import Moments
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.selection import folded, regularization_path
from weakprox.selection._anscombe import anscombe, counts_of, mean_count
from weakprox.selection.copy_scales import FEWEST, copy_scales, rescaled_moments, scales_differ
from weakprox.selection.debias import debiasing, undone_by
from weakprox.selection.denoise import Choice, NoisyMatrix, Tried, candidates
from weakprox.selection.noise import (
    are_counts,
    given_noise,
    is_poisson,
    mean_noise,
    sample_moments,
)

FLOATS = [np.float64, np.float32]
UNCHANGED = 1e-6  # relative change of the entries below which the data are returned
GROUPS = 5  # groups of columns, each predicted from the others to score new rows
TINY = 1e-12  # least variance of noise, relative to that of the signal
SPARSE = ["csr", "csc", "coo"]


@dataclass(eq=False, repr=False, kw_only=True)
class _Denoiser(OneToOneFeatureMixin, TransformerMixin, Certified, ABC):
    """Base of the denoisers; subclasses choose lam, tau and the scale."""

    rank: int | None = None
    psd: bool = False
    debias: bool | Literal["auto"] = True
    noise: float | str = "auto"
    stabilize: bool = False
    rescale_copies: bool = False
    one_standard_error: bool | Literal["auto"] = "auto"
    tol: float = 1e-4
    _accepts = ("sparse", "three_d_array")
    _searches = True  # whether anything is left to choose
    _prefers_simple = False  # whether `one_standard_error` is True if automatic

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from a noisy matrix, or from several noisy copies of one.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (m, d), or array of shape (n, m, d)
            One noisy matrix, or n copies, of which only the mean and the variance are used.
        y : ignored
        """
        samples = self._samples(X)
        self.copy_scales_ = copy_scales(samples)
        if flag("rescale_copies", self.rescale_copies) and len(samples) >= FEWEST:
            self._seen = rescaled_moments(samples, self.copy_scales_)
            self._learn(None, samples.dtype)
        else:
            self._warn_of_scales(samples)
            self._seen = sample_moments(samples)
            self._learn(samples, samples.dtype)
        self.matrix_ = framed(self._estimate(), X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Learn from more noisy copies, in memory that does not grow with their number.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (m, d), or array of shape (n, m, d)
            One more copy, or n more.
        y : ignored
        """
        if flag("rescale_copies", self.rescale_copies):
            given = "True, with partial_fit"
            raise InputError("rescale_copies", given, "False, or fit with all copies at once")
        first = not hasattr(self, "_seen")
        samples = self._samples(X, None if first else self._seen.mean.shape)
        seen = [*([] if first else [self._seen]), sample_moments(samples)]
        self._seen = Moments.together(seen, np.zeros(samples.shape[1:]))
        self._learn(None, samples.dtype)
        self.matrix_ = framed(self._estimate(), X)
        return self

    def transform(self, X: Any) -> Any:
        """Project new rows onto the row space that was learnt, which removes noise outside it.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (any, d)
            Rows like those of the matrix. For the rows of the matrix itself `matrix_` is a
            better estimate, since it also uses their support.

        Returns
        -------
        array of the shape of X
        """
        check_is_fitted(self, "low_rank_")
        rows = self._rows(X)
        V = self.components_.astype(rows.dtype, copy=False)
        return self._unstabilized((rows @ V.T) @ V)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared error on data that the model has not seen.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (any, d), or array of shape (n, m, d)
            New rows, of which every column in turn is predicted from the columns of other
            groups; or n noisy copies of the same matrix, to which the estimate is compared.
        y : ignored

        Returns
        -------
        float
            Larger is better; the best possible score is minus the variance of the noise.

        Notes
        -----
        Columns are predicted by their conditional mean, given the others, if rows have the
        covariance of the estimate plus noise. A row space of too high a rank predicts worse
        (Owen & Perry, "Bi-cross-validation of the SVD", 2009).
        """
        check_is_fitted(self, "low_rank_")
        if getattr(X, "ndim", 2) == 3 and not issparse(X):
            samples, estimate = self._samples(X, self.low_rank_.shape), self._estimate()
            samples = self._unstabilized(samples, exactly=True)
            return -float(np.mean([np.mean((sample - estimate) ** 2) for sample in samples]))
        rows = self._rows(X)
        rows = rows.toarray() if issparse(rows) else rows
        found = self._unstabilized(self._predicted(rows))
        return -float(np.mean((self._unstabilized(rows, exactly=True) - found) ** 2))

    def _rows(self, X: Any) -> Any:
        """New rows, transformed like those seen before."""
        rows = validate_data(self, X, reset=False, dtype=FLOATS, accept_sparse=SPARSE)
        return self._stabilized(rows)

    def _stabilized(self, data: Any) -> Any:
        """The data, or their transforms with `stabilize`."""
        if not self.stabilize:
            return data
        data = data.toarray() if issparse(data) else data
        if not are_counts(data):
            wanted = "integers, none negative, with stabilize=True"
            raise InputError("X", "entries that are not counts", wanted)
        return anscombe(data)

    def _unstabilized(self, levels: Any, *, exactly: bool = False) -> Any:
        """Means of counts whose transforms have these means, or `exactly` those counts."""
        if not self.stabilize:
            return levels
        return counts_of(levels) if exactly else mean_count(levels)

    def _estimate(self) -> Any:
        """The estimate as an array."""
        return self._unstabilized(self.low_rank_.dense())

    def _predicted(self, rows: Any) -> Any:
        """Each group of columns of new rows, predicted from the others."""
        found = self.low_rank_
        loadings = found.Vt.T * (found.s / math.sqrt(found.shape[0]))
        # without noise, prediction is least squares
        level = max(self.noise_**2, TINY * float(np.sum(loadings**2))) or 1.0
        group = np.arange(len(loadings)) % min(GROUPS, len(loadings))
        guesses = np.empty_like(rows)
        for k in range(int(group.max()) + 1):
            hidden, seen = loadings[group == k], loadings[group != k]
            inner = seen.T @ seen + level * np.eye(loadings.shape[1])
            weights = np.linalg.solve(inner, seen.T @ rows[:, group != k].T)
            guesses[:, group == k] = (hidden @ weights).T
        return guesses

    def _learn(self, samples: Any, dtype: Any) -> None:
        """Choose lam and tau, solve, and set what was learnt."""
        rank = None if self.rank is None else integer("rank", self.rank, 1, instead="None")
        flag("psd", self.psd)
        centre = self._seen.mean.astype(dtype)
        data = NoisyMatrix(
            self._seen.mean,
            counts=self._counts(),
            psd=self.psd,
            rank=rank,
            debias=debiasing("debias", self.debias),
            seed=self._seed,
            deadline=self._search_end,
            progress=bool(self.verbose),
            folds=integer("cv", self.cv, least=2),
            simplest=self._one_standard_error(automatic=self._prefers_simple),
        )
        self.noise_ = self._noise(data)
        found = self._choose(data, samples)
        self.lam_, self.tau_, self.kind_ = found.lam, found.tau, found.kind
        problem = Problem(Denoising(centre), L1(found.lam), data.ball(found.tau))
        most = None if rank is None else min(rank, *centre.shape)
        self.result_ = self._solve(problem, rank=most)
        X = self.result_.low_rank
        if math.isnan(found.scale):  # nothing was held out: least squares on the data
            scale = max(1.0, X.inner(centre) / X.sqnorm) if X.rank else 1.0
            found = replace(found, scale=float(scale))
        self.cv_results_, self.scale_, self.refit_ = found.table, found.scale, found.refit
        self.debias_ = undone_by(found.scale, found.refit)
        self.low_rank_ = found.estimate(X, centre)
        self.rank_ = self.low_rank_.rank
        self.components_ = self.low_rank_.Vt[: self.rank_]
        self.n_samples_seen_ = self._seen.size
        self.matrix_ = self._estimate()
        if self.debias_ != "none":  # first: the point with exact zeros is kept with the result
            self.result_ = replace(self.result_, estimate=self.low_rank_)
        exact = self._with_zeros() if found.lam else None
        self.sparse_ = None if exact is None else self._on_support(exact).astype(dtype)
        self._warn(self._unstabilized(centre, exactly=True), self._searches)

    @abstractmethod
    def _choose(self, data: NoisyMatrix, samples: Any) -> Choice:
        """Choose lam, tau and the factor against shrinkage; NaN stands for least squares."""

    def _on_support(self, exact: Any) -> Any:
        """The estimate at the nonzeros of the solution with exact zeros."""
        if not self.refit_:
            found = exact * self.scale_
            found.data = self._unstabilized(found.data)
            return found
        found = exact.tocoo()
        at = found.row, found.col
        return csr_array((self.matrix_[at], at), shape=exact.shape)

    def _noise(self, data: NoisyMatrix) -> float:
        """The noise level given, computed from copies, or estimated from one matrix."""
        if not data.counts and not is_auto(self.noise):
            return given_noise("noise", self.noise, self._seen.mean)
        if self.stabilize and self._seen.size == 1:
            return 1.0
        if data.counts:
            return data.noise()
        first = mean_noise(self._seen)
        several = self._seen.size > 1
        return first if several or not self._searches else data.noise(first)

    def _counts(self) -> bool:
        """Return True for one matrix of Poisson counts, recognised or declared."""
        if not isinstance(self.noise, str):
            return False
        one_of("noise", self.noise, ("auto",) if self.stabilize else ("auto", "poisson"))
        if self.stabilize:
            return False
        if is_auto(self.noise):
            return self._seen.size == 1 and is_poisson(self._seen.mean)
        if self._seen.size > 1:
            raise InputError("noise", "'poisson' and several matrices", "their sum, or 'auto'")
        if not are_counts(self._seen.mean):
            wanted = "integers, none negative, with noise='poisson'"
            raise InputError("X", "entries that are not counts", wanted)
        return True

    def _warn(self, data: Any, searched: bool) -> None:
        """Warn if an automatic choice returns the data as they are."""
        away = float(np.abs(self.matrix_ - data).max())
        if searched and data.any() and away <= UNCHANGED * float(np.abs(data).max()):
            text = (
                f"{type(self).__name__} returned its input unchanged: at the noise level "
                f"{self.noise_:.3g}, no entry and no singular value was found to be noise. "
                "Pass noise= if you know the level, or pass lam and tau."
            )
            warnings.warn(text, UserWarning, stacklevel=6)

    def _warn_of_scales(self, samples: Any) -> None:
        """Warn if copies differ in scale, since the differences would count as noise."""
        if not scales_differ(samples, self.copy_scales_):
            return
        low, high = self.copy_scales_.min(), self.copy_scales_.max()
        text = (
            f"The copies differ in scale, from {low:.3g} to {high:.3g} of their mean, and are "
            "averaged as they are, so that their differences count as noise. If they are "
            "multiples of one matrix, pass rescale_copies=True."
        )
        warnings.warn(text, UserWarning, stacklevel=5)

    def _samples(self, X: Any, shape: tuple[int, ...] | None = None) -> Any:
        """The data as a stack of matrices, of this shape if others were seen before."""
        reset = shape is None
        if getattr(X, "ndim", 2) == 3 and not issparse(X):
            stack = check_array(X, dtype=FLOATS, allow_nd=True, ensure_2d=False)
            if reset:
                self.n_features_in_ = int(stack.shape[2])
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
        else:
            one = validate_data(self, X, reset=reset, dtype=FLOATS, accept_sparse=SPARSE)
            stack = (one.toarray() if issparse(one) else one)[None]
        check_size("X", largest(stack), "entries")
        flag("stabilize", self.stabilize)
        stack = self._stabilized(stack)
        if self.psd and stack.shape[1] != stack.shape[2]:
            raise ShapeError("X", stack.shape[1:], "square matrices, with psd=True")
        if shape is not None and stack.shape[1:] != shape:
            raise ShapeError("X", stack.shape[1:], f"copies of shape {shape}")
        return (stack + stack.transpose(0, 2, 1)) / 2 if self.psd else stack

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(eq=False, repr=False)
class SparseLowRank(_Denoiser):
    r"""Denoising of a matrix that is low-rank and sparse.

    Solves :math:`\min \tfrac12\|X - M\|_F^2 + \lambda\|X\|_1` over :math:`\|X\|_* \le \tau`,
    where M is the noisy matrix or the mean of several, and multiplies the answer by a factor
    that undoes the shrinkage.

    "auto" splits M into `cv` independent copies (data thinning, which needs the noise level
    unless M holds counts), fits pairs of lam and tau to all but one of them, and compares the
    answers with that one. It begins with lam = 0 and tries larger weights as long as the error
    on the copies falls. The simplest model within one standard error of the best is chosen, see
    `one_standard_error`; the simpler models are the data themselves, soft thresholding alone
    and singular values alone. `SparseLowRankCV` uses a larger grid.

    Parameters
    ----------
    lam : float or "auto"
        Weight of the l1 norm. Typical values set entries below two or three standard
        deviations of the noise to zero.
    tau : float or "auto"
        Bound on the sum of singular values (of eigenvalues with `psd`).
    rank : int, optional
        Largest rank of the answer.
    psd : bool
        Whether the matrix is known to be symmetric positive semidefinite.
    debias : bool or "auto"
        Whether to undo the shrinkage by lam and tau. True multiplies the answer by the factor
        (at least 1) that brings it nearest to held-out data, or to M itself without a search.
        "auto" also tries a refit: the singular vectors of the answer are kept, and their
        values moved towards those nearest to M (for soft thresholding alone: the entries it
        keeps). The refit is used only if it is nearer to held-out data.
    noise : float, "auto" or "poisson"
        Standard deviation of the noise in the entries of M. "auto" computes it from the
        differences of copies. For a single matrix it is the smaller of two robust estimates
        (see `selection.noise_level`), from singular values and from the median absolute
        deviation of the entries, or the estimate from the residual of a first fit if that is
        clearly smaller. If the signal has full rank, it is only a guess. "poisson" is for
        counts: their variance is their mean, and they are thinned binomially. "auto" does the
        same for a matrix of integers whose variance is about their mean.
    stabilize : bool
        Whether the data are counts that are transformed first, so that all have about the same
        variance: 2 sqrt(x + 3/8), less its value at zero, whose noise has the level 1. Errors
        of small counts then matter as much as those of large ones, relative to their noise. The
        transformed mean is taken to be low-rank and sparse; `matrix_`, `sparse_`, `transform`
        and `score` are on the scale of the counts, `low_rank_`, `result_` and other attributes
        on that of the transform.
    rescale_copies : bool
        Whether three or more copies are multiples of one matrix with different scales, such as
        exposures. The scales are then estimated, and copies with a larger scale and less noise
        have more weight. Otherwise a warning is issued if scales differ.
    cv : int
        Number of copies that M is split into, each of which is left out once.
    one_standard_error : bool or "auto"
        Whether to take the simplest candidate (kind of model, then least radius) whose error
        exceeds the least by at most one standard error of their difference. "auto" is True
        here.
    {tol, max_seconds, random_state, verbose}

    Attributes
    ----------
    matrix_ : array or frame of shape (m, d)
        The estimate, with the labels of the data.
    low_rank_ : LowRank
        The same as factors.
    sparse_ : csr_array or None
        The same with exact zeros where the l1 norm makes entries zero, and therefore not
        exactly low-rank; ``result_.sparse`` has its value and certificate. None if lam is 0
        or nothing is proved.
    rank_ : int
        Its rank.
    components_ : array of shape (rank, d)
        Orthonormal basis of its row space.
    lam_, tau_, noise_ : float
        The values used.
    debias_ : {"none", "scale", "refit"}
        Method by which the shrinkage was undone.
    scale_, refit_ : float
        The estimate is the solution times `scale_`, plus its refit times `refit_`.
    kind_ : {"both", "low-rank", "sparse", "copy"}
        The model that was chosen: both terms, or a simpler model that was as good on the copies
        (singular values alone, soft thresholding alone, or the data unchanged).
    {cv_results_}
        Scores are minus mean squared errors.
    n_samples_seen_ : int
        Noisy copies seen.
    copy_scales_ : array of shape (copies,)
        Scales of the copies given to `fit`, relative to their mean; 1 for fewer than three.
    {result_, certificate_}

    See Also
    --------
    SparseLowRankImputer : For matrices with missing entries.
    SparseLowRankCovariance : For covariance matrices of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRank
    >>> rng = np.random.default_rng(0)
    >>> u = np.where(rng.random(60) < 0.2, 3.0, 0.0)
    >>> M = np.outer(u, u) + rng.standard_normal((60, 60))
    >>> model = SparseLowRank(random_state=0).fit(M)
    >>> error = np.linalg.norm(model.matrix_ - np.outer(u, u))
    >>> bool(error < 0.25 * np.linalg.norm(M - np.outer(u, u)))
    True
    >>> model.result_.status.label
    'certified'
    """

    lam: float | str = "auto"
    tau: float | str = "auto"
    _: KW_ONLY
    cv: int = 5
    _prefers_simple = True

    @property
    def _searches(self) -> bool:  # type: ignore[override]
        return is_auto(self.lam) or is_auto(self.tau)

    def _choose(self, data: NoisyMatrix, samples: Any) -> Choice:
        lam = or_auto("lam", self.lam, nonnegative)
        tau = or_auto("tau", self.tau, positive)
        if lam is not None and tau is not None and not is_auto(self.debias):
            return Choice(lam, tau, math.nan if self.debias else 1.0, {})
        if not self._seen.mean.any():  # a matrix of zeros
            return Choice(lam or 0.0, tau or 1.0, 1.0, {})
        return data.search(self.noise_, lam, tau)


@dataclass(eq=False, repr=False)
class SparseLowRankCV(_Denoiser):
    """`SparseLowRank` with lam and tau chosen from a grid by cross-validation over copies.

    A single matrix is split into independent copies by data thinning; several noisy copies are
    averaged in random groups. Each copy or group is left out in turn, and the pair with the
    least mean squared distance to those left out is chosen.

    Parameters
    ----------
    lams, taus : "auto" or sequence of float
        Weights and radii to try; by default `n_lams` and `n_taus` of them, from
        `weakprox.selection.default_grid`.
    n_lams, n_taus : int
        Number of weights and radii to try.
    cv : int
        Number of copies to split one matrix into, or of groups of noisy copies.
    one_standard_error : bool or "auto"
        Whether to take the simplest answer (smallest rank, then fewest nonzeros) that is
        worse than the best by at most one standard error of their difference. "auto" is False
        here.
    rank, psd, debias, noise, stabilize, rescale_copies, tol, max_seconds, random_state, verbose
        As in `SparseLowRank`.
    n_jobs : int, optional
        Number of copies that are left out in parallel, each with one thread.

    Attributes
    ----------
    matrix_, low_rank_, sparse_, rank_, components_, lam_, tau_, noise_, result_
        As in `SparseLowRank`; `result_` is the solution before its shrinkage was undone.
    debias_, scale_, refit_, copy_scales_
        As in `SparseLowRank`.
    path_ : weakprox.selection.Path
        Solutions on the whole matrix for every point of the grid.
    errors_ : array of shape (cv, n_lams, n_taus)
        Mean squared distances to the copies that were left out.
    best_index_ : tuple of int
        Row and column of the point chosen.
    cv_results_ : dict
        As in `SparseLowRank`, with the "rank" and "nonzeros" of the answers.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankCV
    >>> rng = np.random.default_rng(0)
    >>> u = np.where(rng.random(30) < 0.3, 3.0, 0.0)
    >>> M = np.outer(u, u) + rng.standard_normal((30, 30))
    >>> search = SparseLowRankCV(
    ...     n_lams=4, n_taus=4, cv=3, one_standard_error=True, random_state=0
    ... )
    >>> model = search.fit(M)
    >>> model.rank_
    1
    >>> model.errors_.shape
    (3, 4, 4)
    """

    lams: Any = "auto"
    taus: Any = "auto"
    _: KW_ONLY
    n_lams: int = 10
    n_taus: int = 10
    cv: int = 5
    n_jobs: int | None = None

    def _choose(self, data: NoisyMatrix, samples: Any) -> Choice:
        cv = data.folds
        several = samples is not None and len(samples) > 1
        copies = folded(samples, cv, data.seed) if several else data.copies(self.noise_, cv)
        lams, taus = (None if is_auto(x) else x for x in (self.lams, self.taus))
        grid = data.grid(self.noise_, lams, taus, self.n_lams, self.n_taus)
        judged = data.held_out(copies, grid, n_jobs=self.n_jobs)
        self.path_ = path = regularization_path(
            Denoising(self._seen.mean),
            grid.lams,
            grid.taus,
            spectral=data.ball,
            rank=data.rank,
            seed=data.seed,
            max_seconds=self._search_end.left,
            progress=data.progress,
        )
        self.errors_ = judged.errors(debias=data.debias)
        simplest = data.simplest and len(self.errors_) > 1
        point = path.best(self.errors_, one_standard_error=simplest)
        self.best_index_ = (point.row, point.column)
        index = point.row * grid.shape[1] + point.column
        found = Tried(data.debias, candidates(grid), [judged]).at(index)
        more = {"rank": path.ranks.ravel(), "nonzeros": path.nonzeros.ravel()}
        return replace(found, table=found.table | more)

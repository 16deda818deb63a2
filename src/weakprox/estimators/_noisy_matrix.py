"""What the denoisers share: data as they come, the noise in them, and the answer's uses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from weakprox._minimize import minimize
from weakprox.arguments import nonnegative
from weakprox.errors import InputError, ShapeError
from weakprox.estimators._base import Certified
from weakprox.estimators._seen import Seen
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.selection import Copies, Grid, default_grid, held_out, noise_level, thinned
from weakprox.selection.grid import as_grid
from weakprox.spectral import NuclearBall, TracePSD

COPIES = 5  # that one matrix is split into; one of them is held out
QUICK = (6, 5)  # weights and radii that "auto" tries
ROUGH = 1e-3  # accuracy of fits that only serve a choice
CLEARLY = 0.9  # share of a noise level below which another one is not the same
FLOATS = [np.float64, np.float32]
SPARSE = ["csr", "csc", "coo"]


class NoisyMatrix(OneToOneFeatureMixin, TransformerMixin, Certified, ABC):
    """A matrix seen through noise; subclasses choose lam, tau and the scale."""

    low_rank_: LowRank
    _searches = True  # whether anything is left to choose

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from a noisy matrix, or from several noisy copies of one.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (m, d), or array of shape (n, m, d)
            One noisy matrix, or n of them: of the latter, only the mean and the variance
            across copies are used.
        y : ignored

        Returns
        -------
        self
        """
        samples = self._samples(X, reset=True)
        self._seen = Seen.of(samples)
        self._learn(samples, samples.dtype)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Learn from more noisy copies; what is kept does not grow with their number.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (m, d), or array of shape (n, m, d)
            One more copy, or n more.
        y : ignored

        Returns
        -------
        self
        """
        first = not hasattr(self, "_seen")
        samples = self._samples(X, reset=first)
        if not first and samples.shape[1:] != self._seen.mean.shape:
            raise ShapeError("X", samples.shape[1:], f"copies of shape {self._seen.mean.shape}")
        more = Seen.of(samples)
        self._seen = more if first else self._seen.and_also(more)
        self._learn(None, samples.dtype)
        return self

    def transform(self, X: Any) -> Any:
        """New rows, projected on the row space that was learnt: noise across it is removed.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (any, d)
            Rows like those of the matrix. Those of the matrix itself are estimated better
            by `matrix_`, which knows their support as well.

        Returns
        -------
        array of the shape of X
        """
        check_is_fitted(self, "low_rank_")
        rows = validate_data(self, X, reset=False, dtype=FLOATS, accept_sparse=SPARSE)
        V = self.components_.astype(rows.dtype, copy=False)
        return (rows @ V.T) @ V

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean squared distance of the estimate to copies it has not seen.

        Parameters
        ----------
        X : array of shape (m, d) or (n, m, d)
            Noisy copies of the same matrix.
        y : ignored

        Returns
        -------
        float
            The larger, the better; minus the variance of the noise at best.
        """
        check_is_fitted(self, "low_rank_")
        samples = self._samples(X, reset=False)
        if samples.shape[1:] != self.matrix_.shape:
            raise ShapeError("X", samples.shape[1:], f"copies of shape {self.matrix_.shape}")
        return -float(np.mean([np.mean((sample - self.matrix_) ** 2) for sample in samples]))

    def _learn(self, samples: Any, dtype: Any) -> None:
        """Choose, solve, and keep what was found."""
        self.noise_ = self._noise()
        lam, tau, scale = self._choose(samples)
        centre = self._seen.mean.astype(dtype)
        problem = Problem(Denoising(centre), L1(lam), self._ball(tau))
        self.result_ = self._solve(problem, rank=self.rank)
        found = self.result_.low_rank
        if scale is None:  # nothing was held out: least squares on the data themselves
            scale = max(1.0, found.inner(centre) / found.sqnorm) if found.rank else 1.0
        self.lam_, self.tau_, self.scale_ = lam, tau, float(scale)
        self.low_rank_ = LowRank(found.U, found.s * dtype.type(scale), found.Vt)
        self.rank_ = found.rank
        self.components_ = found.Vt[: found.rank]
        self.n_samples_seen_ = self._seen.count
        self.matrix_ = self.low_rank_.dense()

    @abstractmethod
    def _choose(self, samples: Any) -> tuple[float, float, float | None]:
        """lam, tau and the factor that undoes shrinkage; None for that of least squares."""

    def _noise(self) -> float:
        """The noise level given, seen across copies, or estimated from one matrix.

        Estimates from one matrix take signal for noise where it is neither low-rank nor
        sparse. What a first fit leaves over then shows less noise, and that counts.
        """
        if not (isinstance(self.noise, str) and self.noise == "auto"):
            return nonnegative("noise", self.noise)
        first = self._seen.noise()
        if self._seen.count > 1 or first == 0.0 or not self._searches:
            return first
        self.noise_ = first
        lam, tau, scale = self._search("auto", "auto")
        problem = Problem(Denoising(self._seen.mean), L1(lam), self._ball(tau))
        found = minimize(problem, tol=ROUGH, seed=self._seed(), progress=False).X
        left = noise_level(self._seen.mean - scale * found, "entries")
        return left if 0.0 < left < CLEARLY * first else first

    def _search(self, lam: float | str, tau: float | str) -> tuple[float, float, float]:
        """lam, tau and the factor that come nearest to one copy that was left out."""
        grid = self._grid(lam, tau, *QUICK)
        judged = held_out(
            self._thinned(COPIES),
            grid,
            folds=1,
            spectral=self._ball,
            rank=self.rank,
            seed=self._seed(),
            progress=bool(self.verbose),
        )
        errors = judged.errors(debias=self.debias)[0]
        i, j = np.unravel_index(int(np.argmin(errors)), errors.shape)
        scale = judged.scales(debias=self.debias)[i, j]
        return float(grid.lams[i]), float(grid.taus[i, j]), float(scale)

    @property
    def _ball(self) -> Any:
        """What tau bounds."""
        return TracePSD if self.psd else NuclearBall

    def _thinned(self, copies: int) -> Copies:
        """Copies of the mean, with symmetric noise where the answer has to be symmetric."""
        mean = self._seen.mean
        made = thinned(mean, self.noise_, copies, self._seed())
        if not self.psd:
            return made
        away = made.means - mean
        return Copies(mean + (away + away.transpose(0, 2, 1)) / math.sqrt(2.0), made.counts)

    def _grid(self, lams: Any, taus: Any, n_lams: int, n_taus: int) -> Grid:
        """Weights and radii to try, "auto" replaced by what the data suggest."""
        found = default_grid(
            self._seen.mean, self.noise_, n_lams=n_lams, n_taus=n_taus, psd=self.psd
        )
        weights = found.lams if isinstance(lams, str) else np.ravel(lams)
        radii = taus
        if isinstance(taus, str):
            radii = found.taus[[int(np.argmin(np.abs(found.lams - lam))) for lam in weights]]
        return as_grid(weights, radii if np.ndim(radii) else [radii])

    def _samples(self, X: Any, *, reset: bool) -> Any:
        """The data as a stack of matrices."""
        if getattr(X, "ndim", 2) == 3 and not issparse(X):
            stack = check_array(X, dtype=FLOATS, allow_nd=True, ensure_2d=False)
            if reset:
                self.n_features_in_ = int(stack.shape[2])
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
        else:
            one = validate_data(self, X, reset=reset, dtype=FLOATS, accept_sparse=SPARSE)
            stack = (one.toarray() if issparse(one) else one)[None]
        if self.psd and stack.shape[1] != stack.shape[2]:
            raise ShapeError("X", stack.shape[1:], "square matrices, with psd=True")
        return (stack + stack.transpose(0, 2, 1)) / 2 if self.psd else stack

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def number_or_auto(name: str, value: Any, least: float = 0.0) -> float | None:
    """A number, or None for "auto"."""
    if isinstance(value, str):
        if value != "auto":
            raise InputError(name, repr(value), "a number, or 'auto'")
        return None
    number = nonnegative(name, value)
    if number < least or (name == "tau" and number == 0.0):
        raise InputError(name, value, "a number > 0, or 'auto'")
    return number

"""Denoising a matrix that is low rank and sparse: one of them, many copies, or a stream."""

from __future__ import annotations

from typing import Any

from weakprox.estimators._denoising_cv import SparseLowRankCV
from weakprox.estimators._noisy_matrix import NoisyMatrix, number_or_auto

__all__ = ["SparseLowRank", "SparseLowRankCV"]


class SparseLowRank(NoisyMatrix):
    r"""A low-rank and sparse matrix, seen through noise.

    Solves :math:`\min \tfrac12\|X - M\|_F^2 + \lambda\|X\|_1` over
    :math:`\|X\|_* \le \tau`, M the noisy matrix or the mean of several, and multiplies the
    answer by a factor that undoes the shrinkage.

    "auto" splits M into independent copies (data thinning, which needs the noise level),
    fits a small grid of lam and tau without one of them, and takes what comes nearest to
    that one. `SparseLowRankCV` does the same on a large grid with every copy.

    Parameters
    ----------
    lam : float or "auto"
        Price of an entry: what two or three times the noise would not reach is set to zero.
    tau : float or "auto"
        Bound on the sum of singular values (of the eigenvalues with `psd`).
    rank : int, optional
        Largest rank of the answer.
    psd : bool
        Whether the matrix is known to be symmetric positive semidefinite.
    debias : bool
        Whether to undo the shrinkage that lam and tau cause, by the factor (at least 1) that
        brings the answer nearest to held-out data, or to M itself if nothing was searched.
    noise : float or "auto"
        Standard deviation of the noise in the entries of M. By default that across copies.
        For a single matrix, the smaller of two robust estimates, from its median singular
        value and from the median of its entries; where what a first fit leaves over shows
        clearly less, that.
    tol : float
        Accuracy of the solution, relative to the value; proved by `certificate_`.
    max_seconds : float, optional
        Limit for the final solve.
    random_state : int, RandomState or None
        Fixes the thinning. None means 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    matrix_ : array of shape (m, d)
        The estimate.
    low_rank_ : LowRank
        The same as factors.
    rank_ : int
        Its rank.
    components_ : array of shape (rank, d)
        Orthonormal basis of its row space.
    lam_, tau_, scale_, noise_ : float
        What was used, chosen or estimated.
    result_ : Result
        The solution before it was scaled, with its certificate.
    certificate_ : Certificate
        How far from the optimum the solution can be.
    n_samples_seen_ : int
        Noisy copies seen.
    n_features_in_, feature_names_in_
        Columns, and their names if they have any.

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
    >>> model = SparseLowRank().fit(M)
    >>> error = np.linalg.norm(model.matrix_ - np.outer(u, u))
    >>> bool(error < 0.25 * np.linalg.norm(M - np.outer(u, u)))
    True
    >>> model.result_.status.label
    'certified'
    """

    def __init__(
        self,
        lam: float | str = "auto",
        tau: float | str = "auto",
        *,
        rank: int | None = None,
        psd: bool = False,
        debias: bool = True,
        noise: float | str = "auto",
        tol: float = 1e-4,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lam = lam
        self.tau = tau
        self.rank = rank
        self.psd = psd
        self.debias = debias
        self.noise = noise
        self.tol = tol
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _searches(self) -> bool:  # type: ignore[override]
        return isinstance(self.lam, str) or isinstance(self.tau, str)

    def _choose(self, samples: Any) -> tuple[float, float, float | None]:
        lam, tau = number_or_auto("lam", self.lam), number_or_auto("tau", self.tau)
        if lam is not None and tau is not None:
            return lam, tau, None if self.debias else 1.0
        if not self._seen.mean.any():  # nothing to choose by, and nothing to find
            return lam or 0.0, tau or 1.0, 1.0
        return self._search(self.lam, self.tau)

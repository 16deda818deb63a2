"""Denoising with weight and radius chosen on a whole grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakprox.estimators._noisy_matrix import NoisyMatrix
from weakprox.losses import Denoising
from weakprox.selection import Path, folded, held_out, regularization_path
from weakprox.selection.noise import Values
from weakprox.selection.thinning import whole


class SparseLowRankCV(NoisyMatrix):
    """`SparseLowRank` with lam and tau chosen on a whole grid, by every held-out copy.

    One matrix is split into independent copies by data thinning; of several noisy copies,
    random groups are averaged. Each is left out in turn, and the mean squared distance to it
    decides.

    Parameters
    ----------
    lams, taus : "auto" or sequence of float
        Weights and radii to try; by default `n_lams` and `n_taus` of them, from
        `weakprox.selection.default_grid`.
    n_lams, n_taus : int
        How many to try.
    cv : int
        Copies to split one matrix into, or groups of noisy copies; no more than there are.
    one_standard_error : bool
        Take the simplest answer (smallest rank, then fewest nonzeros) that is not worse than
        the best by more than one standard error of their difference.
    rank : int, optional
        Largest rank of the answer.
    psd : bool
        Whether the matrix is known to be symmetric positive semidefinite.
    debias : bool
        Whether to undo the shrinkage that lam and tau cause, by the factor (at least 1) that
        brings the answers nearest to held-out data.
    noise : float or "auto"
        Standard deviation of the noise in the entries, as in `SparseLowRank`.
    tol : float
        Accuracy of the final solution, relative to the value; proved by `certificate_`.
    max_seconds : float, optional
        Limit for the final solve.
    n_jobs : int, optional
        Copies that are left out at a time; each then uses one thread.
    random_state : int, RandomState or None
        Fixes thinning and groups. None means 0.
    verbose : bool
        Whether to show progress.

    Attributes
    ----------
    matrix_, low_rank_, rank_, components_, scale_, noise_, result_, certificate_
        As in `SparseLowRank`.
    lam_, tau_ : float
        The weight and radius chosen.
    path_ : weakprox.selection.Path
        Solutions on the whole matrix for every point of the grid.
    errors_ : array of shape (cv, n_lams, n_taus)
        Mean squared distances to the copies that were left out.
    best_index_ : tuple of int
        Row and column of the point chosen.
    cv_results_ : dict
        The same as flat columns: "param_lam", "param_tau", "mean_test_score" and so on;
        scores are negative errors.

    Examples
    --------
    >>> import numpy as np
    >>> from weakprox import SparseLowRankCV
    >>> rng = np.random.default_rng(0)
    >>> u = np.where(rng.random(30) < 0.3, 3.0, 0.0)
    >>> M = np.outer(u, u) + rng.standard_normal((30, 30))
    >>> model = SparseLowRankCV(n_lams=4, n_taus=4, cv=3, one_standard_error=True).fit(M)
    >>> model.rank_
    1
    >>> model.errors_.shape
    (3, 4, 4)
    """

    def __init__(
        self,
        lams: Any = "auto",
        taus: Any = "auto",
        *,
        n_lams: int = 10,
        n_taus: int = 10,
        cv: int = 5,
        one_standard_error: bool = False,
        rank: int | None = None,
        psd: bool = False,
        debias: bool = True,
        noise: float | str = "auto",
        tol: float = 1e-4,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.lams = lams
        self.taus = taus
        self.n_lams = n_lams
        self.n_taus = n_taus
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.rank = rank
        self.psd = psd
        self.debias = debias
        self.noise = noise
        self.tol = tol
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _choose(self, samples: Any) -> tuple[float, float, float | None]:
        several = samples is not None and len(samples) > 1
        cv, seed = whole("cv", self.cv, least=2), self._seed()
        copies = folded(samples, cv, seed) if several else self._thinned(cv)
        grid = self._grid(self.lams, self.taus, self.n_lams, self.n_taus)
        shared: dict[str, Any] = {
            "spectral": self._ball,
            "rank": self.rank,
            "seed": seed,
            "progress": bool(self.verbose),
        }
        judged = held_out(copies, grid, n_jobs=self.n_jobs, **shared)
        self.path_ = regularization_path(
            Denoising(self._seen.mean), grid.lams, grid.taus, **shared
        )
        self.errors_ = judged.errors(debias=self.debias)
        point = self.path_.best(self.errors_, one_standard_error=self.one_standard_error)
        self.best_index_ = (point.row, point.column)
        scales = judged.scales(debias=self.debias)
        self.cv_results_ = _columns(self.path_, self.errors_, scales)
        return point.lam, point.tau, float(scales[self.best_index_])


def _columns(path: Path, errors: Values, scales: Values) -> dict[str, Any]:
    """Scores and what they belong to, a column each, as scikit-learn's searches have them."""
    scores = -errors.reshape(errors.shape[0], -1)
    mean = scores.mean(axis=0)
    order = np.argsort(-mean, kind="stable")
    places = np.empty(mean.size, dtype=np.int32)
    places[order] = np.arange(1, mean.size + 1)
    columns: dict[str, Any] = {
        "param_lam": np.repeat(path.lams, path.taus.shape[1]),
        "param_tau": path.taus.ravel(),
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=0),
        "rank_test_score": places,
        "scale": scales.ravel(),
        "rank": path.ranks.ravel(),
        "nonzeros": path.nonzeros.ravel(),
    }
    columns |= {f"split{k}_test_score": score for k, score in enumerate(scores)}
    return columns

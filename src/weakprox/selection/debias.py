"""Methods to undo the shrinkage of a denoised matrix.

A fit X is multiplied by a factor, or moved towards its refit R: the matrix with the singular
vectors of X (or with its support, if X is sparse only) that is nearest to the data. The relaxed
fit X + w (R - X) has one number to choose, like the factor (Meinshausen, "Relaxed Lasso",
2007). Both are chosen by data that the fit has not seen.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from weakprox.arguments import flag, is_auto
from weakprox.errors import InputError
from weakprox.linalg.lowrank import LowRank
from weakprox.selection.search import clearly_positive

Debias = bool | Literal["auto"]
WORTH = 0.5  # standard errors that a refit must gain on the folds
Values = np.ndarray[Any, np.dtype[np.float64]]


def debiasing(argument: str, value: Any) -> Debias:
    """True, False or "auto"."""
    if isinstance(value, str):
        if is_auto(value):
            return "auto"
        raise InputError(argument, repr(value), 'True, False or "auto"')
    return flag(argument, value)


def undone_by(scale: float, share: float) -> str:
    """The method that undid the shrinkage of scale X + share R: "none", "scale" or "refit"."""
    if share:
        return "refit"
    return "none" if scale == 1.0 else "scale"


def refit_values(X: LowRank, M: Any) -> Values:
    """Values t >= 0 for which U diag(t) V' is nearest to M, U and V being those of X."""
    return np.where(X.s > 0.0, np.maximum(along_triplets(X, M), 0.0), 0.0)


def along_triplets(X: LowRank, M: Any) -> Values:
    """u' M v for each pair of singular vectors of X."""
    found: Values = np.einsum("ij,ij->j", X.U, M @ X.Vt.T).astype(float)
    return found


def relaxed(towards: Values, length: Values) -> Values:
    """The share w of a refit that is best for unseen data Z, from 0 to 1.

    `towards` is <R - X, Z - X> and `length` is |R - X|^2, both summed over unseen data.
    """
    share = np.divide(towards, length, out=np.zeros_like(towards), where=length > 0.0)
    return np.clip(share, 0.0, 1.0)


# for models that predict: folds determine the best share of a refit


def refit_to(predictions: Values, answers: Values) -> Values:
    """Values t >= 0 with which the columns of `predictions` are nearest to the answers.

    A column contains the predictions of one pair of singular vectors.
    """
    if not predictions.shape[1]:
        return np.zeros(0)
    both: Any = np.linalg.qr(np.column_stack([predictions, answers]), mode="r")  # few rows
    from scipy.optimize import nnls  # slow to import

    found: Values = nnls(both[:, :-1], both[:, -1])[0]
    return found


class Unseen(NamedTuple):
    """Losses of a fit and of its refit on unseen data, for a search.

    The mean squared error of fit + w (refit - fit) is error - 2 w towards + w^2 length.
    """

    error: float
    towards: float
    length: float

    @classmethod
    def of(cls, fitted: Values, refitted: Values, answers: Values) -> Unseen:
        """Compute the losses from both predictions of the answers."""
        apart, left = refitted - fitted, answers - fitted
        towards, length = float(np.mean(apart * left)), float(np.mean(apart * apart))
        return cls(float(np.mean(left * left)), towards, length)


def best_refit(search: Any, plain: Any) -> tuple[Any, float]:
    """The best candidate of a search with losses `Unseen`, and the share of its refit.

    The share is the same for all folds. It is 0, with the candidate `plain`, unless a refit
    gains more than half a standard error over that candidate without one.
    """
    scores = [search.scores(column) for column in range(len(Unseen._fields))]
    candidates = scores[0].candidates
    error, towards, length = (one.losses for one in scores)
    w = relaxed(towards.sum(axis=0), length.sum(axis=0))
    moved = error - 2.0 * w * towards + w**2 * length
    best = int(np.argmin(moved.mean(axis=0)))
    gain = error[:, candidates.index(plain)] - moved[:, best]
    if not clearly_positive(gain, WORTH):
        return plain, 0.0
    return candidates[best], float(w[best])

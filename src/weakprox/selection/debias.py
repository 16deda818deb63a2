"""How the shrinkage of a denoised matrix is undone.

A fit X is multiplied by a factor, or moved towards its refit R: the matrix with the singular
vectors of X (or with its support, if X is sparse only) that is nearest to the data. The
relaxed fit X + w (R - X) has one number to choose, as the factor has (Meinshausen, "Relaxed
Lasso", 2007). Both are chosen by data that the fit has not seen.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from weakprox.arguments import flag, is_auto
from weakprox.errors import InputError
from weakprox.linalg.lowrank import LowRank

Debias = bool | Literal["auto"]
Values = np.ndarray[Any, np.dtype[np.float64]]


def debiasing(argument: str, value: Any) -> Debias:
    """True, False or "auto"."""
    if isinstance(value, str):
        if is_auto(value):
            return "auto"
        raise InputError(argument, repr(value), 'True, False or "auto"')
    return flag(argument, value)


def undone_by(scale: float, share: float) -> str:
    """What undid the shrinkage of scale X + share R: "none", "scale" or "refit"."""
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

"""A transform after which counts have nearly the same variance, whatever their mean.

F. J. Anscombe, "The transformation of Poisson, binomial and negative-binomial data",
Biometrika 35(3/4), 1948; M. Mäkitalo and A. Foi, "A closed-form approximation of the exact
unbiased inverse of the Anscombe variance-stabilizing transformation", IEEE Transactions on
Image Processing 20(9), 2011.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SHIFT = 0.375
AT_ZERO = 2.0 * math.sqrt(SHIFT)  # subtracted, so that zero remains zero
ROOT = math.sqrt(1.5)


def anscombe(counts: Any) -> Any:
    """2 sqrt(x + 3/8), less its value at zero: the variance of Poisson counts becomes one."""
    return 2.0 * np.sqrt(counts + SHIFT) - AT_ZERO


def mean_count(level: Any) -> Any:
    """The mean of Poisson counts whose transforms have this mean; zero for negative ones."""
    D = np.maximum(level, 0.0) + AT_ZERO
    found = D**2 / 4 + ROOT / (4 * D) - 11 / (8 * D**2) + 5 * ROOT / (8 * D**3) - 1 / 8
    return np.maximum(found, 0.0)


def counts_of(level: Any) -> Any:
    """The counts with these transforms."""
    return ((level + AT_ZERO) / 2.0) ** 2 - SHIFT

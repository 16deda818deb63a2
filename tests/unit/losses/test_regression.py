"""Several responses: constants that hold for features far from zero."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from weakprox.losses import Regression


@pytest.mark.parametrize("seed", range(8))
def test_sparse_features_with_large_means_have_valid_constants(seed):
    rng = np.random.default_rng(seed)
    X = 1e6 + rng.standard_normal((50, 3))
    loss = Regression(csr_array(X), rng.standard_normal((50, 2)), intercept=True)
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / 50
    assert 0.0 < loss.strong_convexity <= values[-1]
    assert loss.smoothness >= values[0]

"""Small matrices with a known signal."""

import numpy as np


def sparse_low_rank(m=40, d=30, rank=2, density=0.3, size=2.0, noise=0.5, seed=0):
    """Signal, and the same under noise."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((m, rank)) * (rng.random((m, rank)) < density)
    V = rng.standard_normal((d, rank)) * (rng.random((d, rank)) < density)
    signal = size * U @ V.T
    return signal, signal + noise * rng.standard_normal((m, d))

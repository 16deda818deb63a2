"""Noise of an unknown level: how far to continue a spectrum that has no bulk.

    python benchmarks/data/levels.py

Tables of the bundled data and simulated matrices, standardised, with noise added. For each
factor `BEYOND` of `weakprox.selection.noise`, the level that `SparseLowRank` estimates and the
root mean square error of its answer, which should not exceed the noise itself. None of the
tables is one of `unseen.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from common import load
from sklearn.datasets import load_iris

from weakprox import SparseLowRank
from weakprox.selection import noise

FACTORS = (0.0, 1.0, 2.0)
LEVELS = (0.3, 1.0)
SEEDS = 2


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1, without constant ones."""
    X = np.asarray(X, dtype=float)
    X = X[:, X.std(axis=0) > 0.0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def matrices() -> Iterator[tuple[str, np.ndarray]]:
    """Signals: most tables fill their spectrum, the simulated ones have a low rank."""
    rng = np.random.default_rng(0)
    yield "iris", standardised(load_iris().data)
    digits = load("mfeat_digits")
    yield "mfeat, Fourier", standardised(digits["fou"][:300, rng.choice(76, 20, False)])
    yield "mfeat, Karhunen-Loeve", standardised(digits["kar"][:400, :30])
    yield "mfeat, pixels", standardised(digits["pix"][:300, rng.choice(240, 40, False)])
    tissue = load("tissue_expression")["X"]
    yield "12 genes", standardised(tissue[:, rng.choice(500, 12, False)])
    yield "60 genes", standardised(tissue[:, rng.choice(500, 60, False)])
    for rank in (2, 5, 9):
        X = rng.standard_normal((200, rank)) @ rng.standard_normal((rank, 15))
        yield f"rank {rank} of 15", X / X.std()


def main() -> None:
    """Print a line per matrix and level."""
    for name, X in matrices():
        for level in LEVELS:
            told = []
            for noise.BEYOND in FACTORS:
                models = []
                for seed in range(SEEDS):
                    M = X + level * np.random.default_rng(seed).standard_normal(X.shape)
                    model = SparseLowRank(random_state=0).fit(M)
                    models.append((model.noise_, np.sqrt(np.mean((model.matrix_ - X) ** 2))))
                found, error = np.mean(models, axis=0)
                told.append(f"{noise.BEYOND:g}: level {found:.3f}, error {error:.3f}")
            print(f"{name:22} noise {level:g}   " + "   ".join(told), flush=True)


if __name__ == "__main__":
    main()

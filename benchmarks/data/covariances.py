"""Covariances of scikit-learn's tables: the log-loss of a Gaussian on the other half.

None of these tables was used to tune the model. Ten random halves each. Methods see the
training half in its own units, except "standardized", which divides by standard deviations
first. Of the digits' pixels those are taken that are not zero in 5 % of the images at least.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from common import Row, Tally
from sklearn import datasets
from sklearn.covariance import EmpiricalCovariance, LedoitWolf

from weakprox import SparseLowRankCovariance

OURS = "SparseLowRankCovariance"
SPLITS = 10


def wine() -> np.ndarray:
    """13 measurements of 178 wines."""
    return datasets.load_wine().data


def breast_cancer() -> np.ndarray:
    """30 measurements of 569 tumours."""
    return datasets.load_breast_cancer().data


def diabetes() -> np.ndarray:
    """10 measurements of 442 patients."""
    return datasets.load_diabetes().data


def digits() -> np.ndarray:
    """50 pixels of 1797 images."""
    pixels = datasets.load_digits().data
    return pixels[:, np.mean(pixels != 0.0, axis=0) > 0.05]


def standardized_ledoit_wolf(A: np.ndarray) -> EmpiricalCovariance:
    """Ledoit and Wolf's shrinkage of correlations, scaled back."""
    scale = A.std(axis=0)
    model = LedoitWolf().fit(A / scale)
    model.location_ = model.location_ * scale
    model.covariance_ = model.covariance_ * np.outer(scale, scale)
    model.precision_ = model.precision_ / np.outer(scale, scale)
    return model


METHODS: dict[str, Callable[[np.ndarray], EmpiricalCovariance]] = {
    "sample covariance": EmpiricalCovariance().fit,
    "Ledoit-Wolf": LedoitWolf().fit,
    "Ledoit-Wolf, standardized": standardized_ledoit_wolf,
    OURS: lambda A: SparseLowRankCovariance(random_state=0).fit(A),
}


def rows(quick: bool = False) -> list[Row]:
    """Log-losses of all methods on all tables."""
    found, splits = [], 2 if quick else SPLITS
    for load in (wine, breast_cancer, diabetes, digits):
        X, tally, kinds = load(), Tally(), []
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(X))
            A, B = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
            for name, fit in METHODS.items():
                model = tally.add(name, lambda fit=fit, A=A: fit(A), lambda m, B=B: -m.score(B))
            kinds.append(model.kind_)  # ours is the last
        best = min(np.mean(scores) for name, scores in tally.scores.items() if name != OURS)
        count = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
        note = ", ".join(f"{kind} {times}" for kind, times in count.items())
        found += tally.rows(
            load.__name__,
            f"Gaussian log-loss of the other half, {X.shape[1]} variables, {splits} halves",
            better="lower",
            ours=OURS,
            bar=float(best),
            notes={OURS: note},
        )
    return found


if __name__ == "__main__":
    from run import table

    print(table(rows()))

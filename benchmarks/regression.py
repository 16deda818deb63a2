"""Regression of several responses on real data: held-out errors beside scikit-learn's models.

python benchmarks/regression.py

Data are sets that scikit-learn ships. Responses are columns that are predicted jointly: the
body measures of linnerud, the blood values of diabetes (from age, sex, weight and pressure),
the last six columns of wine, and the ten "worst" columns of breast cancer (from the other
twenty; all rows, and 60 of them). Errors are mean squared errors in variances of the training
responses, over repeated five-fold splits. All models get standardised data and choose their
own weights.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_linnerud, load_wine
from sklearn.linear_model import MultiTaskLassoCV, RidgeCV
from sklearn.model_selection import RepeatedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from weakprox import ReducedRankRegressor

FEW = 100  # rows below which splits are repeated four times instead of twice


def data():
    """Names, features and responses."""
    linnerud = load_linnerud()
    yield "linnerud", linnerud.data, linnerud.target
    X = load_diabetes(scaled=False).data
    yield "diabetes", X[:, :4], X[:, 4:]
    X = load_wine().data
    yield "wine", X[:, :7], X[:, 7:]
    X = load_breast_cancer().data
    yield "cancer", X[:, :20], X[:, 20:]
    some = np.random.default_rng(0).permutation(len(X))[:60]
    yield "cancer, 60 rows", X[some, :20], X[some, 20:]


MODELS = {
    "ReducedRankRegressor": lambda: ReducedRankRegressor(random_state=0),
    "RidgeCV": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))),
    "MultiTaskLassoCV": lambda: make_pipeline(
        StandardScaler(), MultiTaskLassoCV(max_iter=20_000)
    ),
}


def errors(build, X, Y):
    """Held-out errors of the splits, and the median seconds of a fit."""
    splits = RepeatedKFold(n_splits=5, n_repeats=4 if len(X) < FEW else 2, random_state=0)
    found, seconds = [], []
    for kept, left in splits.split(X):
        mean, spread = Y[kept].mean(axis=0), Y[kept].std(axis=0)
        begun = time.perf_counter()
        model = build().fit(X[kept], (Y[kept] - mean) / spread)
        seconds.append(time.perf_counter() - begun)
        found.append(np.mean((model.predict(X[left]) - (Y[left] - mean) / spread) ** 2))
    return np.array(found), float(np.median(seconds))


def main():
    warnings.simplefilter("ignore")  # the lasso's about convergence
    print("differences are ours minus theirs, with their standard error over the splits")
    for name, X, Y in data():
        print(f"{name}: {len(X)} rows, {X.shape[1]} features, {Y.shape[1]} responses")
        ours = None
        for title, build in MODELS.items():
            found, seconds = errors(build, X, Y)
            line = f"  {title:21} {found.mean():.4f}  {seconds:6.3f} s"
            if ours is not None:
                away = ours - found
                error = away.std(ddof=1) / np.sqrt(len(away))
                line += f"  difference {away.mean():+.4f} ({error:.4f})"
            ours = found if ours is None else ours
            print(line, flush=True)


if __name__ == "__main__":
    main()

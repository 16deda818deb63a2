"""Matrices as samples: regression and classification with low-rank, sparse coefficients.

Planted: 8 x 7 Gaussian matrices and coefficients of rank one with nine entries. Images: pairs
of scikit-learn's digits that are easily confused, 8 x 8 pixels, few of which are used to train.
The simple methods choose their weights by five folds, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from common import Row, Tally
from sklearn import datasets
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss

from weakprox import TraceClassifier, TraceRegression

OURS, CLASSIFIER = "TraceRegression", "TraceClassifier"
PAIRS = ((3, 8), (4, 9), (1, 7))
SEEDS, TRAIN, MORE = 3, 80, 200
MANY = 10  # seeds of planted classes: the difference of methods is small, and fits are fast
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def planted(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices and their noisy products with fixed coefficients."""
    rng = np.random.default_rng(seed)
    left, right = np.zeros(8), np.zeros(7)
    left[1:4], right[2:5] = 1.0, [1.0, -1.0, 1.0]
    A = rng.standard_normal((count, 8, 7))
    return A, np.tensordot(A, np.outer(left, right), 2) + 2.0 * rng.standard_normal(count)


def regressions(seeds: int) -> list[Row]:
    """Mean squared errors on 1000 new matrices."""
    tally = Tally()
    new, truth = planted(1000, 1000)
    flat = new.reshape(len(new), -1)
    for seed in range(seeds):
        A, b = planted(seed, TRAIN)
        rows = A.reshape(len(A), -1)
        for name, model in (
            ("RidgeCV", RidgeCV(np.logspace(-2, 4, 25))),
            ("LassoCV", LassoCV()),
        ):
            tally.add(
                name,
                lambda model=model: model.fit(rows, b),
                lambda m: np.mean((m.predict(flat) - truth) ** 2),
            )
        tally.add(
            OURS,
            lambda seed=seed: TraceRegression(random_state=seed).fit(A, b),
            lambda m: np.mean((m.predict(new) - truth) ** 2),
        )
    bar = min(float(np.mean(tally.scores[name])) for name in ("RidgeCV", "LassoCV"))
    metric = f"mean squared error, {TRAIN} matrices, {seeds} seeds"
    return tally.rows("planted coefficients", metric, better="lower", ours=OURS, bar=bar)


def images(seed: int) -> Iterator[Split]:
    """Images and digits of the pairs, to train and to test."""
    bunch = datasets.load_digits()
    X, label = bunch.images / 16.0, bunch.target
    for pair in PAIRS:
        members = np.flatnonzero(np.isin(label, pair))
        members = np.random.default_rng(seed).permutation(members)
        train, test = members[:TRAIN], members[TRAIN:]
        yield X[train], label[train], X[test], label[test]


def planted_classes(seed: int) -> Iterator[Split]:
    """Signs of the planted responses."""
    A, b = planted(seed, MORE)
    B, c = planted(1000, 1000)
    yield A, b > 0.0, B, c > 0.0


def classifications(
    name: str, metric: str, splits: Callable[[int], Iterator[Split]], seeds: int
) -> list[Row]:
    """Log-losses on the samples that were not used to train."""
    tally = Tally()
    for seed in range(seeds):
        for A, y, B, truth in splits(seed):
            rows, flat = A.reshape(len(A), -1), B.reshape(len(B), -1)
            for l1_ratio, method in ((0.0, "ridge logistic"), (1.0, "l1 logistic")):
                plain = LogisticRegressionCV(
                    Cs=10,
                    cv=5,
                    l1_ratios=(l1_ratio,),
                    solver="liblinear",
                    scoring="neg_log_loss",
                )
                tally.add(
                    method,
                    lambda plain=plain, rows=rows, y=y: plain.fit(rows, y),
                    lambda m, flat=flat, truth=truth: log_loss(truth, m.predict_proba(flat)),
                )
            tally.add(
                CLASSIFIER,
                lambda A=A, y=y: TraceClassifier(random_state=0).fit(A, y),
                lambda m, B=B, truth=truth: log_loss(truth, m.predict_proba(B)),
            )
    bar = min(float(np.mean(s)) for method, s in tally.scores.items() if method != CLASSIFIER)
    metric = f"log-loss, {metric}, {seeds} seeds"
    return tally.rows(name, metric, better="lower", ours=CLASSIFIER, bar=bar)


def rows(quick: bool = False) -> list[Row]:
    """All three tables."""
    seeds, many = (1, 1) if quick else (SEEDS, MANY)
    return [
        *regressions(seeds),
        *classifications("planted coefficients", f"{MORE} matrices", planted_classes, many),
        *classifications("digits", f"three pairs, {TRAIN} images each", images, seeds),
    ]


if __name__ == "__main__":
    from run import table

    print(table(rows()))

"""How many clusters? The automatic number, judged by the adjusted Rand index of the clusters.

Compared with k-means, whose number (2 to 20) has the largest silhouette. Random unions of
subspaces as in `subspaces`, tissues, handwritten digits (500 images each), and scikit-learn's
wine and iris (standardized), which are clouds rather than subspaces. The notes give the
difference of both indices with its standard error, by a paired bootstrap over the samples: the
standard deviation over seeds is zero where both methods find the same clusters each time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from clusters import k_means
from common import Row, Tally, load
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score, silhouette_score
from subspaces import union

from weakprox import SubspaceClustering

SIMPLE, OURS = "k-means, number by silhouette", "SubspaceClustering, automatic number"
SEEDS, MOST = 3, 20
DRAWS = 1000  # of the bootstrap


def sets(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, samples and classes."""
    rng = np.random.default_rng(seed)
    yield ("random subspaces", *union(seed))
    tissues = load("tissue_expression")
    yield "tissue_expression", tissues["X"].astype(float), tissues["label"]
    images = load("mfeat_digits")
    some = rng.permutation(len(images["label"]))[:500]
    yield "mfeat_digits", images["pix"][some].astype(float), images["label"][some]
    X, y = datasets.load_digits(return_X_y=True)
    some = rng.permutation(len(y))[:500]
    yield "digits", X[some], y[some]
    for name in ("wine", "iris"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, (X - X.mean(axis=0)) / X.std(axis=0), y


def by_silhouette(X: np.ndarray, seed: int) -> np.ndarray:
    """k-means with the number of clusters of largest silhouette."""
    found = [k_means(X, count, seed) for count in range(2, MOST + 1)]
    return max(found, key=lambda labels: silhouette_score(X, labels))


def ours(X: np.ndarray, seed: int) -> np.ndarray:
    """Everything automatic."""
    return SubspaceClustering(random_state=seed).fit_predict(X)


def error(truth: np.ndarray, one: np.ndarray, other: np.ndarray, seed: int) -> float:
    """Standard error of the difference of two indices, samples being drawn with replacement."""
    rng, count = np.random.default_rng(seed), len(truth)
    draws = (rng.integers(count, size=count) for _ in range(DRAWS))
    return float(
        np.std(
            [
                adjusted_rand_score(truth[some], one[some])
                - adjusted_rand_score(truth[some], other[some])
                for some in draws
            ]
        )
    )


def rows(quick: bool = False) -> list[Row]:
    """Adjusted Rand indices; the notes have the numbers found and the difference."""
    tallies: dict[tuple[str, int], Tally] = {}
    numbers: dict[tuple[str, str], list[int]] = {}
    errors: dict[str, list[float]] = {}
    seeds = 1 if quick else SEEDS
    for seed in range(seeds):
        for name, X, truth in sets(seed):
            tally = tallies.setdefault((name, len(np.unique(truth))), Tally())
            both = []
            for method, fit in ((SIMPLE, by_silhouette), (OURS, ours)):
                labels = tally.add(
                    method,
                    lambda fit=fit, X=X, seed=seed: fit(X, seed),
                    lambda labels, truth=truth: adjusted_rand_score(truth, labels),
                )
                numbers.setdefault((name, method), []).append(len(np.unique(labels)))
                both.append(labels)
            errors.setdefault(name, []).append(error(truth, both[1], both[0], seed))
    found = []
    for (name, true), tally in tallies.items():
        notes = {
            method: f"{', '.join(map(str, numbers[name, method]))} clusters"
            for method in (SIMPLE, OURS)
        }
        away = float(np.mean(tally.scores[OURS]) - np.mean(tally.scores[SIMPLE]))
        # that of one seed: other seeds cluster the same samples, or overlapping ones
        notes[OURS] += f"; difference {away:+.3f}, standard error {np.mean(errors[name]):.3f}"
        metric = f"adjusted Rand index, {true} classes, number not given, {seeds} seeds"
        found += tally.rows(name, metric, ours=OURS, notes=notes)
    return found


if __name__ == "__main__":
    from run import table

    print(table(rows()))

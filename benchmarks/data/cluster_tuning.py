"""The sets on which the constants of `SubspaceClustering` were chosen.

    python benchmarks/data/cluster_tuning.py

Tuning sets: scikit-learn's digits, iris and breast cancer, Fourier and Karhunen-Loeve
coefficients of mfeat_digits, random unions of subspaces and round clouds. Not used to tune:
tissue_expression, the pixels of mfeat_digits, wine, and the unions of `subspaces.py`, whose
scores were seen before the rules were final. Figures of the manual are about all of
them; the digits in `cluster_numbers.py` are other samples.

For each set: the normalised cut of the graph without an l1 norm relative to that of
neighbours (CHEAPER is the limit), the adjusted Rand index of clusters of neighbours, of
coefficients and of the choice with the number given, and of the choice without it; with the
number chosen, the stability and the index of the choice and of k-means.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
from clusters import k_means
from common import load, union
from sklearn import datasets
from sklearn.metrics import adjusted_rand_score

from weakprox import SubspaceClustering
from weakprox.estimators._affinities import Coefficients, Neighbors
from weakprox.estimators._stability import (
    REPEATS,
    SHARE,
    SMALL,
    clustered,
    normalized_cut,
    rand_index,
)
from weakprox.estimators.subspaces import RIDGE, Prepared, low_rank_solution

SEED, SOME = 100, 500  # samples of digits
# Number of subspaces, dimension, coordinates, samples of each, noise.
UNIONS = (
    (3, 3, 30, 30, 0.2),
    (5, 4, 50, 20, 0.2),
    (8, 4, 25, 25, 0.2),
    (6, 4, 20, 16, 0.1),
    (4, 2, 10, 50, 0.1),
    (10, 3, 30, 40, 0.3),
    (5, 6, 30, 60, 0.3),
    (5, 2, 50, 160, 0.1),
    (12, 2, 12, 8, 0.1),
    (3, 5, 15, 40, 0.5),
)
# Number of clouds, dimension, standard deviation, samples of each.
CLOUDS = (
    (2, 4, 1.0, 40),
    (5, 8, 1.5, 40),
    (4, 3, 1.0, 50),
    (8, 10, 2.0, 30),
    (3, 2, 1.5, 60),
    (10, 5, 1.0, 30),
)


def standardized(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, samples and classes."""
    images = load("mfeat_digits")
    X, y = datasets.load_digits(return_X_y=True)
    for seed in (SEED, SEED + 1):
        some = np.random.default_rng(seed).permutation(len(y))[:SOME]
        yield f"digits, sample {seed}", X[some], y[some]
        for view in ("fou", "kar"):
            some = np.random.default_rng(seed).permutation(len(images["label"]))[:SOME]
            found = images[view][some].astype(float)
            yield f"mfeat {view}, sample {seed}", found, images["label"][some]
    for name in ("iris", "breast_cancer"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, standardized(X), y
    for place, sizes in enumerate(UNIONS):
        yield f"subspaces {sizes}", *union(*sizes, SEED + place)
    for place, (count, dim, spread, each) in enumerate(CLOUDS):
        X, y = datasets.make_blobs(
            count * each,
            dim,
            centers=count,
            cluster_std=spread,
            random_state=SEED + place,
            center_box=(-4, 4),
        )
        yield f"clouds {(count, dim, spread, each)}", standardized(X), y


def relative_cut(X: np.ndarray, count: int) -> float:
    """Cut of the graph without an l1 norm over that of neighbours."""
    data = Prepared.of(X)
    C = low_rank_solution(data.Z, data.weights(X.shape)[0], RIDGE)
    near = Neighbors.of(X)
    cuts = []
    for graph in (Coefficients.of(C, SubspaceClustering.power), near):
        W = graph.affinity(np.arange(len(X)), near.kept(len(X), count))
        cuts.append(normalized_cut(W, clustered(W, count, 0)) + SMALL)
    return cuts[0] / cuts[1]


def stable_k_means(X: np.ndarray, count: int) -> tuple[float, np.ndarray]:
    """Agreement of k-means on subsamples with that on all samples, and the latter."""
    rng, labels, found = np.random.default_rng(0), k_means(X, count, 0), []
    for _ in range(REPEATS):
        part = np.sort(rng.permutation(len(X))[: int(SHARE * len(X))])
        found.append(rand_index(labels[part], k_means(X[part], count, 0)))
    return float(np.mean(found)), labels


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print("relative cut; neighbours, coefficients, choice; number chosen; stability and index")
    print("of its choice, and of k-means with that number")
    for name, X, truth in sets():
        count, begin = len(np.unique(truth)), time.process_time()
        found = [f"{relative_cut(X, count):8.2f}"]
        for graph in ("neighbors", "coefficients", "auto"):
            model = SubspaceClustering(count, graph=graph, random_state=0).fit(X)
            found.append(f"{adjusted_rand_score(truth, model.labels_):.3f}")
        model = SubspaceClustering(random_state=0).fit(X)
        right = adjusted_rand_score(truth, model.labels_)
        found.append(f"{model.n_clusters_:3} of {count:2}  {model.stability_:.3f} {right:.3f}")
        stability, labels = stable_k_means(X, model.n_clusters_)
        found.append(f"k-means {stability:.3f} {adjusted_rand_score(truth, labels):.3f}")
        took = time.process_time() - begin
        print(f"{name:30} {'  '.join(found)}   {took:.1f} s", flush=True)


if __name__ == "__main__":
    main()

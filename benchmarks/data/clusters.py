"""Accuracy of clusters, and the simple methods they are compared with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from common import Tally
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, SpectralClustering, spectral_clustering
from sklearn.metrics import confusion_matrix

from weakprox import SubspaceClustering

WEIGHT = 1e-3  # of the squares in least squares, relative to the leading eigenvalue


def accuracy(truth: np.ndarray, labels: np.ndarray) -> float:
    """Share of samples in their class when clusters are matched to classes best."""
    found = confusion_matrix(truth, labels)
    return float(found[linear_sum_assignment(-found)].sum() / len(truth))


def k_means(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """scikit-learn's, ten starts."""
    return KMeans(count, n_init=10, random_state=seed).fit_predict(X)


def least_squares(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Self-expression with squares alone (Lu et al. 2012): C = (K + w I)^-1 K."""
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    K = Z @ Z.T
    weight = WEIGHT * np.linalg.eigvalsh(K)[-1]
    C = np.linalg.solve(K + weight * np.eye(len(K)), K)
    A = C**2
    np.fill_diagonal(A, 0.0)
    return spectral_clustering(A + A.T, n_clusters=count, random_state=seed)


def nearest_neighbours(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Spectral clustering of the graph of ten nearest neighbours."""
    model = SpectralClustering(
        count, affinity="nearest_neighbors", n_neighbors=10, random_state=seed
    )
    return model.fit_predict(X)


def compare(
    tally: Tally,
    methods: dict[str, Callable[[np.ndarray, int, int], np.ndarray]],
    X: np.ndarray,
    label: np.ndarray,
    seed: int,
) -> None:
    """Cluster shuffled samples by all methods, as many clusters as there are classes."""
    order = np.random.default_rng(seed).permutation(len(label))
    X, label = X[order].astype(float), label[order]
    count = len(np.unique(label))
    for name, method in methods.items():
        tally.add(
            name,
            lambda method=method: method(X, count, seed),
            lambda labels: accuracy(label, labels),
        )


def ours(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """SubspaceClustering, automatic settings."""
    return SubspaceClustering(count, random_state=seed).fit_predict(X)

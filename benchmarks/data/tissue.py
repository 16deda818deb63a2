"""Gene expression in tissues: the covariance of half of the samples, and their clusters.

Covariance: 5 halves stratified by tissue, standardised on the training half, distance to the
covariance of the other half and its log-loss; the settings of ours are chosen for the one or
the other (`scoring`). Clustering: all samples, shuffled.
"""

from __future__ import annotations

import numpy as np
from clusters import compare, k_means, least_squares, ours
from common import Row, Tally, load
from sklearn.covariance import EmpiricalCovariance, LedoitWolf

from weakprox import SparseLowRankCovariance

NAME = "tissue_expression"
OURS, CLUSTERS = "SparseLowRankCovariance", "SubspaceClustering"
NEAREST = "SparseLowRankCovariance, scoring='distance'"
SPLITS, SHUFFLES = 5, 3
LESS = 0.985  # of the error of the best simple method
MATCHED = 0.963


def halves(label: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of every class (rounded down) to train with, and the others."""
    rng = np.random.default_rng(seed)
    train, test = [], []
    for one in np.unique(label):
        members = rng.permutation(np.flatnonzero(label == one))
        train.append(members[: len(members) // 2])
        test.append(members[len(members) // 2 :])
    return np.concatenate(train), np.concatenate(test)


def rank_and_diagonal(X: np.ndarray, rank: int = 10) -> EmpiricalCovariance:
    """Leading eigenvectors of the sample covariance, variances restored."""
    model = EmpiricalCovariance().fit(X)
    values, vectors = np.linalg.eigh(model.covariance_)
    C = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    np.fill_diagonal(C, np.diag(model.covariance_))
    model.covariance_, model.precision_ = C, np.linalg.inv(C)
    return model


METHODS = {
    "sample covariance": EmpiricalCovariance().fit,
    "Ledoit-Wolf": LedoitWolf().fit,
    "rank 10 + diagonal": rank_and_diagonal,
    NEAREST: lambda A: SparseLowRankCovariance(scoring="distance", random_state=0).fit(A),
    OURS: lambda A: SparseLowRankCovariance(random_state=0).fit(A),
}


def split(distance: Tally, loss: Tally, A: np.ndarray, B: np.ndarray) -> str:
    """All methods on one pair of halves; kind and rank of ours."""
    other = np.cov(B.T, bias=True)
    for name, fit in METHODS.items():
        model = distance.add(
            name,
            lambda fit=fit: fit(A),
            lambda m: np.linalg.norm(m.covariance_ - other) / np.linalg.norm(other),
        )
        if name != "sample covariance":  # which is singular
            loss.add(name, lambda model=model: model, lambda m: -m.score(B))
            loss.seconds[name][-1] = distance.seconds[name][-1]
    return f"{model.kind_} of rank {model.rank_}"  # ours is the last


def covariance_rows(splits: int) -> list[Row]:
    """Distances to the other half's covariance, and its log-loss."""
    data = load(NAME)
    X = data["X"].astype(float)
    distance, loss, found = Tally(), Tally(), []
    for seed in range(splits):
        train, test = halves(data["label"], seed)
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        found.append(split(distance, loss, (X[train] - mean) / scale, (X[test] - mean) / scale))
    simple = [name for name in METHODS if name not in (OURS, NEAREST)]
    best = min(np.mean(distance.scores[name]) for name in simple)
    note = {OURS: ", ".join(sorted(set(found)))}
    of = f"{splits} stratified halves"
    return [
        *distance.rows(
            NAME,
            f"relative distance to the other half's covariance, {of}",
            better="lower",
            ours=NEAREST,
            bar=float(LESS * best),
        ),
        *loss.rows(
            NAME,
            f"Gaussian log-loss of the other half, {of}",
            better="lower",
            ours=OURS,
            bar=float(np.mean(loss.scores["rank 10 + diagonal"])),
            notes=note,
        ),
    ]


def cluster_rows(shuffles: int) -> list[Row]:
    """Accuracy of seven clusters."""
    data, tally = load(NAME), Tally()
    methods = {
        "k-means": k_means,
        "least-squares self-expression": least_squares,
        CLUSTERS: ours,
    }
    for seed in range(shuffles):
        compare(tally, methods, data["X"], data["label"], seed)
    metric = f"clustering accuracy, 7 classes, {shuffles} shuffles"
    return tally.rows(NAME, metric, ours=CLUSTERS, bar=MATCHED)


def rows(quick: bool = False) -> list[Row]:
    """Both tables."""
    splits, shuffles = (1, 1) if quick else (SPLITS, SHUFFLES)
    return [*covariance_rows(splits), *cluster_rows(shuffles)]


if __name__ == "__main__":
    from run import table

    print(table(rows()))

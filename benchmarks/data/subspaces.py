"""Random unions of subspaces: what each of the two terms is for (Wang, Xu & Leng 2013).

Eight subspaces of dimension 4 in 20 dimensions, so far from independent, 16 samples of each.
The l1 norm keeps subspaces apart (relative violation: coefficients on samples of other
subspaces over those on the own one) and the nuclear norm keeps each one connected (Gini index
of the coefficients within: 1 if a few hold everything). Clusters need both.
The three weightings have the same total weight, and the graph is |C| + |C'| as in the paper.
"""

from __future__ import annotations

import common
import numpy as np
from clusters import accuracy, k_means
from common import Row, Tally
from sklearn.cluster import spectral_clustering

from weakprox import SubspaceClustering

NAME = "random subspaces"
COUNT, DIM, AMBIENT, EACH, NOISE = 8, 4, 20, 16, 0.1
TOTAL, RIDGE, SEEDS = 0.03, 1e-3, 10
BOTH, AUTO = "both, half each", "automatic weights and graph"
WEIGHTS = {
    "nuclear norm alone": (TOTAL, 0.0),
    "l1 norm alone": (1e-3 * TOTAL, TOTAL),
    BOTH: (TOTAL / 2, TOTAL / 2),
}


def union(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of the subspaces, and which subspace each is of."""
    return common.union(COUNT, DIM, AMBIENT, EACH, NOISE, seed)


def violation(C: np.ndarray, truth: np.ndarray) -> float:
    """Sum of |C| between subspaces over that within them."""
    sizes, same = np.abs(C), truth[:, None] == truth  # a copy
    np.fill_diagonal(sizes, 0.0)
    return float(sizes[~same].sum() / sizes[same].sum())


def gini(C: np.ndarray, truth: np.ndarray) -> float:
    """Mean over subspaces of the Gini index of |C| within."""
    found = []
    for one in np.unique(truth):
        block = np.abs(C[np.ix_(truth == one, truth == one)])
        inside = np.sort(block[~np.eye(len(block), dtype=bool)])
        ranks = np.arange(1, len(inside) + 1)
        found.append(2 * np.sum(ranks * inside) / (len(inside) * inside.sum()) - 1)
    return float(np.mean(found)) - 1 / len(inside)


def plain_clusters(C: np.ndarray, seed: int) -> np.ndarray:
    """Spectral clustering of |C| + |C'|."""
    A = np.abs(C)
    np.fill_diagonal(A, 0.0)
    return spectral_clustering(A + A.T + 1e-9, n_clusters=COUNT, random_state=seed)


def measure(tallies: dict[str, Tally], seed: int) -> None:
    """All weightings on one union."""
    X, truth = union(seed)
    error = tallies["error"]

    def wrong(model: SubspaceClustering) -> float:
        if model.nuclear == "auto":
            return 1 - accuracy(truth, model.labels_)
        return 1 - accuracy(truth, plain_clusters(model.coefficients_, seed))

    for name, weights in [*WEIGHTS.items(), (AUTO, None)]:
        model = SubspaceClustering(COUNT, random_state=seed)
        if weights is not None:
            nuclear, lam = weights
            model.set_params(nuclear=nuclear, lam=lam, ridge=RIDGE, zero_diagonal=True)
        error.add(name, lambda model=model: model.fit(X), wrong)
        took = error.seconds[name][-1]
        for metric, judge in (("violation", violation), ("gini", gini)):
            tally = tallies[metric]
            tally.add(
                name,
                lambda: None,
                lambda _, judge=judge, C=model.coefficients_: judge(C, truth),
            )
            tally.seconds[name][-1] = took
    error.add(
        "k-means", lambda: k_means(X, COUNT, seed), lambda labels: 1 - accuracy(truth, labels)
    )


def rows(quick: bool = False) -> list[Row]:
    """Violation, Gini index and error of the two terms, alone and together."""
    tallies = {"error": Tally(), "violation": Tally(), "gini": Tally()}
    seeds = 2 if quick else SEEDS
    for seed in range(seeds):
        measure(tallies, seed)
    alone = [np.mean(tallies["error"].scores[name]) for name in WEIGHTS if name != BOTH]
    of = f"{COUNT} of dimension {DIM} in {AMBIENT}, {seeds} seeds"
    return [
        *tallies["error"].rows(
            NAME, f"clustering error, {of}", better="lower", ours=BOTH, bar=float(min(alone))
        ),
        *tallies["violation"].rows(NAME, f"relative violation, {of}", better="lower"),
        *tallies["gini"].rows(NAME, f"Gini index within subspaces, {of}", better="lower"),
    ]


if __name__ == "__main__":
    from run import table

    print(table(rows()))

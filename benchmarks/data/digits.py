"""Handwritten digits: ten clusters of 2000 images (rows are sorted by class, so shuffled)."""

from __future__ import annotations

import numpy as np
from clusters import compare, k_means, least_squares, nearest_neighbours, ours
from common import Row, Tally, load

NAME = "mfeat_digits"
OURS = "SubspaceClustering"
SHUFFLES, BAR = 3, 0.85


def rows(quick: bool = False) -> list[Row]:
    """Accuracy of ten clusters of pixels; 500 images if quick."""
    data, tally = load(NAME), Tally()
    shuffles, most = (1, 500) if quick else (SHUFFLES, None)
    methods = {
        "k-means": k_means,
        "least-squares self-expression": least_squares,
        "spectral, 10 nearest neighbours": nearest_neighbours,
        OURS: ours,
    }
    some = np.random.default_rng(0).permutation(len(data["label"]))[:most]
    for seed in range(shuffles):
        compare(tally, methods, data["pix"][some], data["label"][some], seed)
    metric = f"clustering accuracy, 10 classes, pixels, {shuffles} shuffles"
    return tally.rows(NAME, metric, ours=OURS, bar=BAR)


if __name__ == "__main__":
    from run import table

    print(table(rows()))

"""What reverse links and logarithms of counts gain in link prediction.

    python benchmarks/data/directed_links.py               # five splits
    python benchmarks/data/directed_links.py --splits 2    # fewer

The graph has the passengers between the 300 busiest airports, in both directions. A fifth of
its links is hidden, to be found among pairs without a link. "as before" stands for weights
as they are and no reverse links.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import Tally, load
from sklearn.metrics import roc_auc_score

from weakprox import LinkPredictor

AIRPORTS, HIDDEN, OTHERS, SPLITS = 300, 0.2, 10_000, 5
UNCHANGED = 1.0 + 1e-9  # a factor that makes weights no integers, so that no logs are tried


def passengers() -> np.ndarray:
    """Passengers from airport to airport."""
    data = load("us_airports_2010")
    size = data["airport"].size
    table = np.zeros((size, size))
    table[data["src"], data["dst"]] = data["passengers"]
    np.fill_diagonal(table, 0.0)
    busiest = np.argsort(-table.sum(axis=1), kind="stable")[:AIRPORTS]
    return table[np.ix_(busiest, busiest)]


def split(A: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The graph without some links, pairs to rank, and which of them are links."""
    rng = np.random.default_rng(seed)
    links = np.argwhere(A > 0.0)
    hidden = links[rng.permutation(len(links))[: round(HIDDEN * len(links))]]
    free = np.argwhere((A == 0.0) & ~np.eye(len(A), dtype=bool))
    others = free[rng.permutation(len(free))[:OTHERS]]
    left = A.copy()
    left[tuple(hidden.T)] = 0.0
    pairs = np.vstack([hidden, others])
    return left, pairs, np.arange(len(pairs)) < len(hidden)


def main() -> None:
    """Print the mean area under the ROC curve of each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=SPLITS)
    args = parser.parse_args()
    A, tally = passengers(), Tally()
    both = ((A > 0.0) & (A.T > 0.0)).sum() / (A > 0.0).sum()
    print(f"{(A > 0.0).sum()} links, {both:.0%} of them in both directions")
    for seed in range(args.splits):
        left, pairs, truth = split(A, seed)

        def auc(model, pairs=pairs, truth=truth) -> float:
            return float(roc_auc_score(truth, model.score_pairs(pairs)))

        def plain(X: np.ndarray) -> LinkPredictor:
            model = LinkPredictor(random_state=0).fit(X)
            model.reverse_weight_ = 0.0
            return model

        fits = {
            "as before": lambda left=left: plain(UNCHANGED * left),
            "logarithms": lambda left=left: plain(left),
            "reverse links": lambda left=left: LinkPredictor(random_state=0).fit(
                UNCHANGED * left
            ),
            "both (default)": lambda left=left: LinkPredictor(random_state=0).fit(left),
        }
        for name, fit in fits.items():
            tally.add(name, fit, auc)
    for name, scores in tally.scores.items():
        error = np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else np.nan
        seconds = np.median(tally.seconds[name])
        print(f"{name:16} {np.mean(scores):.4f} ± {error:.4f}  {seconds:5.2f} s")


if __name__ == "__main__":
    main()

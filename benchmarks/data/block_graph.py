"""Groups in a graph with flipped edges, as in Richard, Savalle and Vayatis (2012).

Not real data: the shape of their table is what counts, that both terms together do no
worse than either alone.
"""

from __future__ import annotations

import numpy as np
from common import Row, Tally
from sklearn.metrics import roc_auc_score

from weakprox import LinkPredictor

NODES, GROUPS = 150, 6
FLIPPED = (0.1, 0.2, 0.3)
SEEDS = range(5)
SMALLEST = 8  # nodes of a group

MODELS = {
    "sparse only (tau = inf)": {"tau": np.inf},
    "low rank only (lam = 0)": {"lam": 0.0},
    "both": {},
}


def flipped_blocks(
    seed: int, share: float, nodes: int = NODES, groups: int = GROUPS
) -> tuple[np.ndarray, np.ndarray]:
    """Who is in a group with whom, and the same with a share of all pairs flipped."""
    rng = np.random.default_rng(seed)
    spare = rng.multinomial(nodes - SMALLEST * groups, np.full(groups, 1 / groups))
    group = np.repeat(np.arange(groups), SMALLEST + spare)
    truth = group[:, None] == group
    np.fill_diagonal(truth, False)
    flips = np.triu(rng.random((nodes, nodes)) < share, 1)
    return truth, (truth ^ (flips | flips.T)).astype(float)


def auc(model: LinkPredictor, truth: np.ndarray) -> float:
    """How well scores of all pairs tell those within a group."""
    pairs = np.stack(np.triu_indices(len(truth), 1), axis=1)
    return float(roc_auc_score(truth[pairs[:, 0], pairs[:, 1]], model.score_pairs(pairs)))


def rows(quick: bool = False) -> list[Row]:
    """AUC by the share of pairs that were flipped."""
    found: list[Row] = []
    for share in FLIPPED[1:2] if quick else FLIPPED:
        tally = Tally()
        for seed in list(SEEDS)[:2] if quick else SEEDS:
            truth, A = flipped_blocks(seed, share)
            for name, settings in MODELS.items():
                model = LinkPredictor(**settings, random_state=0)
                tally.add(
                    name,
                    lambda model=model, A=A: model.fit(A),
                    lambda model, truth=truth: auc(model, truth),
                )
        metric = f"AUC, {share:.0%} of pairs flipped, {2 if quick else len(SEEDS)} seeds"
        found += tally.rows("block graph (simulated)", metric, ours="both")
    return found


if __name__ == "__main__":
    for row in rows():
        print(f"{row.metric:40} {row.method:26} {row.score:.4f} +- {row.spread:.4f}")

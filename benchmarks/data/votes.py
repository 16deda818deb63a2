"""Hidden votes of the UN General Assembly: missing entries filled in."""

from __future__ import annotations

import numpy as np
from common import Row, Tally, load
from sklearn.impute import KNNImputer

from weakprox import MatrixCompletion, SparseLowRankImputer

HIDDEN = 0.2
SEEDS = (3, 4, 5)  # settings were tuned with others
RANKS = (2, 5, 10, 20, 40)  # of the SVD, chosen as soft-impute's price is
PRICES = (30.0, 20.0, 12.0, 8.0, 5.0, 3.0)


def votes() -> tuple[np.ndarray, np.ndarray]:
    """Votes since session 55 of the countries that took part, and where they were cast."""
    data = load("un_votes")
    late = data["session"] >= 55
    vote, observed = data["vote"][:, late].astype(float), data["observed"][:, late]
    present = observed.mean(axis=1) > 0.2
    return vote[present], observed[present]


def hide(vote: np.ndarray, observed: np.ndarray, seed: int, share: float = HIDDEN):
    """The observed votes less a share of them, and which those are."""
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(observed)
    chosen = rng.permutation(rows.size)[: round(share * rows.size)]
    left = np.where(observed, vote, np.nan)
    left[rows[chosen], cols[chosen]] = np.nan
    return left, (rows[chosen], cols[chosen])


def iterated(X: np.ndarray, shrink, steps: int = 200, tol: float = 1e-4) -> np.ndarray:
    """Fill in by an SVD whose values `shrink` changes, again and again."""
    seen = ~np.isnan(X)
    Z = np.zeros(X.shape)
    for _ in range(steps):
        filled = np.where(seen, X, Z)
        squares, U = np.linalg.eigh(filled @ filled.T)  # fewer countries than votes
        s, U = np.sqrt(np.maximum(squares[::-1], 0.0)), U[:, ::-1]
        last, Z = Z, (U * (shrink(s) / np.maximum(s, 1e-12))) @ (U.T @ filled)
        if np.linalg.norm(Z - last) <= tol * np.linalg.norm(Z):
            break
    return Z


def mean_of_column(X: np.ndarray) -> np.ndarray:
    """What the others voted, on average."""
    return np.broadcast_to(np.nan_to_num(np.nanmean(X, axis=0)), X.shape)


def by_hidden_slice(X: np.ndarray, seed: int, shrinks) -> np.ndarray:
    """The SVD method whose setting predicts a tenth of the training votes best."""
    inner, place = hide(np.nan_to_num(X), ~np.isnan(X), seed + 100, 0.1)
    errors = [np.mean((iterated(inner, each)[place] - X[place]) ** 2) for each in shrinks]
    return iterated(X, shrinks[int(np.argmin(errors))])


def completed(X: np.ndarray) -> np.ndarray:
    """All entries as our model of observed entries predicts them."""
    model = MatrixCompletion(random_state=0).fit(X)
    return model.predict(np.argwhere(np.ones(X.shape))).reshape(X.shape)


def hard(rank: int):
    """Keep the largest values."""
    return lambda s: np.where(np.arange(s.size) < rank, s, 0.0)


def soft(price: float):
    """Take the price off all values."""
    return lambda s: np.maximum(s - price, 0.0)


def rows(quick: bool = False) -> list[Row]:
    """Accuracy of hidden votes after rounding to yes, abstain and no."""
    vote, observed = votes()
    if quick:
        vote, observed = vote[:, ::6], observed[:, ::6]
    tally = Tally()
    for seed in SEEDS[:1] if quick else SEEDS:
        left, place = hide(vote, observed, seed)
        truth = vote[place]

        def accuracy(filled, place=place, truth=truth) -> float:
            return np.mean(np.clip(np.rint(filled[place]), -1, 1) == truth)

        methods = {
            "mean of the vote": mean_of_column,
            "KNNImputer": KNNImputer(keep_empty_features=True).fit_transform,
            "SVD": lambda X, seed=seed: by_hidden_slice(X, seed, [hard(r) for r in RANKS]),
            "soft-impute": lambda X, seed=seed: by_hidden_slice(
                X, seed, [soft(p) for p in PRICES]
            ),
            "SparseLowRankImputer": SparseLowRankImputer(random_state=0).fit_transform,
            "MatrixCompletion": completed,
        }
        for name, method in methods.items():
            tally.add(name, lambda method=method, left=left: method(left), accuracy)
    size = f"{vote.shape[0]} x {vote.shape[1]}"
    splits = "1 seed" if quick else f"{len(SEEDS)} seeds"
    metric = f"accuracy, {size}, 20 % of votes hidden, {splits}"
    bars = {"SparseLowRankImputer": None, "MatrixCompletion": None if quick else 0.944}
    return tally.rows("un_votes", metric, bars=bars)


if __name__ == "__main__":
    for row in rows():
        print(f"{row.method:28} {row.score:.4f} +- {row.spread:.4f}  {row.seconds:6.2f} s")

"""Tables of a few dozen entries: errors of missing entries, relative to those of column means.

    python benchmarks/data/small_tables.py              # three minutes
    python benchmarks/data/small_tables.py --seeds 3    # a first look

Simulated tables have one factor of strength 0 (independent columns), 1 or 3 beside noise of
size 1, or independent columns with heavy tails. Real ones are random rows and columns of tables
of scikit-learn. Columns have means and units of all sizes, and 30 % of the entries are missing.
Errors are in observed standard deviations of the columns.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from sklearn import datasets
from sklearn.impute import KNNImputer

from weakprox import SparseLowRankImputer

SHAPES = ((6, 6), (8, 8), (15, 5), (20, 4), (12, 6), (10, 10))
REAL = ("iris", "wine", "breast_cancer", "linnerud")
FEWEST = 4  # observed entries of a column
METHODS = ("SparseLowRankImputer", "KNNImputer")


def tables(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Names and complete tables."""
    for m, d in SHAPES:
        for size in (0.0, 1.0, 3.0):
            factor = np.outer(rng.standard_normal(m), rng.standard_normal(d))
            yield f"factor of strength {size:g}", size * factor + rng.standard_normal((m, d))
        yield "heavy tails, independent", rng.standard_t(3, (m, d))
        for name in REAL:
            data = getattr(datasets, f"load_{name}")()
            X = np.hstack([data.data, data.target]) if name == "linnerud" else data.data
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            yield name, X[rng.permutation(len(X))[:m]][:, rng.permutation(X.shape[1])[:d]]


def main() -> None:
    """Print mean relative errors with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    found = defaultdict(list)
    warnings.simplefilter("ignore")
    for seed in range(parser.parse_args().seeds):
        rng = np.random.default_rng([seed, 7])
        for name, X in tables(rng):
            d = X.shape[1]
            X = (X + 3.0 * rng.standard_normal(d)) * 10.0 ** rng.uniform(-1.0, 1.0, d)
            gone = rng.random(X.shape) < 0.3
            gone[:, (~gone).sum(axis=0) < FEWEST] = False
            Z = np.where(gone, np.nan, X)
            mean, unit = np.nanmean(Z, axis=0), np.nanstd(Z, axis=0)
            if gone.sum() < 3 or not (unit > 0.0).all():
                continue
            models = (SparseLowRankImputer(random_state=seed), KNNImputer())
            guesses = [np.broadcast_to(mean, X.shape), *(m.fit_transform(Z) for m in models)]
            errors = [np.mean((((guess - X) / unit)[gone]) ** 2) for guess in guesses]
            found[name].append(np.divide(errors[1:], errors[0]))
    print(f"{'table':26} {'count':>5}  " + "  ".join(f"{name:>20}" for name in METHODS))
    for name, ratios in found.items():
        root = np.sqrt(np.mean(ratios, axis=0))
        error = np.std(ratios, axis=0, ddof=1) / np.sqrt(len(ratios)) / (2.0 * root)
        cells = [f"{r:.3f} ± {e:.3f}".rjust(20) for r, e in zip(root, error, strict=True)]
        print(f"{name:26} {len(ratios):5}  " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()

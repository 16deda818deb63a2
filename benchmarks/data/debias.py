"""What undoing the shrinkage gains: debias=False, True and "auto" on the same splits.

    python benchmarks/data/debias.py                   # everything
    python benchmarks/data/debias.py examples tables   # some of the sets
    python benchmarks/data/debias.py --splits 2        # fewer splits

`SparseLowRank` denoises the examples of the documentation whose signal is known, and tables
with noise of one standard deviation added to their standardised entries. Errors are mean
squared ones, relative to those of debias=True.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import DATA, Tally, load
from sklearn import datasets

from weakprox import SparseLowRank

SPLITS = 5
SETTINGS: tuple[Any, ...] = (False, True, "auto")
SIZE = 100  # rows and columns of a matrix at most

Case = tuple[str, Callable[[int], tuple[Callable[[Any], Any], Callable[[Any], float]]]]


def denoised(name: str, signal: np.ndarray, noise: float = 1.0) -> Case:
    """A known signal, whose noise depends on the split."""

    def made(seed: int) -> Any:
        M = signal + noise * np.random.default_rng(seed).standard_normal(signal.shape)
        return (
            lambda debias: SparseLowRank(debias=debias, random_state=0).fit(M),
            lambda model: float(np.mean((model.matrix_ - signal) ** 2)),
        )

    return name, made


def examples() -> Iterator[Case]:
    """Signals of the documentation: the class, coming_from, the tutorial, the README."""
    rng = np.random.default_rng(0)
    u = np.where(rng.random(60) < 0.2, 3.0, 0.0)
    yield denoised("docstring", np.outer(u, u))
    rng = np.random.default_rng(0)
    U = rng.standard_normal((120, 3)) * (rng.random((120, 3)) < 0.3)
    V = rng.standard_normal((80, 3)) * (rng.random((80, 3)) < 0.3)
    yield denoised("coming_from", 4.0 * U @ V.T)
    rng = np.random.default_rng(0)
    activity = rng.uniform(1, 3, (120, 3)) * (rng.random((120, 3)) < 0.25)
    programme = rng.uniform(1, 2, (90, 3)) * (rng.random((90, 3)) < 0.15)
    yield denoised("tutorial", activity @ programme.T)
    rng = np.random.default_rng(0)
    Y = rng.integers(1, 10, (200, 2)) * (rng.random((200, 2)) < 0.1)
    yield denoised("first_steps", (Y @ Y.T).astype(float))


def tables() -> Iterator[Case]:
    """Standardised tables of scikit-learn and genes of tissues, with noise added."""
    for name in ("wine", "breast_cancer", "digits"):
        X = getattr(datasets, f"load_{name}")().data.astype(float)
        yield denoised(name, standardised(X))
    yield denoised("tissue_expression", standardised(load("tissue_expression")["X"]))


def standardised(X: np.ndarray) -> np.ndarray:
    """Some rows and columns, without constant ones, on one scale."""
    X = X[:: max(1, len(X) // SIZE)][:SIZE].astype(float)
    X = X[:, X.std(axis=0) > 0.0][:, :SIZE]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def airports() -> Iterator[Case]:
    """Passengers between the busiest airports, as in the gallery."""
    data = load("us_airports_2010")
    size = data["airport"].size
    table = np.zeros((size, size))
    table[data["src"], data["dst"]] = np.log1p(data["passengers"])
    np.fill_diagonal(table, 0.0)
    busiest = np.argsort(-table.sum(axis=1), kind="stable")[:SIZE]
    yield denoised("us_airports_2010", table[np.ix_(busiest, busiest)], 3.0)


SETS: dict[str, Callable[[], Iterator[Case]]] = {
    "examples": examples,
    "tables": tables,
    "airports": airports,
}


def main() -> None:
    """Print one row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), help=", ".join(SETS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    args = parser.parse_args()
    unknown = [name for name in args.sets if name not in SETS]
    if unknown:
        raise SystemExit(f"No set {', '.join(unknown)}; there are {', '.join(SETS)}.")
    print(f"Data in {DATA.name}/ and of scikit-learn; {args.splits} splits.")
    print('| data | error, True | False | "auto" | refits | seconds, True | "auto" |')
    print("|---|---|---|---|---|---|---|")
    for name in args.sets:
        for title, made in SETS[name]():
            tally, refits = Tally(), 0
            for seed in range(args.splits):
                fit, score = made(seed)
                for setting in SETTINGS:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # that the data are returned
                        model = tally.add(
                            str(setting), lambda fit=fit, s=setting: fit(s), score
                        )
                refits += model.debias_ == "refit"
            print(row(title, tally, refits), flush=True)


def row(title: str, tally: Tally, refits: int) -> str:
    """Mean error with debias=True, and ratios to it with their standard errors."""
    base = np.array(tally.scores["True"])
    cells = [title, f"{base.mean():.4g}"]
    for setting in ("False", "auto"):
        ratios = np.array(tally.scores[setting]) / base
        error = ratios.std(ddof=1) / np.sqrt(len(ratios)) if len(ratios) > 1 else np.nan
        cells.append(f"{ratios.mean():.3f} ± {error:.3f}")
    cells.append(f"{refits} of {len(base)}")
    cells += [f"{np.median(tally.seconds[setting]):.2f}" for setting in ("True", "auto")]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""How far the automatic lam and tau of `SparseLowRank` depend on the random state.

    python benchmarks/data/stability.py                # ten random states for each example
    python benchmarks/data/stability.py docstring      # some of the examples
    python benchmarks/data/stability.py --states 3     # fewer states

The examples are those of the documentation and the gallery. Steps are counted on the grid of
the search: places of the weight lam, and places of the radius tau among those of its weight.
The bar is one step of each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np

from weakprox import SparseLowRank, datasets
from weakprox.selection.denoise import QUICK, NoisyMatrix
from weakprox.selection.grid import Grid

STATES = 10


def docstring() -> np.ndarray:
    """The example of the class."""
    rng = np.random.default_rng(0)
    u = np.where(rng.random(60) < 0.2, 3.0, 0.0)
    return np.outer(u, u) + rng.standard_normal((60, 60))


def index() -> np.ndarray:
    """Genes on the first page of the documentation."""
    genes = datasets.load_tissue_expression().X[:, :100].astype(float)
    return genes - genes.mean(axis=0)


def notebook() -> np.ndarray:
    """Genes of the notebook, standardised."""
    genes = datasets.load_tissue_expression().X[:, :80].astype(float)
    return (genes - genes.mean(axis=0)) / genes.std(axis=0, ddof=1)


def coming_from() -> np.ndarray:
    """Three sparse factors, on the page for users of PCA."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((120, 3)) * (rng.random((120, 3)) < 0.3)
    V = rng.standard_normal((80, 3)) * (rng.random((80, 3)) < 0.3)
    return 4.0 * U @ V.T + rng.standard_normal((120, 80))


def tutorial() -> np.ndarray:
    """Programmes of genes, in the tutorial."""
    rng = np.random.default_rng(0)
    activity = rng.uniform(1, 3, (120, 3)) * (rng.random((120, 3)) < 0.25)
    programme = rng.uniform(1, 2, (90, 3)) * (rng.random((90, 3)) < 0.15)
    truth = activity @ programme.T
    return truth + rng.standard_normal(truth.shape)


def airports() -> np.ndarray:
    """Flights between the busiest airports, with noise, in the gallery."""
    data = datasets.load_us_airports()
    size = data["airport"].size
    table = np.zeros((size, size))
    table[data["src"], data["dst"]] = np.log1p(data["passengers"])
    np.fill_diagonal(table, 0.0)
    busiest = np.argsort(-table.sum(axis=1), kind="stable")[:100]
    signal = table[np.ix_(busiest, busiest)]
    return signal + 3.0 * np.random.default_rng(0).standard_normal(signal.shape)


def first_steps() -> np.ndarray:
    """The matrix of the README."""
    rng = np.random.default_rng(0)
    Y = rng.integers(1, 10, (200, 2)) * (rng.random((200, 2)) < 0.1)
    return Y @ Y.T + rng.standard_normal((200, 200))


EXAMPLES: dict[str, Callable[[], np.ndarray]] = {
    "docstring": docstring,
    "index": index,
    "notebook": notebook,
    "coming_from": coming_from,
    "tutorial": tutorial,
    "airports": airports,
    "first_steps": first_steps,
}


def place(grid: Grid, lam: float, tau: float) -> tuple[int, int]:
    """The place of a weight and of a radius; the last radius stands for larger ones."""
    i = int(np.argmin(np.abs(grid.lams - lam)))
    return i, int(np.argmin(np.abs(grid.taus[i] - min(tau, grid.taus[i, -1]))))


def main() -> None:
    """Fit each example with every state and count steps between the choices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", default=list(EXAMPLES))
    parser.add_argument("--states", type=int, default=STATES)
    args = parser.parse_args()
    unknown = [name for name in args.examples if name not in EXAMPLES]
    if unknown:
        raise SystemExit(f"No example {', '.join(unknown)}; there are {', '.join(EXAMPLES)}.")
    print("| example | kinds | ranks | steps of lam | steps of tau | agree | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in args.examples:
        M, found, seconds = EXAMPLES[name](), [], []
        for state in range(args.states):
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the data are returned unchanged
                found.append(SparseLowRank(random_state=state).fit(M))
            seconds.append(time.perf_counter() - begin)
        level = float(np.median([model.noise_ for model in found]))
        grid = NoisyMatrix(M).grid(level, None, None, *QUICK)
        at = np.array([place(grid, model.lam_, model.tau_) for model in found])
        steps = np.ptp(at, axis=0)
        common = max(Counter(map(tuple, at.tolist())).values())
        cells = [
            name,
            ", ".join(sorted({model.kind_ for model in found})),
            f"{min(m.rank_ for m in found)} to {max(m.rank_ for m in found)}",
            *(f"{n}{'' if n <= 1 else ' (bar: 1)'}" for n in steps),
            f"{common} of {len(found)}",
            f"{np.median(seconds):.2f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

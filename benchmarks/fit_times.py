"""Fit times of every model at automatic settings, by the size of the data.

    python benchmarks/fit_times.py                           # all models, all sizes
    python benchmarks/fit_times.py LinkPredictor RobustPCA   # some of the models
    python benchmarks/fit_times.py --sizes 1                 # only the smallest sizes

Each fit includes the choice of settings and the certificate. The first size is fitted once
before, so that compilation is not counted. Beside each time is that of one singular value
decomposition (NumPy) of a dense matrix with as many entries as the data, and the last column
compares how both grow from the smallest to the largest size.

Writes OUT.json and OUT.inc (Markdown), merged with the results of earlier runs of other models.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import random_array

import weakprox as wp

OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "fit_times"
SPREAD = 0.1  # of noise and of sparse factors


class Data(NamedTuple):
    """What a model is fitted to."""

    label: str  # "300 x 240"
    shape: tuple[int, int]  # of the dense matrix that is decomposed for comparison
    arguments: tuple[Any, ...]


def low_rank(m: int, d: int, rank: int = 5, share: float = 1.0) -> np.ndarray:
    """A matrix of low rank with factors that are dense or sparse, and noise."""
    rng = np.random.default_rng(0)
    U = rng.standard_normal((m, rank)) * (rng.random((m, rank)) < share)
    V = rng.standard_normal((d, rank)) * (rng.random((d, rank)) < share)
    return 3.0 * U @ V.T + rng.standard_normal((m, d))


def matrix(m: int, d: int) -> Data:
    """A noisy matrix that is low-rank and sparse."""
    return Data(f"{m} x {d}", (m, d), (low_rank(m, d, share=0.2),))


def outliers(m: int, d: int) -> Data:
    """A low-rank matrix with outliers."""
    hit = np.random.default_rng(1).random((m, d)) < 0.05
    return Data(f"{m} x {d}", (m, d), (low_rank(m, d) + 30.0 * hit,))


def gaps(m: int, d: int) -> Data:
    """A table with 30 % of the entries missing."""
    gone = np.random.default_rng(1).random((m, d)) < 0.3
    return Data(f"{m} x {d}", (m, d), (np.where(gone, np.nan, low_rank(m, d)),))


def samples(n: int, p: int) -> Data:
    """Samples of correlated variables."""
    return Data(f"{n} samples of {p}", (n, p), (low_rank(n, p),))


def graph(nodes: int) -> Data:
    """A graph of groups of about 25 nodes, and random edges."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, max(2, nodes // 25), nodes)
    near = (group[:, None] == group) & (rng.random((nodes, nodes)) < 0.3)
    A = np.triu(near | (rng.random((nodes, nodes)) < 2.0 / nodes), 1)
    A = A + A.T
    label = f"{nodes} nodes, {int(A.sum()) // 2} edges"
    return Data(label, (nodes, nodes), (A.astype(float),))


def ratings(m: int, d: int, count: int) -> Data:
    """Some entries of a low-rank matrix, as three arrays."""
    rng = np.random.default_rng(0)
    places = random_array((m, d), density=count / (m * d), rng=rng).tocoo()
    U, V = rng.standard_normal((m, 5)), rng.standard_normal((d, 5))
    rows, cols = places.row, places.col
    values = np.einsum("nk,nk->n", U[rows], V[cols]) + rng.standard_normal(rows.size)
    side = round(math.sqrt(count))
    return Data(f"{m} x {d}, {rows.size} observed", (side, side), (rows, cols, values))


def panel(units: int, periods: int) -> Data:
    """Outcomes, a tenth of the units treated in the last quarter."""
    treated = np.zeros((units, periods), dtype=bool)
    treated[: units // 10, 3 * periods // 4 :] = True
    found = low_rank(units, periods) + 2.0 * treated
    return Data(f"{units} x {periods}", (units, periods), (found, treated))


def responses(n: int, p: int, q: int) -> Data:
    """Features and responses with coefficients of rank 2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    B = rng.standard_normal((p, 2)) @ rng.standard_normal((2, q))
    Y = X @ B + 3.0 * rng.standard_normal((n, q))
    return Data(f"{n} x {p}, {q} responses", (n, p), (X, Y))


def measured(n: int, m: int, d: int) -> Data:
    """Random matrices and their products with one of rank 1."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, m, d))
    B = np.outer(np.arange(m) < m // 3, np.arange(d) < d // 3).astype(float)
    b = np.tensordot(A, B, 2) + rng.standard_normal(n)
    return Data(f"{n} matrices, {m} x {d}", (n, m * d), (A, b))


def classified(n: int, m: int, d: int) -> Data:
    """The same matrices in two classes, by the signs of those numbers."""
    made = measured(n, m, d)
    A, b = made.arguments
    return made._replace(arguments=(A, b > 0.0))


def subspaces(n: int, d: int) -> Data:
    """Samples from five planes."""
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((n // 5, 2)) @ rng.standard_normal((2, d)) for _ in range(5)]
    found = np.vstack(parts)
    found = found + SPREAD * rng.standard_normal(found.shape)
    return Data(f"{len(found)} x {d}", (len(found), d), (found,))


def events(count: int, nodes: int) -> Data:
    """Events of which a third follow another one, at the same or the next node."""
    rng = np.random.default_rng(0)
    times, at = np.sort(rng.uniform(0.0, count / nodes, count)), rng.integers(0, nodes, count)
    follows = rng.random(count) < 1 / 3
    parent = rng.integers(0, count, count)
    times = np.where(follows, times[parent] + rng.exponential(0.1, count), times)
    at = np.where(follows, (at[parent] + rng.integers(0, 2, count)) % nodes, at)
    return Data(f"{count} events, {nodes} nodes", (nodes, nodes), (np.stack([times, at], 1),))


Make = Callable[[], Data]
MODELS: dict[str, tuple[dict[str, Any], list[Make]]] = {
    "SparseLowRank": (
        {},
        [lambda: matrix(100, 80), lambda: matrix(300, 240), lambda: matrix(1000, 800)],
    ),
    "SparseLowRankCV": (
        {},
        [lambda: matrix(50, 40), lambda: matrix(100, 80), lambda: matrix(300, 240)],
    ),
    "SparseLowRankCovariance": (
        {},
        [lambda: samples(100, 50), lambda: samples(200, 200), lambda: samples(300, 1000)],
    ),
    "LinkPredictor": ({}, [lambda: graph(200), lambda: graph(1000), lambda: graph(2000)]),
    "MatrixCompletion": (
        {},
        [
            lambda: ratings(300, 200, 6_000),
            lambda: ratings(1500, 1000, 60_000),
            lambda: ratings(2100, 1400, 120_000),
        ],
    ),
    "RobustPCA": (
        {},
        [lambda: outliers(300, 100), lambda: outliers(1000, 300), lambda: outliers(5000, 500)],
    ),
    "MatrixCompletionPanel": (
        {},
        [lambda: panel(50, 30), lambda: panel(300, 60), lambda: panel(2000, 100)],
    ),
    "SparseLowRankImputer": (
        {},
        [lambda: gaps(300, 30), lambda: gaps(1000, 100), lambda: gaps(3000, 300)],
    ),
    "ReducedRankRegressor": (
        {},
        [
            lambda: responses(200, 20, 10),
            lambda: responses(1000, 100, 30),
            lambda: responses(3000, 300, 100),
        ],
    ),
    "TraceRegression": (
        {},
        [
            lambda: measured(200, 8, 6),
            lambda: measured(500, 15, 12),
            lambda: measured(1000, 25, 20),
        ],
    ),
    "TraceRegressionCV": (
        {},
        [
            lambda: measured(200, 8, 6),
            lambda: measured(500, 15, 12),
            lambda: measured(1000, 25, 20),
        ],
    ),
    "TraceClassifier": (
        {},
        [
            lambda: classified(200, 8, 6),
            lambda: classified(500, 15, 12),
            lambda: classified(1000, 25, 20),
        ],
    ),
    "SubspaceClustering": (
        {},
        [lambda: subspaces(200, 30), lambda: subspaces(800, 50), lambda: subspaces(2400, 50)],
    ),
    "HawkesInfectivity": (
        {},
        [lambda: events(2_000, 20), lambda: events(6_000, 60), lambda: events(20_000, 200)],
    ),
}


def timed(work: Callable[[], Any]) -> float:
    """Seconds that some work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rows(name: str, sizes: int | None) -> list[dict[str, Any]]:
    """Seconds of fits and of decompositions, from small to large."""
    settings, makers = MODELS[name]
    found = []
    for k, make in enumerate(makers[:sizes]):
        data = make()
        dense = np.random.default_rng(0).standard_normal(data.shape)
        model = getattr(wp, name)(**settings, random_state=0)
        if k == 0:
            model.fit(*data.arguments)
        fit = timed(lambda data=data, model=model: model.fit(*data.arguments))
        decomposition = timed(lambda A=dense: np.linalg.svd(A, full_matrices=False))
        row = {"size": data.label, "fit": fit, "svd": decomposition}
        print(f"{name:24} {data.label:28} {fit:8.2f} s   svd {decomposition:.3f} s", flush=True)
        found.append(row)
    return found


def growth(found: list[dict[str, Any]]) -> str:
    """How many times longer the largest fit takes than the smallest, and the SVD."""
    first, last = found[0], found[-1]
    return f"{last['fit'] / first['fit']:.0f} ({last['svd'] / first['svd']:.0f})"


def write(out: Path, known: dict[str, Any]) -> None:
    """JSON and Markdown of everything known."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(known, indent=1) + "\n")
    head = "| model | size: seconds of a fit (of one SVD) | | | growth of fits (of SVDs) |"
    lines = [head, "|---|---|---|---|---|"]
    for name, entry in known.items():
        cells = [f"{r['size']}: **{r['fit']:.2f}** ({r['svd']:.3f})" for r in entry["rows"]]
        cells += [""] * (3 - len(cells))
        lines.append(f"| `{name}` | {' | '.join(cells)} | {growth(entry['rows'])} |")
    dates = sorted({entry["date"] for entry in known.values()})
    lines += ["", f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}."]
    out.with_suffix(".inc").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Time the models asked for, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    parser.add_argument("--sizes", type=int, default=None, help="how many sizes, from small")
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    unknown = [name for name in args.models if name not in MODELS]
    if unknown:
        raise SystemExit(f"No model {', '.join(unknown)}; there are {', '.join(MODELS)}.")
    out = Path(args.out)
    file = out.with_suffix(".json")
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name in args.models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of searches at the end of their grids
            found = rows(name, args.sizes)
        known[name] = {"rows": found, "date": time.strftime("%Y-%m-%d")}
        write(out, {each: known[each] for each in MODELS if each in known})


if __name__ == "__main__":
    main()

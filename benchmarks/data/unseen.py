"""Our models at automatic settings against simple methods, on data that tuned nothing.

    python benchmarks/data/unseen.py                  # everything
    python benchmarks/data/unseen.py tables graphs    # some of the tasks
    python benchmarks/data/unseen.py --quick          # two splits each, to see that it works

The data are packaged with scikit-learn (tables, images) and networkx (graphs). No setting of
ours was chosen by them: constants were tuned on simulated data and on the bundled sets of
`examples/data`, those of covariances also on iris and linnerud, which have no such row. The
rule of the imputer for a few dozen entries saw random parts of five tables, linnerud included.
All methods see the same splits. A row passes if ours is not worse than the best simple method
by more than one standard error of the difference over splits.

Writes OUT.json and OUT.inc (Markdown), merging with what earlier runs of other tasks left.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from airports import adamic_adar, common_neighbours, hide
from common import Tally
from run import machine
from scipy.sparse import csr_array
from sklearn import datasets
from sklearn.covariance import OAS, EmpiricalCovariance, LedoitWolf
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import roc_auc_score
from votes import by_hidden_slice, soft

from weakprox import (
    LinkPredictor,
    SparseLowRank,
    SparseLowRankCovariance,
    SparseLowRankImputer,
)
from weakprox.selection import noise_level

OUT = Path(__file__).resolve().parents[2] / "docs" / "_static" / "unseen"
SPLITS, QUICK = 10, 2
FEW = 3  # splits of digits, the largest table
MISSING = 0.3
OURS = {
    "tables": "SparseLowRankImputer",
    "covariances": "SparseLowRankCovariance",
    "matrices": "SparseLowRank",
    "graphs": "LinkPredictor",
}
TABLES = ("iris", "wine", "linnerud", "diabetes", "breast_cancer", "digits")
COVARIANCES = ("wine", "diabetes", "breast_cancer", "digits")
PER_COLUMN = 2  # training samples, for covariances
MATRICES = ("china", "flower", "breast_cancer", "wine")
LEVELS = (0.3, 1.0)  # of the noise, in standard deviations of the entries


@dataclass(frozen=True)
class Row:
    """Scores of ours and of the best simple method, larger being better if `higher`."""

    task: str
    data: str
    metric: str
    higher: bool
    splits: int
    ours: float
    error: float  # standard error of ours
    best: str
    simple: float
    simple_error: float
    gain: float  # mean of ours against the best simple method, positive if ours is better
    gain_error: float
    seconds: float
    others: dict[str, float]

    @property
    def verdict(self) -> str:
        """What the rule says."""
        if self.gain > self.gain_error:
            return "better"
        return "equal" if self.gain >= -self.gain_error else "WORSE"  # also if it is infinite


def compared(task: str, data: str, metric: str, tally: Tally, *, higher: bool) -> Row:
    """Ours against the simple method of the best mean, split by split."""
    ours = OURS[task]
    sign = 1.0 if higher else -1.0
    means = {name: float(np.mean(found)) for name, found in tally.scores.items()}
    simple = {name: mean for name, mean in means.items() if name != ours}
    best = max(simple, key=lambda name: sign * simple[name])
    gains = sign * (np.array(tally.scores[ours]) - np.array(tally.scores[best]))
    return Row(
        task,
        data,
        metric,
        higher,
        len(gains),
        means[ours],
        _error(tally.scores[ours]),
        best,
        means[best],
        _error(tally.scores[best]),
        float(gains.mean()),
        _error(gains),
        float(np.median(tally.seconds[ours])),
        simple,
    )


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def table_of(name: str) -> np.ndarray:
    """A table of scikit-learn without constant columns; linnerud with its targets."""
    if name == "linnerud":
        both = datasets.load_linnerud()
        return np.hstack([both.data, both.target])
    X = getattr(datasets, f"load_{name}")().data.astype(float)
    return X[:, X.std(axis=0) > 0.0]


def soft_impute(X: np.ndarray, seed: int) -> np.ndarray:
    """Soft-thresholded singular values of standardised columns, by a hidden slice."""
    mean, unit = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    unit = np.where(unit > 0.0, unit, 1.0)
    Z = (X - mean) / unit
    top = np.linalg.norm(np.nan_to_num(Z), 2)
    found = by_hidden_slice(Z.T, seed, [soft(top * 2.0**-k) for k in range(1, 8)]).T
    return found * unit + mean


def tables(splits: int) -> Iterator[Row]:
    """Root mean square errors of missing entries, in deviations of the columns."""
    for name in TABLES:
        X, tally = table_of(name), Tally()
        for seed in range(min(splits, FEW) if name == "digits" else splits):
            gone = np.random.default_rng(seed).random(X.shape) < MISSING
            left = np.where(gone, np.nan, X)
            unit = np.maximum(X.std(axis=0), 1e-300)

            def error(filled: Any, gone=gone, unit=unit, X=X) -> float:
                return np.sqrt(np.mean(((filled - X) / unit)[gone] ** 2))

            methods: dict[str, Callable[[Any], Any]] = {
                "column mean": SimpleImputer(keep_empty_features=True).fit_transform,
                "KNNImputer": KNNImputer(keep_empty_features=True).fit_transform,
                "IterativeImputer": IterativeImputer(
                    keep_empty_features=True, random_state=0
                ).fit_transform,
                "soft-impute": lambda A, seed=seed: soft_impute(A, seed),
                OURS["tables"]: SparseLowRankImputer(random_state=0).fit_transform,
            }
            for each, method in methods.items():
                tally.add(each, lambda method=method, left=left: method(left), error)
        metric = f"error of missing entries, {X.shape[0]} x {X.shape[1]}"
        yield compared("tables", name, metric, tally, higher=False)


def covariances(splits: int) -> Iterator[Row]:
    """Distances to the covariance of the other samples, and their log-likelihood.

    Columns are standardised by the training samples. Ours is told by which of the two it is
    scored, the only setting that is not automatic.
    """
    for name in COVARIANCES:
        X, distance, likelihood = table_of(name), Tally(), Tally()
        size = PER_COLUMN * X.shape[1]
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(X))
            train, test = X[order[:size]], X[order[size:]]
            varied = train.std(axis=0) > 0.0  # pixels may be black in all of a few digits
            train, test = train[:, varied], test[:, varied]
            mean, unit = train.mean(axis=0), train.std(axis=0)
            train, test = (train - mean) / unit, (test - mean) / unit
            other = np.cov(test.T, bias=True)

            def apart(fitted: Any, other=other) -> float:
                return np.linalg.norm(fitted.covariance_ - other) / np.linalg.norm(other)

            ours = partial(SparseLowRankCovariance, random_state=0)
            methods: dict[str, tuple[Any, Any]] = {
                "sample covariance": (EmpiricalCovariance(), EmpiricalCovariance()),
                "Ledoit-Wolf": (LedoitWolf(), LedoitWolf()),
                "OAS": (OAS(), OAS()),
                OURS["covariances"]: (ours(scoring="distance"), ours(scoring="likelihood")),
            }
            for each, (near, likely) in methods.items():
                distance.add(each, lambda m=near, A=train: m.fit(A), apart)
                likelihood.add(
                    each, lambda m=likely, A=train: m.fit(A), lambda m, B=test: m.score(B)
                )
        about = f"{size} samples of {X.shape[1]} columns"
        metric = f"relative distance of covariances, {about}"
        yield compared("covariances", name, metric, distance, higher=False)
        metric = f"log-likelihood, {about}"
        yield compared("covariances", name, metric, likelihood, higher=True)


def matrix_of(name: str) -> np.ndarray:
    """A picture in grey at a quarter of its size, or a standardised table."""
    if name in ("china", "flower"):
        grey = datasets.load_sample_image(f"{name}.jpg").mean(axis=2)
        m, d = (4 * (n // 4) for n in grey.shape)
        M = grey[:m, :d].reshape(m // 4, 4, d // 4, 4).mean(axis=(1, 3))
        return (M - M.mean()) / M.std()
    X = table_of(name)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def truncated(M: np.ndarray, level: float | None) -> np.ndarray:
    """Singular values above the edge of the noise, or above that of Gavish and Donoho."""
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    if level is None:
        ratio = min(M.shape) / max(M.shape)
        # the polynomial of their paper for an unknown level
        edge = np.median(s) * (0.56 * ratio**3 - 0.95 * ratio**2 + 1.82 * ratio + 1.43)
    else:
        edge = level * np.sum(np.sqrt(M.shape))
    return (U * np.where(s > edge, s, 0.0)) @ Vt


def thresholded(M: np.ndarray, level: float | None) -> np.ndarray:
    """Singular values less the weight of least risk, by Stein's estimate (Candes et al.)."""
    level = noise_level(M, "spectrum") if level is None else level
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    m, d = M.shape
    pairs = s[:, None] ** 2 - s**2
    np.fill_diagonal(pairs, np.inf)

    def risk(cut: float) -> float:
        kept = np.maximum(s - cut, 0.0)
        slope = np.sum(s > cut) + abs(m - d) * np.sum(kept / s)
        slope += 2.0 * np.sum((s * kept)[:, None] / pairs)
        return float(np.sum(np.minimum(s, cut) ** 2) + 2.0 * level**2 * slope)

    cut = min(np.linspace(0.0, s[0], 100), key=risk)
    return (U * np.maximum(s - cut, 0.0)) @ Vt


def entries_thresholded(M: np.ndarray, level: float | None) -> np.ndarray:
    """Entries less the universal threshold."""
    level = noise_level(M, "entries") if level is None else level
    cut = level * np.sqrt(2.0 * np.log(M.size))
    return np.sign(M) * np.maximum(np.abs(M) - cut, 0.0)


def matrices(splits: int) -> Iterator[Row]:
    """Root mean square errors of real matrices with noise added.

    Its level is told to all methods, or to none.
    """
    for name, level, told in product(MATRICES, LEVELS, (False, True)):
        X, tally = matrix_of(name), Tally()
        for seed in range(splits):
            M = X + level * np.random.default_rng(seed).standard_normal(X.shape)
            known = level if told else None
            model = SparseLowRank(noise=level if told else "auto", random_state=0)
            methods: dict[str, Callable[[], Any]] = {
                "as it is": lambda M=M: M,
                "truncated SVD": lambda M=M, known=known: truncated(M, known),
                "singular values thresholded": lambda M=M, known=known: thresholded(M, known),
                "entries thresholded": lambda M=M, known=known: entries_thresholded(M, known),
                OURS["matrices"]: lambda M=M, model=model: model.fit(M).matrix_,
            }
            for each, method in methods.items():
                tally.add(each, method, lambda found, X=X: np.sqrt(np.mean((found - X) ** 2)))
        noise = f"{'known' if told else 'unknown'} noise {level:g}"
        metric = f"error, {X.shape[0]} x {X.shape[1]}, {noise}"
        yield compared("matrices", name, metric, tally, higher=False)


def normalised_svt(A: csr_array, seed: int) -> np.ndarray:
    """Thresholded singular values of D^-1/2 A D^-1/2, the cut by a tenth of the edges."""

    def answer(A: csr_array, share: float) -> np.ndarray:
        root = np.sqrt(np.maximum(np.asarray(A.sum(axis=0)), 1.0))
        U, s, Vt = np.linalg.svd(A.toarray() / root / root[:, None])
        found = (U * np.maximum(s - share * s[0], 0.0)) @ Vt
        return found * root * root[:, None]

    left, pairs, truth = hide(A, seed + 100)
    shares = (0.9, 0.7, 0.5, 0.35, 0.25, 0.15)

    def auc(share: float) -> float:
        return roc_auc_score(truth, answer(left, share)[pairs[:, 0], pairs[:, 1]])

    return answer(A, max(shares, key=auc))


def graphs(splits: int) -> Iterator[Row]:
    """Areas under the ROC curve of hidden edges against pairs without an edge."""
    import networkx as nx

    found = {
        "karate club": nx.karate_club_graph(),
        "les miserables": nx.les_miserables_graph(),
        "davis southern women": nx.davis_southern_women_graph(),
    }
    for name, graph in found.items():
        A = csr_array((nx.to_scipy_sparse_array(graph, dtype=float) > 0).astype(float))
        tally = Tally()
        for seed in range(splits):
            left, pairs, truth = hide(A, seed)

            def at_pairs(S: Any, pairs=pairs, truth=truth) -> float:
                return roc_auc_score(truth, S[pairs[:, 0], pairs[:, 1]])

            methods: dict[str, Callable[[Any], Any]] = {
                "common neighbours": common_neighbours,
                "Adamic-Adar": adamic_adar,
                "product of degrees": lambda A: np.multiply.outer(A.sum(axis=0), A.sum(axis=0)),
                "normalised SVT": lambda A, seed=seed: normalised_svt(A, seed),
            }
            for each, method in methods.items():
                tally.add(each, lambda method=method, left=left: method(left), at_pairs)
            tally.add(
                OURS["graphs"],
                lambda left=left: LinkPredictor(random_state=0).fit(left),
                lambda model, pairs=pairs, truth=truth: roc_auc_score(
                    truth, model.score_pairs(pairs)
                ),
            )
        metric = f"AUC of hidden edges, {A.shape[0]} nodes, {A.nnz // 2} edges"
        yield compared("graphs", name, metric, tally, higher=True)


TASKS: dict[str, Callable[[int], Iterator[Row]]] = {
    "tables": tables,
    "covariances": covariances,
    "matrices": matrices,
    "graphs": graphs,
}


def main() -> None:
    """Run the tasks asked for, print each row, and write after each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help=", ".join(TASKS))
    parser.add_argument("--quick", action="store_true", help="two splits each")
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    unknown = [name for name in args.tasks if name not in TASKS]
    if unknown:
        raise SystemExit(f"No task {', '.join(unknown)}; there are {', '.join(TASKS)}.")
    out = Path(args.out)
    file = out.with_suffix(".json")
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for task in args.tasks:
        begin, rows = time.perf_counter(), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the methods compared with
            for row in TASKS[task](QUICK if args.quick else SPLITS):
                rows.append(row)
                print(line(row), flush=True)
        known[task] = {
            "rows": [{**asdict(row), "verdict": row.verdict} for row in rows],
            "quick": args.quick,
            "seconds": round(time.perf_counter() - begin, 1),
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
        }
        write(out, {name: known[name] for name in TASKS if name in known})


def line(row: Row) -> str:
    """A row as Markdown."""
    better = "higher" if row.higher else "lower"
    cells = [
        row.data,
        f"{row.metric} ({better} is better, {row.splits} splits)",
        f"**{row.ours:.4f}** ± {row.error:.4f}",
        f"{row.simple:.4f} ± {row.simple_error:.4f} ({row.best})",
        f"{row.gain:+.4f} ± {row.gain_error:.4f}",
        row.verdict,
        f"{row.seconds:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def write(out: Path, known: dict[str, Any]) -> None:
    """JSON and Markdown of everything known."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(known, indent=1) + "\n")
    parts = []
    for task, found in known.items():
        rows = [Row(**{k: v for k, v in r.items() if k != "verdict"}) for r in found["rows"]]
        head = [
            "data",
            "metric",
            f"`{OURS[task]}`",
            "best simple method",
            "gain",
            "",
            "seconds",
        ]
        text = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *map(line, rows)]
        told = f"{found['date']}, {found['seconds']} s in all; {found['machine']}."
        if found["quick"]:
            told += " **A quick run, to show the form only.**"
        parts.append("\n".join(text) + f"\n\n{told}\n")
    out.with_suffix(".inc").write_text("\n".join(parts))


if __name__ == "__main__":
    main()

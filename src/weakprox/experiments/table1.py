"""Table 1: what the l1 norm adds to low rank when a sparse rank-one matrix is estimated.

M = yy' + noise is denoised by its best rank-one approximation, by projection on
{X PSD, tr X <= tau}, and by the l1 problem on that set. The paper does not specify tau, lam,
the tolerance for zeros, and the meaning of N ~ N(0, I_n). Every choice is explicit here, and
the summary shows the effect of each: the stated protocol, every variant, and the choices that
come closest to the paper. Means over draws are heavy-tailed (a y with one or two small entries
dominates), so medians and standard errors are given as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np

from weakprox.experiments.base import Experiment, Job, Record, mean, stream
from weakprox.experiments.instances import Matrix, optimum, project, table1_signal
from weakprox.linalg import decompositions
from weakprox.spectral import TracePSD

N = 50
DRAWS, QUICK_DRAWS = 50, 10
LEVELS = (0.5, 5.0)
METHODS = ("low_rank", "projection", "low_rank_sparse")
LAMS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # lam / c
# Rules for the trace bound, as multiples of |y|^2 = tr(yy'); "tr M" is max(1, tr M).
TAUS = {"|y|^2": 1.0, "0.9 |y|^2": 0.9, "tr M": math.nan}
# Tolerances for nonzeros: |x| above a number, or above a share of the largest entry.
NNZ_TOLERANCES = {
    "0.001": (1e-3, False),
    "0.5": (0.5, False),
    "0.001 of the largest": (1e-3, True),
    "0.01 of the largest": (1e-2, True),
}
# Eigenvalues above this count towards the rank.
RANK_TOLERANCES = {"0.001 |y|^2": 1e-3, "0.01 |y|^2": 1e-2, "1e-06 |y|^2": 1e-6}
ORACLE = "best error of each draw"
HEADLINE = {  # the choices behind the main rows
    "noise": "matrix",
    "tau": "|y|^2",
    "lam": "1.5 c",
    "nnz": "0.001",
    "rank": "0.001 |y|^2",
}
PAPER = {  # its own numbers
    0.5: {
        "low_rank": {"error": 0.0009, "nnz_ratio": 105.625, "rank": 1.0},
        "projection": {"error": 0.0027, "nnz_ratio": 105.625, "rank": 2.0},
        "low_rank_sparse": {"error": 0.0003, "nnz_ratio": 1.0, "rank": 2.5},
    },
    5.0: {
        "low_rank": {"error": 1.0991, "nnz_ratio": 114.8056, "rank": 1.0},
        "projection": {"error": 0.3794, "nnz_ratio": 114.8056, "rank": 1.96},
        "low_rank_sparse": {"error": 0.01, "nnz_ratio": 1.0017, "rank": 2.54},
    },
}


def jobs(quick: bool, seed: int) -> list[Job]:
    """One job per way to read the noise, noise level and draw."""
    common = {"n": N, "taus": list(TAUS)[:1] if quick else list(TAUS), "quick": quick}
    return [
        {"noise": noise, "c": c, "draw": draw, "seed": seed, **common}
        for noise in ("matrix", "vector")
        for c in LEVELS
        for draw in range(QUICK_DRAWS if quick else DRAWS)
    ]


def work(job: Job) -> Record:
    """Run all methods on one draw; both ways to read the noise share y."""
    c = job["c"]
    rng = stream("table1", job["seed"], LEVELS.index(c), job["draw"])
    M, y = table1_signal(job["n"], c, rng, job["noise"])
    w, V = decompositions.eigh(M)  # for the nearest PSD matrix of rank one (the paper's 1-SVD)
    nearest = max(0.0, float(w[-1])) * np.outer(V[:, -1], V[:, -1])
    nonzeros, unit = int(np.count_nonzero(y)), 0.5 * float(np.sum(M * M))  # the value at X = 0
    projection: Record = {}
    sparse: Record = {}
    for rule in job["taus"]:
        # the trace of M is known without y; |y|^2 >= 1, it need not be
        tau = max(1.0, float(np.trace(M))) if rule == "tr M" else TAUS[rule] * float(y @ y)
        projection[rule], sparse[rule] = measured(project(M, TracePSD(tau)), y), {}
        for q in LAMS:
            gap = certified_gap(rule, q, job["quick"]) * unit
            best = optimum(M, q * c, TracePSD(tau), gap=gap, max_steps=20_000)
            told = {"gap": best.gap / unit, "steps": best.steps}
            sparse[rule][str(q)] = measured(best.X, y) | told
    found = {"low_rank": measured(nearest, y), "projection": projection}
    return {"nonzeros_of_y": nonzeros, **found, "low_rank_sparse": sparse}


def measured(X: Matrix, y: Matrix) -> dict[str, Any]:
    """Error, nonzeros and rank of an estimate of yy', at every tolerance."""
    Y = np.outer(y, y)
    trace = float(y @ y)
    size, eigenvalues = np.abs(X), decompositions.eigvalsh(X)
    largest = float(size.max())
    nonzeros = np.count_nonzero(Y)
    return {
        "error": float(np.sum((X - Y) ** 2)) / trace**2,
        "nnz": {
            name: np.count_nonzero(size > (tol * largest if relative else tol)) / nonzeros
            for name, (tol, relative) in NNZ_TOLERANCES.items()
        },
        "rank": {
            name: np.count_nonzero(eigenvalues > tol * trace)
            for name, tol in RANK_TOLERANCES.items()
        },
    }


def certified_gap(tau: str, q: float, quick: bool) -> float:
    """Accuracy of the l1 problem at lam = q c, relative to its value at zero.

    The gap bounds |X - X*|^2 / 2. With a larger lam convergence is faster and small entries
    matter more, so the accuracy there suffices to distinguish an entry of 0.001 from zero.
    """
    if q > 1.0:
        return 1e-9
    return 1e-6 if tau == HEADLINE["tau"] and not quick else 1e-5


def summarise(jobs: list[Job], results: list[Record]) -> Record:
    table = Table(jobs, results)
    rows = table.rows(HEADLINE)
    vector_rows = table.rows({**HEADLINE, "noise": "vector"})
    return {
        "rows": rows,
        "rows_vector_noise": vector_rows,
        "orderings": {
            **orderings(rows),
            "by_medians": orderings(rows, "_median"),
            "vector_noise": orderings(vector_rows),
            "vector_noise_by_medians": orderings(vector_rows, "_median"),
        },
        "protocol": protocol(table),
        "variants": [
            table.variant(noise, c, *estimate)
            for noise in table.noises
            for c in LEVELS
            for estimate in table.estimates()
        ],
        "closest": closest(table),
    }


class Table:
    """The draws, grouped so that any choice can be averaged."""

    def __init__(self, jobs: list[Job], results: list[Record]) -> None:
        self.draws: dict[tuple[str, float], list[Record]] = {}
        for job, result in zip(jobs, results, strict=True):
            self.draws.setdefault((job["noise"], job["c"]), []).append(result)
        self.noises = list(dict.fromkeys(job["noise"] for job in jobs))
        self.taus = list(jobs[0]["taus"])
        self.lams = [f"{q:g} c" for q in LAMS] + [ORACLE]
        self.n, self.quick = jobs[0]["n"], jobs[0]["quick"]

    def estimates(self) -> Iterator[tuple[str, str | None, str | None]]:
        """Every (method, tau rule, lam rule)."""
        yield "low_rank", None, None
        for tau in self.taus:
            yield "projection", tau, None
        for tau, lam in product(self.taus, self.lams):
            yield "low_rank_sparse", tau, lam

    def measured(
        self, noise: str, c: float, method: str, tau: str | None, lam: str | None
    ) -> list[Any]:
        """Return the measurements on each draw."""
        draws = [draw[method] for draw in self.draws[noise, c]]
        if method == "low_rank":
            return draws
        draws = [draw[tau] for draw in draws]
        if method == "projection":
            return draws
        if lam == ORACLE:
            return [min(draw.values(), key=lambda one: one["error"]) for draw in draws]
        q = str(LAMS[self.lams.index(str(lam))])
        return [draw[q] for draw in draws]

    def rows(self, choice: dict[str, str]) -> list[Record]:
        """The table's six columns under one set of choices."""
        return [self.row(c, method, choice) for c in LEVELS for method in METHODS]

    def row(self, c: float, method: str, choice: dict[str, str]) -> Record:
        """One method at one noise level under one set of choices."""
        found = self.measured(choice["noise"], c, method, choice["tau"], choice["lam"])
        row = {"c": c, "method": method, "paper": PAPER[c][method]}
        row |= _statistics("error", [one["error"] for one in found])
        row |= _statistics("nnz_ratio", [one["nnz"][choice["nnz"]] for one in found])
        return row | _statistics("rank", [one["rank"][choice["rank"]] for one in found])

    def variant(
        self, noise: str, c: float, method: str, tau: str | None, lam: str | None
    ) -> Record:
        """One method at one noise level, at all tolerances."""
        found = self.measured(noise, c, method, tau, lam)

        def means(name: str) -> dict[str, float]:
            return {tol: mean([one[name] for one in found], tol) for tol in found[0][name]}

        choice = {"noise": noise, "c": c, "method": method, "tau": tau, "lam": lam}
        return {
            **choice,
            **_statistics("error", [one["error"] for one in found]),
            "nnz_ratio": means("nnz"),
            "rank": means("rank"),
        }

    def gaps(self) -> list[Record]:
        """Return the requested gap and the largest one proved, for each tau and lam."""
        every = [draw["low_rank_sparse"] for draws in self.draws.values() for draw in draws]
        found = []
        for tau, q in product(self.taus, LAMS):
            asked = certified_gap(tau, q, self.quick)
            proved = max(draw[tau][str(q)]["gap"] for draw in every)
            found.append({"tau": tau, "lam": f"{q:g} c", "asked": asked, "proved": proved})
        return found


def _statistics(name: str, values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return {
        name: float(np.mean(values)),
        f"{name}_median": float(np.median(values)),
        f"{name}_se": float(spread),
    }


def orderings(rows: list[Record], suffix: str = "") -> Record:
    """Check the claims of the paper's table on these rows."""
    smallest, fewest = {}, {}
    for c in LEVELS:
        at = {row["method"]: row for row in rows if row["c"] == c}
        sparse, others = at["low_rank_sparse"], (at["low_rank"], at["projection"])
        error, nnz = f"error{suffix}", f"nnz_ratio{suffix}"
        smallest[f"{c:g}"] = all(sparse[error] < other[error] for other in others)
        fewest[f"{c:g}"] = all(10 * sparse[nnz] <= other[nnz] for other in others)
    return {
        "hold": all(smallest.values()) and all(fewest.values()),
        "l1_has_smallest_error": smallest,
        "l1_has_ten_times_fewer_nonzeros": fewest,
    }


def protocol(table: Table) -> Record:
    """Return all choices, in words and numbers."""
    return {
        "headline": HEADLINE,
        "n": table.n,
        "draws": len(next(iter(table.draws.values()))),
        "y": "entries 0 with probability 0.9, else uniform on 1..10; y = 0 is drawn again",
        "noise": {
            "matrix": "(c/2)(N + N'), N with n^2 independent N(0, 1) entries",
            "vector": "entries (c/2)(N_i + N_j), N a vector from N(0, I_n), as it is printed",
        },
        "low_rank": "the best PSD approximation of rank one",
        "projection": "on {X PSD, tr X <= tau}, the problem with lam = 0",
        "low_rank_sparse": "1/2 |X - M|^2 + lam |X|_1 on the same set",
        "lam": "fixed multiples of c for all draws, and the one of least error draw by draw",
        "headline_lam": "picked from the grid by looking at these very results, as the paper "
        "did (chosen via experimentation)",
        "relative_gaps": table.gaps(),
        "error": "|X - yy'|_F^2 / |yy'|_F^2, mean over draws",
        "nnz_ratio": "entries above a tolerance / nonzeros of yy', mean over draws",
        "rank": "eigenvalues above a tolerance, mean over draws",
    }


def closest(table: Table) -> Record:
    """Return the choices that come closest to all of the paper's cells together.

    One set of choices serves both noise levels. The cells of the best rank-one
    approximation, which only tolerances change, show the effect of the random draws.
    """
    space = (table.noises, table.taus, table.lams, NNZ_TOLERANCES, RANK_TOLERANCES)
    tried = [dict(zip(HEADLINE, choice, strict=True)) for choice in product(*space)]
    found: Record = {
        "distance": "mean over 18 cells of |log10(ours / paper's)|; 0.3 is a factor of two",
        "choices_tried": len(tried),
    }
    for statistic, suffix in (("mean", ""), ("median", "_median")):
        scored = [_compared(table, choice, suffix) for choice in tried]
        scored.sort(key=itemgetter("distance"))
        found[statistic] = {
            "best": scored[0],
            "best_by_noise": {
                noise: next(one for one in scored if one["choice"]["noise"] == noise)
                for noise in table.noises
            },
            "headline": _compared(table, HEADLINE, suffix),
        }
        best, headline = (found[statistic][one] for one in ("best", "headline"))
        choice = ", ".join(f"{name} {value}" for name, value in best["choice"].items())
        near, far = (f"{10 ** one['distance']:.2g}" for one in (best, headline))
        found[statistic]["statement"] = (
            f"By {statistic}s the paper's cells are met best with {choice}: within a factor of "
            f"{near} on average (headline: {far})."
        )
    return found


def _compared(table: Table, choice: dict[str, str], suffix: str) -> Record:
    """Return ours over the paper's in each cell, and the mean distance."""
    ratios = {
        f"{row['method']}, c = {row['c']:g}: {cell}": row[cell + suffix] / paper
        for row in table.rows(choice)
        for cell, paper in row["paper"].items()
    }
    # an estimate that is zero everywhere has no logarithm: count it as very far away
    distances = [abs(math.log10(max(ratio, 1e-12))) for ratio in ratios.values()]
    distance = sum(distances) / len(distances)
    return {"choice": choice, "distance": distance, "ours_over_paper": ratios}


TITLE = "Table 1: low rank, with and without l1"
EXPERIMENT = Experiment("table1", TITLE, jobs, work, summarise, ("orderings", "closest"))

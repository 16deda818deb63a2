"""Time and memory of `LinkPredictor` at its automatic settings, next to a sparse SVD.

Graphs with groups and skewed degrees; the unit is `scipy.sparse.linalg.svds(A, 20)` on the same
adjacency matrix. Each size runs in a process of its own, so that its peak memory is its own.

    python benchmarks/links.py [--large]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from weakprox import LinkPredictor

SIZES = ((3000, 8_700), (3000, 17_400), (9000, 50_000), (100_000, 1_000_000))
LARGE = (1_000_000, 10_000_000)
GROUPS, OUTSIDE, POWER = 20, 0.2, 2.5  # share of links between groups, exponent of degrees
BAR = 20.0  # times the SVD
REPEATS = 3  # of graphs below SOON nodes; the least time counts
SOON = 10_000


def graph(nodes: int, links: int, seed: int = 0) -> csr_array:
    """An undirected graph with groups, about this many links and skewed degrees."""
    rng = np.random.default_rng(seed)
    weight = np.minimum((1.0 - rng.random(nodes)) ** (-1.0 / (POWER - 1.0)), np.sqrt(nodes))
    group = rng.integers(0, GROUPS, nodes)
    rows, cols = (rng.choice(nodes, links, p=weight / weight.sum()) for _ in range(2))
    inside = rng.random(links) > OUTSIDE
    for g in range(GROUPS):
        members, chosen = np.nonzero(group == g)[0], np.nonzero(inside & (group[rows] == g))[0]
        share = weight[members] / weight[members].sum()
        cols[chosen] = rng.choice(members, chosen.size, p=share)
    apart = rows != cols
    A = csr_array((np.ones(apart.sum()), (rows[apart], cols[apart])), shape=(nodes, nodes))
    A = csr_array(A + A.T)
    A.data[:] = 1.0
    return A


def least(run, repeats: int) -> tuple[float, object]:
    """Least time of some runs, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        begun = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - begun)
    return min(times), answer


def measured(nodes: int, links: int) -> None:
    """Print one line of the table."""
    warnings.simplefilter("ignore")
    LinkPredictor(random_state=0).fit(graph(300, 1500))  # imports
    A = graph(nodes, links)
    repeats = REPEATS if nodes < SOON else 1
    unit, _ = least(lambda: svds(A, 20), repeats)
    seconds, model = least(lambda: LinkPredictor(random_state=0).fit(A), repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ratio = seconds / unit
    verdict = "reached" if ratio <= BAR else "not reached"
    print(
        f"{nodes:>9} {A.nnz:>10} {unit:>8.3f} {seconds:>8.2f} {ratio:>6.1f} ({verdict})"
        f"  rank {model.result_.rank}, AUC {model.cv_results_['mean_test_score'].max():.4f},"
        f" gap {model.certificate_.gap / model.result_.value:.1e}, peak {peak:.2f} GB",
        flush=True,
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--large", action="store_true", help="also 1e6 nodes and 1e7 links")
    options.add_argument("--size", type=int, nargs=2, help="nodes and links of one graph")
    chosen = options.parse_args()
    if chosen.size:
        measured(*chosen.size)
    else:
        print(
            f"{'nodes':>9} {'stored':>10} {'svds, s':>8} {'fit, s':>8} {'ratio':>6}", flush=True
        )
        for size in (*SIZES, *((LARGE,) if chosen.large else ())):
            command = [sys.executable, __file__, "--size", *map(str, size)]
            subprocess.run(command, check=True)

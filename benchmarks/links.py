"""Time, memory and accuracy of `LinkPredictor` at its automatic settings, on several graphs.

A tenth of the links are hidden, the model is fitted to the others, and the area under the ROC
curve compares the hidden links with random pairs without a link. The unit of time is
`scipy.sparse.linalg.svds(A, 20)` on the adjacency matrix that is fitted. Each graph runs in a
process of its own, so that its peak memory is its own.

    python benchmarks/links.py [--larger] [--large] [--family NAME ...]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array, csr_array, triu
from scipy.sparse.linalg import svds
from scipy.spatial import cKDTree

from weakprox import LinkPredictor

DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
NODES, LINKS = 3000, 19_000  # a tenth of the links is hidden
LARGER = ((9000, 50_000), (100_000, 1_000_000))
LARGE = (1_000_000, 11_400_000)  # 1e7 links are left to fit
GROUPS, OUTSIDE, POWER = 20, 0.2, 2.5  # share of links between groups, exponent of degrees
REWIRED = 0.1  # share of the links of a small world that lead anywhere
HIDDEN = 0.1  # share of links to find
OTHERS = 100_000  # pairs without a link, at most
BAR = 20.0  # times the SVD
REPEATS = 3  # of graphs below SOON nodes; the least time counts
SOON = 10_000


def drawn_blocks(nodes: int, links: int, rng: np.random.Generator) -> tuple:
    """Ends of links, most of them within groups; nodes have weights with a power law."""
    weight = np.minimum((1.0 - rng.random(nodes)) ** (-1.0 / (POWER - 1.0)), np.sqrt(nodes))
    group = rng.integers(0, GROUPS, nodes)
    rows, cols = (rng.choice(nodes, links, p=weight / weight.sum()) for _ in range(2))
    inside = rng.random(links) > OUTSIDE
    for g in range(GROUPS):
        members, chosen = np.nonzero(group == g)[0], np.nonzero(inside & (group[rows] == g))[0]
        share = weight[members] / weight[members].sum()
        cols[chosen] = rng.choice(members, chosen.size, p=share)
    return rows, cols


def blocks(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """Groups of nodes, with skewed degrees."""
    return undirected(*drawn_blocks(nodes, links, rng), nodes)


def directed(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """Groups of nodes, with skewed degrees; links have a direction."""
    return simple(*drawn_blocks(nodes, links, rng), (nodes, nodes))


def bipartite(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """Groups that join two thirds of the nodes with the others."""
    rows, cols = drawn_blocks(nodes, 5 * links, rng)
    kept = (rows % 3 != 0) & (cols % 3 == 0)
    shape = (nodes - (nodes + 2) // 3, (nodes + 2) // 3)
    return simple(rows[kept] - rows[kept] // 3 - 1, cols[kept] // 3, shape)


def attachment(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """Preferential attachment: a node links to earlier ends of links (Batagelj and Brandes)."""
    each = max(1, round(links / nodes))
    ends = np.arange(2 * each * nodes)  # places whose node is looked up; even ones are known
    odd = ends[1::2]
    ends[1::2] = rng.integers(0, odd)
    while np.any(ends % 2):
        ends = ends[ends]
    return undirected(np.repeat(np.arange(nodes), each), ends[1::2] // (2 * each), nodes)


def geometric(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """Points of a square, linked if they are near."""
    points = rng.random((nodes, 2))
    radius = np.sqrt(2.0 * links / (np.pi * nodes**2))
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    return undirected(*pairs.T, nodes)


def small_world(nodes: int, links: int, rng: np.random.Generator) -> csr_array:
    """A ring of near neighbours, some links rewired (Watts and Strogatz)."""
    each = max(1, round(links / nodes))
    rows = np.repeat(np.arange(nodes), each)
    cols = (rows + np.tile(np.arange(1, each + 1), nodes)) % nodes
    moved = rng.random(rows.size) < REWIRED
    cols[moved] = rng.integers(0, nodes, int(moved.sum()))
    return undirected(rows, cols, nodes)


def airports(*_: object) -> csr_array:
    """Flights between US airports in December 2010, directed."""
    with np.load(DATA / "us_airports_2010.npz", allow_pickle=False) as file:
        size = len(file["airport"])
        apart = file["src"] != file["dst"]
        return simple(file["src"][apart], file["dst"][apart], (size, size))


def films(*_: object) -> csr_array:
    """Who rated which film: a bipartite graph of people and films."""
    with np.load(DATA / "movie_tweetings_100k.npz", allow_pickle=False) as file:
        rows, cols = file["user"].astype(int), file["item"].astype(int)
    return simple(rows, cols, (rows.max() + 1, cols.max() + 1))


FAMILIES: dict[str, Callable[..., csr_array]] = {
    "blocks": blocks,
    "directed": directed,
    "bipartite": bipartite,
    "attachment": attachment,
    "geometric": geometric,
    "small-world": small_world,
    "airports": airports,
    "films": films,
}
REAL = ("airports", "films")
AT_SIZE = ("blocks", "attachment", "geometric")  # families of larger graphs


def simple(rows: np.ndarray, cols: np.ndarray, shape: tuple[int, int]) -> csr_array:
    """The graph with these links, each once and none from a node to itself."""
    apart = (rows != cols) | (shape[0] != shape[1])
    A = csr_array((np.ones(apart.sum()), (rows[apart], cols[apart])), shape=shape)
    A.sum_duplicates()
    A.data[:] = 1.0
    return A


def undirected(rows: np.ndarray, cols: np.ndarray, nodes: int) -> csr_array:
    """The same, with each link in both directions."""
    A = simple(rows, cols, (nodes, nodes))
    A = csr_array(A + A.T)
    A.data[:] = 1.0
    return A


def hide(A: csr_array, rng: np.random.Generator) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """The graph without a tenth of its links, these links, and pairs without a link."""
    m, d = A.shape
    mirrored = m == d and (A != A.T).nnz == 0
    half = coo_array(triu(A, 1) if mirrored else A)
    rows, cols = half.row, half.col
    order = rng.permutation(rows.size)
    hidden, kept = np.split(order, [round(HIDDEN * rows.size)])
    left = csr_array((np.ones(kept.size), (rows[kept], cols[kept])), shape=A.shape)
    left = csr_array(left + left.T) if mirrored else left
    others = rng.integers(0, (m, d), (2 * min(OTHERS, 10 * hidden.size), 2))
    free = np.asarray(A[others[:, 0], others[:, 1]]).ravel() == 0
    others = others[free & ((m != d) | (others[:, 0] != others[:, 1]))][: others.shape[0] // 2]
    return left, np.stack([rows[hidden], cols[hidden]], axis=1), others


def least(run: Callable[[], object], repeats: int) -> tuple[float, object]:
    """Least time of some runs, and the last answer."""
    times, answer = [], None
    for _ in range(repeats):
        begun = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - begun)
    return min(times), answer


def area(hidden: np.ndarray, others: np.ndarray) -> float:
    """Share of pairs of a hidden link and another pair that are ordered well; ties half."""
    others = np.sort(others)
    below = [np.searchsorted(others, hidden, side) for side in ("left", "right")]
    return float(np.mean(below[0] + below[1])) / (2.0 * others.size)


def measured(family: str, nodes: int, links: int, seed: int) -> None:
    """Print one line of the table."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    LinkPredictor(random_state=0).fit(blocks(300, 1500, rng))  # imports
    A, hidden, others = hide(FAMILIES[family](nodes, links, rng), rng)
    repeats = REPEATS if max(A.shape) < SOON else 1
    unit, _ = least(lambda: svds(A, 20, rng=np.random.default_rng(0)), repeats)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds, model = least(lambda: LinkPredictor(random_state=0).fit(A), repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ratio = seconds / unit
    verdict = "reached" if ratio <= BAR else "not reached"
    auc = area(model.score_pairs(hidden), model.score_pairs(others))
    print(
        f"{family:12} {max(A.shape):>8} {A.nnz:>9} {unit:>8.3f} {seconds:>8.2f} {ratio:>6.1f}"
        f"  {model.result_.rank:>4} {auc:>7.4f} {model.result_.status.name.lower():>10}"
        f" {model.certificate_.gap / model.result_.value:>8.1e} {before:>5.2f} {peak:>5.2f}"
        f"  {verdict}",
        flush=True,
    )


def main() -> None:
    """Measure the graphs asked for, each in a process of its own."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--larger", action="store_true", help="also 9,000 and 100,000 nodes")
    options.add_argument("--large", action="store_true", help="only 1e6 nodes and 1e7 links")
    options.add_argument("--family", nargs="+", choices=FAMILIES, help="kinds of graphs")
    options.add_argument("--size", type=int, nargs=2, help="nodes and links")
    options.add_argument("--seed", type=int, default=0, help="of the graph")
    options.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    size = tuple(chosen.size or (NODES, LINKS))
    if chosen.alone:
        measured(chosen.family[0], *size, chosen.seed)
        return
    if chosen.large:
        runs = [(family, LARGE) for family in chosen.family or AT_SIZE[:2]]
    else:
        runs = [(family, size) for family in chosen.family or FAMILIES]
        if chosen.larger:
            synthetic = [f for f in chosen.family or AT_SIZE if f not in REAL]
            runs += [(family, more) for more in LARGER for family in synthetic]
    print(
        f"{'family':12} {'nodes':>8} {'stored':>9} {'svds, s':>8} {'fit, s':>8} {'ratio':>6}"
        f"  {'rank':>4} {'AUC':>7} {'status':>10} {'gap':>8} {'GB: svds':>5} fit",
        flush=True,
    )
    for family, (nodes, links) in runs:
        command = [sys.executable, __file__, "--alone", "--family", family]
        command += ["--size", str(nodes), str(links), "--seed", str(chosen.seed)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

"""Cost of a solution as a function of d and of r: ours and the best peers, in one run.

    python benchmarks/curves.py [--out docs/_static/curves]

The paper's Example 1 with tau factor 0.9, to a relative gap of 1e-4. As in `peers/`: ours is
a whole call of `minimize`, certificate included; a peer's clock stops while its points are
judged, and ends at the first one within the gap of a bound that the benchmark has proved
itself. Peers have the best setting of their grid (full-SVD ADMM of its two likeliest), found
off the clock, and 20 s. One BLAS thread for all, medians of three runs in turns (one
run where a peer takes more than 3 s), less than eight minutes altogether.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

from clock import blas_threads, machine
from instances import E1, e1
from methods import PEERS, Peer, run_peer
from ours import run_ours
from projections import Partial
from reference import Prover, Reference
from splittings import accelerated_dual
from verify import Judge, judge_of

import weakprox as wp

OUT = Path(__file__).resolve().parents[1] / "docs" / "_static" / "curves"
GAP, FACTOR, REPEATS = 1e-4, 0.9, 3
SIZES, RANK = (300, 600, 1000, 2000), 10
RANKS, SIZE = (1, 5, 10, 20, 50), 1000
LARGEST = {"ADMM": 1000, "ADMM, partial SVD": 2000, "dual, partial SVD": 2000}
OURS = "weakprox"
BUDGET, ONCE_ABOVE = 20.0, 3.0  # seconds for a peer's run, and those it is not repeated from
STYLES = {OURS: ("o-", 2.2), "ADMM": ("s:", 1.2), "ADMM, partial SVD": ("^--", 1.2)}


def bounds(one: E1, judge: Judge) -> Reference:
    """The optimum from both sides, to a tenth of the gap, without weakprox."""
    prover, begin = Prover(judge, 0.1 * GAP), time.perf_counter()
    project = Partial(one.tau, passes=6)
    prover.run(lambda see: accelerated_dual(one, project, see, rough=True), 30.0, every=15)
    return Reference(prover.value, prover.lower, time.perf_counter() - begin)


def timed_ours(one: E1, eps: float) -> float:
    """Seconds of one call, from the data to a dense X."""
    begin = time.perf_counter()
    wp.minimize(one.problem(), eps=eps, progress=False).X  # noqa: B018
    return time.perf_counter() - begin


def tuned(peer: Peer, one: E1, judge: Judge, ref: Reference) -> tuple[float, float]:
    """The best setting of a peer and its seconds, infinite if none reaches the gap."""
    best, limit = (peer.settings[0], math.inf), BUDGET
    for setting in peer.settings[:2] if peer.kind == "full" else peer.settings:
        hits = run_peer(peer, setting, one, judge, ref, [GAP], limit).hits
        if GAP in hits and hits[GAP]["seconds"] < best[1]:
            best = setting, hits[GAP]["seconds"]
            limit = max(0.2, 1.5 * best[1])
    return best


def measured(d: int, r: int) -> dict[str, Any]:
    """Median seconds of everyone on one instance."""
    one = e1(d, r, FACTOR)
    judge = judge_of(one)
    ref = bounds(one, judge)
    eps = GAP * abs(ref.lower)
    first = run_ours(one, judge, ref, GAP, BUDGET)
    if first["error"] or not first["certified"]:
        raise SystemExit(f"d = {d}, r = {r}: {first['error'] or first['status']}")
    peers = [p for p in PEERS if d <= LARGEST.get(p.name, 0)]
    settings = {p.name: tuned(p, one, judge, ref) for p in peers}
    times: dict[str, list[float]] = {OURS: []} | {p.name: [settings[p.name][1]] for p in peers}
    for k in range(REPEATS):
        times[OURS].append(timed_ours(one, eps))
        for peer in peers if k + 1 < REPEATS else []:
            setting, seconds = settings[peer.name]
            if seconds <= ONCE_ABOVE:
                hits = run_peer(peer, setting, one, judge, ref, [GAP], 3 * seconds + 1).hits
                times[peer.name].append(hits.get(GAP, {"seconds": math.inf})["seconds"])
    row = {name: statistics.median(found) for name, found in times.items()}
    told = {"d": d, "r": r, "reference_gap": ref.gap, "ours": first}
    told |= {"seconds": {k: v if math.isfinite(v) else None for k, v in row.items()}}
    print(f"d {d:5} r {r:3}, bounds {ref.gap:.0e} apart, ours {first['status']}: ", end="")
    print(", ".join(f"{name} {value:.3f} s" for name, value in row.items()), flush=True)
    return told


def draw(told: dict[str, Any], path: Path) -> None:
    """Two panels: against d, and against r."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "weakprox"
    figure, panels = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
    for axes, key, also in zip(panels, ("d", "r"), (f"r = {RANK}", f"d = {SIZE}"), strict=True):
        rows = told[f"against_{key}"]
        for name in rows[0]["seconds"]:
            at = [(row[key], row["seconds"].get(name)) for row in rows]
            style, width = STYLES.get(name, ("v-.", 1.2))
            y = [math.nan if seconds is None else seconds for _, seconds in at]
            axes.loglog([x for x, _ in at], y, style, lw=width, label=name)
        axes.set_xlabel(f"{key}   ({also})")
        axes.set_xticks([row[key] for row in rows], [str(row[key]) for row in rows])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"seconds to a gap of {GAP:g}")
    panels[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Measure, write the figures and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    args = parser.parse_args()
    told: dict[str, Any] = {"gap": GAP, "factor": FACTOR, "machine": machine()}
    begin = time.perf_counter()
    with blas_threads(1):
        timed_ours(e1(300, 2, FACTOR), 1e3)  # loads and compiles
        found = {(d, RANK): measured(d, RANK) for d in args.sizes}
        for r in args.ranks:
            if (SIZE, r) not in found:
                found[SIZE, r] = measured(SIZE, r)
    told["against_d"] = [found[d, RANK] for d in args.sizes]
    told["against_r"] = [found[SIZE, r] for r in args.ranks]
    told["seconds"] = round(time.perf_counter() - begin, 1)
    out = Path(args.out)
    out.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    draw(told, out.with_suffix(".svg"))
    print(f"written: {out}.json, .svg ({told['seconds']:.0f} s)")


if __name__ == "__main__":
    main()

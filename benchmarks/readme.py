"""Draw the two pictures of the README.

    python benchmarks/readme.py [--out docs/_static]

`estimate.png`: correlations of 500 genes in 7 human tissues (the data of `make demo`), the
sparse matrix of low rank that is found in them, and the gaps that runs of different accuracies
prove, against their time (the least of three). It takes less than a minute. `speed.png`: times
of group A of `peers/run.py`, read from `docs/_static/peers.json`; nothing is measured for it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

import weakprox as wp
from weakprox.plots import MatrixDisplay

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from demo import LAM, TAU, correlations, share_of_zeros  # noqa: E402

STATIC = ROOT / "docs" / "_static"
TOLS, REPEATS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), 3
SHOWN = 1e-4  # the accuracy of the estimate that is drawn
OURS, PEER = "#0072b2", "#b8bec6"
NAMES = {"ADMM": "ADMM, full SVD", "Dykstra": "Dykstra, full SVD"}


def estimate(path: Path) -> None:
    """Draw data, estimate and proofs side by side."""
    C, tissues = correlations()
    problem = wp.Problem(
        wp.losses.Denoising(C), wp.penalties.L1(LAM), wp.spectral.TracePSD(TAU)
    )
    runs = {tol: timed(problem, tol) for tol in TOLS}
    result = runs[SHOWN][1]
    figure, axes = plt.subplots(
        1, 3, figsize=(13.0, 3.9), layout="constrained", width_ratios=[1.2, 1.2, 1.0]
    )
    said = f"estimate: rank {result.rank}, {share_of_zeros(result.X):.0%} zeros"
    shown = (C, "data: correlations of 500 genes"), (result.X, said)
    for ax, (matrix, title) in zip(axes, shown, strict=False):
        MatrixDisplay(matrix=matrix, labels=tissues, title=title).plot(ax)
    seconds = [t for t, _ in runs.values()]
    gaps = [run.gap / run.value for _, run in runs.values()]
    axes[2].loglog(seconds, gaps, "o-", color=OURS)
    axes[2].set(
        xlabel="seconds for one call of minimize",
        ylabel="proved gap, relative to the value",
        title="certificate: each point is a proof",
    )
    axes[2].grid(True, alpha=0.25)
    save(figure, path)


def timed(problem: wp.Problem, tol: float) -> tuple[float, wp.Result]:
    """Solve a few times; return the least time and the last result, which must be proved."""
    least = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = wp.minimize(problem, tol=tol, progress=False)
        least = min(least, time.perf_counter() - begin)
        assert result.certified
    return least, result


def speed(path: Path) -> None:
    """Draw the stored times of all methods on one problem."""
    row: Any = json.loads((STATIC / "peers.json").read_text())["groups"]["A"]["rows"][0]
    reached = {name: peer["seconds"] for name, peer in row["peers"].items() if peer["seconds"]}
    times = {NAMES.get(name, name): seconds for name, seconds in reached.items()}
    times = dict(sorted(times.items(), key=lambda one: -one[1]))
    times["weakprox, with its proof"] = row["ours"]["seconds"]
    figure, ax = plt.subplots(figsize=(8.0, 2.9), layout="constrained")
    colours = [PEER] * (len(times) - 1) + [OURS]
    bars = ax.barh(list(times), list(times.values()), color=colours)
    ax.bar_label(bars, [f"{t:.2g} s" for t in times.values()], padding=4)
    ax.set_xlim(right=1.1 * max(times.values()))
    ax.set_xlabel("seconds")
    d, r = (int(word) for word in re.findall(r"[dr] = (\d+)", row["instance"]))
    what = f"{d} x {d}, rank {r}, l1 norm and nuclear norm ball"
    ax.set_title(f"{what}: time to a relative gap of {row['gap']:g}", fontsize=10)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture with few colours, which keeps the repository small."""
    figure.savefig(path, dpi=95, bbox_inches="tight", pad_inches=0.06)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=STATIC, help="folder of the pictures")
    out = parser.parse_args().out
    estimate(out / "estimate.png")
    speed(out / "speed.png")


if __name__ == "__main__":
    main()

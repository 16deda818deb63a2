"""Pages state the figures of the files in docs/_static, which the benchmarks write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
E1 = "E1, d = {}, r = {}, tau factor {}"  # an instance of peers.json


def recorded(name: str) -> Any:
    return json.loads((ROOT / "docs" / "_static" / f"{name}.json").read_text("utf-8"))


def two(*figures: float) -> str:
    """Figures with two digits, as pages state them."""
    return ", ".join(f"{float(f'{x:.2g}'):g}" for x in figures)


def stated_by_performance() -> list[str]:
    """Parts of the page that the JSON files imply."""
    curves, iteration, gpu = recorded("curves"), recorded("iteration"), recorded("gpu")
    races = recorded("peers")["groups"]
    seconds = {(x["d"], x["r"]): x["seconds"]["weakprox"] for x in curves["against_r"]}
    seconds |= {(x["d"], x["r"]): x["seconds"]["weakprox"] for x in curves["against_d"]}
    cells = [x for name in ("A", "B", "B2", "E2", "E3") for x in races[name]["rows"]]
    raced = {(x["instance"], x["gap"]): x["ours"]["seconds"] for x in cells}
    on_gpu = {(x["d"], x["tol"]): x["ms"] / 1e3 for x in gpu["rows"]}
    steps = dict(zip(*(iteration["growth"][key] for key in ("sizes", "seconds")), strict=True))
    ms = {d: two(1e3 * s) for d, s in steps.items()}
    runs = {d: f"{seconds[d, 10] / steps[d]:.0f}" for d in (1000, 2000)}
    affine, sensing = "E2, 100 x 80, 200 pieces", "E3, 40 x 40, n = 4000, lam2 = 0.05"
    return [
        f"300 x 300 | 10 | 1e-4 | {two(seconds[300, 10])} |",
        f"| 1000 x 1000 | 1, 10, 50 | 1e-4 | {two(*(seconds[1000, r] for r in (1, 10, 50)))} |",
        f"| 2000 x 2000 | 10 | 1e-4 | {two(seconds[2000, 10])} |",
        f"two BLAS threads | 10 | 1e-4 | {two(raced[E1.format(2000, 10, 0.9), 1e-4])} |",
        f"not low-rank | high | 1e-4 | {two(raced[E1.format(300, 1, 1), 1e-4])} |",
        f"not low-rank | high | 1e-4 | {two(raced[E1.format(2000, 1, 1), 1e-4])} |",
        f"100 x 80 | | 1e-4 | {two(raced[affine, 1e-4])} |",
        f"`lam2` 0.05 | | 1e-6 | {two(raced[sensing, 1e-6])} |",
        f"| low | 1e-4 | {two(recorded('scaling')['measured'][-1]['per_iteration'])} each |",
        f"| 4000 x 4000 on an H200, float32 | 10 | 1e-4 | {two(on_gpu[4000, 1e-4])} |",
        f"| 100,000 x 100,000 on an H200, float32 | 10 | 1e-4 | {two(on_gpu[100000, 1e-4])} |",
        f"{ms[1000]} ms at $d = 1000$, {ms[2000]} ms at 2000, {ms[4000]} ms at 4000 and "
        f"{ms[8000]} ms at 8000",
        f"{runs[1000]} of these iterations at $d = 1000$ and as {runs[2000]} at 2000",
        f"such a copy ran at {gpu['copy_tb']:.2f} TB/s",
    ]


def stated_by_estimators() -> list[str]:
    found: dict[tuple[str, str], Any] = {}
    for part in recorded("data").values():
        for x in part["rows"]:
            found[x["data"] + ", " + x["metric"].split(",")[1].strip(), x["method"]] = x

    def score(data: str, method: str) -> str:
        return f"{found[data, method]['score']:.3f}".lstrip("0")

    graph, low = "block graph (simulated), {}% of pairs flipped", "low rank only (lam = 0)"
    alone = "sparse only (tau = inf)"
    noisy, quiet = graph.format(30), graph.format(10)
    pixels, near = "mfeat_digits, 10 classes", "spectral, 10 nearest neighbours"
    accurate, simple = found[pixels, "SubspaceClustering"], found[pixels, near]
    hawkes, few = "simulated Hawkes, 60 nodes", "block covariance, simulated, N = 50"
    ari = found[pixels, "SubspaceClustering, automatic number"]["score"]
    return [
        f"| AUC | {score(noisy, alone)} | {score(noisy, low)} | **{score(noisy, 'both')}** |",
        f"| {score(quiet, alone)} | {score(quiet, low)} | {score(quiet, 'both')} |",
        f"| {score(few, 'l1 only')} | {score(few, 'trace only')} | "
        f"**{score(few, 'l1 + trace (ours)')}** |",
        f"| {score(hawkes, 'l1 alone')} | {score(hawkes, 'nuclear alone')} | "
        f"**{score(hawkes, 'both')}** |",
        f"{ari:.2f} on 500 digits of mfeat".lstrip("0"),
        f"takes {accurate['seconds']:.2f} s instead of {simple['seconds']:.2f} s",
    ]


def stated_by_developers() -> list[str]:
    """The bars of the map; `python benchmarks/map.py --bars` prints the same."""
    found, table = recorded("map")["cells"], []
    for device in ("cpu", "cuda"):
        cells = [x for x in found if x["device"] == device]
        low = [x["seconds"] for x in cells if x["answer"] <= max(10, 0.02 * min(x["shape"]))]
        slow, worst = sum(s > 8.0 * min(low) for s in low), max(low) / min(low)
        shares = {}
        for kind in ("solvers", "peers"):
            least = [(x["seconds"], [s for s in x[kind].values() if s]) for x in cells]
            shares[kind] = [ours / min(others) for ours, others in least if others]
        own, peers = shares["solvers"], shares["peers"]
        behind = sum(ratio > 1.5 for ratio in own)
        table.append([
            f"met: {sum(x['status'] == 'CERTIFIED' for x in cells)} of {len(cells)}",
            f"missed in {slow} of {len(low)}, at most {worst:.0f} times",
            f"missed in {sum(r > 1.0 for r in peers)} of {len(cells)}, by more than "
            f"1.5 times in {sum(r > 1.5 for r in peers)}, at most {max(peers):.1f} times",
            f"missed in {behind} of {len(own)}, at most {max(own):.1f} times"
            if behind
            else f"met: at most {max(own):.1f} times",
        ])  # fmt: skip
    return [f"| {host} | {device} |" for host, device in zip(*table, strict=True)]


@pytest.mark.parametrize(
    ("page", "stated"),
    [
        ("performance", stated_by_performance),
        ("estimators", stated_by_estimators),
        ("developers", stated_by_developers),
    ],
)
def test_pages_state_the_recorded_figures(page: str, stated: Any) -> None:
    text = " ".join((ROOT / "docs" / f"{page}.md").read_text("utf-8").split())
    assert [part for part in stated() if part not in text] == []

"""The ratios as a picture: how many times our time each peer takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

Record = dict[str, Any]
SPAN = 32.0  # ratios beyond this, either way, have the same colour


def draw(results: Record, path: Path) -> bool:
    """Heat map of all timed cells; False if there are none."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    groups = [g for g in results["groups"].values() if g["kind"] == "times"]
    rows = [row for group in groups for row in group["rows"]]
    if not rows:
        return False
    names = list(dict.fromkeys(n for row in rows for n in row["peers"]))
    colours = np.full((len(rows), len(names)), np.nan)
    texts = [["" for _ in names] for _ in rows]
    for i, row in enumerate(rows):
        for j, name in enumerate(names):
            colours[i, j], texts[i][j] = _cell(row, row["peers"].get(name))
    figure, axes = plt.subplots(figsize=(2.9 + 1.05 * len(names), 1.6 + 0.3 * len(rows)))
    limit = math.log2(SPAN)
    shown = np.ma.masked_invalid(colours)
    axes.imshow(shown, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_facecolor("#eeeeee")
    for i in range(len(rows)):
        for j in range(len(names)):
            dark = abs(colours[i, j]) > 0.6 * limit
            axes.text(
                j, i, texts[i][j], ha="center", va="center", size=7,
                color="white" if dark else "black",
            )  # fmt: skip
    axes.set_xticks(range(len(names)), names, rotation=30, ha="left", size=8)
    axes.xaxis.tick_top()
    labels = [f"{row['instance']}, gap {row['gap']:g}" for row in rows]
    axes.set_yticks(range(len(rows)), labels, size=7)
    axes.set_xticks(np.arange(len(names)) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows)) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(
        "Time over ours: purple, we are faster; orange, the peer is.\n"
        "'>': stopped there without reaching the gap.",
        size=8,
    )
    figure.savefig(path, dpi=150, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    return True


def _cell(row: Record, found: Record | None) -> tuple[float, str]:
    """Colour, as a logarithm, and text."""
    if found is None:
        return math.nan, ""
    ours = row["ours"]
    if ours["error"]:
        return -math.log2(SPAN), "error"
    if found["seconds"] is None:
        if not ours["reached"]:
            return 0.0, "neither"
        ratio = (found["tried_for"] or 0.0) / ours["seconds"]
        return _colour(ratio), f"> {_number(ratio)}"
    if not ours["reached"]:
        return -math.log2(SPAN), "not ours"
    return _colour(found["ratio"]), _number(found["ratio"])


def _colour(ratio: float) -> float:
    limit = math.log2(SPAN)
    return max(-limit, min(limit, math.log2(max(ratio, 1e-9))))


def _number(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"

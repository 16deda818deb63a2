"""Our models at automatic settings against simple methods, on real data: one table.

    python benchmarks/data/run.py                  # everything; `make bench-data`
    python benchmarks/data/run.py airports votes   # some of the sets
    python benchmarks/data/run.py --quick          # fewer splits, to see that it works

Writes OUT.json and OUT.inc (Markdown), merging with what earlier runs of other sets left.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import Row

import weakprox

OUT = Path(__file__).resolve().parents[2] / "docs" / "_static" / "data"
SETS = (
    "airports",
    "tissue",
    "covariances",
    "digits",
    "cluster_numbers",
    "votes",
    "ratings",
    "quakes",
    "block_covariance",
    "block_graph",
    "subspaces",
    "traces",
    "simulated_hawkes",
)
PACKAGES = ("numpy", "scipy", "scikit-learn")


def main() -> None:
    """Run the sets asked for and write after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), help=", ".join(SETS))
    parser.add_argument("--quick", action="store_true", help="fewer splits, smaller instances")
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    args = parser.parse_args()
    unknown = [name for name in args.sets if name not in SETS]
    if unknown:
        raise SystemExit(f"No set {', '.join(unknown)}; there are {', '.join(SETS)}.")
    out = Path(args.out)
    known = (
        json.loads(out.with_suffix(".json").read_text())
        if out.with_suffix(".json").exists()
        else {}
    )
    for name in args.sets:
        print(f"{name} ...", flush=True)
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the methods compared with
            rows = import_module(name).rows(quick=args.quick)
        known[name] = {
            "rows": [{**asdict(row), "met": row.met} for row in rows],
            "quick": args.quick,
            "seconds": round(time.perf_counter() - begin, 1),
            "date": time.strftime("%Y-%m-%d"),
            "machine": machine(),
        }
        print(table(rows), flush=True)
        write(out, known)


def machine() -> str:
    """What ran it."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    versions = f"weakprox {weakprox.__version__}, {versions}"
    return f"Python {platform.python_version()}, {versions}, {platform.machine()}"


def table(rows: list[Row]) -> str:
    """Rows as Markdown, ours in bold."""
    lines = [
        "| data | metric | method | score | seconds | asked for |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        mark = "**" if row.ours else ""
        bar = ""
        if row.bar is not None:
            sign = "≥" if row.better == "higher" else "≤"
            bar = f"{sign} {row.bar:.4g}: {'reached' if row.met else 'MISSED'}"
        score = f"{mark}{row.score:.4f}{mark} ± {row.spread:.4f}"
        note = f" ({row.note})" if row.note else ""
        cells = [row.data, row.metric, f"{mark}{row.method}{mark}{note}", score]
        lines.append(f"| {' | '.join([*cells, f'{row.seconds:.2f}', bar])} |")
    return "\n".join(lines)


def write(out: Path, known: dict[str, Any]) -> None:
    """JSON and Markdown of everything known, in the order of SETS."""
    out.parent.mkdir(parents=True, exist_ok=True)
    known = {name: known[name] for name in SETS if name in known}
    out.with_suffix(".json").write_text(json.dumps(known, indent=1) + "\n")
    parts = []
    for found in known.values():
        rows = [Row(**{k: v for k, v in row.items() if k != "met"}) for row in found["rows"]]
        told = f"{found['date']}, {found['seconds']} s in all; {found['machine']}."
        if found["quick"]:
            told += " **A quick run, to show the form only.**"
        parts.append(f"{table(rows)}\n\n{told}\n")
    out.with_suffix(".inc").write_text("\n".join(parts))


if __name__ == "__main__":
    main()

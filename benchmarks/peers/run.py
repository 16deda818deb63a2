"""weakprox against other software: times to a verified gap, as table, plot and JSON.

    python benchmarks/peers/run.py --group B --repeats 5
    python benchmarks/peers/run.py --group A,B2,E3
    python benchmarks/peers/run.py                  # the default selection of `make bench`

Results are merged, group by group, into OUT.json; OUT.inc (Markdown) and OUT.png are made
from all groups in it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

from clock import machine
from groups import DEFAULT, DEFAULT_BUDGET, GROUPS
from instances import e1
from plot import draw
from race import Options, race, say
from reference import STORE
from tables import markdown

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "docs" / "_static" / "peers"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join(GROUPS)
    parser.add_argument("--group", default="default", help=f"default, all, or some of {names}")
    parser.add_argument("--repeats", type=int, help="runs of each method (default 5)")
    parser.add_argument("--sizes", help="d, comma-separated, instead of the group's own")
    parser.add_argument("--budget", type=float, help="seconds per peer and instance")
    parser.add_argument("--ratio", type=float, default=30.0, help="stop a peer at x times ours")
    parser.add_argument("--peers", help="only these, separated by semicolons")
    parser.add_argument("--extra", action="store_true", help="also peers nobody asked for")
    parser.add_argument("--usual", action="store_true", help="peers' first setting only")
    parser.add_argument("--quick", action="store_true", help="small instances, two repeats")
    parser.add_argument("--fresh", action="store_true", help="compute the optima anew")
    parser.add_argument("--out", default=str(OUT), help="where to write, without extension")
    return parser.parse_args()


def selection(args: argparse.Namespace) -> list[tuple[str, list[int] | None]]:
    """Groups and sizes asked for."""
    sizes = [int(d) for d in args.sizes.split(",")] if args.sizes else None
    if args.group == "default":
        return [(name, None if args.quick else sizes or own) for name, own in DEFAULT]
    wanted = list(GROUPS) if args.group == "all" else args.group.split(",")
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        raise SystemExit(f"No group {', '.join(unknown)}; there are {', '.join(GROUPS)}.")
    return [(name, sizes) for name in wanted]


def main() -> None:
    """Run the groups, and write after each."""
    args = arguments()
    warnings.filterwarnings("ignore", category=FutureWarning)
    if args.fresh:
        STORE.unlink(missing_ok=True)
    usual = DEFAULT_BUDGET if args.group == "default" else 60.0
    options = Options(
        repeats=args.repeats or (2 if args.quick else 5),
        budget=args.budget or (10.0 if args.quick else usual),
        ratio=args.ratio,
        peers=args.peers.split(";") if args.peers else None,
        extra=args.extra,
        usual=args.usual,
    )
    out = Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    say("warming up: every library is loaded and used once")
    race(e1(30, 2, 0.9), [1e-3], Options(repeats=1, budget=5.0))
    for name, sizes in selection(args):
        say(f"--- {name} ---")
        facts, begun = machine(), time.perf_counter()
        group = GROUPS[name](options, args.quick, sizes)
        group |= {
            "machine": facts,
            "quick": args.quick,
            "usual": args.usual,
            "repeats": options.repeats,
        }
        group["seconds"] = round(time.perf_counter() - begun, 1)
        results = merged(out.with_suffix(".json"), name, group)
        out.with_suffix(".inc").write_text(markdown(results))
        draw(results, out.with_suffix(".png"))
        print(markdown({"groups": {name: results["groups"][name]}}))
    say(f"written: {out}.json, .inc, .png")


def merged(path: Path, name: str, group: dict[str, Any]) -> dict[str, Any]:
    """The results so far with this group's in place of its earlier ones, written."""
    groups = json.loads(path.read_text())["groups"] if path.exists() else {}
    groups[name] = json.loads(json.dumps(_plain(group)))
    results = {"groups": {key: groups[key] for key in GROUPS if key in groups}}
    path.write_text(json.dumps(results, indent=1) + "\n")
    return results


def _plain(value: Any) -> Any:
    """Without infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    main()

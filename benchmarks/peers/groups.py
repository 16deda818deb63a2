"""The groups of the benchmark: which instances, to which gaps, how long for the peers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import counts
from instances import Instance, e1, e2, e3
from race import Options, race

GAPS = [1e-2, 1e-3, 1e-4, 1e-6]
Sizes = list[int] | None


def _races(
    title: str, cases: list[tuple[Instance, list[float]]], options: Options
) -> dict[str, Any]:
    rows = [row for one, gaps in cases for row in race(one, gaps, options)]
    return {"kind": "times", "title": title, "rows": rows}


def group_a(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """X* of rank 10; peers may take 100 times as long, since the bar is 40."""
    sizes = sizes or ([200] if quick else [1000, 2000])
    options = replace(options, ratio=max(options.ratio, 100.0), clear=math.inf)
    title = "tau factor 0.9, r = 10: the optimum is of rank 10"
    return _races(title, [(e1(d, 10, 0.9), [1e-4]) for d in sizes], options)


def group_b(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """The paper's tau: X* is not low-rank."""
    sizes = sizes or ([100] if quick else [100, 300, 600])
    cases = [
        (e1(d, r, 1.0), [1e-2, 1e-4] if quick else GAPS)
        for d in sizes
        for r in ([10] if quick else [1, 10])
    ]
    title = "tau factor 1, the paper's: the optimum is not low-rank"
    return _races(title, cases, options)


def group_b2(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """The paper's tau, large."""
    sizes = sizes or ([200] if quick else [2000])
    cases = [(e1(d, 1, 1.0), [1e-4]) for d in sizes]
    return _races("tau factor 1, r = 1, large", cases, options)


def group_e2(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """Largest of affine functions."""
    options = replace(options, ratio=max(options.ratio, 1000.0), clear=math.inf)
    cases = [(e2(30, 24, 20) if quick else e2(), [1e-4])]
    return _races("Example 2: the largest of affine functions", cases, options)


def group_e3(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """Sensing with an elastic net."""
    options = replace(options, ratio=max(options.ratio, 1000.0), clear=math.inf)
    shape = {"d": 12, "n": 400} if quick else {}
    cases = [(e3(0.05, lam2, **shape), [1e-6]) for lam2 in (0.05, 0.03)]
    return _races("Example 3: sensing with an elastic net", cases, options)


def group_seeds(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """Fresh draws of every row of the groups above."""
    low, full = ([200], [100]) if quick else (sizes or [1000], sizes or [100, 300])
    cases: list[tuple[Callable[[int], Instance], float]] = [
        *((lambda seed, d=d: e1(d, 10, 0.9, seed), 1e-4) for d in low),
        *(
            (lambda seed, d=d, r=r: e1(d, r, 1.0, seed), gap)
            for d in full
            for r in (1, 10)
            for gap in ([1e-4] if quick else GAPS)
        ),
    ]
    if quick:
        cases += [(lambda seed: e3(d=12, n=400, seed=seed), 1e-6)]
    else:
        cases += [
            (lambda seed: e2(seed=seed), 1e-4),
            (lambda seed: e3(seed=seed), 1e-6),
            (lambda seed: e3(lam2=0.03, seed=seed), 1e-6),
        ]
    return counts.seeds(cases, options, fresh=2 if quick else 3)


def group_hints(options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    """Rank 20 needed; constants of Example 3."""
    d = sizes[0] if sizes else (100 if quick else 300)
    sensing = e3(d=12, n=400) if quick else e3()
    return counts.hints(e1(d, 20, 0.9), sensing, 1e-4, options)


def _counted(function: Any, options: Options, quick: bool, sizes: Sizes) -> dict[str, Any]:
    del sizes
    return function(options, quick)


GROUPS: dict[str, Callable[[Options, bool, Sizes], dict[str, Any]]] = {
    "A": group_a,
    "B": group_b,
    "B2": group_b2,
    "E2": group_e2,
    "E3": group_e3,
    "figures": partial(_counted, counts.figures),
    "noisy": partial(_counted, counts.noisy),
    "seeds": group_seeds,
    "hints": group_hints,
}

# What `make bench` runs, in less than a quarter of an hour: group and sizes.
DEFAULT: list[tuple[str, Sizes]] = [
    ("A", [1000]),
    ("B", [100, 300]),
    ("E2", None),
    ("E3", None),
    ("figures", None),
]
DEFAULT_BUDGET = 20.0

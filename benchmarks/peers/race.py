"""Ours and the peers in turns on one instance; medians of the times."""

from __future__ import annotations

import math
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

from clock import blas_threads, threads_for
from instances import Instance
from methods import Peer, peers_for, run_peer
from ours import count_all, run_ours
from reference import Reference, reference
from verify import Judge, judge_of


@dataclass(frozen=True)
class Options:
    """How long and how often.

    `ratio` stops a peer at so many times our time to the hardest gap. A gap that took a
    peer longer than `once_above` seconds in the first round, or `clear` times our time,
    is not run again.
    """

    repeats: int = 5
    budget: float = 60.0
    ratio: float = 30.0
    once_above: float = 20.0
    clear: float = 10.0
    reference_seconds: float = 60.0  # from d = 600 on three times as long
    peers: list[str] | None = None
    extra: bool = False
    usual: bool = False  # only the first setting of a peer, not the best of its grid

    def seconds_for(self, one: Instance) -> float:
        """How long the reference may take."""
        return self.reference_seconds * (3.0 if max(one.shape) >= 600 else 1.0)


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Entrant:
    """A peer in a race: times by setting and gap, and the settings that count."""

    peer: Peer
    times: dict[float, dict[float, list[float]]]
    calls: dict[float, dict[float, Any]]
    chosen: dict[float, float]  # gap -> setting
    limit: float  # seconds a setting may take
    tried: float = 0.0  # the most that one took
    best: float = math.inf
    again: frozenset[float] = frozenset()  # gaps that later rounds run it to
    failed: str | None = None


def race(one: Instance, gaps: list[float], options: Options) -> list[dict[str, Any]]:
    """Rows of results, one per gap."""
    gaps = sorted(gaps, reverse=True)
    with blas_threads(threads_for(one.shape)):
        judge = judge_of(one)
        ref = reference(one, judge, 0.01 * gaps[-1], options.seconds_for(one))
        say(f"{one.name}: f* in [{ref.lower:.10g}, {ref.value:.10g}], gap {ref.gap:.1e}")
        ours: dict[float, list[dict[str, Any]]] = {g: [] for g in gaps}
        _ours(one, judge, ref, ours, options)
        limit = _limit(ours[gaps[-1]][0], options)
        entrants = [
            _tuned(peer, one, judge, ref, {g: ours[g][0] for g in gaps}, limit, options)
            for peer in peers_for(one, options.peers, options.extra)
        ]
        for k in range(1, options.repeats):
            turns: list[Entrant | None] = [None, *entrants]
            for entrant in turns[k % len(turns) :] + turns[: k % len(turns)]:
                if entrant is None:
                    _ours(one, judge, ref, ours, options)
                else:
                    _repeat(entrant, one, judge, ref, options)
            say(f"  round {k + 1} of {options.repeats} done")
        every = {g: count_all(one, judge, ref, g, options.budget) for g in gaps}
    return [_row(one, ref, g, ours[g], every[g], entrants) for g in gaps]


def _limit(first: dict[str, Any], options: Options) -> float:
    if not first["reached"]:
        return options.budget
    return min(options.budget, max(2.0, options.ratio * first["seconds"]))


def _reached(run: dict[str, Any]) -> float:
    """Our time, without end if the gap was not reached."""
    return run["seconds"] if run["reached"] else math.inf


def _ours(
    one: Instance,
    judge: Judge,
    ref: Reference,
    runs: dict[float, list[dict[str, Any]]],
    options: Options,
) -> None:
    for g, found in runs.items():
        if found and found[0]["seconds"] > options.once_above and not found[0]["reached"]:
            continue  # out of time once is enough
        run = run_ours(one, judge, ref, g, options.budget)
        found.append(run)
        if len(found) == 1:
            mark = f"  ERROR {run['error']}" if run["error"] else ""
            say(
                f"  ours to {g:g}: {run['seconds']:.3f} s, {run['svds']} SVDs, "
                f"{run['status']}, gap {run['gap']:.1e}{mark}"
            )


def _tuned(
    peer: Peer,
    one: Instance,
    judge: Judge,
    ref: Reference,
    ours: dict[float, dict[str, Any]],
    limit: float,
    options: Options,
) -> Entrant:
    """First round: all settings of a peer, and which one is best for each gap."""
    entrant, gaps = Entrant(peer, {}, {}, {}, limit), list(ours)
    allowed, begun = limit, time.perf_counter()
    for setting in peer.settings_for(gaps, options.usual):
        left = options.budget - (time.perf_counter() - begun)
        if entrant.times and left < 0.05 * options.budget:
            break  # the settings share the budget, the likeliest ones come first
        try:
            course = run_peer(peer, setting, one, judge, ref, gaps, min(allowed, left))
        except Exception as failure:  # a peer's crash is a result, not ours to mend
            entrant.failed = f"{type(failure).__name__}: {failure}"[:120]
            continue
        entrant.best = min(entrant.best, course.best)
        entrant.tried = max(entrant.tried, course.spent)
        entrant.times[setting] = {g: [hit["seconds"]] for g, hit in course.hits.items()}
        entrant.calls[setting] = {g: hit["calls"] for g, hit in course.hits.items()}
        if gaps[-1] in course.hits:  # a setting twice as slow need not be run to its end
            last = course.hits[gaps[-1]]["seconds"]
            allowed = min(allowed, max(0.2, 2 * last))
            if peer.tolerances:
                break  # tighter ones only take longer
    for g in gaps:
        there = {s: times[g][0] for s, times in entrant.times.items() if g in times}
        if there:
            entrant.chosen[g] = min(there, key=there.__getitem__)
    entrant.again = frozenset(
        g
        for g, s in entrant.chosen.items()
        if entrant.times[s][g][0] <= min(options.once_above, options.clear * _reached(ours[g]))
    )
    reached = ", ".join(
        f"{g:g}: {entrant.times[s][g][0]:.3f} s ({s:g})" for g, s in entrant.chosen.items()
    )
    say(f"  {peer.name}: {reached or 'nothing'}; best {entrant.best:.1e}")
    return entrant


def _repeat(
    entrant: Entrant, one: Instance, judge: Judge, ref: Reference, options: Options
) -> None:
    """A later round: the settings that count, each to the gaps it counts for."""
    for setting in sorted({entrant.chosen[g] for g in entrant.again}):
        gaps = [g for g in entrant.again if entrant.chosen[g] == setting]
        limit = min(options.budget, 2 * entrant.limit)
        course = run_peer(entrant.peer, setting, one, judge, ref, gaps, limit)
        for g in gaps:
            hit = course.hits.get(g)
            entrant.times[setting][g].append(math.inf if hit is None else hit["seconds"])


def _row(
    one: Instance,
    ref: Reference,
    gap: float,
    ours: list[dict[str, Any]],
    every: int,
    entrants: list[Entrant],
) -> dict[str, Any]:
    """Medians, spreads and ratios of one cell."""
    times = [run["seconds"] for run in ours]
    median = statistics.median(times)
    errors = sorted({run["error"] for run in ours if run["error"]})
    row: dict[str, Any] = {
        "instance": one.name,
        "gap": gap,
        "reference": {"value": ref.value, "lower": ref.lower, "gap": ref.gap},
        "threads": threads_for(one.shape),
        "ours": {
            **ours[-1],
            "seconds": median,
            "spread": [min(times), max(times)],
            "runs": len(times),
            "reached": all(run["reached"] for run in ours),
            "error": "; ".join(errors) or None,
            "decompositions": every,
        },
        "peers": {},
    }
    for entrant in entrants:
        setting = entrant.chosen.get(gap)
        all_times = [] if setting is None else entrant.times[setting][gap]
        seconds = statistics.median(all_times) if all_times else math.inf
        if setting is None or math.isinf(seconds):
            found: dict[str, Any] = {"seconds": None, "best": entrant.best}
            found["tried_for"] = entrant.tried
            found["failed"] = entrant.failed
        else:
            found = {
                "seconds": seconds,
                "spread": [min(all_times), max(all_times)],
                "runs": len(all_times),
                "setting": setting,
                "calls": entrant.calls[setting].get(gap),
                "ratio": seconds / median,
            }
        usual = entrant.times.get(entrant.peer.settings[0], {}).get(gap, [None])[0]
        found |= {"kind": entrant.peer.kind, "usual_seconds": usual}
        row["peers"][entrant.peer.name] = found
    return row

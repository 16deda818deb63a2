"""The results as Markdown."""

from __future__ import annotations

import math
from typing import Any

Record = dict[str, Any]


def markdown(results: Record) -> str:
    """All groups, each as a table with what it says."""
    parts, before = [], ""
    for name, group in results["groups"].items():
        where = _where(group)
        same, before = where == before, where
        parts += [f"**{name}.** {group['title']}." + _when(group), ""]
        parts += [] if same else [where, ""]
        parts += _times(group) if group["kind"] == "times" else _counts(group)
        parts += [""]
    return "\n".join(parts)


def _when(group: Record) -> str:
    quick = " **A quick run on small instances, to show the form only.**"
    facts = group["machine"]
    load = f" {facts['date']}, load {facts['load_at_start']} at the start."
    usual = " Peers with the first setting of their grid only." if group["usual"] else ""
    return (quick if group["quick"] else "") + usual + load


def _where(group: Record) -> str:
    facts = group["machine"]
    names = ", ".join(f"{k} {v}" for k, v in facts["versions"].items())
    blas = ", ".join(facts.get("blas", []))
    return f"Machine: {facts['cores']} cores, {blas}; Python {facts['python']}, {names}."


def _times(group: Record) -> list[str]:
    names = list(dict.fromkeys(n for row in group["rows"] for n in row["peers"]))
    head = ["instance", "gap", "ours, s", "SVDs (all)", *names, "best peer / ours"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in group["rows"]:
        cells = [row["instance"], f"{row['gap']:g}", _ours(row["ours"]), _svds(row["ours"])]
        cells += [_peer(row["peers"].get(name), row["ours"]) for name in names]
        lines.append("| " + " | ".join([*cells, _best(row)]) + " |")
    return [*lines, "", summary(group)]


def _ours(ours: Record) -> str:
    if ours["error"]:
        return f"**error: {ours['error']}**"
    if not ours["reached"]:
        return f"- ({ours['status']} after {_short(ours['seconds'])}, gap {ours['gap']:.0e})"
    return (
        f"{_short(ours['seconds'])} [{_short(ours['spread'][0])}, {_short(ours['spread'][1])}]"
    )


def _svds(ours: Record) -> str:
    more = f", {ours['full_gradients']} gradients" if ours["full_gradients"] else ""
    return f"{ours['svds']} ({ours['decompositions']}){more}"


def _peer(found: Record | None, ours: Record) -> str:
    if found is None:
        return ""
    if found["seconds"] is None:
        if found.get("failed") and not _finite(found["best"]):
            return f"- ({found['failed']})"
        best = f"{found['best']:.0e}" if _finite(found["best"]) else "nothing"
        return f"- ({best} in {_short(found['tried_for'])})"
    ratio = f"{found['ratio']:.2g}x" if found["ratio"] < 10 else f"{found['ratio']:.0f}x"
    if found["ratio"] < 1 and ours["reached"]:
        ratio = f"**{ratio}**"
    once = ", one run" if found["runs"] == 1 else ""
    calls = f", {found['calls']}" if found["calls"] else ""
    return f"{_short(found['seconds'])}{calls} ({ratio}{once})"


def best_ratio(row: Record, kind: str | None = None) -> float | None:
    """Time of the best peer, of a kind if given, over ours; None if none got there."""
    ratios = [
        p["ratio"]
        for p in row["peers"].values()
        if p["seconds"] is not None and kind in (None, p["kind"])
    ]
    return min(ratios) if ratios else None


def _best(row: Record) -> str:
    if not row["ours"]["reached"]:
        return "ours not reached"
    ratio = best_ratio(row)
    if ratio is None:
        return "no peer reached it"
    text = f"{ratio:.2f}"
    return f"**{text}**" if ratio < 1 else text


def summary(group: Record) -> str:
    """Wins and losses in one sentence; ratios by kind of peer."""
    rows = group["rows"]
    cells = [best_ratio(row) if row["ours"]["reached"] else 0.0 for row in rows]
    known = [math.inf if c is None else c for c in cells]
    ahead, clear = sum(c >= 1 for c in known), sum(c >= 1.5 for c in known)
    worst = min(known)
    text = (
        f"Ours is at least as fast as the best peer in {ahead} of {len(rows)} cells, 1.5 times "
        f"as fast or more in {clear}; the least ratio is "
        + ("not finite (no peer got there)" if math.isinf(worst) else f"{worst:.2f}")
        + "."
    )
    kinds = {"package": "packages", "full": "full SVDs", "partial": "partial SVDs"}
    for kind, label in kinds.items():
        ratios = [r for row in rows if (r := best_ratio(row, kind)) is not None]
        if ratios:
            text += f" Least ratio to the best of the {label}: {min(ratios):.2f}."
    errors = [row["instance"] for row in rows if row["ours"]["error"]]
    if errors:
        text += f" **Claims of ours refuted on: {'; '.join(errors)}.**"
    return text


def _counts(group: Record) -> list[str]:
    lines = ["| " + " | ".join(group["columns"]) + " |", "|" + " --- |" * len(group["columns"])]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in group["rows"]]
    return [line.replace("|YY'|", "YY'") for line in lines] + ["", group["note"]]


def _short(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return (
        f"{seconds:.3f}"
        if seconds < 1
        else f"{seconds:.1f}"
        if seconds < 100
        else f"{seconds:.0f}"
    )


def _finite(number: Any) -> bool:
    return isinstance(number, (int, float)) and math.isfinite(number)

"""Rows of the reproduction's tables, for the page and for the terminal alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Summary = Mapping[str, Any]
Table = tuple[list[str], list[list[Any]]]
NAMES = {
    "low_rank": "1-SVD",
    "projection": "projection",
    "low_rank_sparse": "with l1",
}


def table1_table(summary: Summary) -> Table:
    """Table 1: ours, its medians and standard errors, and the paper's."""
    headers = ["c", "method"]
    for what in ("error", "nnz ratio", "rank"):
        headers += [what, "median", "s.e.", "paper"]
    rows = []
    for row in summary["rows"]:
        cells: list[Any] = [row["c"], NAMES[row["method"]]]
        for key in ("error", "nnz_ratio", "rank"):
            cells += [row[key], row[f"{key}_median"], row[f"{key}_se"], row["paper"][key]]
        rows.append(cells)
    return headers, rows


def variants_table(summary: Summary) -> Table:
    """The l1 method for every rule for lam, at two tolerances."""
    headers = ["c", "tau", "lam", "error", "median", "nnz, 0.001", "nnz, 1 %", "rank"]
    rows = [
        [
            one["c"],
            one["tau"],
            one["lam"],
            one["error"],
            one["error_median"],
            one["nnz_ratio"]["0.001"],
            one["nnz_ratio"]["0.01 of the largest"],
            one["rank"]["0.001 |y|^2"],
        ]
        for one in summary["variants"]
        if one["method"] == "low_rank_sparse" and one["noise"] == "matrix"
    ]
    return headers, rows


def methods_table(summary: Summary) -> Table:
    """Figures: work per method and accuracy, ratios to SVRGCG, and SVRGCG's epochs."""
    headers = ["accuracy", "method", "reached", "epochs", "samples", "ratio"]
    headers += ["rank-one SVDs", "ratio", "seconds", "ratio"]
    rows: list[list[Any]] = []
    for accuracy in next(iter(summary["spent"].values())):
        for method, entries in summary["spent"].items():
            entry = entries[accuracy]
            ratios = entry.get("ratio_to_SVRGCG") or {}
            epochs = epochs_run(summary, accuracy) if method == "SVRGCG" else None
            reached = f"{entry['reached']} of {entry['runs']}"
            cells: list[Any] = [accuracy, method, reached, epochs]
            for measure in ("samples", "rank_one_svds", "seconds"):
                found = [entry[measure], ratios.get(measure)]
                if not entry["exact"]:  # some runs were stopped: more would have been needed
                    found = [None if x is None else f"> {_short(x, 3)}" for x in found]
                cells += found
            rows.append(cells)
    return headers, rows


def epochs_run(summary: Summary, accuracy: str) -> str:
    """How many epochs SVRGCG began to reach an accuracy: "1", or "3 to 5" over the runs."""
    found = summary["epochs"][accuracy]
    least, most = found["least"], found["most"]
    return str(least) if least == most else f"{least} to {most}"


def exponents_table(summary: Summary) -> Table:
    """Table 2: measured exponents beside the theory's."""
    headers = [
        "method",
        "oracle rank",
        "mu",
        "samples ~",
        "s.e.",
        "theory",
        "SVDs ~",
        "s.e.",
        "theory",
    ]
    headers += ["points", "counted"]
    rows = []
    for row in summary["rows"]:
        cells: list[Any] = [row["method"], row["oracle_rank"], row["mu"]]
        for key in ("samples", "svds"):
            fit = row[key] or {"exponent": None, "standard_error": None}
            cells += [fit["exponent"], fit["standard_error"], row[f"theory_{key}"]]
        unit = row["sample_unit"].replace("_", " ")
        rows.append([*cells, len(row["accuracies"]), unit])
    return headers, rows


def ablation_table(summary: Summary) -> Table:
    """The ablation: work per instance, accuracy and arm."""
    headers = ["instance", "accuracy", "prox, gradient", "reached", "samples", "gradients"]
    headers += ["rank-one SVDs", "oracle calls", "samples by theory"]
    rows = [
        [
            row["instance"],
            row["accuracy"],
            row["arm"],
            f"{row['reached']} of {row['runs']}",
            row["samples"],
            row["gradients"],
            row["rank_one_svds"],
            row["calls"],
            row["theory_samples"],
        ]
        for row in summary["rows"]
    ]
    return headers, rows


def verdicts_table(summary: Summary) -> Table:
    """The ablation: the ratios that the paper's claim is about; none of a quick run."""
    names = {
        "instance": "instance",
        "accuracy": "accuracy",
        "samples_plain_over_reduced": "samples, plain / reduced",
        "theory_samples_plain_over_reduced": "the same by theory's schedule",
        "calls_weak_over_exact": "calls, weak / exact",
        "rank_one_svds_exact_over_weak": "rank-one SVDs, exact / weak",
    }
    rows = [[one[key] for key in names] for one in summary["verdicts"] or ()]
    return list(names.values()), rows


MAIN: dict[str, Callable[[Summary], Table]] = {
    "table1": table1_table,
    "figure1": methods_table,
    "figure2": methods_table,
    "table2": exponents_table,
    "ablation": ablation_table,
    "epochs": methods_table,
}


def tables(name: str, summary: Summary) -> Table:
    """Headers and rows of an experiment's main table."""
    return MAIN[name](summary)


def rounded(table: Table, digits: int = 3) -> Table:
    """The same with numbers as people read them; whole ones keep all their digits."""
    headers, rows = table
    return headers, [[_short(cell, digits) for cell in row] for row in rows]


def _short(cell: Any, digits: int) -> Any:
    if not isinstance(cell, float):
        return cell
    if abs(cell) >= 10 ** (digits - 1):
        return f"{cell:.0f}"
    return f"{cell:.{digits}g}"

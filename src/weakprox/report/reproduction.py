"""The report of `weakprox reproduce`: the paper's tables and figures beside ours.

The tables are used by the page and by the command line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from weakprox.plots._panels import Panel, Series
from weakprox.report.markup import Mark
from weakprox.report.mathml import number
from weakprox.report.page import Page

Summary = Mapping[str, Any]
Table = tuple[list[str], list[list[Any]]]
NAMES = {"low_rank": "1-SVD", "projection": "projection", "low_rank_sparse": "with l1"}
VERDICTS = {
    True: Mark("holds", "good"),
    False: Mark("FAILS", "bad"),
    None: Mark("not decided", "warning"),
}
RIVALS = {
    "SCG": "SCG",
    "SCGS": "SCGS",
    "SCGS convex": "SCGS, convex version (beyond the paper)",
}
GREEK = {"tau": "τ", "lam": "λ", "mu": "μ"}  # headers, which the command line prints in ASCII
TEX = {"tau": r"$\tau$", "lam": r"$\lambda$", "mu": r"$\mu$"}
AXES = {
    "samples": "stochastic gradients",
    "seconds": "seconds, drawing of samples included",
    "rank_one_svds": "rank-one SVDs",
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


def _columns(rows: Iterable[Summary], columns: Mapping[str, Any]) -> Table:
    """Headers, and the cells of each row: an entry by its name, or a function of the row."""
    return list(columns), [
        [pick(row) if callable(pick) else row[pick] for pick in columns.values()]
        for row in rows
    ]


def variants_table(summary: Summary) -> Table:
    """The l1 method for every rule for lam, at two tolerances."""
    chosen = [
        one
        for one in summary["variants"]
        if one["method"] == "low_rank_sparse" and one["noise"] == "matrix"
    ]
    columns = {
        "c": "c",
        "tau": "tau",
        "lam": "lam",
        "error": "error",
        "median": "error_median",
        "nnz, 0.001": lambda one: one["nnz_ratio"]["0.001"],
        "nnz, 1 %": lambda one: one["nnz_ratio"]["0.01 of the largest"],
        "rank": lambda one: one["rank"]["0.001 |y|^2"],
    }
    return _columns(chosen, columns)


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
                spent = entry[measure]
                found = [spent if measure == "seconds" else _count(spent), ratios.get(measure)]
                if not entry["exact"]:  # some runs were stopped, so this is a lower bound
                    found = [None if x is None else f"> {_short(x)}" for x in found]
                cells += found
            rows.append(cells)
    return headers, rows


def epochs_run(summary: Summary, accuracy: str) -> str:
    """Number of epochs SVRGCG started to reach an accuracy: "1", or "3 to 5" over the runs."""
    found = summary["epochs"][accuracy]
    least, most = found["least"], found["most"]
    return str(least) if least == most else f"{least} to {most}"


def exponents_table(summary: Summary) -> Table:
    """Table 2: measured exponents beside the theory's."""
    headers = ["method", "oracle rank", "mu", "samples ~", "s.e.", "theory"]
    headers += ["SVDs ~", "s.e.", "theory", "points", "counted"]
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
    columns = {
        "instance": "instance",
        "accuracy": "accuracy",
        "prox, gradient": "arm",
        "reached": lambda row: f"{row['reached']} of {row['runs']}",
        "samples": lambda row: _count(row["samples"]),
        "gradients": lambda row: _count(row["gradients"]),
        "rank-one SVDs": lambda row: _count(row["rank_one_svds"]),
        "oracle calls": lambda row: _count(row["calls"]),
        "samples by theory": lambda row: _count(row["theory_samples"]),
    }
    return _columns(summary["rows"], columns)


def verdicts_table(summary: Summary) -> Table:
    """The ablation: the ratios in the paper's claim; empty for a quick run."""
    columns = {
        "instance": "instance",
        "accuracy": "accuracy",
        "samples, plain / reduced": "samples_plain_over_reduced",
        "the same by theory's schedule": "theory_samples_plain_over_reduced",
        "calls, weak / exact": "calls_weak_over_exact",
        "rank-one SVDs, exact / weak": "rank_one_svds_exact_over_weak",
    }
    return _columns(summary["verdicts"] or (), columns)


MAIN: dict[str, Callable[[Summary], Table]] = {
    "table1": table1_table,
    "figure1": methods_table,
    "figure2": methods_table,
    "table2": exponents_table,
    "ablation": ablation_table,
    "epochs": methods_table,
}


def rounded(table: Table) -> Table:
    """Return the table with floats rounded to three significant digits."""
    headers, rows = table
    return headers, [[_short(cell) for cell in row] for row in rows]


def _short(cell: Any) -> Any:
    if not isinstance(cell, float):
        return cell
    return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def _shown(table: Table) -> Table:
    """The table for the page: rounded, with Greek letters and norms."""
    headers, rows = rounded(table)
    cells = [[_norms(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return [GREEK.get(name, name) for name in headers], cells


def _norms(text: str) -> str:
    """The text of a summary with its norms as they are printed."""
    return text.replace("|y|^2", "‖y‖²")


def _count(mean: Any) -> Any:
    """A mean of counts as a whole number; None stays."""
    return None if mean is None or not math.isfinite(mean) else round(mean)


def write_reproduction(directory: str | Path, summaries: Mapping[str, Summary]) -> Path:
    """Write report.html, and its plots as PNG and SVG, into an existing directory.

    Plots go to `figures` inside it; without matplotlib there are none, and the page says so.
    `summaries` is what `weakprox.experiments.run` returned.
    """
    page, directory = reproduction_page(summaries), Path(directory)
    path = page.write(directory / "report.html")
    if page.figures:
        try:
            page.save_figures(directory / "figures")
        except ModuleNotFoundError:
            page.notice("The plots are not saved as pictures: matplotlib is not installed.")
            path = page.write(path)
    return path


def reproduction_page(summaries: Mapping[str, Summary]) -> Page:
    """The page that `write_reproduction` writes."""
    quick = any(_quick(summary) for summary in summaries.values())
    title = "Low-rank and nonsmooth: the experiments of Garber & Kaplan, computed again"
    page = Page(
        f"{title} (quick run)" if quick else title,
        "AISTATS 2019, arXiv 1809.10477; by weakprox reproduce",
    )
    if quick:
        page.notice(
            "These runs are fewer and smaller than the paper's, and stopped earlier. They only "
            "show that the programs work; no conclusions can be drawn from them.",
            "warning",
            heading="A quick run:",
        )
    page.section(
        "What this is",
        [
            "The paper's Table 1, its Figures 1 and 2, its Table 2 as measured exponents, "
            "its central claim as an ablation, and a figure of our own at accuracies that "
            "take several epochs. Counts follow from a fixed seed and are the "
            "same on every machine up to rounding; seconds are this machine's.",
            "Competitors are run as their authors specify, on the same oracles and meters. "
            "Limits on work are stated, and so are the runs that reached them.",
        ],
    )
    for name, summary in summaries.items():
        if name in SECTIONS:
            SECTIONS[name](page, name, summary)
        page.attach(name, summary)
    return page


def _quick(summary: Summary) -> bool:
    return bool(summary.get("made", {}).get("quick"))


def _title(title: str, summary: Summary) -> str:
    return f"{title} (quick run)" if _quick(summary) else title


def _table1(page: Page, name: str, summary: Summary) -> None:
    protocol = summary["protocol"]
    page.section(
        _title("Table 1: three ways to denoise a sparse rank-one matrix", summary),
        f"$n = {protocol['n']}$, {protocol['draws']} draws, means with medians and standard "
        "errors. The text does not fix $\\tau$, $\\lambda$ and the tolerances; the stated "
        "choice is "
        + ", ".join(
            f"{TEX.get(k, k)} {_norms(str(v))}" for k, v in protocol["headline"].items()
        )
        + f" ($\\lambda$ {protocol['headline_lam']}).",
        math=True,
    )
    page.table(*_shown(table1_table(summary)), caption="Ours beside the paper's")
    orderings = summary["orderings"]
    if orderings is not None:
        _orderings(page, "as stated", orderings)
    page.table(
        *_shown(table1_table({"rows": summary["rows_vector_noise"]})),
        caption="The same with the noise as it is printed, from a vector $N(0, I_n)$",
        math=True,
    )
    if orderings is not None:
        _orderings(page, "with vector noise", orderings["vector_noise"])
    closest = summary["closest"]
    if closest is not None:
        page.text([closest[which]["statement"] for which in ("mean", "median")])
    page.table(
        *_shown(variants_table(summary)),
        caption="$\\lambda$ fixed for all draws, and chosen draw by draw (matrix noise)",
        note="nnz counted above 0.001, and above 0.01 of the largest entry; rank above 0.001 "
        "of $\\lVert y \\rVert^2$.",
        math=True,
    )


def _orderings(page: Page, which: str, orderings: Summary) -> None:
    claims = {
        "l1_has_smallest_error": "l1 has the smallest error",
        "l1_has_ten_times_fewer_nonzeros": "l1 has ten times fewer nonzeros than the others",
    }
    levels = list(orderings["l1_has_smallest_error"])
    page.table(
        ["claim", *(f"c = {c}" for c in levels)],
        [
            [words, *(VERDICTS[orderings[key][c]] for c in levels)]
            for key, words in claims.items()
        ],
        caption=f"Verdicts by means: {which}",
    )


def _figure(page: Page, name: str, summary: Summary) -> None:
    settings = summary["settings"]
    paper = name != "epochs"
    title = f"Figure {name[-1]}" if paper else "Several epochs"
    runs = ", ".join(f"{n} at {a}" for a, n in settings["runs"].items())
    caps = ", ".join(f"{n} at {a}" for a, n in settings["caps_on_oracle_calls"].items())
    page.section(
        _title(
            f"{title}{'' if paper else ' (not in the paper)'}: rank(Y) = {settings['rank']}",
            summary,
        ),
        [
            _epochs(summary, paper),
            f"$d = {settings['d']}$, $\\lambda = {number(settings['lam'])}$, noise "
            f"${number(settings['noise'])}$ per entry. Accuracy is relative to "
            "$\\lVert Y Y^\\top \\rVert_F^2$, measured on the original nonsmooth "
            f"objective against a proved lower bound, after every step. Runs: {runs}. Caps on "
            f"oracle calls: {caps}; a call of SVRGCG counts as {settings['oracle_rank']} "
            "rank-one SVDs. If the cap stopped runs, the work up to it is given after >.",
            "Samples are drawn as means of their exact distribution, which is equivalent to "
            "single draws for every method; the seconds include the time for drawing them one "
            "by one, as measured here. STORC and HCGM take full gradients: they use a finite "
            "sum large enough for the accuracy, and every full gradient counts all its terms.",
        ],
        math=True,
    )
    for accuracy in summary["curves"]:
        page.panels(
            f"{title} at accuracy {accuracy}",
            [
                _log_panel(label, "(f \u2212 f*) / ‖YYᵀ‖²", _curves(summary, accuracy, measure))
                for measure, label in AXES.items()
            ],
            note="Mean over runs, band from the tenth to the ninetieth percentile; a run that "
            "has ended keeps its last value.",
        )
    page.table(*_shown(methods_table(summary)), caption="Mean work to reach each accuracy")
    if summary["claim"] is not None:
        coarsest = next(iter(summary["curves"]))
        where = "1 %" if paper else f"{coarsest}, beyond the paper"
        _claim(page, summary["claim"], where)


def _log_panel(x_label: str, y_label: str, series: list[Series]) -> Panel:
    return Panel(series, x_label, y_label, log_x=True, log_y=True)


def _curves(summary: Summary, accuracy: str, measure: str) -> list[Series]:
    """One line for each method; SVRGCG is named with its number of epochs."""
    count, found = epochs_run(summary, accuracy), []
    for method, curves in summary["curves"][accuracy].items():
        curve, epochs = curves[measure], f", {count} epoch{'' if count == '1' else 's'}"
        if curve["x"]:
            name = method + (epochs if method == "SVRGCG" else "")
            found.append(Series(name, curve["x"], curve["mean"], curve["low"], curve["high"]))
    return found


def _epochs(summary: Summary, paper: bool) -> str:
    """Sentences about the number of epochs that SVRGCG ran."""
    found = summary["epochs"]
    counts = ", ".join(f"{epochs_run(summary, key)} at {key}" for key in found)
    said = f"Epochs that SVRGCG began until it was there or was stopped: {counts}."
    first = next(iter(found.values()))
    if paper and first["most"] == 1:
        said += (
            " At the paper's accuracy it ends inside its first epoch: the samples it needs "
            f"are those of the first snapshot, $k_1 = {first['k_1']:.0f}$ in the mean, and "
            "neither a doubled batch nor a later snapshot is used."
        )
    if not paper:
        said += (
            " The same methods as in Figures 1 and 2, on a smaller instance and at "
            "accuracies that need later snapshots. An oracle of the rank of Y would stall "
            f"before the finer one; the oracle's rank is {summary['settings']['oracle_rank']}."
        )
    return said


def _claim(page: Page, claim: Summary, where: str) -> None:
    """The paper's claim against each competitor: where it holds, fails or is undecided."""
    page.table(
        ["SVRGCG needs less of", *(f"than {words}" for words in RIVALS.values())],
        [
            [AXES[measure], *(VERDICTS[verdicts[rival]] for rival in RIVALS)]
            for measure, verdicts in claim.items()
        ],
        caption=f"The paper's claim at {where}: fewer samples, fewer SVDs, less time",
    )


def _table2(page: Page, name: str, summary: Summary) -> None:
    s = summary["settings"]
    page.section(
        _title("Table 2, measured: how work grows with 1/ε", summary),
        [
            "Fitted exponents $p$ in $\\text{work} \\sim (1/\\varepsilon)^p$, "
            f"$d = {s['d']}$, $\\text{{rank}}(Y) = {s['rank']}$, runs: {s['runs']}, cap "
            f"{s['cap_on_oracle_calls']} oracle calls. Fixed "
            f"$\\mu = {number(s['fixed_mu'])}$ on the smoothed objective; tied "
            "$\\mu = \\varepsilon / (2 \\gamma)$ on the original one. In theory's "
            "columns 0 stands for a logarithm.",
            "Theory bounds the worst case: measured exponents below it do not contradict it. "
            "Samples of SVRGCG come in epochs that double, so its fit rests on few points.",
        ],
        math=True,
    )
    page.table(
        *_shown(exponents_table(summary)), caption="Exponents, with standard errors of the fit"
    )
    for mu in ("fixed", "tied"):
        rows = [row for row in summary["rows"] if row["mu"] == mu and row["accuracies"]]
        page.panels(
            f"Work against accuracy, μ {mu}",
            [
                _log_panel(
                    "1/ε (relative)",
                    label,
                    [
                        Series(row["method"], [1 / a for a in row["accuracies"]], row[key])
                        for row in rows
                    ],
                )
                for label, key in (
                    ("samples, or full gradients", "mean_samples"),
                    ("oracle calls", "mean_svds"),
                )
            ],
        )


def _ablation(page: Page, name: str, summary: Summary) -> None:
    page.section(
        _title("What does the work: the weak oracle, or variance reduction?", summary),
        [
            "Four arms with the same parameters. Plain: fresh samples at every step, as many "
            "as the same bound needs. Exact: a full decomposition and a proximal gradient "
            "step instead of the weak oracle's.",
            "The last column is what the theorem's schedule would draw if it were run to its "
            "end, rather than to the moment the accuracy is reached.",
        ],
    )
    page.table(*_shown(ablation_table(summary)), caption="Mean work to reach each accuracy")
    if summary["verdicts"] is None:
        return
    page.table(
        *_shown(verdicts_table(summary)),
        caption="The claim in numbers",
        note="Above 1 in the first two: variance reduction saves samples. About 1 in the next: "
        "the weak oracle is called no more often than an exact one.",
    )


SECTIONS: dict[str, Callable[[Page, str, Summary], None]] = {
    "table1": _table1,
    "figure1": _figure,
    "figure2": _figure,
    "table2": _table2,
    "ablation": _ablation,
    "epochs": _figure,
}

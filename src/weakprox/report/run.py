"""The report of one run as a web page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.plots import ConvergenceDisplay
from weakprox.plots._cells import Reduced, colour_limit, support
from weakprox.plots.convergence import AXES
from weakprox.problem import Problem
from weakprox.report.page import Page
from weakprox.report.summary import Gathered, gather, verdict
from weakprox.result import Result

FAINT = 0.3  # an answer smaller than this share of the data gets its own colour scale


def write_report(
    path: str | Path,
    result: Result,
    *,
    problem: Problem | None = None,
    data: Any = None,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    figures: str | Path | None = None,
) -> Path:
    """Write the answer of a run, its certificate and its history as one HTML file.

    Parameters
    ----------
    path : str or Path
        File to write; an existing one is replaced once the new one is complete.
    result : Result
        What `weakprox.minimize` returned.
    problem : Problem, optional
        The problem that was solved, to be stated in the report.
    data : array, memory map or sparse matrix of shape (m, d), optional
        The matrix that was observed, drawn beside the answer, with the residual.
    rows, columns : sequence of str, optional
        Labels, shown beside the heat maps and under the pointer.
    settings : mapping, optional
        Anything else worth recording: the command, file names.
    figures : str or Path, optional
        Directory for every plot as PNG and SVG as well; needs matplotlib.

    Returns
    -------
    Path
        The file written.
    """
    found = gather(
        result, problem=problem, data=data, rows=rows, columns=columns, settings=settings
    )
    numbers, said = found.numbers, verdict(result)
    m, d = numbers["shape"]
    page = Page(f"{result.solver} on {m} x {d}", subtitle=f"weakprox {numbers['weakprox']}")
    page.attach("report", numbers)
    page.section("Accuracy of the answer")
    page.notice(said.sentences[0], said.kind, said.heading)
    page.text(said.sentences[1:])
    _key_figures(page, result, numbers)
    _problem(page, numbers)
    _matrices(page, result, found, rows, columns)
    _history(page, result)
    if figures is not None:
        page.save_figures(figures)
    return page.write(path)


def _key_figures(page: Page, result: Result, numbers: Mapping[str, Any]) -> None:
    about = " (estimate)" if result.sampled else ""
    counts = numbers["counts"]
    facts: dict[str, Any] = {
        f"value{about}": numbers["value"],
        "proved gap": numbers["gap"],
        "requested gap (eps)": numbers["eps"],
        "rank": numbers["rank"],
        "entries above 1e-3 of the largest": numbers["nonzeros"],
        "number of entries": numbers["entries"],
        "constraint violation": numbers["violation"],
        "seconds": numbers["seconds"],
        "thin SVDs": counts["svds"],
        "rank-one SVDs": counts["rank_one_svds"],
        "samples": counts["samples"],
        "gradients": counts["gradients"],
    }
    if "residual_norm" in numbers:
        facts["norm of the data"] = numbers["data_norm"]
        facts["norm of the residual"] = numbers["residual_norm"]
        facts["relative residual"] = numbers["relative_residual"]
    page.section("Key figures")
    page.facts(facts)


def _problem(page: Page, numbers: Mapping[str, Any]) -> None:
    page.section("Problem and settings")
    stated = numbers["problem"]
    facts: dict[str, Any] = {"solver": numbers["solver"], "seed": numbers["seed"]}
    if stated is not None:
        page.text(stated["formula"][0].upper() + stated["formula"][1:] + ".")
        facts |= stated["weights"]
        facts["loss"] = stated["loss"]
    page.facts(facts | numbers["settings"])
    if numbers["parameters"]:
        page.text("Parameters that the solver used:")
        page.facts(numbers["parameters"])


def _matrices(
    page: Page,
    result: Result,
    found: Gathered,
    rows: Sequence[Any] | None,
    columns: Sequence[Any] | None,
) -> None:
    page.section(
        "Matrices",
        "Red entries are positive, blue ones negative. Point to read a cell, drag to zoom.",
    )

    def draw(title: str, matrix: Reduced, **options: Any) -> None:
        page.heatmap(title, matrix, rows, columns, **options)

    if found.data is not None and found.residual is not None:
        scale, own = colour_limit(found.data.cells), colour_limit(found.estimate.cells)
        # Penalties shrink X: on the data's scale, a much smaller answer would be all white.
        faint = own < FAINT * scale
        same = "Colours as for the data."
        note = "Colours have their own scale." if faint else same
        draw("Data", found.data, limit=scale)
        draw("Answer", found.estimate, limit=own if faint else scale, note=note)
        draw("Residual: data minus answer", found.residual, limit=scale, note=same)
    else:
        draw("Answer", found.estimate)
    shown = replace(found.estimate, cells=support(found.estimate.cells).astype(float))
    count, entries = found.numbers["nonzeros"], found.numbers["entries"]
    share = (
        f"{count} of {entries} entries ({count / entries:.2%}) are above 1e-3 of the largest."
    )
    draw("Support of the answer", shown, binary=True, note=share)
    page.stems(
        "Singular values",
        found.numbers["singular_values"],
        y_label="singular value",
        note=f"The singular values of the answer sum to {result.low_rank.nuclear_norm:.6g}.",
    )


def _history(page: Page, result: Result) -> None:
    """Value, bound and gap against SVDs, seconds and samples, as far as each was used."""
    trace = result.trace
    page.section("History of the run")
    if len(trace) == 0:
        page.text("The run ended before its first evaluation, so there is nothing to draw.")
        return
    display = ConvergenceDisplay._of(result)
    used = [name for name in AXES if np.any(trace[name] > 0)] or ["svds"]
    proved = result.certificate.proves and not result.sampled
    page.panels(
        "Value" + (" (estimated from samples)" if result.sampled else ""),
        [display._panel(name, "value") for name in used],
        note="The lower bound is the best one proved by then." if proved else None,
    )
    if proved:
        page.panels(
            "Gap",
            [display._panel(name, "gap") for name in used],
            note="Value minus the best bound of the whole run, and minus the best bound at the "
            "time. The true distance from the optimum is smaller.",
        )

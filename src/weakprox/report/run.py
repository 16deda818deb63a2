"""The report of one run as a web page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.problem import Problem
from weakprox.report.convergence import add_convergence
from weakprox.report.page import Page
from weakprox.report.reduce import SUPPORT, Reduced, colour_limit
from weakprox.report.summary import Gathered, gather
from weakprox.report.words import verdict
from weakprox.result import Result

FAINT = 0.3  # an answer smaller than this share of the data gets colours of its own


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
    """Write what a run found, how good it is and how it got there, as one HTML file.

    Parameters
    ----------
    path : str or Path
        Where to; an existing file is replaced once the new one is complete.
    result : Result
        What `weakprox.minimize` returned.
    problem : Problem, optional
        What was solved, to be stated in the report.
    data : array, memory map or sparse matrix of shape (m, d), optional
        The matrix that was observed, drawn beside the answer, with what is left over.
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
    page = run_page(result, found, rows, columns)
    if figures is not None:
        page.save_figures(figures)
    return page.write(path)


def run_page(
    result: Result,
    found: Gathered,
    rows: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
) -> Page:
    """The page that `write_report` writes."""
    numbers = found.numbers
    m, d = numbers["shape"]
    page = Page(f"{result.solver} on {m} x {d}", subtitle=f"weakprox {numbers['weakprox']}")
    page.attach("report", numbers)
    _certificate(page, result)
    _key_figures(page, result, numbers)
    _problem(page, numbers)
    _matrices(page, result, found, rows, columns)
    add_convergence(page, result)
    return page


def _certificate(page: Page, result: Result) -> None:
    said = verdict(result)
    page.section("How good the answer is")
    page.notice(said.sentences[0], said.kind, said.heading)
    page.text(said.sentences[1:])


def _key_figures(page: Page, result: Result, numbers: Mapping[str, Any]) -> None:
    about = " (estimate)" if result.sampled else ""
    counts = numbers["counts"]
    facts: dict[str, Any] = {
        f"value{about}": numbers["value"],
        "proved gap": numbers["gap"],
        "gap asked for (eps)": numbers["eps"],
        "rank": numbers["rank"],
        "entries above 1e-3 of the largest": numbers["nonzeros"],
        "of all entries": numbers["entries"],
        "infeasible by": numbers["violation"],
        "seconds": numbers["seconds"],
        "thin SVDs": counts["svds"],
        "rank-one SVDs": counts["rank_one_svds"],
        "samples": counts["samples"],
        "gradients": counts["gradients"],
    }
    if "residual_norm" in numbers:
        facts["norm of the data"] = numbers["data_norm"]
        facts["norm of what is left over"] = numbers["residual_norm"]
        facts["left over, relative"] = numbers["relative_residual"]
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
        page.text("What the solver worked out and used:")
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
        "Warm colours are positive, blue ones negative. Point to read a cell, drag to zoom.",
    )

    def draw(title: str, matrix: Reduced, **options: Any) -> None:
        page.heatmap(title, matrix, rows, columns, **options)

    if found.data is not None and found.residual is not None:
        scale, own = colour_limit(found.data.cells), colour_limit(found.estimate.cells)
        # Penalties shrink: on the data's scale a much smaller answer would be all white.
        faint = own < FAINT * scale
        draw("Data", found.data, limit=scale)
        draw(
            "Answer",
            found.estimate,
            limit=own if faint else scale,
            note="Colours have a scale of their own." if faint else "Colours as for the data.",
        )
        draw(
            "Left over: data minus answer",
            found.residual,
            limit=scale,
            note="Colours as for the data.",
        )
    else:
        draw("Answer", found.estimate)
    size = np.abs(found.estimate.cells)
    shown = (size > SUPPORT * size.max()) & (size > 0)
    support = Reduced(
        shown.astype(float), found.estimate.row_edges, found.estimate.column_edges
    )
    count, entries = found.numbers["nonzeros"], found.numbers["entries"]
    share = (
        f"{count} of {entries} entries ({count / entries:.2%}) are above 1e-3 of the largest."
    )
    draw("Support of the answer", support, binary=True, note=share)
    page.stems(
        "Singular values",
        found.numbers["singular_values"],
        y_label="singular value",
        note=f"Those of the answer add up to {result.low_rank.nuclear_norm:.6g}.",
    )

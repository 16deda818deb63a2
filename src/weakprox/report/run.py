"""The report of one run, as a web page and as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.display import counted
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Array, is_array, to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.plots import ConvergenceDisplay, MatrixDisplay, SpectrumDisplay, _cells
from weakprox.plots._cells import Reduced, colour_limit
from weakprox.plots._display import matplotlib_for
from weakprox.plots._panels import GREY, Panel, Series, draw_panel
from weakprox.plots.convergence import AXES
from weakprox.plots.spectrum import SUPPORT
from weakprox.problem import Problem
from weakprox.report.citation import BIBTEX
from weakprox.report.page import Page
from weakprox.report.statement import in_words, statement, words
from weakprox.report.structure import MOST_POINTS
from weakprox.report.summary import Gathered, gather, proved, verdict
from weakprox.result import Result
from weakprox.storage.table import FileError, as_path
from weakprox.theory._theorems import MEANINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Matrix = np.ndarray[Any, np.dtype[np.floating[Any]]]
SUFFIXES = (".html", ".htm")
FAINT = 0.3  # an estimate smaller than this share of the data gets its own colour scale


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
    title: str | None = None,
    scale: float = 1.0,
    noise: float | None = None,
) -> Path:
    """Write the estimate of a run, its certificate and its history as one HTML file.

    Parameters
    ----------
    path : str or Path
        File to write; an existing one is replaced once the new one is complete.
    result : Result
        What `weakprox.minimize` returned.
    problem : Problem, optional
        The problem that was solved, to be stated in the report.
    data : array, memory map or sparse matrix of shape (m, d), optional
        The matrix that was observed, drawn beside the estimate, with the residual.
    rows, columns : sequence of str, optional
        Labels, shown beside the heat maps and under the pointer.
    settings : mapping, optional
        Further settings to record, such as "file", the name of the data.
    figures : str or Path, optional
        Directory to which every plot is also written, as PNG and SVG; needs matplotlib.
    title : str, optional
        Title of the page; by default the name of the file in `settings["file"]`.
    scale : float
        Factor by which the estimate differs from the minimiser, such as `scale_` of
        `SparseLowRank`, which undoes the shrinkage. Pictures, singular values, residual and
        explained variance are those of the estimate; value and proof are those of the
        minimiser.
    noise : float, optional
        Standard deviation of the noise in an entry; by default estimated from the data if
        they have no more than 2**22 entries, all of them observed.

    Returns
    -------
    Path
        The file written.
    """
    suffix = as_path(path).suffix
    if suffix.lower() not in SUFFIXES:
        given = f"the suffix '{suffix}'" if suffix else "no suffix"
        raise FileError(path, given, "a name with .html: a report is a web page")
    labels: Any = {"rows": rows, "columns": columns}
    model: Any = {"problem": problem, "data": data, "scale": scale, "noise": noise}
    found = gather(result, **model, **labels, settings=settings)
    numbers, (m, d) = found.numbers, result.low_rank.shape
    file = (settings or {}).get("file")
    if title is None and file:
        title = Path(str(file)).name
    title = title or f"Estimate of a matrix of {m} x {d}"
    page = begun(title, "an estimate", found, result, _facts(numbers))
    if found.point is not result.low_rank:
        page.text(_difference(result.low_rank, found))
    add_components(page, numbers)
    add_matrices(page, found, rows, columns)
    add_residuals(page, found)
    add_run(page, problem, result, numbers)
    if figures is not None:
        page.save_figures(figures)
    return page.write(path)


def begun(
    title: str, what: str, found: Gathered, result: Result, facts: dict[str, Any]
) -> Page:
    """A page that begins with a box of these facts and the proof, and the verdict."""
    said = verdict(result)
    page = Page(title, f"Report of {what} by weakprox {found.numbers['weakprox']}")
    page.attach("report", found.numbers)
    page.section("Result")
    page.facts(facts | {"proof": proved(result)}, kind="key")
    page.notice(" ".join(said.sentences), said.kind, said.heading)
    return page


def add_run(
    page: Page, problem: Problem | None, result: Result, numbers: Mapping[str, Any]
) -> None:
    """The problem, the accuracy, the history, and how to cite."""
    _add_problem(page, problem, numbers)
    _add_accuracy(page, result, numbers)
    _add_history(page, result)
    page.section("How to cite", "weakprox, and the paper whose algorithms it implements:")
    page.code(BIBTEX)


def _difference(minimiser: LowRank, found: Gathered) -> str:
    """The difference between the estimate and the minimiser, in words."""
    s, mine = to_numpy(minimiser.s), to_numpy(found.point.s)
    if not found.numbers["factored"]:
        return (
            "The estimate is that of the model, which has other parts than the low-rank "
            f"minimiser, here of rank {minimiser.rank}. The proof is about the minimiser."
        )
    how = "differs from the minimiser: the shrinkage of the penalty is undone."
    if s.shape == mine.shape and s.any():
        factor = float(mine.max() / s.max())
        if np.allclose(mine, factor * s, rtol=1e-6, atol=0.0):
            how = f"is the minimiser multiplied by {factor:.4g}, which undoes the shrinkage "
            how += "of the penalty."
    return f"The estimate {how} The proof is about the minimiser."


def _facts(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The facts in the first box."""
    m, d = numbers["shape"]
    facts: dict[str, Any] = {
        "estimated": f"{numbers['estimated']}, {m} x {d}",
        "rank" if numbers["factored"] else "rank of the minimiser": numbers["rank"],
        "share of zeros": f"{100 * numbers['share_of_zeros']:.1f} %",
    }
    if numbers.get("variance_explained") is not None:
        facts["variance explained"] = f"{100 * numbers['variance_explained']:.1f} %"
    if numbers["noise"] is not None:
        facts["noise, standard deviation"] = f"{numbers['noise']:.3g}"
    return facts


def add_components(page: Page, numbers: Mapping[str, Any]) -> None:
    """The leading singular triplets, and the largest entries."""
    found = numbers["components"]
    page.section("Components")
    if not found:
        page.text("The estimate is zero and has no components.")
        return

    def loads(pairs: Sequence[tuple[str, float]]) -> str:
        return ", ".join(f"{name} ({load:+.2f})" for name, load in pairs)

    rest = int(np.count_nonzero(numbers["singular_values"]["estimate"])) - len(found)
    further = f" Not listed: {counted(rest, 'further component')}." if rest > 0 else ""
    if not numbers["factored"]:
        further = " Further components are not listed."
    page.table(
        ["component", "singular value", "share", "rows", "columns"],
        [
            [
                one["number"],
                f"{one['singular_value']:.4g}",
                f"{100 * one['share']:.1f} %",
                loads(one["rows"]),
                loads(one["columns"]),
            ]
            for one in found
        ],
        caption="Components, with the rows and columns that load most on each",
        stacked=True,
        note="Loads are entries of the singular vectors; shares are of the sum of squares of "
        "the estimate." + further,
    )
    entries = numbers["largest_entries"]
    names = [name for name in ("row", "column", "estimate", "residual") if name in entries[0]]
    page.table(
        names,
        [
            [f"{one[n]:.4g}" if isinstance(one[n], float) else one[n] for n in names]
            for one in entries
        ],
        caption="Largest entries of the estimate",
    )


def add_residuals(page: Page, found: Gathered) -> None:
    """Residuals against the fit, and their spectrum against that of noise."""
    if found.scatter is None:
        return
    page.section("Residuals")
    numbers, (x, y) = found.numbers, found.scatter
    part = f"{len(x)} of {numbers['entries']} entries, drawn at random. "
    page.lines(
        "Residual against fit",
        [Series("entries", x, y, points=True)],
        "estimate",
        "data minus estimate",
        note=(part if numbers["entries"] > MOST_POINTS else "")
        + "A rising trend means that the estimate is still shrunk, a falling one that it is "
        "too large, and a curve that the model does not fit.",
    )
    values = numbers["singular_values"]
    residual, law = values["residual"], values.get("noise")
    if residual is None:
        return
    order = np.arange(1, len(residual) + 1)
    series = [Series("residual", order, residual)]
    if law is not None:
        series.append(Series("pure noise", order, law, dashed=True))
    page.lines(
        "Singular values of the residual",
        series,
        "index",
        "singular value",
        note=None
        if law is None
        else f"Pure noise has standard deviation {numbers['noise']:.3g} in each entry. Values "
        "above its line are structure that the estimate leaves out.",
    )


def _add_accuracy(page: Page, result: Result, numbers: Mapping[str, Any]) -> None:
    """The certificate in the units of the objective, and the work."""
    about = " (estimate)" if result.sampled else ""
    counts = numbers["counts"]
    page.section("Accuracy and work", str(result.certificate))
    facts: dict[str, Any] = {
        f"value{about}": numbers["value"],
        "lower bound on the optimum": numbers["certificate"]["lower_bound"],
        "proved gap": numbers["gap"],
        "requested gap (eps)": numbers["eps"],
        "constraint violation": numbers["violation"],
        "how the run ended": numbers["status"]["label"],
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
    page.facts(facts)


def _add_problem(page: Page, problem: Problem | None, numbers: Mapping[str, Any]) -> None:
    """The problem as formulas, and the settings."""
    page.section("Problem and settings")
    if problem is not None:
        stated = statement(problem)
        page.formulas([("minimise", stated.objective), ("over", stated.domain)])
        page.letters(stated.where)
    facts: dict[str, Any] = {"solver": numbers["solver"], "seed": numbers["seed"]}
    settings = in_words(numbers["settings"])
    if problem is not None and not {"lam", "tau"} & numbers["settings"].keys():
        facts |= numbers["problem"]["weights"]
    page.facts(facts | settings)
    # without the absolute accuracy if a relative one was requested
    parameters = {k: v for k, v in numbers["parameters"].items() if k != "eps" or v}
    if parameters:
        page.table(
            ["letter", "value", "meaning"],
            [[name, words(value), MEANINGS.get(name)] for name, value in parameters.items()],
            caption="Parameters that the solver used",
        )


def add_matrices(
    page: Page,
    found: Gathered,
    rows: Sequence[Any] | None,
    columns: Sequence[Any] | None,
    *,
    support: bool = True,
) -> None:
    """Data, estimate and residual, the support of the estimate, and singular values."""
    page.section(
        "Matrices",
        "Red entries are positive, blue ones negative. Point to read a cell, drag to zoom; "
        "all matrices zoom together.",
    )

    def draw(title: str, matrix: Reduced, **options: Any) -> None:
        page.heatmap(title, matrix, rows, columns, linked="matrices", **options)

    if found.data is not None:
        scale, own = colour_limit(found.data.cells), colour_limit(found.estimate.cells)
        # Penalties shrink X: on the data's scale, a much smaller one would be all white.
        faint = own < FAINT * scale
        same = "Colours as for the data."
        note = "Colours have their own scale." if faint else same
        draw("Data", found.data, limit=scale)
        draw("Estimate", found.estimate, limit=own if faint else scale, note=note)
        if found.residual is not None:
            draw("Data minus estimate", found.residual, limit=scale, note=same)
    else:
        draw("Estimate", found.estimate)
    if support:
        shown = replace(
            found.estimate, cells=_cells.support(found.estimate.cells).astype(float)
        )
        count, entries = found.numbers["nonzeros"], found.numbers["entries"]
        part = f"{count} of {entries} entries ({100 * count / entries:.1f} %)"
        share = f"{part} are above 1e-3 of the largest."
        draw("Support of the estimate", shown, binary=True, note=share)
    values = found.numbers["singular_values"]
    page.stems(
        "Singular values",
        {name: values[name] for name in ("estimate", "data") if name in values},
        y_label="singular value",
        note=f"The singular values of the estimate sum to {sum(values['estimate']):.6g}."
        if found.numbers["factored"]
        else f"The {len(values['estimate'])} largest.",
    )


def _add_history(page: Page, result: Result) -> None:
    """Value, bound and gap against the numbers of SVDs, seconds and samples that were used."""
    trace = result.trace
    page.section("History of the run")
    if len(trace) == 0:
        page.text("The run ended before its first evaluation, so there is nothing to draw.")
        return
    display = ConvergenceDisplay._of(result)
    used = [name for name in AXES if np.any(trace[name] > 0)] or ["svds"]
    proved = result.certificate.proves and not result.sampled

    def panels(kind: str) -> list[Panel]:
        return [
            replace(display._panel(name, kind), linked=name, whole_x=name != "seconds")
            for name in used
        ]

    page.panels(
        "Value" + (" (estimated from samples)" if result.sampled else ""),
        panels("value"),
        note="The lower bound is the best one proved by then." if proved else None,
    )
    if proved:
        page.panels(
            "Gap",
            panels("gap"),
            note="Value minus the best bound of the whole run, and minus the best bound at the "
            "time. The true distance from the optimum is smaller.",
        )


def overview(
    result: Result, data: Array | None = None, labels: Sequence[str] | None = None
) -> Figure:
    """Draw the answer, its singular values, its support and the history of the run.

    Parameters
    ----------
    result : Result
        What `weakprox.minimize` returned.
    data : array of shape (m, d), optional
        The matrix that was observed, drawn beside the answer.
    labels : sequence of str, optional
        One per row. Neighbours with the same label are marked as one block, on the
        columns too if X is square.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with `figure.savefig("picture.png")`.
    """
    plt = matplotlib_for("overview").pyplot
    if not isinstance(result, Result):
        raise InputError("result", type(result).__name__, "what weakprox.minimize returned")
    X, M = np.asarray(to_numpy(result.X), dtype=float), None
    if data is not None:
        if not is_array(data) or tuple(data.shape) != X.shape:
            given = getattr(data, "shape", type(data).__name__)
            raise ShapeError("data", given, f"an array of shape {X.shape}")
        M = np.asarray(to_numpy(data), dtype=float)
    if labels is not None and len(labels) != X.shape[0]:
        raise ShapeError("labels", f"{len(labels)} of them", f"{X.shape[0]}, one per row")

    figure: Figure = plt.figure(figsize=(13.0, 7.6), layout="constrained")
    top = ["answer", "support", "sizes"] if M is None else ["data", "answer", "support"]
    low = ["run", "run", "values"] if M is None else ["run", "values", "sizes"]
    mosaic: list[Any] = [top, low]
    axes = figure.subplot_mosaic(mosaic, height_ratios=[1.25, 1.0])
    answer = f"the answer, rank {result.rank}"
    for name, matrix, title in (("data", M, "the data"), ("answer", X, answer)):
        if matrix is not None:
            MatrixDisplay(matrix=matrix, labels=labels, title=title).plot(axes[name])
    spectrum = SpectrumDisplay(values=to_numpy(result.low_rank.s), matrix=X, labels=labels)
    spectrum.plot(axes["support"], kind="support")
    spectrum.plot(axes["values"])
    ConvergenceDisplay.from_result(result, ax=axes["run"])
    axes["run"].set_title("history of the run")
    _entry_sizes(axes["sizes"], {"data": M, "answer": X})
    m, d = X.shape
    figure.suptitle(f"{result.solver} on {m} x {d}: {result.status.label}")
    return figure


def _entry_sizes(ax: Any, matrices: dict[str, Matrix | None]) -> None:
    """Draw the share of entries above any threshold, which shows sparsity for all of them."""
    thresholds, lines = np.geomspace(1e-4, 1.0, 81), []
    for name, matrix in matrices.items():
        if matrix is not None:
            size = np.sort(np.abs(matrix[np.isfinite(matrix)]))
            above = size.size - np.searchsorted(size, thresholds * size[-1], side="right")
            lines.append(Series(name, thresholds, above / size.size))
    label, title = "threshold, relative to the largest entry", "entries above a threshold"
    draw_panel(ax, Panel(lines, label, "share", title, log_x=True, y_range=(0.0, 1.02)))
    ax.axvline(SUPPORT, color=GREY, linestyle=":", linewidth=1.0)
    ax.legend(fontsize="small")

"""The report of a matrix completion: what was observed, what is explained, and the proof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from weakprox.display import counted
from weakprox.estimators._entries import read_observations
from weakprox.losses import Completion
from weakprox.losses.entry_losses import is_squared, threshold_of
from weakprox.problem import Problem
from weakprox.report import run
from weakprox.report.page import Page
from weakprox.report.summary import gather
from weakprox.spectral import NuclearNorm

if TYPE_CHECKING:
    from weakprox.estimators import MatrixCompletion

Vector = np.ndarray[Any, np.dtype[Any]]
COLUMNS = {  # of the table of the search
    "param_lam": "lam",
    "param_intercept_ridge": "ridge",
    "param_scaling": "scaling",
    "mean_test_score": "held-out error",
}


def write_completion_report(
    path: str | Path,
    model: MatrixCompletion,
    observed: tuple[Any, Any, Any],
    *,
    title: str,
    labels: tuple[Any, Any],
    settings: Mapping[str, Any],
) -> Path:
    """Write a fitted model as one HTML file.

    `observed` are the rows, columns and values that it was fitted to, or a matrix and None
    twice. `labels` are the names of rows and of columns, or None.
    """
    seen = read_observations(model, *observed, (None, None, None), fitted=model._column_ids)
    rows, columns, values = seen.rows, seen.columns, seen.values
    shape = len(model.row_ids_), len(model.column_ids_)
    loss = Completion(
        rows,
        columns,
        values,
        shape,
        loss=model.loss_,
        intercepts=model.intercepts,
        intercept_ridge=model.intercept_ridge_,
        scaling=model.scaling_,
    )
    problem = Problem(loss, None, NuclearNorm(model.lam_))
    result, (m, d) = model.result_, shape
    additive = threshold_of(model.loss_) is not None
    left = values - model.intercept_
    left = left - model.row_intercepts_[rows] - model.column_intercepts_[columns]
    data = _means(rows, columns, left, shape) if additive else None
    found = gather(
        result, problem=problem, data=data, rows=labels[0], columns=labels[1], settings=settings
    )
    parts = " plus intercepts" if model.intercepts != "none" else ""
    facts: dict[str, Any] = {
        "estimated": f"low-rank matrix{parts}, {m} x {d}",
        "observed": f"{counted(len(values), 'entry', 'entries')} "
        f"({100 * len(values) / (m * d):.3g} %)",
        "rank": model.rank_,
    }
    if additive:
        facts["variance explained"] = f"{100 * _explained(model, rows, columns, values):.1f} %"
    error = _held_out(model)
    if error is not None:
        facts["error of held-out entries"] = error
    page = run.begun(title, "a matrix completion", found, result, facts)
    page.text(_what_is_shown(model, additive))
    run.add_components(page, found.numbers)
    run.add_matrices(page, found, *labels, support=False)
    run.add_residuals(page, found)
    _search(page, model)
    run.add_run(page, problem, result, found.numbers)
    return page.write(path)


def _means(rows: Vector, columns: Vector, values: Vector, shape: tuple[int, int]) -> Any:
    """A sparse matrix with the mean of the observations of each entry."""
    counts = scipy.sparse.csr_array((np.ones(len(values)), (rows, columns)), shape=shape)
    sums = scipy.sparse.csr_array((values, (rows, columns)), shape=shape)
    for one in (counts, sums):  # both then contain the same entries in the same order
        one.sum_duplicates()
    sums.data = sums.data / counts.data
    return sums


def _explained(model: MatrixCompletion, rows: Vector, columns: Vector, values: Vector) -> float:
    """The share of the variance of the observations that the predictions explain."""
    left = values - model.predict(model.row_ids_[rows], model.column_ids_[columns])
    whole = float(np.sum((values - values.mean()) ** 2))
    return 1.0 - float(np.sum(left**2)) / whole if whole > 0.0 else math.nan


def _held_out(model: MatrixCompletion) -> str | None:
    """The least error on held-out entries, in words; None if none were held out."""
    if not model.cv_results_:
        return None
    least = -float(np.nanmax(model.cv_results_["mean_test_score"]))
    if is_squared(model.loss_):
        return f"{math.sqrt(least):.4g} (root mean square)"
    return f"{least:.4g} (mean loss)"


def _what_is_shown(model: MatrixCompletion, additive: bool) -> str:
    """Description of the matrices on the page."""
    said = "The estimate below is the low-rank part of the predictions"
    if model.intercepts != "none":
        said += ", without mean and intercepts"
    if model.factor_ != 1.0:
        said += f". It is the minimiser times {model.factor_:.4g}, which undoes the shrinkage"
    if additive and model.intercepts != "none":
        said += ". The data are the observed values minus mean and intercepts"
    return said + ". The proof is about the minimiser."


def _search(page: Page, model: MatrixCompletion) -> None:
    """The candidates that were compared, with their errors."""
    results = model.cv_results_
    if not results:
        return
    page.section(
        "Choice of the weights",
        "lam is the weight of the nuclear norm, infinite for intercepts alone, and ridge that "
        "of the intercepts. Errors are mean losses of held-out entries; of the "
        "squared loss, mean squared errors.",
    )
    found = {name: np.asarray(results[name]).tolist() for name in COLUMNS}
    found["mean_test_score"] = [f"{-score:.4g}" for score in found["mean_test_score"]]
    found["param_lam"] = [
        f"{lam:.4g}" if math.isfinite(lam) else "infinite" for lam in found["param_lam"]
    ]
    page.table(list(COLUMNS.values()), zip(*found.values(), strict=True))

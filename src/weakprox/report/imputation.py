"""The report of an imputation: what was filled and by which models, and the proof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.estimators.imputer import Scale
from weakprox.losses import Completion
from weakprox.penalties import ElasticNet
from weakprox.problem import Problem
from weakprox.report import run
from weakprox.report.page import Page
from weakprox.report.summary import gather
from weakprox.spectral import NuclearBall

if TYPE_CHECKING:
    from weakprox.estimators import SparseLowRankImputer

Vector = np.ndarray[Any, np.dtype[Any]]
NAMES = {  # of the models, as `hidden_scores_` calls them
    "mean": "means of columns",
    "low-rank": "low-rank matrix",
    "conditional": "conditional means",
    "neighbours": "nearest rows",
    "blend": "combination",
}


def write_imputation_report(
    path: str | Path,
    model: SparseLowRankImputer,
    X: Vector,
    *,
    title: str,
    labels: tuple[Any, Any],
    settings: Mapping[str, Any],
) -> Path:
    """Write a fitted model as one HTML file.

    X is the table that it was fitted to, with NaN for missing entries. `labels` are the names
    of rows and of columns, or None.
    """
    result, missing = model.result_, np.isnan(X)
    table = model.transform(X) if result.estimate is None else result.estimate
    # Columns may have different units, so that only deviations can share a picture.
    standard = Scale.of(X, "standard")
    shown = replace(result, estimate=standard.apply(np.asarray(table)))
    problem = _problem(model, X)
    about = {"rows": labels[0], "columns": labels[1], "settings": settings}
    found = gather(shown, problem=problem, data=standard.apply(X), **about)
    m, d = X.shape
    facts: dict[str, Any] = {
        "filled": f"{missing.sum()} of {m * d} entries ({100 * missing.mean():.3g} %)",
        "by": in_words(model.weights_),
    }
    if model.hidden_scores_:
        least = math.sqrt(max(0.0, -max(model.hidden_scores_.values())))
        facts["error of hidden entries"] = f"{least:.3g} standard deviations"
    facts["rank of the low-rank part"] = result.rank
    page = run.begun(title, "an imputation", found, result, facts)
    page.text(
        "The estimate below is the filled table; observed entries are kept. Data and estimate "
        "are shown as deviations from the means of columns, in standard deviations. The proof "
        "is about the low-rank part."
    )
    _models(page, model)
    run.add_components(page, found.numbers)
    run.add_matrices(page, found, *labels, support=False)
    run.add_run(page, problem, result, found.numbers)
    return page.write(path)


def in_words(weights: Mapping[str, float]) -> str:
    """The composition of the predictions, in words."""
    used = {NAMES[name]: weight for name, weight in weights.items() if weight}
    if not used:
        return NAMES["mean"]
    if list(used.values()) == [1.0]:
        return next(iter(used))
    return " + ".join(f"{weight:.2g} x {name}" for name, weight in used.items())


def _problem(model: SparseLowRankImputer, X: Vector) -> Problem:
    """The problem that the low-rank part solves."""
    loss = Completion.from_dense((X - model.mean_) / model.scale_)
    ridge = model._ridge(model.lam_)
    penalty = ElasticNet(model.lam_, 0.5 * ridge) if ridge else None
    return Problem(loss, penalty, NuclearBall(model.tau_))


def _models(page: Page, model: SparseLowRankImputer) -> None:
    """The models that were compared by hidden entries."""
    if not model.hidden_scores_:
        return
    page.section(
        "Choice of the models",
        "Errors are root mean squares over hidden entries, in standard deviations of the "
        "columns. Predicted deviations from the means of columns are multiplied by the weights "
        "and added.",
    )
    rows = []
    for name, score in model.hidden_scores_.items():
        weight = f"{model.weights_[name]:.3g}" if name in model.weights_ else None
        rows.append([NAMES[name], f"{math.sqrt(max(0.0, -score)):.4g}", weight])
    page.table(["model", "error of hidden entries", "weight"], rows)

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
from weakprox.report.summary import gather, proved, verdict
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

    Parameters
    ----------
    path : str or Path
        File to write.
    model : SparseLowRankImputer
        The fitted model.
    X : array of shape (m, d)
        The table that it was fitted to, with NaN for missing entries.
    title : str
        Title of the page.
    labels : pair of sequences or None
        Names of rows and columns.
    settings : mapping
        What else is to be recorded.
    """
    result, missing = model.result_, np.isnan(X)
    table = model.transform(X) if result.estimate is None else result.estimate
    # Columns may have different units, so that only deviations can share a picture.
    standard = Scale.of(X, "standard")
    shown = replace(result, estimate=standard.apply(np.asarray(table)))
    problem = _problem(model, X)
    about: dict[str, Any] = {"rows": labels[0], "columns": labels[1], "settings": settings}
    found = gather(shown, problem=problem, data=standard.apply(X), **about)
    numbers, said, (m, d) = found.numbers, verdict(result), X.shape
    page = Page(title, f"Report of an imputation by weakprox {numbers['weakprox']}")
    page.attach("report", numbers)
    page.section("Result")
    facts: dict[str, Any] = {
        "filled": f"{missing.sum()} of {m * d} entries ({100 * missing.mean():.3g} %)",
        "by": in_words(model.weights_),
    }
    if model.hidden_scores_:
        facts["error of hidden entries"] = _error(max(model.hidden_scores_.values()))
    facts["rank of the low-rank part"] = result.rank
    page.key_facts(facts | {"proof": proved(result)})
    page.notice(" ".join(said.sentences), said.kind, said.heading)
    page.text(
        "The estimate below is the filled table; observed entries are kept. Data and estimate "
        "are shown as deviations from the means of columns, in standard deviations. The proof "
        "is about the low-rank part."
    )
    _models(page, model)
    run.add_components(page, numbers)
    run.add_matrices(page, found, *labels, support=False)
    run.add_problem(page, problem, numbers)
    run.add_accuracy(page, result, numbers)
    run.add_history(page, result)
    run.add_citation(page)
    return page.write(path)


def in_words(weights: Mapping[str, float]) -> str:
    """What the predictions consist of."""
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


def _error(score: float) -> str:
    return f"{math.sqrt(max(0.0, -score)):.3g} standard deviations"


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
    page.table(
        ["model", "error of hidden entries", "weight"],
        [
            [NAMES[name], f"{math.sqrt(max(0.0, -score)):.4g}", _weight(model, name)]
            for name, score in model.hidden_scores_.items()
        ],
    )


def _weight(model: SparseLowRankImputer, name: str) -> str | None:
    return f"{model.weights_[name]:.3g}" if name in model.weights_ else None

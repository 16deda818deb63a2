"""How a run got to its answer: values, bounds and gaps over the work done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakprox.report.blocks import Panel, Series
from weakprox.report.page import Page
from weakprox.result import Certificate, Result

Column = np.ndarray[Any, np.dtype[np.float64]]

WIDE_RANGE = 50.0  # an x axis that spans more than this is logarithmic


def add_convergence(page: Page, result: Result) -> None:
    """Value, bound and gap against SVDs, seconds and samples, as far as each was used."""
    trace = result.trace
    page.section("The way there")
    if len(trace) == 0:
        page.text("The run ended before its first look, so there is nothing to draw.")
        return
    value, low_rank, bound = trace["value"], trace["value_low_rank"], trace["lower_bound"]
    axes = [("svds", "thin SVDs"), ("seconds", "seconds"), ("samples", "samples")]
    used = [(name, label) for name, label in axes if np.any(trace[name] > 0)] or axes[:1]
    view = _view(result)
    proved = result.certificate.proves and not result.sampled  # estimates have no such bound
    page.panels(
        "Value" + (" (estimated from samples)" if result.sampled else ""),
        [
            Panel(
                [
                    Series("iterate", trace[name], value),
                    Series("low-rank point", trace[name], low_rank),
                    Series(
                        "proved lower bound", trace[name], _best(bound), dashed=True, steps=True
                    ),
                ],
                x_label=label,
                y_label="f",
                log_x=_spans_widely(trace[name]),
                y_range=view,
            )
            for name, label in used
        ],
        note="The lower bound is the best proved up to then." if proved else None,
    )
    if proved:
        _gap(page, result, result.certificate, used)


def _gap(
    page: Page, result: Result, proof: Certificate, used: Sequence[tuple[str, str]]
) -> None:
    """Distance from the optimum, as it was proved then and as it is known now."""
    trace = result.trace
    value, low_rank = trace["value"], trace["value_low_rank"]
    then = np.fmin(value, low_rank) - _best(trace["lower_bound"])
    page.panels(
        "Gap",
        [
            Panel(
                [
                    Series("iterate", trace[name], value - proof.lower_bound),
                    Series("low-rank point", trace[name], low_rank - proof.lower_bound),
                    Series("proved at the time", trace[name], then, steps=True),
                    Series(
                        "asked for (eps)", trace[name][[0, -1]], [result.eps] * 2, dashed=True
                    ),
                ],
                x_label=label,
                y_label="value minus bound",
                log_x=_spans_widely(trace[name]),
                log_y=True,
            )
            for name, label in used
        ],
        note="Distance from the best bound proved in the end, and from the best one then; the "
        "true distance from the optimum is smaller.",
    )


def _best(bound: Column) -> Column:
    """The best lower bound so far; NaN until there is one."""
    return np.fmax.accumulate(bound) if bound.size else bound


def _spans_widely(column: Column) -> bool:
    positive = column[column > 0]
    return positive.size > 0 and float(positive.max()) > WIDE_RANGE * float(positive.min())


def _view(result: Result) -> tuple[float, float] | None:
    """A range of values that early bounds, far below, and first steps cannot stretch."""
    seen = np.concatenate([result.trace["value"], result.trace["value_low_rank"]])
    seen = seen[np.isfinite(seen)]
    if seen.size == 0:
        return None
    lowest = min(result.value, float(seen.min()))
    gap = result.gap if result.certificate.proves else 0.0
    height = max(float(result.trace["value"][0]) - lowest, 3.0 * gap)
    return (lowest - 0.3 * height, lowest + 1.1 * height) if height > 0 else None

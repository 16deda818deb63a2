"""The problem as formulas in TeX, and its settings in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from weakprox.display import counted
from weakprox.losses.entry_losses import is_squared
from weakprox.passes import SeparableForm
from weakprox.penalties.base import parts_of
from weakprox.problem import Problem
from weakprox.protocols import StatedLoss, penalty_capabilities
from weakprox.report.mathml import number

NAMES = {
    "file": "file",
    "shape": "size",
    "dtype": "number format",
    "row_labels": "labels of rows in the file",
    "column_labels": "labels of columns in the file",
    "lam": "weight of the l1 norm (lam)",
    "tau": "bound on the nuclear norm (tau)",
    "noise": "noise, standard deviation (estimated)",
    "scale": "factor that undoes the shrinkage",
    "psd": "positive semidefinite",
    "eps": "accuracy (eps)",
    "tol": "accuracy relative to the value at zero (tol)",
}


class Statement(NamedTuple):
    """The objective, the domain of X, and the meaning of symbols as (TeX, words)."""

    objective: str
    domain: str
    where: list[tuple[str, str]]

    @property
    def tex(self) -> str:
        """The problem as one formula."""
        return rf"\min {self.objective} \text{{ over }} {self.domain}"


def statement(problem: Problem) -> Statement:
    """The problem as formulas with its weights."""
    where: list[tuple[str, str]] = []
    term, constraint = _spectral(problem, where)
    summands = [_loss(problem, where), _penalty(problem.penalty, where), term]
    m, d = problem.shape
    domain = rf"X \in \reals^{{{m} \times {d}}}" + (f", {constraint}" if constraint else "")
    return Statement(" + ".join(filter(None, summands)), domain, where)


def _loss(problem: Problem, where: list[tuple[str, str]]) -> str:
    loss, offers = problem.loss, problem.of_loss
    stated = None if offers.stated is None else offers.stated()
    if stated is not None and stated.kind == "Denoising":
        if offers.target is not None:
            where.append(("M", "the data"))
        else:
            count = loss.n_terms
            what = counted(count, "sample") if count else "what the sampler draws"
            where.append(("M", f"the mean of {what}"))
        return r"\frac{1}{2} \lVert X - M \rVert_F^2"
    if stated is not None and stated.kind == "Sensing":
        where.append((r"\text{E}", "the mean over the measurements"))
        return r"\text{E} \frac{1}{2} (\langle A_i, X \rangle - b_i)^2"
    if stated is not None and is_squared(stated.entry):
        return _completion(stated, loss.n_terms, where)
    where.append(("G", repr(loss)))
    return "G(X)"


def _completion(stated: StatedLoss, count: int, where: list[tuple[str, str]]) -> str:
    """The squared loss of observed entries, which the sum runs over."""
    found, told = "x_{i j}", stated.numbers
    where.append(("y_{i j}", "an observed value; the sum is over observed entries"))
    if "scaling" in told:
        found = "l_{i j}"
        where.append((found, "x divided by the scaling of its row and column"))
    kind, ridge = told.get("intercepts", "none"), ""
    if kind != "none":
        rows, columns = kind in ("both", "rows"), kind in ("both", "columns")
        added = [r"\mu", *(["a_i"] if rows else []), *(["b_j"] if columns else [])]
        where.append((", ".join(added), "mean and intercepts, fitted together with X"))
        found = " + ".join([found, *added])
        if told["ridge"]:
            parts = [r"\lVert a \rVert^2"] * rows + [r"\lVert b \rVert^2"] * columns
            ridge = rf" + {number(told['ridge'] / 2)} ({' + '.join(parts)})"
    share = rf"\frac{{1}}{{{2 * count}}}" if told["reduction"] == "mean" else r"\frac{1}{2}"
    weight = ""
    if "weights" in told:
        weight = "w_{i j} "
        where.append(("w_{i j}", "the weight of an observation"))
    return rf"{share} \sum_{{i,j}} {weight}({found} - y_{{i j}})^2" + ridge


def _penalty(penalty: Any, where: list[tuple[str, str]]) -> str:
    offers = penalty_capabilities(penalty)
    if offers.parts is not None:
        return " + ".join(filter(None, (_penalty(part, where) for part in offers.parts)))
    stated = offers.stated
    told = {} if stated is None else stated.numbers
    if stated is None:
        where.append(("R", repr(penalty)))
        return "R(X)"
    if stated.kind == "weighted":
        where.append(("w", "the weights of entries"))
        return rf"{number(told['lam'])} \sum_{{i,j}} w_{{i j}} |x_{{i j}}|"
    if stated.kind == "range":
        where.append(("l, u", "the bounds of entries"))
        distance = r"\text{dist}(x_{i j}, [l_{i j}, u_{i j}])"
        return rf"{number(told['slope'])} \sum_{{i,j}} {distance}"
    if stated.kind == "groups":
        line, name = ("x_{i :}", "row") if told["axis"] else ("x_{: i}", "column")
        where.append((line, f"{name} i of X"))
        return rf"{number(told['lam'])} \sum_i \lVert {line} \rVert_2"
    if stated.kind == "largest":
        return r"\max_i (\langle A_i, X \rangle - b_i)"
    above, below, curvature = (told[name] for name in ("above", "below", "curvature"))
    entry = rf"{number(above)} \sum_{{i,j}} |x_{{i j}}|"
    if above != below:
        sides = rf"{number(above)} \max(x_{{i j}}, 0) + {number(below)} \max(-x_{{i j}}, 0)"
        entry = rf"\sum_{{i,j}} ({sides})"
    return entry + (rf" + {number(curvature / 2)} \lVert X \rVert_F^2" if curvature else "")


def _spectral(problem: Problem, where: list[tuple[str, str]]) -> tuple[str, str]:
    """The summand and the constraint."""
    stated = problem.of_spectral.stated
    if stated is None:
        where.append(("h", repr(problem.spectral)))
        return "h(X)", ""
    if stated.kind == "ball":
        return "", rf"\lVert X \rVert_* \le {number(stated.numbers['tau'])}"
    if stated.kind == "psd":
        return "", rf"X \succeq 0, \text{{tr}} X \le {number(stated.numbers['tau'])}"
    return rf"{number(stated.numbers['lam'])} \lVert X \rVert_*", ""


def weights(problem: Problem) -> dict[str, float]:
    """The weights and radii of the terms that are dataclasses, by name."""
    found: dict[str, float] = {}
    for term in (*parts_of(problem.penalty), problem.spectral):
        for field in fields(term) if is_dataclass(term) and not isinstance(term, type) else ():
            value = vars(term).get(field.name)
            if field.init and isinstance(value, (int, float)) and not isinstance(value, bool):
                found[f"{field.name} ({type(term).__name__})"] = float(value)
    return found


def what_was_estimated(problem: Problem | None) -> str:
    """The estimate in words, according to the terms of the problem."""
    kinds = ["low-rank"]
    for part in () if problem is None else parts_of(problem.penalty):
        offers = penalty_capabilities(part)
        form, stated = offers.form or SeparableForm(), offers.stated
        if stated is not None and stated.kind == "range":
            continue  # entries at bounds are not zeros
        weight = 0.0
        if stated is not None and stated.kind == "weighted":
            weight = stated.numbers["lam"]
        if form.above + form.below > 0.0 or weight > 0.0:
            kinds.append("sparse")
        kinds += ["row-sparse"] * bool(form.rows) + ["column-sparse"] * bool(form.columns)
    cone = None if problem is None else problem.of_spectral.stated
    if cone is not None and cone.kind == "psd":
        kinds.append("positive semidefinite")
    words = " and ".join(kinds) if len(kinds) < 3 else ", ".join(kinds)
    return f"{words} matrix"


def in_words(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with names and values for a reader; those that are None are left out."""
    chosen = settings.get("chosen")
    chosen = chosen if isinstance(chosen, Mapping) else {}
    found = {}
    for name, value in settings.items():
        if value is None or (name == "chosen" and isinstance(value, Mapping)):
            continue
        said = words(value, " x " if name == "shape" else ", ")
        if name in chosen:
            shown = f"{said:.6g}" if isinstance(said, float) else said
            said = f"{shown}, chosen by {chosen[name]}"
        found[NAMES.get(name, name.replace("_", " "))] = said
    return found


def words(value: Any, between: str = ", ") -> Any:
    """Lists and mappings as text; other values unchanged."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {words(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple, set)):
        return between.join(str(words(one)) for one in value)
    return value

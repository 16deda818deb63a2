"""The problem as formulas in TeX, and its settings in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weakprox import losses, penalties, spectral
from weakprox.display import counted
from weakprox.losses.entry_losses import Squared
from weakprox.passes import SeparableForm
from weakprox.problem import Problem
from weakprox.protocols import penalty_capabilities
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
    term, constraint = _spectral(problem.spectral, where)
    summands = [_loss(problem.loss, where), _penalty(problem.penalty, where), term]
    m, d = problem.shape
    domain = rf"X \in \reals^{{{m} \times {d}}}" + (f", {constraint}" if constraint else "")
    return Statement(" + ".join(filter(None, summands)), domain, where)


def _loss(loss: Any, where: list[tuple[str, str]]) -> str:
    if isinstance(loss, losses.Denoising):
        if loss.target is not None:
            where.append(("M", "the data"))
        else:
            what = "what the sampler draws"
            if loss.n_terms:
                what = counted(loss.n_terms, "sample")
            where.append(("M", f"the mean of {what}"))
        return r"\frac{1}{2} \lVert X - M \rVert_F^2"
    if isinstance(loss, losses.Sensing):
        where.append((r"\text{E}", "the mean over the measurements"))
        return r"\text{E} \frac{1}{2} (\langle A_i, X \rangle - b_i)^2"
    if isinstance(loss, losses.Completion) and isinstance(loss.loss, Squared):
        return _completion(loss, where)
    where.append(("G", repr(loss)))
    return "G(X)"


def _completion(loss: losses.Completion, where: list[tuple[str, str]]) -> str:
    """The squared loss, a sum over the observed entries."""
    found, scaled = "x_{i j}", loss.scaling != "none"
    where.append(("y_{i j}", "an observed value; the sum is over observed entries"))
    if scaled:
        found = "l_{i j}"
        where.append((found, "x divided by the scaling of its row and column"))
    if loss.intercepts == "none":
        return rf"\frac{{1}}{{2}} \sum_{{i,j}} ({found} - y_{{i j}})^2"
    rows, columns = loss.intercepts in ("both", "rows"), loss.intercepts in ("both", "columns")
    added = [r"\mu", *(["a_i"] if rows else []), *(["b_j"] if columns else [])]
    where.append((", ".join(added), "mean and intercepts, fitted together with X"))
    fitted = " + ".join([found, *added])
    ridge = ""
    if loss.intercept_ridge:
        parts = [r"\lVert a \rVert^2"] * rows + [r"\lVert b \rVert^2"] * columns
        half = number(loss.intercept_ridge / 2)
        ridge = rf" + {half} ({' + '.join(parts)})"
    return rf"\frac{{1}}{{2}} \sum_{{i,j}} ({fitted} - y_{{i j}})^2" + ridge


def _penalty(penalty: Any, where: list[tuple[str, str]]) -> str:
    if isinstance(penalty, penalties.Sum):
        return " + ".join(filter(None, (_penalty(part, where) for part in penalty.parts)))
    if isinstance(penalty, penalties.Zero):
        return ""
    if isinstance(penalty, penalties.L1):
        if penalty.weights is None:
            return rf"{number(penalty.lam)} \sum_{{i,j}} |x_{{i j}}|"
        where.append(("w", "the weights of entries"))
        return rf"{number(penalty.lam)} \sum_{{i,j}} w_{{i j}} |x_{{i j}}|"
    if isinstance(penalty, penalties.Box):
        where.append(("l, u", "the bounds of entries"))
        distance = r"\text{dist}(x_{i j}, [l_{i j}, u_{i j}])"
        return rf"{number(penalty.slope)} \sum_{{i,j}} {distance}"
    if isinstance(penalty, penalties.ElasticNet):
        square = rf"{number(penalty.lam2)} \lVert X \rVert_F^2"
        return rf"{number(penalty.lam1)} \sum_{{i,j}} |x_{{i j}}| + {square}"
    if isinstance(penalty, penalties.GroupL2):
        line = "x_{i :}" if penalty.rowwise else "x_{: i}"
        where.append((line, f"{'row' if penalty.rowwise else 'column'} i of X"))
        return rf"{number(penalty.lam)} \sum_i \lVert {line} \rVert_2"
    if isinstance(penalty, penalties.MaxAffine):
        return r"\max_i (\langle A_i, X \rangle - b_i)"
    where.append(("R", repr(penalty)))
    return "R(X)"


def _spectral(term: Any, where: list[tuple[str, str]]) -> tuple[str, str]:
    """The summand and the constraint."""
    if isinstance(term, spectral.NuclearBall):
        return "", rf"\lVert X \rVert_* \le {number(term.tau)}"
    if isinstance(term, spectral.TracePSD):
        return "", rf"X \succeq 0, \text{{tr}} X \le {number(term.tau)}"
    if isinstance(term, spectral.NuclearNorm):
        return rf"{number(term.lam)} \lVert X \rVert_*", ""
    where.append(("h", repr(term)))
    return "h(X)", ""


def weights(problem: Problem) -> dict[str, float]:
    """The weights and radii of the terms, by name."""
    found: dict[str, float] = {}
    for term in (*_parts(problem), problem.spectral):
        for name in ("lam", "lam1", "lam2", "tau"):
            weight = getattr(term, name, None)
            if isinstance(weight, (int, float)):
                found[f"{name} ({type(term).__name__})"] = float(weight)
    return found


def what_was_estimated(problem: Problem | None) -> str:
    """The estimate in words, according to the terms of the problem."""
    kinds = ["low-rank"]
    for part in () if problem is None else _parts(problem):
        form = penalty_capabilities(part).form or SeparableForm()
        if isinstance(part, penalties.Box):
            continue  # entries at bounds are not zeros
        if form.above + form.below > 0.0 or (isinstance(part, penalties.L1) and part.lam > 0.0):
            kinds.append("sparse")
        kinds += [f"{side[:-1]}-sparse" for side in ("rows", "columns") if getattr(form, side)]
    if problem is not None and isinstance(problem.spectral, spectral.TracePSD):
        kinds.append("positive semidefinite")
    words = " and ".join(kinds) if len(kinds) < 3 else ", ".join(kinds)
    return f"{words} matrix"


def _parts(problem: Problem) -> tuple[Any, ...]:
    penalty = problem.penalty
    return tuple(penalty.parts) if isinstance(penalty, penalties.Sum) else (penalty,)


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

"""A problem in the verifier's terms: numbers, data by name, and the user's own functions.

`described` starts from a problem, `stated` from a proof file and arrays. Both find the terms
and the pieces of data, from which `_statement` builds the statement that the verifier checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from weakprox import verifier as plain
from weakprox.errors import ProofError
from weakprox.linalg.arrays import eps_of, like, to_numpy
from weakprox.losses.entry_losses import is_squared, statement_of
from weakprox.penalties.base import parts_of
from weakprox.problem import Problem
from weakprox.proofs.pieces import Piece, in_double, indices, piece
from weakprox.protocols import penalty_capabilities
from weakprox.verifier.losses import Loss
from weakprox.verifier.penalties import Penalty
from weakprox.verifier.spectral import Spectral

Terms = dict[str, Any]
# custom functions: "loss", "entry", "spectral", or the number of a penalty
Own = dict[Any, Any]
Pieces = list[Piece]
ENTRYWISE = ("_weights", "_low", "_high")  # suffixes of names of arrays that may broadcast
SCALINGS = ("row_scaling", "col_scaling")
MEASURED = {"Sensing": "b", "Logistic": "y"}  # losses of measurements, and what was seen
# arrays of parts of a penalty; their names in a proof begin with "penalty" and a number
ARRAYS = {"weighted": ("weights",), "range": ("low", "high"), "largest": ("A", "b")}
FLAT = 1 << 22  # entries of measurement matrices that are held at once


@dataclass(frozen=True)
class Description:
    """A problem as numbers (`terms`), data (`pieces`) and the statement to verify."""

    terms: Terms
    pieces: list[Piece]
    statement: plain.Statement


def described(problem: Problem) -> Description:
    """Describe a problem; custom functions are called directly."""
    own: Own = {}
    terms: Terms = {"shape": [int(n) for n in problem.shape]}
    terms["loss"], pieces = _told_loss(problem, own)
    told = [_told_penalty(*part, problem, own) for part in enumerate(parts_of(problem.penalty))]
    terms["penalty"] = [part for part, _ in told]
    terms["spectral"] = _told_spectral(problem, own)
    pieces = [*pieces, *(one for _, data in told for one in data)]
    return Description(terms, pieces, _statement(terms, pieces, own))


def stated(terms: Terms, arrays: dict[str, Any]) -> Description:
    """Describe the problem of a proof file, with data by name from other files."""
    told = terms["loss"]
    kind = told["kind"]
    known: dict[str, tuple[str, ...]] = {
        "Denoising": ("M",),
        "Completion": ("rows", "cols", "values"),
        "Regression": ("X", "Y"),
    }
    names = known.get(kind)
    if kind == "Completion" and names is not None:
        names += ("weights",) if told.get("weights") else ()
        names += SCALINGS if told.get("scaling") == "arrays" else ()
    if kind in MEASURED:
        names = (*(("A",) if "A" in arrays else ("U", "V")), MEASURED[kind])
    if names is None or "samples" in told or "form" in told:
        raise _needs_problem(f"a {kind} loss of another kind")
    for i, part in enumerate(terms["penalty"]):
        names += penalty_names(i, part)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ProofError("data", f"no array {missing[0]!r}", f"{', '.join(names)}")
    pieces = [piece(name, arrays[name]) for name in names]
    if kind == "Completion":
        _check_shapes(terms, pieces)
        pieces = _ordered(told, {one.name: one.whole() for one in pieces}, terms["shape"])
    if kind in MEASURED:  # in the precision of the measurements, as the losses have them
        given = np.asarray(arrays[MEASURED[kind]])
        given = _classes(given) if kind == "Logistic" else given
        seen = piece(MEASURED[kind], given.astype(pieces[0].dtype))
        pieces[names.index(MEASURED[kind])] = seen
    if kind == "Regression":
        pieces[0] = piece("X", np.asarray(arrays["X"]).astype(pieces[1].dtype))
    _check_shapes(terms, pieces)
    return Description(terms, pieces, _statement(terms, pieces, {}))


def penalty_names(i: int, told: Terms) -> tuple[str, ...]:
    """Names of the arrays of the i-th part of the penalty."""
    return tuple(f"penalty{i}_{name}" for name in ARRAYS.get(told["kind"], ()))


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, int]) -> bool:
    return len(shape) == 2 and all(n in (1, w) for n, w in zip(shape, wanted, strict=True))


def _needs_problem(what: str) -> ProofError:
    wanted = "wp.verify(proof, problem), which has the problem's own functions and data"
    return ProofError("proof", f"one about {what}", wanted)


def _check_shapes(terms: Terms, pieces: list[Piece]) -> None:
    """Raise unless data from files have the shapes that the proof states."""
    m, d = terms["shape"]
    count = {one.name: one.shape[0] if one.shape else 0 for one in pieces}
    n = next((count[name] for name in ("b", "y", "Y", "values") if name in count), 0)
    wanted: dict[str, tuple[int, ...]] = {"M": (m, d), "A": (n, m, d), "U": (n, m), "V": (n, d)}
    wanted |= dict.fromkeys(("rows", "cols", "values", "weights", "b", "y"), (n,))
    wanted |= {"X": (n, m), "Y": (n, d)}
    wanted |= {"row_scaling": (m,), "col_scaling": (d,)}
    for i, part in enumerate(terms["penalty"]):
        names = penalty_names(i, part)
        wanted |= dict.fromkeys(names, (m, d))
        if part["kind"] == "largest":
            count = part["count"]
            wanted |= dict(zip(names, [(count, m, d), (count,)], strict=True))
    for one in pieces:
        if one.name.endswith(ENTRYWISE) and _broadcasts(one.shape, (m, d)):
            continue
        if one.shape != wanted[one.name]:
            given = f"{one.name} of shape {one.shape}"
            raise ProofError("data", given, f"{wanted[one.name]}, as the proof says")


def _statement(terms: Terms, pieces: list[Piece], own: Own) -> plain.Statement:
    """The problem as the verifier sees it."""
    data = {one.name: one for one in pieces}
    m, d = terms["shape"]
    parts = [_penalty(told, i, data, own) for i, told in enumerate(terms["penalty"])]
    users = any(told["kind"] == "own" for told in terms["penalty"])
    trusted = ("the functions of the penalty",) if users else ()
    loss = _loss(terms["loss"], data, (m, d), own)
    return plain.Statement(loss, parts, _spectral(terms["spectral"], own), trusted)


# losses


def _told_loss(problem: Problem, own: Own) -> tuple[Terms, list[Piece]]:
    loss, offered, reference = problem.loss, problem.of_loss.stated, problem.loss.reference
    if not loss.is_finite_sum:
        wanted = "a finite sum: a bound from samples holds at a confidence only"
        raise ProofError("problem", "a loss that is known through samples", wanted)
    if offered is not None:
        stated = offered()
        told = {"kind": stated.kind, **stated.numbers}
        if stated.entry is not None:
            told |= _told_entry(stated.entry, reference, own)
        return told, [piece(name, array) for name, array in stated.data().items()]
    batch, shape = loss.everything(), (int(problem.shape[0]), int(problem.shape[1]))
    value = lambda X: loss.value(like(X, reference), batch)  # noqa: E731
    grad = lambda X: to_numpy(loss.grad(like(X, reference), batch))  # noqa: E731
    strong, infimum = float(loss.strong_convexity), problem.of_loss.infimum
    own["loss"] = plain.OwnLoss(value, grad, shape, strong, eps_of(reference), infimum)
    return {"kind": "own", "name": type(loss).__name__}, []


def _told_entry(entry: Any, reference: Any, own: Own) -> Terms:
    """The loss of one entry; the squared one is left out."""
    stated = statement_of(entry)
    if stated is None:
        own["entry"] = _own_entry(entry, reference)
        return {"loss": {"kind": "own", "name": type(entry).__name__}}
    return {} if is_squared(entry) else {"loss": {"kind": stated.kind, **stated.numbers}}


def _own_entry(entry: Any, reference: Any) -> plain.OwnEntry:
    """A custom loss of an entry, called with arrays of the kind of the data."""

    def called(function: Any) -> Any:
        wide = like(np.zeros(0), reference)
        return lambda v, x: to_numpy(function(like(v, wide), like(x, wide)))

    names = ("value", "derivative", "curvature", "conjugate")
    return plain.OwnEntry(*(called(getattr(entry, name)) for name in names))


def _ordered(told: Terms, data: dict[str, Any], shape: Any) -> Pieces:
    """Observations from files, in the form in which `Completion` keeps them."""
    rows, cols = (np.asarray(data[name], dtype=np.int64) for name in ("rows", "cols"))
    for name, index, limit in (("rows", rows, shape[0]), ("cols", cols, shape[1])):
        if not index.size or index.min() < 0 or index.max() >= limit:
            wanted = f"indices from 0 to {limit - 1}"
            raise ProofError("data", f"{name} that do not fit", wanted)
    order = np.lexsort((cols, rows))
    values = np.asarray(data["values"])[order]
    if told.get("loss", {}).get("kind") == "logistic":
        values = _classes(values)
    found = [indices("rows", rows[order]), indices("cols", cols[order])]
    found.append(piece("values", values))
    if told.get("weights"):
        weights = np.asarray(data["weights"], dtype=np.float64)[order]
        found.append(piece("weights", weights * _per_entry(told, len(values))))
    if told.get("scaling") == "arrays":
        scalings = [np.asarray(data[name], dtype=np.float64) for name in SCALINGS]
    elif told.get("scaling"):
        counts = [np.bincount(x, minlength=n) for x, n in zip((rows, cols), shape, strict=True)]
        scalings = [np.sqrt(0.5 * (1.0 + count / count.mean())) for count in counts]
    else:
        return found
    return [*found, *(piece(name, 1.0 / x) for name, x in zip(SCALINGS, scalings, strict=True))]


def _classes(values: Any) -> Any:
    """Two classes as 0 and 1; the larger one is 1, and so is a single one above 0."""
    one = values.max() if values.min() < values.max() or values.max() > 0 else np.inf
    return (values == one).astype(piece("values", values).dtype)


def _per_entry(told: Terms, count: int) -> float:
    """Weight of one observation, beside its own."""
    return 1.0 / count if told["reduction"] == "mean" else 1.0


def _entries(told: Terms, data: dict[str, Piece], shape: tuple[int, int], own: Own) -> Loss:
    rows, cols, values = (data[name].whole() for name in ("rows", "cols", "values"))
    weight: Any = _per_entry(told, len(values))
    weight = data["weights"].whole() if told.get("weights") else weight
    inner = told.get("loss", {"kind": "squared"})
    known = {"squared": plain.SquaredEntry, "huber": plain.HuberEntry}
    known |= {"logistic": plain.LogisticEntry, "poisson": plain.PoissonEntry}
    entry = _built(known, inner, own, "entry", "a loss")
    left, right = (data[name].whole() if name in data else None for name in SCALINGS)
    more: Terms = {name: told[name] for name in ("intercepts", "ridge") if name in told}
    more |= {"left": left, "right": right}
    return plain.Entries(rows, cols, values, shape, weight, entry, **more)


def _loss(told: Terms, data: dict[str, Piece], shape: tuple[int, int], own: Own) -> Loss:
    if told["kind"] == "Denoising":
        if "samples" in told:
            return plain.Squares(_mean(data["samples"]), shape, relative=4 * 2.0**-53)
        return plain.Squares(data["M"].read, shape)
    if told["kind"] == "Completion":
        return _entries(told, data, shape, own)
    if told["kind"] in MEASURED:
        found = _measurements(data, data[MEASURED[told["kind"]]], shape)
        if told["kind"] == "Sensing":
            return found
        return plain.Outcomes(found, "mean" if told.get("intercept", False) else "none")
    if told["kind"] == "Regression":
        return _regression(data, shape, told["intercept"])
    return _built({}, told, own, "loss", "a loss")  # type: ignore[no-any-return]


def _built(kinds: dict[str, Any], told: Terms, own: Own, key: Any, what: str) -> Any:
    """A term of the verifier with the given numbers, or a custom one."""
    if told["kind"] in kinds:
        kind = kinds[told["kind"]]
        return kind(*(told[field.name] for field in fields(kind)))
    if key not in own:
        raise _needs_problem(f"{what} of the user's, {told.get('name')}")
    return own[key]


def _mean(stack: Piece) -> Any:
    """Reader of the mean of a stack, computed on first use, with a single rounding."""

    @cache
    def whole() -> Any:
        high, low = np.zeros((2, *stack.shape[1:]))
        for part in stack.parts():
            for one in part:
                x = one.astype(np.float64)
                s = high + x
                z = s - high
                low += (high - (s - z)) + (x - z)
                high = s
        return (high + low) / stack.shape[0]

    return lambda first, last: whole()[first:last]


def _measurements(
    data: dict[str, Piece], seen: Piece, shape: tuple[int, int]
) -> plain.Measurements:
    """Dense, sparse or rank-one measurements; products u v' round once."""
    size, rank_one = math.prod(shape), "U" in data
    flat = _by_rows(data, "A", (seen.shape[0], size))

    def rows(first: int, last: int) -> Any:
        if not rank_one:
            return flat(first, last).reshape(last - first, size)
        U, V = (data[name].read(first, last).astype(np.float64) for name in ("U", "V"))
        return (U[:, :, None] * V[:, None, :]).reshape(last - first, size)

    relative = 2.0**-53 if rank_one else 0.0
    return plain.Measurements(_blocks(rows, seen, size), seen.shape[0], shape, relative)


def _regression(
    data: dict[str, Piece], shape: tuple[int, int], intercept: bool
) -> plain.Regression:
    """Dense or sparse features."""
    Y = data["Y"]
    features = _by_rows(data, "X", (Y.shape[0], shape[0]))
    read = _blocks(features, Y, sum(shape))
    return plain.Regression(read, Y.shape[0], shape, intercept)


def _by_rows(data: dict[str, Piece], name: str, shape: tuple[int, int]) -> Any:
    """Reader of dense rows of the piece of this name, or of a sparse matrix of this shape."""
    if "data" not in data:
        return lambda first, last: data[name].read(first, last).astype(np.float64)
    parts = tuple(data[part].whole() for part in ("data", "indices", "indptr"))
    sparse = csr_array(parts, shape=shape)
    return lambda first, last: sparse[first:last].toarray()


def _blocks(rows: Any, seen: Piece, width: int) -> Any:
    """Reader of all rows with their responses, in blocks."""
    count, step = seen.shape[0], max(1, FLAT // width)

    def read() -> Iterator[tuple[Any, Any]]:
        for first in range(0, count, step):
            last = min(count, first + step)
            yield rows(first, last), seen.read(first, last)

    return read


# penalties


def _told_penalty(i: int, part: Any, problem: Problem, own: Own) -> tuple[Terms, list[Piece]]:
    offers = penalty_capabilities(part)
    if offers.stated is not None:
        told = {"kind": offers.stated.kind, **offers.stated.numbers}
        data = offers.stated.data().items()
        pieces = [piece(f"penalty{i}_{name}", array) for name, array in data]
        return told, [in_double(x) if x.name.endswith(ENTRYWISE) else x for x in pieces]
    reference = problem.loss.reference

    def restored(y: Any) -> Any:
        """A stored dual point, in the arrays that the penalty expects."""
        return tuple(map(restored, y)) if isinstance(y, list) else like(y, reference)

    def pull(y: Any) -> tuple[Any, float]:
        y = part.feasible(restored(y))
        return to_numpy(part.pull(y)), float(part.dual_value(y))

    value = lambda X: part.value(like(X, reference))  # noqa: E731
    constants = (float(part.curvature), eps_of(reference), offers.infimum)
    own[i] = plain.OwnPenalty(value, pull, *constants)
    return {"kind": "own", "name": type(part).__name__}, []


def _penalty(told: Terms, i: int, data: dict[str, Piece], own: Own) -> Penalty:
    pieces = [data[name] for name in penalty_names(i, told)]
    if told["kind"] == "largest":
        return plain.Largest(pieces[0], pieces[1].whole())
    entrywise = [one.whole() for one in pieces]
    if told["kind"] == "weighted":
        zero = np.zeros((1, 1))
        return plain.Range(told["lam"] * entrywise[0].astype(np.float64), zero, zero)
    if told["kind"] == "range":
        return plain.Range(np.full((1, 1), told["slope"]), *entrywise)
    kinds = {"box": plain.Box, "groups": plain.Groups}
    return _built(kinds, told, own, i, "a penalty")  # type: ignore[no-any-return]


# spectral terms


def _spectral(told: Terms, own: Own) -> Spectral:
    kinds = {"ball": plain.Ball, "psd": plain.Psd, "norm": plain.Norm}
    return _built(kinds, told, own, "spectral", "a spectral term")  # type: ignore[no-any-return]


def _told_spectral(problem: Problem, own: Own) -> Terms:
    term, offers, reference = problem.spectral, problem.of_spectral, problem.loss.reference
    if offers.stated is not None:
        return {"kind": offers.stated.kind, **offers.stated.numbers}

    def value(X: Any) -> float:
        if offers.value_of is not None:
            return float(offers.value_of(like(X, reference)))
        rng = np.random.default_rng(0)
        return float(term.value(term.compress(like(X, reference), min(X.shape), rng)))

    def least(c: Any, w: float) -> float:
        """-w/2 |A|^2 + min w/2 |V - A|^2 + h(V) at A = -c/w, or -h*(-c)."""
        rng = np.random.default_rng(0)
        if w == 0.0:
            return -float(term.conjugate(like(-c, reference), rng))
        A = -c / w
        how = {"weight": w, "rank": min(c.shape), "certify": True, "rng": rng}
        found = term.weak_prox(like(A, reference), **how)
        return float(found.lower) - 0.5 * w * float(np.vdot(A, A))

    own["spectral"] = plain.OwnSpectral(value, least, eps_of(reference))
    return {"kind": "own", "name": type(term).__name__}

"""A problem in the verifier's terms: numbers, readers of data, and its own functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox import verifier as plain
from weakprox.distributed.engine import fetch
from weakprox.distributed.measured import Measured
from weakprox.errors import ProofError
from weakprox.linalg.arrays import eps_of, like, to_numpy
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.losses.measurements import RankOneMeasurements, SparseMeasurements
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, SignedL1, Sum, Zero
from weakprox.problem import Problem
from weakprox.proofs.pieces import Piece, indices, measured, piece
from weakprox.protocols import loss_capabilities, penalty_capabilities
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD
from weakprox.verifier.losses import Loss
from weakprox.verifier.penalties import Penalty
from weakprox.verifier.spectral import Spectral

Terms = dict[str, Any]
FLAT = 1 << 22  # entries of measurement matrices that are held at once


@dataclass(frozen=True)
class Description:
    """A problem as numbers (`terms`), data (`pieces`) and the statement to verify."""

    terms: Terms
    pieces: list[Piece]
    statement: plain.Statement


def described(problem: Problem) -> Description:
    """The problem, of whatever terms; functions of the user's are called as they are."""
    shape = (int(problem.shape[0]), int(problem.shape[1]))
    loss, loss_terms, pieces = _loss(problem.loss, shape)
    parts: list[Penalty] = []
    trusted: tuple[str, ...] = ()
    told: list[Terms] = []
    for i, part in enumerate(parts_of(problem.penalty)):
        one, terms, data = _penalty(part, i, problem)
        parts.append(one)
        told.append(terms)
        pieces += data
        trusted = ("the functions of the penalty",) if terms["kind"] == "own" else trusted
    spectral, spectral_terms = _spectral(problem)
    terms = {"shape": list(shape), "loss": loss_terms, "penalty": told}
    statement = plain.Statement(loss, parts, spectral, trusted)
    return Description({**terms, "spectral": spectral_terms}, pieces, statement)


def stated(terms: Terms, arrays: dict[str, Any]) -> Description:
    """The problem that a proof file describes, with data by name from other files."""
    shape, told = tuple(terms["shape"]), terms["loss"]
    kind = told["kind"]
    names = {"Denoising": ("M",), "Completion": ("rows", "cols", "values")}.get(kind)
    if kind == "Sensing":
        names = ("A", "b") if "A" in arrays else ("U", "V", "b")
    if names is None or told.get("samples", 1) != 1:
        wanted = "wp.verify(proof, problem), which has the problem's own functions and data"
        raise ProofError("proof", f"one about a {kind} loss of another kind", wanted)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ProofError("data", f"no array {missing[0]!r}", f"{', '.join(names)}")
    pieces = [piece(name, arrays[name]) for name in names]
    loss: Loss
    if kind == "Denoising":
        loss = plain.Squares(pieces[0].read, (shape[0], shape[1]))
    elif kind == "Completion":
        rows, cols = (np.asarray(arrays[name]) for name in names[:2])
        pieces = _entries(rows, cols, arrays["values"])
        loss = _completion(pieces, (shape[0], shape[1]), _weight(told, len(rows)))
    else:
        b = np.asarray(arrays["b"]).astype(pieces[0].dtype)
        pieces[-1] = piece("b", b)
        loss = _sensing(pieces, (shape[0], shape[1]))
    _check_shape(pieces, told, (shape[0], shape[1]))
    parts: list[Penalty] = []
    for i, part in enumerate(terms["penalty"]):
        if part["kind"] == "largest":
            data = [piece(name, arrays[name]) for name in largest_names(i) if name in arrays]
            if len(data) != 2:
                raise ProofError(
                    "data", "no pieces of MaxAffine", " and ".join(largest_names(i))
                )
            pieces += data
            parts.append(_largest(data))
        else:
            parts.append(_plain_penalty(part))
    return Description(terms, pieces, plain.Statement(loss, parts, _plain_spectral(terms)))


def parts_of(penalty: Any) -> list[Any]:
    """The terms of a penalty that have a dual point."""
    parts = penalty.parts if type(penalty) is Sum else (penalty,)
    return [part for part in parts if type(part) is not Zero]


def _check_shape(pieces: list[Piece], told: Terms, shape: tuple[int, int]) -> None:
    """Raise unless data from files fit the shape that the proof speaks of."""
    first, kind = pieces[0].shape, told["kind"]
    found: tuple[int, ...] = shape
    if kind == "Denoising":
        found = first
    elif kind == "Sensing":
        found = first[1:] if len(first) == 3 else (first[1], pieces[1].shape[1])
    if tuple(found) != shape or any(not one.shape for one in pieces):
        raise ProofError("data", f"a shape of {tuple(found)}", f"{shape}, as the proof says")


# losses


def _loss(loss: Any, shape: tuple[int, int]) -> tuple[Loss, Terms, list[Piece]]:
    if type(loss) is Denoising and loss.is_finite_sum:
        return _denoising(loss, shape)
    if type(loss) is Completion:
        if loss._far is None:
            cells, values = loss._cells, to_numpy(loss._values)
        else:
            parts = [fetch([task], loss._far._parts)[0] for task in loss._far._parts]
            cells, values = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
        pieces = _entries(cells // shape[1], cells % shape[1], values)
        reduction = "sum" if loss._scale == float(loss.n_terms) else "mean"
        terms: Terms = {"kind": "Completion", "reduction": reduction}
        return _completion(pieces, shape, _weight(terms, len(cells))), terms, pieces
    if type(loss) is Sensing and loss.is_finite_sum:
        pieces = [*_measurements(loss._terms), piece("b", loss._b)]
        if pieces[0].name == "data":
            return _sparse(loss, shape), {"kind": "Sensing", "form": "sparse"}, pieces
        return _sensing(pieces, shape), {"kind": "Sensing"}, pieces
    if not loss.is_finite_sum:
        wanted = "a finite sum: a bound from samples holds at a confidence only"
        raise ProofError("problem", "a loss that is known through samples", wanted)
    batch, reference = loss.everything(), loss.reference
    eps = eps_of(reference)
    own = plain.OwnLoss(
        lambda X: loss.value(like(X, reference), batch),
        lambda X: to_numpy(loss.grad(like(X, reference), batch)),
        shape,
        float(loss.strong_convexity),
        eps,
        loss_capabilities(loss).infimum,
    )
    return own, {"kind": "own", "name": type(loss).__name__}, []


def _denoising(loss: Any, shape: tuple[int, int]) -> tuple[Loss, Terms, list[Piece]]:
    if loss.target is not None:
        M = piece("M", loss.target)
        return plain.Squares(M.read, shape), {"kind": "Denoising"}, [M]
    if isinstance(loss._terms, str):  # samples that came only once: their mean was kept
        M = piece("M", loss.everything().mean)
        return plain.Squares(M.read, shape), {"kind": "Denoising"}, [M]
    stack = piece("samples", loss._terms)
    mean = _Mean(stack)
    terms = {"kind": "Denoising", "samples": stack.shape[0]}
    return plain.Squares(mean.read, shape, mean.relative), terms, [stack]


class _Mean:
    """The mean of a stack, made when it is first read."""

    relative = 4 * 2.0**-53

    def __init__(self, stack: Piece) -> None:
        self._stack = stack
        self._mean: Any = None

    def read(self, first: int, last: int) -> Any:
        """Rows of the mean; sums are carried in two parts, so that they round once."""
        if self._mean is None:
            high = np.zeros(self._stack.shape[1:])
            low = np.zeros(self._stack.shape[1:])
            for part in self._stack.parts():
                for one in part:
                    x = one.astype(np.float64)
                    s = high + x
                    z = s - high
                    low += (high - (s - z)) + (x - z)
                    high = s
            self._mean = (high + low) / self._stack.shape[0]
        return self._mean[first:last]


def _entries(rows: Any, cols: Any, values: Any) -> list[Piece]:
    """Triplets, indices as int64."""
    return [indices("rows", rows), indices("cols", cols), piece("values", np.asarray(values))]


def _completion(pieces: list[Piece], shape: tuple[int, int], weight: float) -> Loss:
    rows, cols, values = (one.whole() for one in pieces)
    for name, index, limit in (("rows", rows, shape[0]), ("cols", cols, shape[1])):
        if len(index) != len(values) or index.min() < 0 or index.max() >= limit:
            raise ProofError(
                "data", f"{name} that do not fit", f"indices from 0 to {limit - 1}"
            )
    return plain.Entries(rows, cols, values, shape, weight)


def _weight(terms: Terms, count: int) -> float:
    return 1.0 if terms["reduction"] == "sum" else 1.0 / count


def _measurements(terms: Any) -> list[Piece]:
    if isinstance(terms, Measured):
        return measured(terms)
    if isinstance(terms, RankOneMeasurements):
        return [piece("U", terms.U), piece("V", terms.V)]
    if isinstance(terms, SparseMeasurements):
        A = terms.A
        return [
            piece("data", A.data),
            indices("indices", A.indices),
            indices("indptr", A.indptr),
        ]
    return [piece("A", terms.A)]


def _sensing(pieces: list[Piece], shape: tuple[int, int]) -> Loss:
    """Dense or rank-one measurements; products u v' round once."""
    *arrays, b = pieces
    count, size = b.shape[0], shape[0] * shape[1]
    step = max(1, FLAT // size)

    def read() -> Iterator[tuple[Any, Any]]:
        for first in range(0, count, step):
            last = min(count, first + step)
            parts = [one.read(first, last).astype(np.float64) for one in arrays]
            F = parts[0] if len(parts) == 1 else parts[0][:, :, None] * parts[1][:, None, :]
            yield F.reshape(last - first, size), b.read(first, last)

    if any(one.shape[0] != count for one in arrays):
        raise ProofError("data", f"{arrays[0].shape[0]} measurements", f"{count}, as b has")
    return plain.Measurements(read, count, shape, 0.0 if len(arrays) == 1 else 2.0**-53)


def _sparse(loss: Any, shape: tuple[int, int]) -> Loss:
    A, b = loss._terms.A, to_numpy(loss._b)
    step = max(1, FLAT // math.prod(shape))

    def read() -> Iterator[tuple[Any, Any]]:
        for first in range(0, len(b), step):
            yield A[first : first + step].toarray(), b[first : first + step]

    return plain.Measurements(read, len(b), shape)


# penalties


def _penalty(part: Any, i: int, problem: Problem) -> tuple[Penalty, Terms, list[Piece]]:
    told: Terms | None = None
    if type(part) in (L1, ElasticNet):
        lam = float(part.capabilities.form.above)
        told = {"kind": "box", "above": lam, "below": lam, "curvature": float(part.curvature)}
    elif type(part) is SignedL1:
        told = {"kind": "box", "above": part.above, "below": part.below}
        told["curvature"] = float(part.curvature)
    elif type(part) is GroupL2:
        told = {"kind": "groups", "lam": part.lam, "axis": 1 if part.groups == "rows" else 0}
    elif type(part) is MaxAffine:
        names = largest_names(i)
        data = [piece(names[0], part.A), piece(names[1], part.b)]
        told = {"kind": "largest", "count": int(part.A.shape[0])}
        return _largest(data), told, data
    if told is not None:
        return _plain_penalty(told), told, []
    reference = problem.loss.reference

    def pull(y: Any) -> tuple[Any, float]:
        y = part.feasible(restored(y, reference))
        return to_numpy(part.pull(y)), float(part.dual_value(y))

    own = plain.OwnPenalty(
        lambda X: part.value(like(X, reference)),
        pull,
        float(part.curvature),
        eps_of(reference),
        penalty_capabilities(part).infimum,
    )
    return own, {"kind": "own", "name": type(part).__name__}, []


def restored(y: Any, reference: Any) -> Any:
    """A stored dual point of a user's penalty, in the arrays that it expects."""
    if isinstance(y, list):
        return tuple(restored(one, reference) for one in y)
    return like(y, reference)


def largest_names(i: int) -> tuple[str, str]:
    """Names of the arrays of a MaxAffine, the i-th part of the penalty."""
    return f"penalty{i}_A", f"penalty{i}_b"


def _largest(data: list[Piece]) -> Penalty:
    return plain.Largest(_Indexed(data[0]), data[1].whole())


class _Indexed:
    """A piece read one entry at a time."""

    def __init__(self, source: Piece) -> None:
        self._source = source

    def __getitem__(self, i: int) -> Any:
        return self._source.read(i, i + 1)[0]


def _plain_penalty(told: Terms) -> Penalty:
    if told["kind"] == "box":
        return plain.Box(told["above"], told["below"], told["curvature"])
    if told["kind"] == "groups":
        return plain.Groups(told["lam"], told["axis"])
    wanted = "wp.verify(proof, problem), which has the penalty's own functions"
    raise ProofError("proof", f"one about a penalty of the user's, {told.get('name')}", wanted)


# spectral terms


def _plain_spectral(terms: Terms) -> Spectral:
    told = terms["spectral"]
    if told["kind"] == "ball":
        return plain.Ball(told["tau"])
    if told["kind"] == "psd":
        return plain.Psd(told["tau"])
    if told["kind"] == "norm":
        return plain.Norm(told["lam"])
    wanted = "wp.verify(proof, problem), which has the term's own functions"
    raise ProofError(
        "proof", f"one about a spectral term of the user's, {told.get('name')}", wanted
    )


def _spectral(problem: Problem) -> tuple[Spectral, Terms]:
    term, reference = problem.spectral, problem.loss.reference
    if type(term) in (NuclearBall, TracePSD):
        kind = "ball" if type(term) is NuclearBall else "psd"
        told: Terms = {"kind": kind, "tau": float(term.tau)}  # type: ignore[attr-defined]
        return _plain_spectral({"spectral": told}), told
    if type(term) is NuclearNorm:
        told = {"kind": "norm", "lam": float(term.lam)}
        return _plain_spectral({"spectral": told}), told

    def value(X: Any) -> float:
        if isinstance(term, Exact):
            return float(term.value_of(like(X, reference)))
        rng = np.random.default_rng(0)
        return float(term.value(term.compress(like(X, reference), min(X.shape), rng)))

    def least(c: Any, w: float) -> float:
        """-w/2 |A|^2 + min w/2 |V - A|^2 + h(V) at A = -c/w, or -h*(-c)."""
        rng = np.random.default_rng(0)
        if w == 0.0:
            return -float(term.conjugate(like(-c, reference), rng))
        A = -c / w
        found = term.weak_prox(
            like(A, reference), weight=w, rank=min(c.shape), certify=True, rng=rng
        )
        return float(found.lower) - 0.5 * w * float(np.vdot(A, A))

    own = plain.OwnSpectral(value, least, eps_of(reference))
    return own, {"kind": "own", "name": type(term).__name__}

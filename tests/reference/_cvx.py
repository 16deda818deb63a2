"""Reference optima by CVXPY: the three kinds of spectral term, any convex smooth part."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np


def solve(
    shape: tuple[int, int],
    objective: Callable[[cp.Variable], Any],
    kind: str,
    size: float,
    *,
    solver: str = cp.CLARABEL,
) -> tuple[float, np.ndarray]:
    """Optimal value and point of objective(X) + h(X).

    kind: "ball" (nuclear norm <= size), "psd" (PSD, trace <= size) or "norm"
    (size * nuclear norm).
    """
    if kind == "psd":
        X = cp.Variable(shape, PSD=True)
        task = cp.Problem(cp.Minimize(objective(X)), [cp.trace(X) <= size])
    elif kind == "ball":
        X = cp.Variable(shape)
        task = cp.Problem(cp.Minimize(objective(X)), [cp.normNuc(X) <= size])
    else:
        X = cp.Variable(shape)
        task = cp.Problem(cp.Minimize(objective(X) + size * cp.normNuc(X)))
    with warnings.catch_warnings():
        # CVXPY warns about its own deprecations and slow canonicalisation, not about
        # the answer; whether the answer is good is checked below.
        warnings.simplefilter("ignore")
        task.solve(solver=solver)
    assert task.status == cp.OPTIMAL, task.status
    return float(task.value), np.asarray(X.value)


def row(X: Any) -> Any:
    """X as a vector in C order."""
    return cp.vec(X, order="C")


def squared_distance(M: np.ndarray) -> Callable[[Any], Any]:
    return lambda X: 0.5 * cp.sum_squares(X - M)


def mean_squares(A: np.ndarray, b: np.ndarray) -> Callable[[Any], Any]:
    """Mean of the half squared residuals, reduced by QR to as many rows as unknowns."""
    joined = np.column_stack([A.reshape(len(b), -1), b]) / np.sqrt(len(b))
    R = np.linalg.qr(joined, mode="r")
    return lambda X: 0.5 * cp.sum_squares(R[:, :-1] @ row(X) - R[:, -1])


def observed(rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> Callable[[Any], Any]:
    return lambda X: 0.5 * cp.sum_squares(X[rows, cols] - values)


def l1(lam: float) -> Callable[[Any], Any]:
    return lambda X: lam * cp.sum(cp.abs(X))


def elastic_net(lam1: float, lam2: float) -> Callable[[Any], Any]:
    return lambda X: lam1 * cp.sum(cp.abs(X)) + lam2 * cp.sum_squares(X)


def group_l2(lam: float, axis: int) -> Callable[[Any], Any]:
    return lambda X: lam * cp.sum(cp.norm(X, 2, axis=axis))


def max_affine(A: np.ndarray, b: np.ndarray) -> Callable[[Any], Any]:
    return lambda X: cp.max(A.reshape(len(b), -1) @ row(X) - b)

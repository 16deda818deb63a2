"""weakprox, from the data to a certified answer, and what the verifier says of it."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from instances import Instance
from reference import Reference
from verify import ROUNDING, Judge

import weakprox as wp


def run_ours(
    one: Instance,
    judge: Judge,
    ref: Reference,
    gap: float,
    seconds: float,
    *,
    solver: Any = None,
    eps: float | None = None,
    **constants: Any,
) -> dict[str, Any]:
    """One run of `minimize`; the problem is built, and X made dense, on the clock."""
    eps = gap * abs(ref.lower) if eps is None else eps
    begun = time.perf_counter()
    problem = one.problem(**constants)
    result = wp.minimize(problem, solver, eps=eps, max_seconds=seconds, progress=False)
    X = np.asarray(result.X)
    spent = time.perf_counter() - begun
    counts = result.counts
    return {
        "seconds": spent,
        "solver": result.solver,
        "status": result.status.label,
        "svds": counts.svds,
        "rank_one_svds": counts.rank_one_svds,
        "full_gradients": counts.full_gradients,
        "samples": counts.samples,
        "evaluation_samples": counts.evaluation_samples,
        "rank": result.rank,
        **judged(result, X, judge, ref, eps),
    }


def judged(
    result: Any, X: np.ndarray, judge: Judge, ref: Reference, eps: float
) -> dict[str, Any]:
    """Where the answer really stands; `error` says which claim is refuted, if one is."""
    value, excess = judge.value(X), judge.excess(X)
    scale, errors = abs(ref.lower), []
    if excess > ROUNDING:
        errors.append(f"outside the ball by {excess:.1e}")
    if not result.sampled and abs(result.value - value) > 1e-9 * max(abs(value), scale):
        errors.append(f"value given as {result.value:.9g}, is {value:.9g}")
    if result.certificate.proves:
        bound = result.certificate.lower_bound
        if bound > ref.value + 1e-12 * scale:
            errors.append(f"lower bound {bound:.12g} above a value reached, {ref.value:.12g}")
        if result.certified and value - ref.value > eps * (1 + 1e-9):
            errors.append("gap proved to be wrong")
    within = not errors and value - ref.value <= eps
    return {
        "gap": (value - ref.value) / scale,
        "gap_to_own_bound": (value - ref.lower) / scale,
        "gap_claimed": result.gap / scale if result.certificate.proves else None,
        "certified": bool(result.certified),
        "reached": bool(within and (result.certified or result.sampled)),
        "error": "; ".join(errors) or None,
    }


@contextlib.contextmanager
def counting(shape: tuple[int, int]) -> Iterator[list[int]]:
    """Count every decomposition of a matrix of X's size, whoever asks for it.

    `Counts.svds` leaves those of certificates out. Here all outermost calls of thin and
    full decompositions on arrays of X's shape (or of its Gram matrix) are counted, by
    replacing the functions for a while. For a run that is not timed.
    """
    total, depth = [0], [0]
    side = min(shape)

    def wrapped(function: Any) -> Any:
        @functools.wraps(function)
        def call(A: Any, *args: Any, **options: Any) -> Any:
            size = getattr(A, "shape", ())
            whole = tuple(size) in (tuple(shape), tuple(shape)[::-1], (side, side))
            total[0] += whole and depth[0] == 0
            depth[0] += 1
            try:
                return function(A, *args, **options)
            finally:
                depth[0] -= 1

        return call

    names = {"thin_svd", "thin_eigh", "gram_svd"}
    dense = {"svd", "svdvals", "eigh", "eigvalsh"}
    replaced = []
    modules = [m for k, m in list(sys.modules.items()) if k.startswith("weakprox")]
    compat = sys.modules.get("array_api_compat.numpy.linalg")
    for module, wanted in [
        *((m, names) for m in modules),
        *((m, dense) for m in (np.linalg, scipy.linalg, compat) if m is not None),
    ]:
        for name in wanted:
            function = getattr(module, name, None)
            if callable(function) and not hasattr(function, "__path__"):
                replaced.append((module, name, function))
                setattr(module, name, wrapped(function))
    try:
        yield total
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


def count_all(one: Instance, judge: Judge, ref: Reference, gap: float, seconds: float) -> int:
    """Decompositions of a whole run, those of proofs included."""
    del judge
    problem = one.problem()
    with counting(one.shape) as total:
        wp.minimize(problem, eps=gap * abs(ref.lower), max_seconds=seconds, progress=False)
        return total[0]

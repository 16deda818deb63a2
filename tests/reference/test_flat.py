"""Problems that are not strongly convex: certified, with a bound below CVXPY's optimum."""

from __future__ import annotations

import numpy as np
import pytest
from reference._cases import (
    Case,
    affine,
    complete,
    group,
    l1,
    sense,
    signal,
)

import weakprox as wp
from weakprox.solvers import DavisYin, Extragradient

SMALL = 1e-5  # relative accuracy granted to CVXPY


def build(kind, make, seed, shape=(9, 7)):
    rng = np.random.default_rng(seed)
    psd = kind == "psd"
    shape = (8, 8) if psd else shape
    X0 = signal(shape, psd, rng)
    loss, *penalties = make(X0, rng)
    size = 0.3 if kind == "norm" else 0.8 * np.linalg.norm(X0, "nuc")
    return Case(
        f"{make.__name__} {kind}", kind, shape, float(size), loss, tuple(penalties), 0.0
    )


def entries(X0, rng):
    return (complete(X0, 0.6, rng),)


def entries_and_l1(X0, rng):
    return complete(X0, 0.6, rng), l1(0.05)


def entries_and_rows(X0, rng):
    return complete(X0, 0.6, rng), group(0.1, "rows")


def few_measurements(X0, rng):
    return sense(X0, X0.size // 2, rng), l1(0.02)


def pieces(X0, rng):
    return complete(X0, 0.7, rng), affine(X0.shape, 5, rng)


CASES = [
    build(kind, make, seed)
    for seed, make in enumerate((entries, entries_and_l1, entries_and_rows, few_measurements))
    for kind in ("ball", "psd", "norm")
]
CASES += [build(kind, pieces, 9) for kind in ("ball", "psd")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_certified(case):
    assert case.problem.strong_convexity(needed=False) == 0.0
    result = wp.minimize(case.problem, tol=1e-6, progress=False)
    best = case.optimum[0]
    expected = "FilledProximal" if case.problem.observed is not None else "DavisYin"
    # flat without a penalty that hides it, or with measurements only
    flat = case.name == "entries psd" or case.name.startswith("few_measurements")
    assert result.solver == ("ADMM" if flat else expected)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= best + SMALL * abs(best)
    assert result.value == pytest.approx(best, rel=SMALL)
    assert result.value == pytest.approx(case.value(result.X), rel=1e-12)
    # the bound is one for every method's point, whatever it claims
    rough = wp.minimize(case.problem, DavisYin(), tol=1e-2, progress=False)
    assert rough.certificate.lower_bound <= result.value


@pytest.mark.parametrize("kind", ["ball", "norm"])
def test_by_extragradient(kind):
    case = build(kind, entries_and_l1, 1)
    result = wp.minimize(case.problem, Extragradient(), tol=1e-3, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.certificate.lower_bound <= case.optimum[0] * (1 + SMALL)

"""Theorem 1: Algorithm 1 on smooth problems, h_s <= C0 2^-(s-1) + 8 a delta/7.

Checked with the smallest C0 allowed, the exact initial gap, at every epoch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from registry import ALL
from theory._instances import denoising, sensing
from theory._runs import average_gaps, sloppy_problem, smoothed_gap, theorem_bound

import weakprox as wp
from weakprox.spectral import singular

CASES = [
    denoising("denoising ball", (8, 6), seed=0, noise=0.7),
    denoising("denoising psd", (7, 7), seed=1, noise=0.7, kind="psd"),
    sensing("sensing ball", (3, 2), seed=2, n=600, l2=0.1, sampled=True),
    sensing("sensing psd", (3, 3), seed=3, n=900, l2=0.3, sampled=True, kind="psd"),
]


def solver_for(case, constants, **settings):
    solver = wp.SVRGCG(rank=case.rank_of_optimum(), constants=constants, answer="iterate")
    return replace(solver, **({"delta": 0.0, "C0": smoothed_gap(case, 1.0)} | settings))


@pytest.mark.parametrize("constants", ["paper", "repaired"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bound_holds_at_every_epoch(case, constants):
    solver = solver_for(case, constants)
    seen = average_gaps(case, solver, eps=solver.C0 / 20, seeds=range(24 if ALL else 5))
    p = seen.parameters
    bound = theorem_bound(p, rate=0.5)
    assert len(bound) == p.epochs >= 5
    assert np.all(seen.mean + 2 * seen.error <= bound)
    np.testing.assert_allclose([p.bound(s) for s in range(2, p.S + 1)], bound)
    assert bound[-1] <= p.eps / 2 * (1 + 1e-9)  # T4: X_S meets half of eps, delta = 0
    assert seen.error.max() > 0  # it is an average over different runs


def test_bound_holds_with_iterative_svds(monkeypatch):
    """60 x 50 at rank 2: no LAPACK, triplets only as accurate as delta asks for."""
    monkeypatch.setattr(singular, "gram_is_cheaper", lambda *_: False)
    case = denoising("larger", (60, 50), seed=4, noise=0.05)
    solver = solver_for(case, "paper", delta=None)
    seen = average_gaps(case, solver, eps=solver.C0 / 20, seeds=range(4))
    assert seen.results[0].counts.passes > 0
    assert seen.parameters.delta > 0
    bound = theorem_bound(seen.parameters, rate=0.5)
    assert np.all(seen.mean + 2 * seen.error <= bound)


@pytest.mark.parametrize(
    "constants", ["paper", pytest.param("repaired", marks=pytest.mark.long)]
)
def test_bound_holds_when_the_oracle_uses_up_its_delta(constants):
    case = CASES[0]
    exact = solver_for(case, constants)
    solver = replace(exact, delta=None)
    eps = solver.C0 / 20
    lazy = sloppy_problem(case)
    seen = average_gaps(case, solver, eps=eps, seeds=range(5), problem=lazy)
    p = seen.parameters
    assert p.delta == pytest.approx(7 * eps / (16 * case.alpha))
    assert np.all(seen.mean + 2 * seen.error <= theorem_bound(p, rate=0.5))
    assert seen.mean[-1] <= eps
    careful = average_gaps(case, exact, eps=eps, seeds=range(5))
    assert seen.mean[-1] > careful.mean[-1] + 5 * careful.error[-1]  # it did stray


WIDE = denoising("wide ball", (12, 10), seed=5, noise=0.8, share=20.0)


def test_bound_fails_with_the_noise_of_one_entry():
    """T8: sigma per entry instead of sigma over all entries voids the theorem."""
    wrong = solver_for(WIDE, "paper", sigma=WIDE.sigma / np.sqrt(120), rank=10)
    eps = wrong.C0 / 20
    seen = average_gaps(WIDE, wrong, eps=eps, seeds=range(5))
    assert np.any(seen.mean - 4 * seen.error > theorem_bound(seen.parameters, rate=0.5))
    right = replace(wrong, sigma=None)
    seen = average_gaps(WIDE, right, eps=eps, seeds=range(5))
    assert np.all(seen.mean + 2 * seen.error <= theorem_bound(seen.parameters, rate=0.5))


def test_bound_fails_with_snapshots_that_do_not_grow():
    """k_s must double: with k_1 throughout, the later epochs stand still."""
    solver = solver_for(WIDE, "paper", rank=10)
    first = np.ceil(32 * WIDE.sigma**2 / solver.C0)
    stuck = replace(solver, k_s=first)
    seen = average_gaps(WIDE, stuck, eps=solver.C0 / 500, seeds=range(12))
    bound = theorem_bound(seen.parameters, rate=0.5)
    within = seen.mean + 2 * seen.error <= bound
    assert within[:3].all()
    assert not within[-2:].any()

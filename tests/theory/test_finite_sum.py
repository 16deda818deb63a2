"""The finite-sum theorem: Algorithm 2, h_s <= C0 (5/12)^(s-1) + 8 a delta/7.

The measurements form tight frames, so that the theorem's k_t is smaller than n and the
inner loop really samples.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from registry import ALL
from theory._instances import sensing
from theory._runs import average_gaps, epoch_ends, smoothed_gap, theorem_bound

import weakprox as wp

CASES = [
    sensing("ball", (3, 2), seed=0, n=1200, l2=0.1),
    sensing("ball, no ridge", (3, 2), seed=1, n=1500, noise=1.0),
    sensing("psd", (2, 2), seed=2, n=1000, l2=0.1, kind="psd"),
    sensing("nuclear norm", (3, 2), seed=3, n=1200, l2=0.1, kind="norm", share=0.5),
]


@pytest.mark.parametrize("constants", ["paper", "repaired"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bound_holds_at_every_epoch(case, constants):
    solver = wp.SVRGCG(
        rank=case.rank_of_optimum(),
        constants=constants,
        C0=smoothed_gap(case, 1.0),
        delta=0.0,
        answer="iterate",
    )
    seen = average_gaps(case, solver, eps=solver.C0 / 200, seeds=range(20 if ALL else 5))
    p = seen.parameters
    n = case.loss.n_terms
    assert 0 < p.k_t < n
    counts = seen.results[0].counts
    assert counts.samples == p.epochs * (p.inner - 1) * p.k_t
    assert counts.full_gradients == p.epochs
    bound = theorem_bound(p, rate=5 / 12)
    assert len(bound) == p.epochs >= 7
    assert np.all(seen.mean + 2 * seen.error <= bound + 1e-12 * p.C0)
    np.testing.assert_allclose([p.bound(s) for s in range(2, p.S + 1)], bound)
    assert bound[-1] <= p.eps / 2 * (1 + 1e-9)
    assert seen.error[0] > 0


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.name)
def test_trace_holds_the_values_at_epoch_ends(case):
    """Row k is X_{k+2}; where h is a norm, an upper bound by convexity of h."""
    ends, result = epoch_ends(case.problem, wp.SVRGCG(rank=2), eps=0.1, seed=3)
    seen = result.trace.epochs()
    exact = np.array([case.value(X) for X in ends])
    assert list(seen["epoch"]) == list(range(1, result.parameters.S))
    if case.kind == "ball":
        np.testing.assert_allclose(seen["value"], exact, rtol=1e-12)
    else:
        assert np.all(exact <= seen["value"] * (1 + 1e-12))


def test_inner_samples_are_needed():
    """One inner sample instead of k_t breaks the rate: the test above can fail."""
    case = sensing("noisy", (4, 3), seed=4, n=1200, noise=3.0)
    right = wp.SVRGCG(rank=3, C0=smoothed_gap(case, 1.0), delta=0.0, answer="iterate")
    eps = right.C0 / 200
    seen = average_gaps(case, right, eps=eps, seeds=range(6))
    assert np.all(seen.mean + 2 * seen.error <= theorem_bound(seen.parameters, rate=5 / 12))
    seen = average_gaps(case, replace(right, k_t=1), eps=eps, seeds=range(6))
    bound = theorem_bound(seen.parameters, rate=5 / 12)
    assert np.any(seen.mean - 3 * seen.error > bound)


def test_sampling_stops_where_the_whole_sum_is_cheaper():
    """k_t >= n: full gradients, nothing drawn, and every seed gives the same run."""
    case = sensing("few terms", (3, 2), seed=5, n=60)
    solver = wp.SVRGCG(rank=2, C0=smoothed_gap(case, 1.0), delta=0.0, answer="iterate")
    seen = average_gaps(case, solver, eps=solver.C0 / 200, seeds=range(3))
    p = seen.parameters
    assert p.k_t > 60
    assert all(r.counts.samples == 0 for r in seen.results)
    assert seen.results[0].counts.full_gradients == p.epochs * p.inner
    assert seen.error.max() == 0.0
    assert np.all(seen.mean <= theorem_bound(p, rate=5 / 12))

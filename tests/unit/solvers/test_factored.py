"""Steps in factors: what they estimate before anything is proved."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import weakprox as wp
from weakprox.passes import Step
from weakprox.passes.reference import Sums
from weakprox.passes.ritz import Ritz
from weakprox.solvers import LeanSplitting
from weakprox.solvers._factored import Factored


def test_the_estimated_gap_counts_pairs_that_are_not_exact():
    """The values of X are those of z less 1.5; a third pair of z has the value 1.2."""
    problem = wp.Problem(
        wp.losses.Denoising(np.diag([9.0, 7.0, 1.0, 0.5, 0.2])),
        wp.penalties.L1(0.1),
        wp.spectral.TracePSD(10.0),
    )
    state = wp.minimize(problem, LeanSplitting(), max_svds=1, tol=1e-9).checkpoint.memory
    V, s = np.eye(5)[:, :3], np.array([6.0, 5.0, 1.2])
    pairs = Ritz(V, s, V, True, residuals=np.array([0.3, 0.4, 0.0]))
    state = replace(state, ritz=pairs, values=s[:2] - 1.5, gap=2.0, least=2.0, progress=1)
    step, sums = Step(0.5, 1.0, 0.0, 0.1, 0.1), Sums(3.0, 0.2, 0.1, 0.4, 0.6, 30.0)
    after = Factored._judged(SimpleNamespace(form=problem.values_form), state, sums, step, 7)
    excess = np.hypot(0.15, 0.5) - 0.15  # beside a distance of 1.5 - 1.2
    assert after.gap == pytest.approx(sum(sums.halves(step)) + 8.0 / 0.5 * excess)
    assert after.least == min(2.0, after.gap)
    tight = SimpleNamespace(form=replace(problem.values_form, tau=2.0))  # no more than that
    after = Factored._judged(tight, state, sums, step, 7)
    assert after.gap == pytest.approx(sum(sums.halves(step)) + 2.0 / 0.5 * excess)

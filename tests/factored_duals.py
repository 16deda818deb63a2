"""Bounds of factored duals at random targets, compared with the optimum of a problem."""

import numpy as np

import weakprox as wp
from weakprox.certificates.factored import FactoredDual
from weakprox.passes import reference
from weakprox.passes.engine import Engine
from weakprox.solvers import LeanSplitting


def closest(drawn, kind, check=lambda step, C: None):
    """Check bounds and values of 40 problems of `drawn(rng, kind)`; return the median gap.

    `check(step, C)` checks the constants of each step. The gap of a problem is that of the
    best of four bounds, relative to the optimum.
    """
    rng, least = np.random.default_rng([7, len(kind), ord(kind[0])]), []
    for _ in range(40):
        problem, best = drawn(rng, kind)
        room, form = 1e-6 * (1.0 + abs(best)), problem.values_form
        C, n = problem.centre(), problem.shape[1]
        gaps = []
        for _ in range(4):
            step = problem.entrywise(rng.uniform(0.3, 1.5) / (1.0 + problem.penalty.curvature))
            check(step, C)
            z = np.empty_like(C)
            reference.first(C, z, step)
            if kind == "cone" and not problem.mirrored:
                z = 0.5 * (z + z.T)
            z += (rng.choice([0.0, 0.1, 3.0]) * np.eye(*C.shape)).astype(C.dtype)
            engine = Engine(C, z, symmetric=kind == "cone", mirrored=problem.mirrored)
            for _ in range(int(rng.choice([0, 5, 60]))):
                found = engine.ritz(np.eye(n, dtype=C.dtype))
                values = form.prox(found.s, step.gamma)
                engine._passes.advance(C, z, engine.rounded(found, values), step, 1.0)
            found = engine.ritz(np.eye(n, dtype=C.dtype)).leading(int(rng.integers(1, n + 1)))
            dual = FactoredDual(engine, found, step, form)
            bound = dual.proof(rng).lower
            assert bound <= best + room
            assert dual.value + dual.rounding >= best - room
            assert dual.sums.halves(step)[0] >= 0.0
            gaps.append((best - bound) / (1.0 + abs(best)))
        least.append(min(gaps))
    return np.median(least)


def check_run(problem, best):
    """Check bound, value and proof of a run of `LeanSplitting`."""
    assert LeanSplitting.applies(problem)
    result = wp.minimize(problem, LeanSplitting(), tol=1e-4, progress=False, proof=True)
    room = 1e-6 * (1.0 + abs(best))
    assert result.certificate.lower_bound <= best + room
    assert result.value >= best - room
    assert wp.verify(result.proof, problem)


def check_resumed(problem, path):
    """Check that a run that is stopped and resumed from a file has the bits of a whole one."""
    options = {"tol": 1e-9, "progress": False, "checkpoint": path}
    whole = wp.minimize(problem, LeanSplitting(), tol=1e-9, progress=False, max_svds=60)
    wp.minimize(problem, LeanSplitting(), max_svds=20, checkpoint_every=0.0, **options)
    rest = wp.minimize(problem, LeanSplitting(), max_svds=60, resume=True, **options)
    np.testing.assert_array_equal(whole.X, rest.X)
    assert whole.certificate.lower_bound == rest.certificate.lower_bound

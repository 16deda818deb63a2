"""Values beside the cut-off: few decompositions, and a proof, in float32 as in float64.

Radii near the nuclear norm of the signal leave the noise's dense spectrum just at the cut-off.
Blocks then miss directions, randomised bounds are too large, and float32 has few digits. Such
runs once took over a hundred decompositions, or never ended.
"""

from dataclasses import replace

import numpy as np
import pytest

import weakprox as wp

SIZE = 640  # above the size to which certificates decompose fully
CELLS = {  # changes of the map's central cell, and the decompositions allowed
    "0.95": ({"factor": 0.95}, 20),
    "0.97": ({"factor": 0.97}, 30),
    "full": ({"factor": 1.05}, 30),
    "rank 5": ({"factor": 1.0, "rank": 5}, 30),
    "norm": ({"factor": 0.97, "spectral": "norm"}, 30),
    "psd": ({"factor": 0.97, "spectral": "psd"}, 40),
    "none": ({"factor": 1.0, "penalty": "none"}, 20),
    "rows": ({"factor": 1.0, "penalty": "rows"}, 25),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_few_decompositions(cost, name, dtype):
    changes, most = CELLS[name]
    cell = replace(cost.Cell(), shape=(SIZE, SIZE), dtype=dtype, **changes)
    one = cost.drawn(cell, "cpu")
    result = wp.minimize(cost.problem(cell, one), tol=1e-4, max_svds=most, progress=False)
    assert result.status is wp.Status.CERTIFIED
    assert result.X.dtype == np.dtype(dtype)


def test_the_lower_bound_of_rough_decompositions_is_true(cost):
    """Against the bound and the value of a run to a higher accuracy."""
    cell = replace(cost.Cell(), shape=(SIZE, SIZE), rank=5, factor=1.0)
    problem = cost.problem(cell, cost.drawn(cell, "cpu"))
    rough = wp.minimize(problem, "davis-yin", tol=1e-4, progress=False)
    tight = wp.minimize(problem, "davis-yin", tol=5e-5, progress=False)
    assert rough.certified
    assert tight.certified
    assert rough.certificate.lower_bound <= tight.value
    assert tight.certificate.lower_bound <= rough.value

"""The process that compiles passes and those that load them compute the same bits."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

SCRIPT = """
import numpy as np
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import cells_compiled, compiled, target_compiled
from weakprox.passes.reference import Step

rng = np.random.default_rng(0)
C, z = rng.standard_normal((300, 200)), rng.standard_normal((300, 200))
U, V = rng.standard_normal((300, 4)), rng.standard_normal((4, 200))
Q = rng.standard_normal((200, 8))
X = LowRank(U, np.ones(4), V)
step = Step(0.3, 1.0, 0.1, 0.7, 1.1)
sums, product = compiled.advance(C, z, X, step, 0.9, Q)
look = compiled.look(C, z, X, step)
cells = cells_compiled.stepped(C, U, V, Q, 0.5, 1.0)
target = target_compiled.target(C, z, z, Q, (1.0, 0.5, 3.0, 0.7, 1.1, 0.2))
found = sums, product, z, look, *cells, *target
print(*(np.asarray(x).tobytes().hex()[:4000] for x in found))
"""


def printed(folder):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_resumed_run_computes_the_same_bits_as_the_run_that_compiled(tmp_path):
    first = printed(tmp_path)
    assert len(first) > 10_000
    assert printed(tmp_path) == first

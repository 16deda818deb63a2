"""Dual points in factors, made by several threads at a time."""

import threading

import numpy as np

from weakprox.linalg.engine import Engine
from weakprox.linalg.fused import Step
from weakprox.linalg.subspace import refined
from weakprox.oracles.factored import FactoredDual


class Meets(Engine):
    """Waits in each look until another thread is looking, too."""

    both = threading.Barrier(2)

    def look(self, found, values, k):
        self.both.wait(20)
        return super().look(found, values, k)


def test_one_thread_does_not_wait_for_another():
    C = np.random.default_rng(0).standard_normal((9, 7))
    found, sums = refined(C, np.eye(7)[:, :3], powers=3), []

    def work():
        sums.append(FactoredDual(Meets(C, C.copy()), found, Step(1.0, 1.0, 0.0, 0.1), 2.0).sums)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(sums) == 2
    assert sums[0] == sums[1]

"""Dual points in factors: against whole matrices, and made by several threads at a time."""

import threading

import numpy as np
import pytest

from weakprox.linalg.engine import Engine
from weakprox.linalg.fused import Step
from weakprox.linalg.subspace import Ritz, refined
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


@pytest.mark.parametrize("askew", [0.0, 1e-9, 3e-8])
@pytest.mark.parametrize("k", [Step(1.0, 1.0, 0.0, 0.1), Step(0.4, 1.0, 0.3, 0.2)])
def test_bounds_are_those_of_whole_matrices(k, askew):
    """Whatever the angles between vectors: only `tail` may be lost, and little of it."""
    rng, tau = np.random.default_rng(5), 4.0
    U, V = (np.linalg.qr(rng.standard_normal((n, 12)))[0] for n in (40, 30))
    z = (U * np.array([9.0, 8.0, 7.0, *np.linspace(2.0, 1.0, 9)])) @ V.T
    C = z + 0.3 * rng.standard_normal(z.shape)
    right = V[:, :3] + askew * rng.standard_normal((30, 3))
    s = np.linalg.norm(z @ right, axis=0)
    dual = FactoredDual(Engine(C, z.copy()), Ritz(z @ right / s, s, right, True), k, tau)
    bound, _ = dual.bound(rng)

    X = (z @ right / s * dual.values) @ right.T
    gradient, u = k.beta * (X - C) + k.curvature * X, (z - X) / k.gamma
    t = 2 * X - z - k.gamma * gradient
    y = np.clip(t / k.gamma, -k.lam, k.lam)
    whole = 0.5 * (k.beta * np.sum((X - C) ** 2) + k.curvature * np.sum(X * X))
    whole += np.sum((y + u) * X) - tau * np.linalg.norm(u, 2)
    whole -= np.sum((gradient + y + u) ** 2) / (2 * (k.beta + k.curvature))
    assert bound <= whole
    assert whole - bound <= (1e-10 + 200 * askew) * abs(whole)

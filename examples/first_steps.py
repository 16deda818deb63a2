# The example of the README. Keep both identical.
import numpy as np

import weakprox as wp

rng = np.random.default_rng(0)
Y = rng.integers(1, 10, (200, 2)) * (rng.random((200, 2)) < 0.1)  # two sparse patterns
M = Y @ Y.T + rng.standard_normal((200, 200))  # plus noise
tau = 0.9 * np.sum(Y * Y)

problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau))
result = wp.minimize(problem)
print(result.explain())

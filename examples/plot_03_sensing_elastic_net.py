r"""
Matrix sensing with the elastic net
===================================

The paper's Example 3. A matrix is known only through measurements
:math:`b_i = \langle A_i, X\rangle + \text{noise}`, fewer than it has entries. It is
recovered as a matrix that is both low rank and sparse:

.. math::
   \min_{\|X\|_* \le \tau}\ \frac1n \sum_i \tfrac12 (\langle A_i, X\rangle - b_i)^2
   + \lambda_1 \|X\|_1 + \lambda_2 \|X\|_F^2 .

With so few measurements the loss alone is not strongly convex. The quadratic term of the
elastic net makes the problem strongly convex.
"""

# %%
# The data
# --------
# The measurement matrices :math:`A_i = u_i v_i^\top` are given as the pair ``(U, V)`` and
# are never formed.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp

m, d, n = 40, 30, 700
rng = np.random.default_rng(0)
left, right = np.zeros((m, 2)), np.zeros((d, 2))
left[5:13, 0], left[20:30, 1] = 1.0, 1.0
right[3:11, 0], right[15:24, 1] = 1.0, -1.0
signal = left @ right.T
U, V = rng.standard_normal((n, m)), rng.standard_normal((n, d))
b = np.sum((U @ signal) * V, axis=1) + 0.5 * rng.standard_normal(n)
print(f"{n} measurements of {m * d} unknown entries")

# %%
# The default solver does not need strong convexity: the ball bounds X, which suffices for a
# lower bound.

loss = wp.losses.Sensing((U, V), b)
ball = wp.spectral.NuclearBall(0.75 * np.linalg.norm(signal, "nuc"))
flat = wp.minimize(wp.Problem(loss, wp.penalties.L1(0.1), ball))
print(flat.status.label, flat.gap)

# %%
# Solving
# -------

problem = wp.Problem(loss, wp.penalties.ElasticNet(0.1, 0.05), ball)
result = wp.minimize(problem)
print(result.explain())

# %%
# The overview figure shows the answer and the true signal, the singular values, the support
# and the convergence of the run.

from weakprox.report import overview

_ = overview(result, data=signal)
plt.show()

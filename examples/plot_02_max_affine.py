r"""
A maximum of affine functions as the penalty
============================================

The paper's Example 2, where the penalty is the largest of several affine functions,
:math:`R(X) = \max_i \langle A_i, X\rangle - b_i`.

Here the penalty discourages column sums above a capacity. An example is traffic from 30
sources to 12 sinks: a noisy table is observed, it is known to be nearly low rank, and the
estimate should not overload the fullest sink by much:

.. math::
   \min_{\|X\|_* \le \tau}\ \tfrac12 \|X - M\|_F^2
   + w \max\bigl(0,\ \max_j \textstyle\sum_i x_{ij} - c\bigr).
"""

# %%
# The data
# --------

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp

m, d, price = 30, 12, 5.0
rng = np.random.default_rng(0)
busy = 3.0 * rng.uniform(0.5, 1.5, (m, 2)) @ rng.uniform(0.2, 1.8, (2, d))
M = busy + rng.standard_normal((m, d))
capacity = float(np.quantile(M.sum(axis=0), 0.4))
tau = 0.9 * np.linalg.norm(busy, "nuc")

# %%
# The penalty
# -----------
# There is one affine piece per column, :math:`\sum_i x_{ij} - c`, and one that is zero, so
# that columns below capacity are not rewarded. A positive factor sets the weight.

A = np.zeros((d + 1, m, d))
b = np.full(d + 1, capacity)
for j in range(d):
    A[j, :, j] = 1.0
b[d] = 0.0
penalty = price * wp.penalties.MaxAffine(A, b)
print(penalty.smoothability((m, d)))

# %%
# Solving with and without the penalty
# ------------------------------------
# The solver is chosen automatically. With the penalty, the dual problem has one variable
# per piece, and ``minimize`` chooses ``DualAscent``.

loss, ball = wp.losses.Denoising(M), wp.spectral.NuclearBall(tau)
plain = wp.minimize(wp.Problem(loss, None, ball))
kept = wp.minimize(wp.Problem(loss, penalty, ball))
print(kept.explain())

# %%
# The paper's method solves the same problem with the theorem's parameters. It smooths the
# penalty and plans its work for an absolute accuracy.

paper = wp.minimize(
    wp.Problem(loss, penalty, ball), solver=wp.SVRGCG(rank=3), eps=0.005 * 0.5 * np.sum(M**2)
)
print(paper)

# %%
# The penalty affects the fullest columns only and reduces them to a common level. A larger
# weight would move that level closer to the capacity.

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
order = np.argsort(-M.sum(axis=0))
columns = np.arange(d)
ax.bar(columns, M.sum(axis=0)[order], color="lightgrey", label="data")
ax.plot(columns, plain.X.sum(axis=0)[order], "o", label="without penalty")
ax.plot(columns, kept.X.sum(axis=0)[order], "s", label="with penalty")
ax.axhline(capacity, color="black", linestyle="--", label="capacity")
ax.set_xlabel("column, by its sum in the data")
ax.set_ylabel("column sum")
_ = ax.legend()

r"""
A worst case in the penalty
===========================

The paper's Example 2, where the penalty is the largest of several affine functions,
:math:`R(X) = \max_i \langle A_i, X\rangle - b_i`.

Here it keeps columns within a capacity. Think of traffic from 30 sources to 12 sinks:
we see a noisy table, know that it is nearly low rank, and want an estimate in which the
fullest sink is not overloaded by much:

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
# One affine piece per column, :math:`\sum_i x_{ij} - c`, and one that is zero, so that
# columns below capacity are not rewarded. A positive multiple sets the price.

A = np.zeros((d + 1, m, d))
b = np.full(d + 1, capacity)
for j in range(d):
    A[j, :, j] = 1.0
b[d] = 0.0
penalty = price * wp.penalties.MaxAffine(A, b)
print(penalty.smoothability((m, d)))

# %%
# Solving, with and without
# -------------------------
# No solver is named. With the penalty, the dual problem has one variable per piece, and
# ``minimize`` takes ``DualAscent``.

loss, ball = wp.losses.Denoising(M), wp.spectral.NuclearBall(tau)
plain = wp.minimize(wp.Problem(loss, None, ball))
kept = wp.minimize(wp.Problem(loss, penalty, ball))
print(kept.explain())

# %%
# The paper's method solves the same problem with the theorem's settings. Its penalty is
# smoothed, and it plans its work for an absolute accuracy.

paper = wp.minimize(
    wp.Problem(loss, penalty, ball), solver=wp.SVRGCG(rank=3), eps=0.005 * 0.5 * np.sum(M**2)
)
print(paper)

# %%
# The price falls on the fullest columns only, which come down to a common level. A higher
# price would press that level further towards the capacity.

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

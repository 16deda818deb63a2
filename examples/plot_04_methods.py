"""
Comparison of methods
=====================

This example solves the paper's problem with the default splitting, the paper's method and the
methods that the paper compares it with. All use the same oracles and counters, so their work
can be compared in one plot. ``weakprox reproduce all`` makes the same comparison at full size,
with samples and several runs.
"""

# %%
# The data are a noisy matrix with two sparse patterns. ``tau`` is slightly below the nuclear
# norm of the signal, so that the optimum is low-rank.
import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox import solvers

rng = np.random.default_rng(0)
d, r = 60, 2
Y = rng.integers(1, 11, (d, r)) * (rng.random((d, r)) < 1 / np.sqrt(d))
M = Y @ Y.T + rng.standard_normal((d, d))
tau, size = 0.9 * float(np.sum(Y * Y)), float(np.sum((Y @ Y.T) ** 2))

problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau))
eps = 0.0003 * size

# %%
# Methods with theorems use the theory's parameters for this ``eps``. Every method may compute
# at most 1000 decompositions. A run ends as soon as a duality gap proves ``eps``.
methods = {
    "DavisYin (default)": solvers.DavisYin(),
    "Extragradient": solvers.Extragradient(),
    "SVRGCG, practical": wp.solvers.AdaptiveSVRGCG(rank="estimate"),
    "SVRGCG (rank 4)": wp.SVRGCG(rank=4),
    "SCG": solvers.SCG(),
    "SCGS, convex": solvers.SCGS(strongly_convex=False),
    "HCGM": solvers.HCGM(),
    "FISTA (full SVDs)": solvers.FISTA(),
}
results = {
    name: wp.minimize(problem, solver, eps=eps, max_svds=1000)
    for name, solver in methods.items()
}
for name, result in results.items():
    print(
        f"{name:<19} {result.status.label:<12} gap {result.gap / eps:6.2f} eps   "
        f"{result.counts.svds:>5} decompositions, {result.counts.rank_one_svds:>6} rank-one"
    )

# %%
# The plot shows the value minus the best lower bound proved by any method, against rank-one
# SVDs. A decomposition of rank r counts r times, and a full one, which may be the cheapest for
# such a small matrix, d times. Dashed curves are low-rank points, if they differ from the
# iterate. The low-rank point of SVRGCG has a much smaller error than the iterate that the
# theorem bounds.
floor = max(result.certificate.lower_bound for result in results.values())

figure, axes = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
for name, result in results.items():
    trace = result.trace
    (line,) = axes.loglog(
        trace["rank_one_svds"], (trace["value"] - floor) / size, ".-", label=name
    )
    if np.isfinite(trace["value_low_rank"]).any():
        axes.loglog(
            trace["rank_one_svds"],
            (trace["value_low_rank"] - floor) / size,
            ".--",
            color=line.get_color(),
        )
axes.axhline(eps / size, color="grey", linewidth=0.8)
axes.set(xlabel="rank-one SVDs", ylabel=r"$(f - f^*) / \|YY^\top\|_F^2$, at most")
figure.legend(loc="outside right center", frameon=False)
plt.show()

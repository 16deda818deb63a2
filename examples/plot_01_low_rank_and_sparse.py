r"""
Low rank and sparse, from noisy samples
=======================================

The paper's Example 1. A matrix that is both low rank and sparse is observed only through
noisy copies. We estimate it by solving

.. math::
   \min_{\|X\|_* \le \tau}\ \tfrac12 \|X - \mathbb{E} M\|_F^2 + \lambda \|X\|_1

twice: once from a sampler that draws fresh noisy copies (Algorithm 1), and once with the
mean known exactly (Algorithm 2).
"""

# %%
# The data
# --------
# The signal :math:`YY^\top` is simulated, and its factor has few nonzero entries. The mean
# contains unit noise, and every sample contains additional noise five times as large.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp

d, r, lam = 60, 3, 2.0
rng = np.random.default_rng(3)
Y = np.where(rng.random((d, r)) < 1 / np.sqrt(d), rng.integers(1, 11, (d, r)), 0).astype(float)
signal = Y @ Y.T
mean = signal + rng.standard_normal((d, d))
tau = 0.9 * np.trace(signal)
eps = 0.01 * np.sum(signal**2)


def sampler(rng, k):
    """Draw k noisy copies."""
    return mean + 5.0 * rng.standard_normal((k, d, d))


# %%
# Two forms of one problem
# ------------------------
# Only the loss differs. ``wp.theory.parameters`` shows the parameters that the theorems
# prescribe, without running a solver. Inner samples cancel in this loss, so ``k_t`` is 0:
# all samples are used in the snapshots at the beginning of an epoch.

exact = wp.Problem(
    wp.losses.Denoising(mean), wp.penalties.L1(lam), wp.spectral.NuclearBall(tau)
)
sampled = wp.Problem(
    wp.losses.Denoising(sampler=sampler, shape=(d, d)),
    wp.penalties.L1(lam),
    wp.spectral.NuclearBall(tau),
)
print(wp.theory.parameters(sampled, eps))

# %%
# A callback receives the iterate at regular evaluations. Here it records the true value,
# which is not available from the sampler alone.
#
# The run with the known mean could stop at its first proof. To compare full runs we
# continue it to its end (``stop_when_certified=False``).

true_values = []


def record(look):
    """Record the true value at the iterate."""
    true_values.append((look.counts.svds, exact.smooth_value(look.X)))


solver = wp.SVRGCG(rank=r)
from_samples = wp.minimize(sampled, solver=solver, eps=eps, callback=record)
from_mean = wp.minimize(exact, solver=solver, eps=eps, stop_when_certified=False)
quick = wp.minimize(exact, solver=solver, eps=eps)
print(from_samples, from_mean, sep="\n\n")

# %%
# Work and accuracy
# -----------------

runs = {"from samples": from_samples, "mean known": from_mean, "at first proof": quick}
print(" " * 16 + "".join(f"{name:>16}" for name in runs))
for name in ("samples", "gradients", "svds", "rank_one_svds"):
    print(f"{name:16}" + "".join(f"{getattr(run.counts, name):16d}" for run in runs.values()))
values = [exact.value(run.low_rank) for run in runs.values()]
errors = [np.sum((run.X - signal) ** 2) / np.sum(signal**2) for run in runs.values()]
print("true value      " + "".join(f"{value:16.1f}" for value in values))
print("relative error  " + "".join(f"{error:16.5f}" for error in errors))

# %%
# The theorem bounds the expected error at the end of every epoch. The error itself is
# unknown. The distance from the proved lower bound is known and is never smaller.

lower = from_mean.certificate.lower_bound
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
svds, values = np.array(true_values).T
ax.loglog(svds, values - lower, label="from samples (Algorithm 1)")
ax.loglog(
    from_mean.trace["svds"],
    from_mean.trace["value"] - lower,
    label="mean known (Algorithm 2)",
)
p = from_samples.parameters
ends = [s * p.inner for s in range(1, p.S)]
ax.loglog(ends, [p.bound(s + 1) for s in range(1, p.S)], "kv", label="Algorithm 1's bound")
ax.axhline(eps, color="grey", linestyle="--", label="eps")
ax.set_xlabel("thin SVDs")
ax.set_ylabel("f minus the proved lower bound")
_ = ax.legend()

# %%
# The figure shows one sample of the data, the answer and the true signal.

one = sampler(np.random.default_rng(1), 1)[0]
pictures = {"one sample": one, "the answer": from_samples.X, "the signal": signal}
# sphinx_gallery_thumbnail_number = 2
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture, cmap="RdBu_r", vmin=-40, vmax=40)
    ax.set(title=title, xticks=[], yticks=[])

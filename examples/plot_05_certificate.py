r"""
What a certificate looks like
=============================

Every result comes with a certificate: the value reached, and a number below the optimum
:math:`f^*` that is proved by duality. Their difference, the gap, is how far the answer can be
from the best possible at most. This page watches that gap close as a run goes on, first where
the loss is known, then where it is known through samples only.
"""

# %%
# A known loss
# ------------
# A noisy matrix with four sparse patterns in it. Each run below is the same run, stopped after
# one decomposition more. Whatever ends a run, the best point so far comes back, and with it
# what is proved about it.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp

rng = np.random.default_rng(2)
d, r, noise = 120, 4, 5.0
Y = rng.integers(1, 11, (d, r)) * (rng.random((d, r)) < 1 / np.sqrt(d))
M = Y @ Y.T + rng.standard_normal((d, d))
tau = 0.9 * float(np.sum(Y * Y))
penalty, ball = wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau)
problem = wp.Problem(wp.losses.Denoising(M), penalty, ball)

whole = wp.minimize(problem, tol=1e-5)
print(whole.explain())

svds = np.arange(1, whole.counts.svds + 1)
proofs = [wp.minimize(problem, tol=1e-5, max_svds=int(k)).certificate for k in svds]

# %%
# The optimum lies between value and lower bound at all times. A longer run tells where, to a
# tenth of the accuracy asked for: so each distance below is at most that much too large.

optimum = wp.minimize(problem, tol=1e-6).certificate
above = [proof.value - optimum.lower_bound for proof in proofs]
below = [optimum.value - proof.lower_bound for proof in proofs]

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.semilogy(svds, [proof.gap for proof in proofs], "k.-", label="gap, proved")
ax.semilogy(svds, above, "o--", label="value above the optimum")
ax.semilogy(svds, below, "s--", label="lower bound below the optimum")
ax.axhline(whole.eps, color="grey", linewidth=0.8, label="accuracy asked for")
ax.set(xlabel="decompositions", ylabel="distance in the value of f", xticks=svds)
_ = ax.legend()

# %%
# A capped rank
# -------------
# A rank that is too small for the accuracy is not called solved. The gap stays open, and the
# status says why. It is an honest one: it holds the price of the rank, and perhaps more.

capped = wp.minimize(problem, rank=3)
print(capped)

# %%
# A loss known through samples
# ----------------------------
# Now the matrix is seen only through copies with five times the noise. As many are drawn as
# the accuracy needs. Nothing is proved with certainty any more: the gap has a part that is
# due to the samples, and holds at the confidence that the certificate names.


def sampler(rng, k):
    """Draw k noisy copies."""
    return M + noise * rng.standard_normal((k, d, d))


sampled = wp.Problem(wp.losses.Denoising(sampler=sampler, shape=(d, d)), penalty, ball)
tols = (0.3, 0.1, 0.03, 0.01)
runs = [wp.minimize(sampled, tol=tol) for tol in tols]
print(runs[-1].explain())

# %%
# Here the true distance can be computed, since we know the mean that the sampler hides. It is
# far below the gap, which has to hold for the worst of the likely errors.

samples = [run.counts.samples for run in runs]
true = [problem.value(run.low_rank) - optimum.lower_bound for run in runs]
errors = [run.certificate.sampling_error for run in runs]

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.loglog(samples, [run.eps for run in runs], "_", color="grey", ms=20, label="asked for")
ax.loglog(samples, [run.gap for run in runs], "k.-", label="gap, at 95 % confidence")
ax.loglog(samples, errors, "s--", label="of it, sampling error")
ax.loglog(samples, true, "D--", label="true distance from the optimum")
ax.set(xlabel="samples drawn", ylabel="distance in the value of f")
_ = ax.legend(markerscale=0.6)

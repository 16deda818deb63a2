r"""
Certificates
============

Every result has a certificate: the value reached, and a lower bound on the optimal value
:math:`f^*`, proved by duality. Their difference, the gap, bounds the distance of the value
from the optimum. This example shows how the gap decreases during a run, first for a known
loss, then for a loss that is known only through samples.
"""

# %%
# A known loss
# ------------
# The data are a noisy matrix with four sparse patterns. The runs below are identical, but each
# one is stopped one decomposition later. A run that is stopped returns the best point so far
# and its certificate.

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
# The optimum always lies between the lower bound and the value. A longer run determines it to a
# tenth of the requested accuracy, so each distance below is too large by at most that amount.

optimum = wp.minimize(problem, tol=1e-6).certificate
above = [proof.value - optimum.lower_bound for proof in proofs]
below = [optimum.value - proof.lower_bound for proof in proofs]

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.semilogy(svds, [proof.gap for proof in proofs], "k.-", label="gap, proved")
ax.semilogy(svds, above, "o--", label="value above the optimum")
ax.semilogy(svds, below, "s--", label="lower bound below the optimum")
ax.axhline(whole.eps, color="grey", linewidth=0.8, label="requested accuracy")
ax.set(xlabel="decompositions", ylabel="distance in the value of f", xticks=svds)
_ = ax.legend()

# %%
# A capped rank
# -------------
# If the rank is too small for the accuracy, the run does not end as certified. The gap remains
# above the accuracy, and the status gives the reason. The gap is still valid: it includes the
# loss in value due to the rank.

capped = wp.minimize(problem, rank=3)
print(capped)

# %%
# A loss known through samples
# ----------------------------
# Now the matrix is observed only through copies with five times the noise. The solver draws as
# many as the accuracy requires. The gap now includes a sampling error and holds at the
# confidence stated in the certificate.


def sampler(rng, k):
    """Draw k noisy copies."""
    return M + noise * rng.standard_normal((k, d, d))


sampled = wp.Problem(wp.losses.Denoising(sampler=sampler, shape=(d, d)), penalty, ball)
tols = (0.3, 0.1, 0.03, 0.01)
runs = [wp.minimize(sampled, tol=tol) for tol in tols]
print(runs[-1].explain())

# %%
# In this simulation the mean is known, so the true distance can be computed. It is far below
# the gap, which has to cover the largest error that is plausible at this confidence.

samples = [run.counts.samples for run in runs]
true = [problem.value(run.low_rank) - optimum.lower_bound for run in runs]
errors = [run.certificate.sampling_error for run in runs]

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.loglog(samples, [run.eps for run in runs], "_", color="grey", ms=20, label="requested")
ax.loglog(samples, [run.gap for run in runs], "k.-", label="gap, at 95 % confidence")
ax.loglog(samples, errors, "s--", label="of it, sampling error")
ax.loglog(samples, true, "D--", label="true distance from the optimum")
ax.set(xlabel="samples drawn", ylabel="distance in the value of f")
_ = ax.legend(markerscale=0.6)

r"""
Choosing the weight and the radius
==================================

.. math::
   \min_{\|X\|_* \le \tau}\ \tfrac12 \|X - M\|_F^2 + \lambda \|X\|_1

has two parameters. ``SparseLowRankCV`` chooses them by data thinning: it splits one noisy
matrix into independent copies, solves the problem without one of them, and compares the answer
with that copy. This example applies it to air traffic data with added noise, and compares the
result with two common methods for denoising a matrix.
"""

# %%
# The data
# --------
# The data are the numbers of passengers between the 100 busiest airports of the United States
# in December 2010, on a logarithmic scale. Most pairs have no flights, so the matrix is sparse,
# and a few patterns (hubs and their regions) explain much of it. We add noise, so that the true
# matrix is known.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox import datasets
from weakprox.plots import MatrixDisplay, PathDisplay, SpectrumDisplay

loaded = datasets.load_us_airports()
table = np.zeros((loaded["airport"].size, loaded["airport"].size))
table[loaded["src"], loaded["dst"]] = np.log1p(loaded["passengers"])
codes = loaded["airport"]
np.fill_diagonal(table, 0.0)
busiest = np.argsort(-table.sum(axis=1), kind="stable")[:100]
signal = table[np.ix_(busiest, busiest)]
noisy = signal + 3.0 * np.random.default_rng(0).standard_normal(signal.shape)
print(f"{np.mean(signal == 0):.0%} of the pairs have no flights")

# %%
# The choice
# ----------
# The noise level is estimated. The weights range from the largest useful for this noise level
# down to zero (low rank only), and the radii up to one that has no effect (sparsity only).

model = wp.SparseLowRankCV(random_state=0).fit(noisy)
print(f"noise: {model.noise_:.2f} (3 is true)")
print(f"chosen: lam = {model.lam_:.3g}, tau = {model.tau_:.4g}, rank {model.rank_}")
print(model.certificate_)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
PathDisplay.from_estimator(model, ax=axes[0])
truth = [
    [np.mean((c * X.dense() - signal) ** 2) for c, X in zip(scales, row, strict=True)]
    for scales, row in zip(
        model.cv_results_["scale"].reshape(model.path_.taus.shape),
        model.path_.answers,
        strict=True,
    )
]
best = np.unravel_index(np.argmin(truth), model.path_.taus.shape)
PathDisplay.from_path(model.path_, truth, chosen=best, name="true error", ax=axes[1])
axes[0].set_xlabel("tau")
axes[1].set_xlabel("tau")
for ax, title in zip(axes, ("held-out error: what the model sees", "true error"), strict=True):
    ax.set_title(title)

# %%
# The left plot shows the error that the model can compute, and the right plot the true error,
# which is unknown in practice. Circles mark the smallest value in each.
#
# Comparison
# ----------
# Common methods are the truncated singular value decomposition and soft thresholding. Both use
# the best setting for this signal, which is known only in a simulation. The models of weakprox
# choose their settings from the noisy data, on the whole grid or by the faster search of
# ``SparseLowRank``.

U, s, Vt = np.linalg.svd(noisy, full_matrices=False)
truncated = [(U[:, :k] * s[:k]) @ Vt[:k] for k in range(1, 40)]
thresholded = [
    np.sign(noisy) * np.maximum(np.abs(noisy) - lam, 0.0) for lam in np.linspace(0, 8, 41)
]


def error(X):
    """Return the distance from the truth, relative to that of the noisy matrix."""
    return np.linalg.norm(X - signal) / np.linalg.norm(noisy - signal)


found = {
    "nothing done": noisy,
    "truncated SVD, best rank": min(truncated, key=error),
    "soft threshold, best lam": min(thresholded, key=error),
    "SparseLowRank": wp.SparseLowRank(random_state=0).fit(noisy).matrix_,
    "SparseLowRankCV": model.matrix_,
}
for name, X in found.items():
    print(f"{name:26} {error(X):.3f}")

# %%
# The estimate
# ------------
# The figure shows the noisy matrix, the estimate, its singular values, and the convergence of
# the solver. The certificate refers to the problem with the chosen weight and radius; the
# held-out errors assess this choice. For a simpler answer, ``one_standard_error=True`` takes
# the simplest candidate that is not clearly worse, and ``rank`` caps the rank.

# sphinx_gallery_thumbnail_number = 2
fig, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
MatrixDisplay(matrix=noisy, title="what was seen").plot(axes[0, 0])
MatrixDisplay.from_estimator(model, ax=axes[0, 1])
SpectrumDisplay.from_estimator(model, ax=axes[1, 0])
_ = model.plot(ax=axes[1, 1])

r"""
Choosing the weight and the radius
==================================

.. math::
   \min_{\|X\|_* \le \tau}\ \tfrac12 \|X - M\|_F^2 + \lambda \|X\|_1

has two numbers to choose. ``SparseLowRankCV`` chooses them by data thinning: one noisy matrix
is split into independent copies, answers are found without one of them and compared with it.
This page looks at what it does, on air traffic with noise added to it, and compares the outcome
with the two usual ways to clean a matrix.
"""

# %%
# The data
# --------
# Passengers between the 100 busiest airports of the United States in December 2010, on a
# logarithmic scale. Most pairs have no flights, so the matrix is sparse, and a few patterns
# (hubs and their regions) explain much of it. We add noise, in order to know what is true.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox.plots import MatrixDisplay, PathDisplay, SpectrumDisplay

folder = next(path for path in (Path("data"), Path("examples/data")) if path.exists())
with np.load(folder / "us_airports_2010.npz", allow_pickle=False) as file:
    table = np.zeros((file["airport"].size, file["airport"].size))
    table[file["src"], file["dst"]] = np.log1p(file["passengers"])
    codes = file["airport"]
np.fill_diagonal(table, 0.0)
busiest = np.argsort(-table.sum(axis=1), kind="stable")[:100]
signal = table[np.ix_(busiest, busiest)]
noisy = signal + 3.0 * np.random.default_rng(0).standard_normal(signal.shape)
print(f"{np.mean(signal == 0):.0%} of the pairs have no flights")

# %%
# The choice
# ----------
# The noise level is estimated. Weights go from the largest that noise would need down to zero
# (low rank alone), radii up to one that has no effect (sparsity alone).

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
# The left picture is all that the model has, the right one is what we would like to know. The
# circles are the smallest values in each.
#
# What it is worth
# ----------------
# The usual ways are a truncated singular value decomposition and soft thresholding. Both get
# the setting that is best for this very signal, which nobody knows outside of a simulation. Our
# model chooses for itself, on the whole grid or by the quick search of ``SparseLowRank``.

U, s, Vt = np.linalg.svd(noisy, full_matrices=False)
truncated = [(U[:, :k] * s[:k]) @ Vt[:k] for k in range(1, 40)]
thresholded = [
    np.sign(noisy) * np.maximum(np.abs(noisy) - lam, 0.0) for lam in np.linspace(0, 8, 41)
]


def error(X):
    """Distance from the truth, relative to that of the noisy matrix."""
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
# What was found
# --------------
# The matrix as it was seen and as it was found, its singular values, and the way to it. The
# certificate is about the problem with the weight and radius chosen; whether those are the
# right ones is what the held-out errors are for. Where a simpler answer is wanted,
# ``one_standard_error=True`` takes the simplest one that is not clearly worse, and ``rank``
# caps the rank.

fig, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
MatrixDisplay(matrix=noisy, title="what was seen").plot(axes[0, 0])
MatrixDisplay.from_estimator(model, ax=axes[0, 1])
SpectrumDisplay.from_estimator(model, ax=axes[1, 0])
_ = model.plot(ax=axes[1, 1])

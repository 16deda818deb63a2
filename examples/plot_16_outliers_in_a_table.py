r"""
Typing errors in a table
========================

Tables that people type contain wrong numbers: a decimal point in the wrong place, two columns
swapped. If columns are correlated, the other entries of a row show what an entry should be.
:class:`weakprox.RobustPCA` finds such entries, ignores them in the fit, and predicts them. Gaps
(NaN) are allowed, and columns may have different units.
"""

# %%
# The data
# --------
# We take 30 measurements of 569 tumours from scikit-learn, take logarithms so that sizes are
# comparable, leave out a tenth of the entries, and put the decimal point of 3 % of the others
# one place too far to the left or to the right.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer

import weakprox as wp

frame = load_breast_cancer(as_frame=True).data
truth = np.log10(frame + 1e-3)
rng = np.random.default_rng(0)
wrong = rng.random(truth.shape) < 0.03
missing = ~wrong & (rng.random(truth.shape) < 0.1)
typed = truth + np.where(rng.random(truth.shape) < 0.5, -1.0, 1.0) * wrong
typed = typed.mask(missing)
print(f"{wrong.sum()} wrong entries and {missing.sum()} gaps in a table {typed.shape}")

# %%
# Fit
# ---
# The mean of each column is a part of the low-rank matrix. `column_weights="scale"` divides
# each column by its robust standard deviation, and "cv" chooses the weight of the nuclear norm
# by entries that it hides.

model = wp.RobustPCA("cv", column_weights="scale", random_state=0).fit(typed)
found = model.outliers_
print(f"rank {model.rank_}, noise {model.noise_:.2g} of a column's deviation")
print(model.certificate_)
print(found.sum().sort_values(ascending=False).head(3))

# %%
# How many of the wrong entries were found, and how large are the errors after the repair? We
# compare with the distance of entries from the median of their column, and with principal
# components of the same rank, which are affected by the wrong numbers.

filled = SimpleImputer(strategy="median").fit_transform(typed)
spread = 1.4826 * np.median(np.abs(filled - np.median(filled, axis=0)), axis=0)
scaled = (filled - np.median(filled, axis=0)) / spread
parts = PCA(model.rank_).fit(scaled)
residual = np.abs(scaled - parts.inverse_transform(parts.transform(scaled)))
flags = {
    "distance from the median": np.abs(scaled),
    "residual of PCA": residual,
    "residual of RobustPCA": np.abs(
        (typed - model.low_rank_) * model.column_weights_
    ).to_numpy(),
}
for name, size in flags.items():
    cut = np.sort(np.nan_to_num(size).ravel())[-int(wrong.sum())]
    right = np.mean(wrong[np.nan_to_num(size) >= cut])
    print(f"{name:26} {right:.1%} of as many flags as there are errors are right")

error = np.abs(model.low_rank_ - truth).to_numpy()
print(f"median error of wrong entries: 1 as typed, {np.median(error[wrong]):.3f} repaired")
print(f"median error of gaps: {np.median(error[missing]):.3f}")

# %%
# The residuals of right and of wrong entries.

fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
seen = ~missing
sizes = flags["residual of RobustPCA"]
edges = np.geomspace(1e-3, 30, 60)
ax.hist(sizes[seen & ~wrong], edges, label="right entries")
ax.hist(sizes[wrong], edges, label="wrong entries")
ax.axvline(3.5 * model.noise_, color="k", ls="--", lw=1, label="3.5 deviations of the noise")
ax.set(
    xscale="log", yscale="log", xlabel="residual, in deviations of the column", ylabel="entries"
)
ax.legend()

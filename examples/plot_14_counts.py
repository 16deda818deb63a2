r"""
Counts of bacteria
==================

Counts of sequences in samples are mostly zero, and their sizes differ by orders of magnitude.
A usual treatment takes logarithms of the counts that are not zero, with an intercept for each
sample, and looks for a low-rank matrix that explains them; zeros count as missing.
:class:`weakprox.losses.Completion` does that with a certificate, and its memory grows with the
number of nonzero counts. (``loss="poisson"`` uses the counts directly.)
"""

# %%
# The data
# --------
# The data are counts of bacterial sequences in stool samples of people with and without Crohn's
# disease.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox import datasets

data = datasets.load_ibd_microbiome()
sample, taxon = data["sample"].astype(int), data["taxon"].astype(int)
shape = (int(sample.max()) + 1, int(taxon.max()) + 1)
share = len(sample) / (shape[0] * shape[1])
print(f"{shape[0]} samples, {shape[1]} sequences, {share:.1%} of the counts are not zero")

# %%
# Fit
# ---
# The intercepts of the samples have no penalty.

loss = wp.losses.Completion(
    sample, taxon, np.log(data["count"].astype(float)), shape, intercepts="rows"
)
result = wp.minimize(wp.Problem(loss, None, wp.spectral.NuclearNorm(60.0)), tol=1e-3)
print(result.certificate)
print(f"rank {result.rank}, {result.counts.svds} thin SVDs")

# %%
# Components of the samples
# -------------------------
# The plot shows the samples in the plane of the first two components, by the health of the
# person.

crohns = data["crohns"][: shape[0]]
U, s, _ = result.factors
fig, ax = plt.subplots(figsize=(6, 5), layout="constrained")
for kind, label in ((False, "without"), (True, "with Crohn's disease")):
    chosen = crohns == kind
    ax.scatter(s[0] * U[chosen, 0], s[1] * U[chosen, 1], s=12, alpha=0.7, label=label)
ax.set(xlabel="first component", ylabel="second component")
ax.legend()
plt.show()

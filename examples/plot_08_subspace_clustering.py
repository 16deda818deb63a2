r"""
Clusters that are subspaces
===========================

Images of one digit, or samples of one tissue, vary, but each is nearly a linear
combination of others of its class. :class:`weakprox.SubspaceClustering` computes coefficients

.. math::
   \min_C\ \tfrac12\|X - XC\|_F^2 + \beta_1\|C\|_* + \beta_2\|C\|_1 + \tfrac{\rho}{2}\|C\|_F^2

(samples are the columns of :math:`X`) and clusters the graph that they define on the samples.
The nuclear norm keeps the samples of a subspace connected, and the l1 norm separates subspaces.
"""

# %%
# The data
# --------
# The data are images of handwritten digits, 16 x 15 pixels each, 60 of every class. The rows of
# the file are sorted by class, so we shuffle them.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix

import weakprox as wp
from weakprox import datasets
from weakprox.plots import MatrixDisplay

loaded = datasets.load_mfeat_digits()
pixels, label = loaded["pix"].astype(float), loaded["label"].astype(int)
rng = np.random.default_rng(0)
some = np.concatenate([rng.choice(np.flatnonzero(label == k), 60, False) for k in range(10)])
some = rng.permutation(some)
X, digit = pixels[some], label[some]

# %%
# Fit
# ---
# The weights are determined by the noise level, estimated from the median singular value. By
# default, the problem is solved only if its graph is likely to give better clusters than that
# of nearest neighbours. Here we need the coefficients in any case.

model = wp.SubspaceClustering(n_clusters=10, graph="coefficients", random_state=0).fit(X)
print(f"nuclear norm {model.nuclear_:.2g}, l1 norm {model.lam_:.2g}, noise {model.noise_:.2g}")
print(f"coefficients of rank {model.result_.rank}, {model.result_.seconds:.1f} s")
print(model.certificate_)

# %%
# Compare
# -------
# Accuracy is the share of correctly assigned samples under the best matching of clusters to
# classes. k-means assumes round clusters, which does not suit classes of images.


def matched(labels):
    """Return the accuracy, and the class matched to each cluster."""
    found = confusion_matrix(digit, labels)
    classes, clusters = linear_sum_assignment(-found)
    return found[classes, clusters].sum() / len(digit), classes[np.argsort(clusters)]


means = KMeans(10, n_init=10, random_state=0).fit_predict(X)
default = wp.SubspaceClustering(n_clusters=10, random_state=0).fit(X)
accuracy, stands_for = matched(model.labels_)
print(f"k-means                 {matched(means)[0]:.3f}")
print(f"graph of coefficients   {accuracy:.3f}")
print(f"default ({default.graph_})     {matched(default.labels_)[0]:.3f}")

# %%
# The graph
# ---------
# The left plot shows the affinities, with samples sorted by class. Entries outside the diagonal
# blocks connect different digits. The right plot is the confusion matrix.

order = np.argsort(digit, kind="stable")
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
MatrixDisplay.from_estimator(model, ax=left, labels=[str(k) for k in digit], order=order)
table = confusion_matrix(digit, stands_for[model.labels_])
image = right.imshow(np.sqrt(table), cmap="Blues")
for row, col in zip(*np.nonzero(table), strict=True):
    dark = table[row, col] > table.max() / 3
    right.text(col, row, table[row, col], ha="center", va="center", color="w" if dark else "k")
right.set(
    xlabel="cluster, named by its class",
    ylabel="digit",
    xticks=range(10),
    yticks=range(10),
    title=f"accuracy {accuracy:.1%}",
)
plt.show()

# %%
# Reconstructed digits
# --------------------
# The upper row shows some images. The lower row shows their reconstructions from all other
# images with the computed coefficients: individual details are smoothed and the digit remains.

C = model.coefficients_.copy()
np.fill_diagonal(C, 0.0)
combined = C.T @ (X / np.linalg.norm(X, axis=1, keepdims=True))
shown = [int(np.flatnonzero(digit == k)[0]) for k in range(10)]
# sphinx_gallery_thumbnail_number = 2
fig, axes = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
for column, sample in enumerate(shown):
    for row, picture in enumerate((X[sample], combined[sample])):
        axes[row, column].imshow(picture.reshape(16, 15), cmap="gray_r")
        axes[row, column].set(xticks=[], yticks=[])
plt.show()

# %%
# The number of clusters
# ----------------------
# Without ``n_clusters``, the number of clusters is a large one at which subsamples give the
# same clusters as all samples (``stability_``). This works for well separated clusters, such as
# random subspaces. Stable clusters need not be the classes that you are looking for: for these
# digits, give the number. If no number is stable, a warning asks for it.

bases = [np.linalg.qr(rng.standard_normal((40, 4)))[0] for _ in range(6)]
planes = np.vstack([rng.standard_normal((30, 4)) @ basis.T for basis in bases])
planes += 0.05 * rng.standard_normal(planes.shape)
print(
    "random subspaces, 6 of them:",
    wp.SubspaceClustering(random_state=0).fit(planes).n_clusters_,
)
model = wp.SubspaceClustering(random_state=0).fit(X)
print(f"digits, 10 of them: {model.n_clusters_}, with a stability of {model.stability_:.2f}")

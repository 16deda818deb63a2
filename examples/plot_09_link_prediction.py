r"""
Link prediction in a network of airports
========================================

Part of a graph is known, and the task is to predict which other pairs of nodes are connected.
:class:`weakprox.LinkPredictor` normalises the adjacency matrix by the degrees and approximates
it by a matrix that is low rank (a few patterns describe the nodes) and sparse (most pairs are
unrelated):

.. math::
   \min_{\|X\|_* \le \tau}\ \tfrac12 \|X - D^{-1/2} (A + a) D^{-1/2}\|_F^2
   + \lambda \|X\|_1 .

It chooses :math:`\lambda` and :math:`\tau` by hiding some of the given edges.
"""

# %%
# The data
# --------
# The data are flights between US airports in December 2010. Two airports are connected if there
# was a passenger flight between them. We keep the largest component and hide a fifth of the
# edges.

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array, diags_array, triu
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import roc_auc_score, roc_curve

import weakprox as wp
from weakprox import datasets

data = datasets.load_us_airports()
size, apart = len(data["airport"]), data["src"] != data["dst"]
flights = (data["src"][apart], data["dst"][apart])
A = csr_array((np.ones(apart.sum()), flights), shape=(size, size))
A = csr_array(((A + A.T) > 0).astype(float))
component = connected_components(A, directed=False)[1]
inside = component == np.bincount(component).argmax()
A, codes = A[inside][:, inside].tocsr(), data["airport"][inside]

rng = np.random.default_rng(0)
rows, cols = triu(A, 1).nonzero()
hidden, kept = np.split(rng.permutation(rows.size), [rows.size // 5])
known = csr_array((np.ones(kept.size), (rows[kept], cols[kept])), shape=A.shape)
known = csr_array(known + known.T)
print(f"{A.shape[0]} airports, {kept.size} known edges, {hidden.size} hidden")

# %%
# Fit
# ---

model = wp.LinkPredictor(random_state=0).fit(known)
print(f"lam = {model.lam_:.2g}, tau = {model.tau_:.2f}, rank {model.result_.rank}")
print(model.certificate_)

# %%
# Compare
# -------
# The task is to distinguish hidden edges from as many random pairs without a flight. Common
# scores count the shared neighbours, with equal weights or (Adamic and Adar) with smaller
# weights for neighbours of high degree.

others = rng.integers(0, A.shape[0], (4 * hidden.size, 2))
free = (A[others[:, 0], others[:, 1]] == 0) & (others[:, 0] != others[:, 1])
others = others[np.asarray(free).ravel()][: hidden.size]
pairs = np.vstack([np.stack([rows[hidden], cols[hidden]], axis=1), others])
truth = np.repeat([1, 0], [hidden.size, len(others)])

degrees = np.asarray(known.sum(axis=0))
shared = (known @ known).toarray()
weighted = (known @ diags_array(1 / np.log(np.maximum(degrees, 2))) @ known).toarray()
scores = {
    "common neighbours": shared[tuple(pairs.T)],
    "Adamic-Adar": weighted[tuple(pairs.T)],
    "LinkPredictor": model.score_pairs(pairs),
}

fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
for name, found in scores.items():
    area = roc_auc_score(truth, found)
    print(f"{name:20} AUC {area:.3f}")
    wrong, right, _ = roc_curve(truth, found)
    ax.plot(wrong, right, label=f"{name}, AUC {area:.3f}")
ax.set(
    xlabel="share of other pairs taken for edges",
    ylabel="share of hidden edges found",
    xlim=(-0.01, 0.5),
)
ax.legend(loc="lower right")
plt.show()

# %%
# Probabilities
# -------------
# ``predict_proba`` estimates the probability that a pair is an edge of the given graph. It is
# calibrated on edges that were hidden during the fit. The given graph has four fifths of the
# flights. Among pairs that are given edges with probability p, a share p / 4 is therefore
# hidden, out of the remaining share 1 - p. We compare this with the observed share.

every = np.stack(np.triu_indices(A.shape[0], 1), axis=1)
unseen = every[np.asarray(known[every[:, 0], every[:, 1]]).ravel() == 0]
chance = model.predict_proba(unseen)[:, 1]
expected = np.minimum(0.25 * chance / (1.0 - chance), 1.0)
edge = np.asarray(A[unseen[:, 0], unseen[:, 1]]).ravel()
bins = np.quantile(expected, 1 - np.geomspace(1, 3e-4, 12))
place = np.clip(np.digitize(expected, bins) - 1, 0, len(bins) - 1)
told = [expected[place == k].mean() for k in range(len(bins)) if (place == k).any()]
seen = [edge[place == k].mean() for k in range(len(bins)) if (place == k).any()]
fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
ax.loglog(told, np.maximum(seen, 1e-5), "o-")
ax.loglog([1e-5, 1], [1e-5, 1], color="grey", linewidth=0.8)
ax.set(xlabel="expected from predict_proba", ylabel="share of hidden edges", xlim=(1e-5, 1))
plt.show()

# %%
# Recommend
# ---------
# These are the most likely unknown connections of one airport. A star marks those that were
# hidden.

node = int(np.argmax(degrees))
columns, found = model.recommend(node, n=8)
for column, score in zip(columns, found, strict=True):
    star = "*" if A[node, column] else " "
    print(f"{codes[node]} - {codes[column]}  {score:.2f} {star}")

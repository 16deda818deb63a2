r"""
Imputation of missing votes
===========================

:class:`weakprox.SparseLowRankImputer` fills the missing entries of a table with those of a
low-rank and sparse matrix that fits the observed entries. It is a scikit-learn transformer:
it works in pipelines, completes new rows, and keeps the observed entries. The scale,
:math:`\lambda` and :math:`\tau` are chosen by hiding a tenth of the observed entries. The same
entries determine how the matrix is combined with conditional means, given the other columns,
and with means over the nearest rows.
"""

# %%
# The data
# --------
# The data are roll calls of the UN General Assembly from session 55 on: yes is 1, abstention 0,
# no -1. Some votes were not cast. We take every third roll call, hide a fifth of the votes that
# were cast, and predict them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import KNNImputer, SimpleImputer

import weakprox as wp
from weakprox import datasets

data = datasets.load_un_votes()
late = np.flatnonzero(data["session"] >= 55)[::3]
observed = data["observed"][:, late]
present = observed.mean(axis=1) > 0.2
votes, observed = data["vote"][present][:, late].astype(float), observed[present]
country = data["country"][present]

rng = np.random.default_rng(0)
rows, cols = np.nonzero(observed)
hidden = rng.permutation(rows.size)[: rows.size // 5]
place = (rows[hidden], cols[hidden])
known = np.where(observed, votes, np.nan)
known[place] = np.nan
print(f"{known.shape[0]} countries, {known.shape[1]} roll calls, {len(hidden)} votes hidden")
print(f"{1 - observed.mean():.1%} of the votes were not cast")

# %%
# Fit and compare
# ---------------

model = wp.SparseLowRankImputer(random_state=0)
methods = {
    "mean of the roll call": SimpleImputer(keep_empty_features=True),
    "5 nearest neighbours": KNNImputer(keep_empty_features=True),
    "SparseLowRankImputer": model,
}
accuracy = {}
for name, method in methods.items():
    filled = method.fit_transform(known)
    accuracy[name] = np.mean(np.clip(np.rint(filled[place]), -1, 1) == votes[place])
    print(f"{name:24} {accuracy[name]:.1%} of the hidden votes right")
print(f"scaling {model.scaling_}, lam = {model.lam_:.2g}, tau = {model.tau_:.0f}")
print({name: round(weight, 2) for name, weight in model.weights_.items()})
print(model.certificate_)

# %%
# The weights are the shares of the models in the answer. The certificate is that of the
# low-rank matrix.
#
# The figure shows some of the countries, sorted by a coordinate in the learnt row
# space. Missing votes are grey in the left plot and filled in in the right plot.

order = np.argsort(model.result_.factors[0][:, 1])[::4]
few = np.arange(0, known.shape[1], 8)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
colours = plt.get_cmap("RdBu").with_extremes(bad="0.75")
for ax, table, title in zip(axes, [known, filled], ["known", "filled in"], strict=True):
    picture = ax.imshow(
        table[np.ix_(order, few)],
        cmap=colours,
        vmin=-1,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    ax.set(title=title, xlabel="roll call")
axes[0].set_yticks(range(0, len(order), 4), country[order][::4], fontsize=7)
fig.colorbar(picture, ax=axes, ticks=[-1, 0, 1], label="no, abstain, yes")
plt.show()

# %%
# New rows
# --------
# A model fitted to most of the countries completes the others from a part of their votes. It
# solves the same problem with a fixed row space.

new = rng.permutation(len(known))[:30]
old = np.setdiff1d(np.arange(len(known)), new)
filled = wp.SparseLowRankImputer(random_state=0).fit(known[old]).transform(known[new])
among = np.isin(place[0], new)
where = (np.searchsorted(np.sort(new), place[0][among]), place[1][among])
found = filled[np.argsort(new)][where]
truth = votes[place[0][among], place[1][among]]
right = np.mean(np.clip(np.rint(found), -1, 1) == truth)
print(f"{right:.1%} of the hidden votes of {len(new)} countries that it was not fitted to")

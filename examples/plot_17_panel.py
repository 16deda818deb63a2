r"""
Proposition 99: the effect of a tax on smoking
==============================================

In 1989 California raised the tax on cigarettes. How many packs would have been sold without it?
:class:`weakprox.MatrixCompletionPanel` learns the sales of 39 states over 31 years from all
cells that are not treated: a low-rank matrix and effects of states and years. The difference
from the sales observed is the effect.
"""

# %%
# The data
# --------
# The data are packs sold per head in each state and year, and the cells that are treated.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import weakprox as wp

data = wp.datasets.load_prop99_smoking()
packs = pd.DataFrame(data.packs, index=data.state, columns=data.year)
treated = pd.DataFrame(data.treated, index=data.state, columns=data.year)
print(packs.loc[["California", "Nevada", "Utah"], [1970, 1988, 2000]])

# %%
# The fit
# -------
# The weight of the nuclear norm is chosen by holding out untreated cells. The certificate shows
# that the problem is solved: a different result is due to a different weight, not to the
# solver.

model = wp.MatrixCompletionPanel(random_state=0).fit(packs, treated)
print(model.summary())

# %%
# A regression on state and year effects only (difference in differences) is the special case
# of a large weight. Its error on held-out cells is the first of these.

errors = -model.cv_results_["mean_test_score"]
for lam, error in zip(model.cv_results_["param_lam"], errors, strict=True):
    print(f"lam = {lam:6.1f}: held-out error {np.sqrt(error):.2f}")

# %%
# Uncertainty
# -----------
# Each of the other states is treated as if it had raised the tax in 1989. The spread of these
# placebo effects is the standard error. For several states the effects are large too.

interval = model.interval("placebo")
print(interval)

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
wp.plots.EventStudyDisplay.from_estimator(model, ax=axes[0], kind="paths")
axes[0].set(xlabel="year", ylabel="packs per head", title="California")
wp.plots.EventStudyDisplay.from_estimator(model, interval=interval, ax=axes[1])
axes[1].set(xlabel="years since 1989", ylabel="effect", title="95 % placebo interval")
plt.show()

# %%
# The effect in single years:

print(pd.Series(model.att_by_period_, index=data.year).loc[1989:].round(1).to_string())

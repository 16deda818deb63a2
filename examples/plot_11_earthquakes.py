r"""
A Hawkes process for earthquakes
================================

Earthquakes occur in clusters. In a Hawkes process every event temporarily increases the rate
of further events, in its own place and elsewhere:

.. math::
   \text{rate of } u \text{ at } t = \text{baseline}_u
   + \sum_{t_j < t} A_{u,\,\text{place of } j}\; g(t - t_j) .

:class:`weakprox.HawkesInfectivity` takes event times and places, and estimates the baselines,
the mixture of exponentials :math:`g` and the infectivity :math:`A \ge 0`. The infectivity is
the sum of a diagonal matrix (self-excitation) and a matrix that is low rank and sparse. No
parameter has to be tuned.
"""

# %%
# The data
# --------
# The data are earthquakes of magnitude 4.5 and more around Japan, 1990 to 2019, from the
# catalogue of the US Geological Survey, assigned to cells of two by two degrees.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox import datasets

data = datasets.load_japan_quakes()
kept = (data["mag"] >= 4.5) & (data["cell"] >= 0)
events = np.column_stack([data["time_days"][kept], data["cell"][kept]])
horizon, cells = 10957.0, len(data["cell_lon"])
print(f"{len(events)} events in {cells} cells over {horizon:.0f} days")

# %%
# Fit on the first 80 % of the time
# ---------------------------------
# The first column is the time, the second the cell. ``lam``, ``tau`` and the time scales
# are chosen by cross-validation on the training period only.

end = 0.8 * horizon
early = events[:, 0] < end
model = wp.HawkesInfectivity(random_state=0).fit(events[early], period=(0.0, end))
print(f"lam = {model.lam_}, tau = {model.tau_:.2f}, rank {model.rank_}")
print(f"{np.mean(model.infectivity_ == 0):.0%} of the infectivities are zero")
print(f"spectral radius {model.spectral_radius_:.2f} (stable below 1)")
print(model.certificate_)

# %%
# Predict the rest
# ----------------
# ``score`` is the log-likelihood per event of a later period, given all earlier events. A
# Poisson process models only the rate of each cell. A full Hawkes process has
# :math:`54^2` infectivities and no penalty; with one exponential it is the model that most
# packages fit.

later = events[~early]
counts = np.bincount(events[early, 1].astype(int), minlength=cells)
rates = counts / end
poisson = np.log(rates[later[:, 1].astype(int)]).mean()
poisson -= rates.sum() * (horizon - end) / len(later)
scores = {"Poisson": poisson}
others = {
    "full Hawkes,\none exponential": wp.HawkesInfectivity(
        0.0, None, decays=1.0, random_state=0
    ),
    "full Hawkes,\nmixture": wp.HawkesInfectivity(0.0, None, random_state=0),
    "low rank and sparse,\none exponential": wp.HawkesInfectivity(decays=1.0, random_state=0),
}
for name, other in others.items():
    other.fit(events[early], period=(0.0, end))
    scores[name] = other.score(later, period=(end, horizon))
scores["low rank and sparse,\nmixture (ours)"] = model.score(later, period=(end, horizon))
for name, score in scores.items():
    print(f"{name.replace(chr(10), ' '):45s} {score:.3f}")

# %%
# The mixture of exponentials matters most: aftershocks occur within minutes and over years,
# and no single time scale describes both. With so many events the penalties increase the
# likelihood only slightly. Their benefit is an infectivity that can be interpreted.

between = ~np.eye(cells, dtype=bool)
full = others["full Hawkes,\nmixture"].infectivity_
print(f"links between cells: {np.count_nonzero(full[between])} without penalties,", end=" ")
print(f"{np.count_nonzero(model.infectivity_[between])} with them")

figure, axes = plt.subplots(figsize=(8, 3))
axes.hlines(list(scores), min(scores.values()), list(scores.values()), color="0.8")
axes.scatter(list(scores.values()), list(scores), color=["0.5"] * 4 + ["C0"], zorder=2)
axes.invert_yaxis()
axes.set_xlabel("log-likelihood per event, last 20 % of the time (higher is better)")
figure.tight_layout()
plt.show()

# %%
# Links between cells
# -------------------
# Discs show the self-excitation of a cell, and lines the strongest links between cells. The
# model does not use coordinates, but most links connect neighbours.

lon, lat, A = data["cell_lon"], data["cell_lat"], model.infectivity_
mutual = A - np.diag(np.diag(A))
weight = mutual * np.sqrt(counts / counts[:, None])  # on the scale of the certified problem
strongest = np.argsort(weight, axis=None)[::-1][:60]
targets, sources = np.unravel_index(strongest[np.ravel(weight)[strongest] > 0], A.shape)

# sphinx_gallery_thumbnail_number = 2
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
for u, v in zip(targets, sources, strict=True):
    width = 3.0 * weight[u, v] / weight.max()
    left.plot(lon[[v, u]], lat[[v, u]], color="C1", linewidth=0.3 + width, alpha=0.7)
left.scatter(lon, lat, s=200 * np.diag(A), color="C0", zorder=2)
left.set(xlabel="longitude", ylabel="latitude", title="Self-excitation and links", aspect=1.2)

window = np.linspace(7720.0, 7800.0, 800)  # Tohoku, 11 March 2011
total = model.intensity(window).sum(axis=1)
right.semilogy(window - 7720.0, total, color="C0", label="modelled rate")
days = np.arange(7720.0, 7801.0)
right.stairs(
    np.histogram(events[:, 0], days)[0], days - 7720.0, color="0.5", label="events a day"
)
right.set(xlabel="days", title="Before and after the Tohoku earthquake")
right.legend()
figure.tight_layout()
plt.show()

# %%
# The distances show how local the links are.

distance = np.hypot(lon[targets] - lon[sources], lat[targets] - lat[sources])
apart = np.hypot(lon[:, None] - lon, lat[:, None] - lat)[between]
print(f"median distance of linked cells {np.median(distance):.1f} degrees,")
print(f"of any two cells {np.median(apart):.1f} degrees")

r"""
Background and people in a video
================================

A camera that does not move sees the same street in every frame. With one column for each
frame, the background is a matrix of low rank, and the people who walk by are outliers: they
change few pixels by much. :class:`weakprox.RobustPCA` separates the two. It minimises, over the
background :math:`L`,

.. math:: \sum_{ij} H_k(m_{ij} - l_{ij}) + \lambda \|L\|_*,

with a Huber loss, in which large residuals enter linearly, and proves how close its answer is
to the optimum.
"""

# %%
# The data
# --------
# The video has 265 frames of 96 x 128 pixels. Each becomes a column of numbers from 0 to 1.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp

frames = wp.datasets.load_street_video().frames / 255.0
count, height, width = frames.shape
M = np.ascontiguousarray(frames.reshape(count, -1).T)
print(f"{M.shape[0]} pixels, {M.shape[1]} frames")

# %%
# Fit
# ---
# Changes of less than about eight of 255 grey levels count as noise: leaves, clouds, the
# camera itself. The weights follow from that.

model = wp.RobustPCA(noise=0.03, random_state=0).fit(M)
print(f"rank {model.rank_}, {model.outliers_.mean():.1%} of all pixels are outliers")
print(f"{model.result_.counts.svds} passes over the data")
print(model.certificate_)

# %%
# Three frames, with their background and the people.

background = model.low_rank_.T.reshape(frames.shape)
people = model.outliers_.T.reshape(frames.shape)
shown = [20, 130, 240]
fig, axes = plt.subplots(3, len(shown), figsize=(9, 6.2), layout="constrained")
for column, k in zip(axes.T, shown, strict=True):
    pictures = (frames[k], background[k], np.where(people[k], frames[k], np.nan))
    for ax, picture in zip(column, pictures, strict=True):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
    column[0].set_title(f"frame {k}")
for ax, name in zip(axes[:, 0], ("video", "background", "outliers"), strict=True):
    ax.set_ylabel(name)

# %%
# A truncated SVD of the same rank
# --------------------------------
# Least squares spreads people over the background as ghosts. We compare both backgrounds with
# the median of each pixel, which is a good background as long as the light does not change.

U, s, Vt = np.linalg.svd(M, full_matrices=False)
truncated = (U[:, : model.rank_] * s[: model.rank_]) @ Vt[: model.rank_]
median = np.median(M, axis=1)[:, None]
hit = model.outliers_
for name, L in (("truncated SVD", truncated), ("RobustPCA", model.low_rank_)):
    error = np.sqrt(np.mean((L - median)[hit] ** 2))
    print(f"{name:14} {255 * error:5.1f} grey levels off behind people")

# %%
# New frames
# ----------
# The components of a fit can be applied to new frames. `transform` takes rows, so the frames
# are rows here: the same problem, transposed.

early = wp.RobustPCA(noise=0.03, random_state=0).fit(M.T[:200])
late = early.transform(M.T[200:])
moved = np.abs(M.T[200:] - late) > 3.5 * 0.03
before = model.outliers_.T[200:]
print(f"{np.mean(moved[before]):.1%} of the outliers of 65 frames are also found in new frames")
print(f"{np.mean(before[moved]):.1%} of those found in new frames are outliers of the fit")

r"""
Ratings of films
================

:class:`weakprox.MatrixCompletion` predicts entries of a matrix from some observed ones, such as
ratings of films by people. The matrix is never stored: the memory grows with the number of
ratings. The weights of the nuclear norm and of the intercepts are chosen by holding out a
tenth of the ratings.
"""

# %%
# The data
# --------
# The data are ratings from 0 to 10 that people tweeted. Most people rated one to three films,
# so intercepts matter most, and the low-rank part must not do harm. We hide a tenth.

import matplotlib.pyplot as plt
import numpy as np

import weakprox as wp
from weakprox import datasets

loaded = datasets.load_movie_tweetings()
user, item, rating = (loaded[key] for key in ("user", "item", "rating"))
rng = np.random.default_rng(0)
hidden = rng.random(len(rating)) < 0.1
known = ~hidden
print(f"{user.max() + 1} people, {item.max() + 1} films, {known.sum()} known ratings")

# %%
# Fit and predict
# ---------------
# Ids of people and films may be anything hashable. Those that the fit has not seen are
# predicted by the intercepts alone.

model = wp.MatrixCompletion(random_state=0)
model.fit(user[known], item[known], rating[known].astype(float))
predicted = model.predict(user[hidden], item[hidden])


def error(prediction):
    """Root of the mean squared error of the hidden ratings."""
    return np.sqrt(np.mean((prediction - rating[hidden]) ** 2))


print(f"error of the mean rating  {error(rating[known].mean()):.3f}")
print(f"error of MatrixCompletion {error(predicted):.3f}")
print(f"lam = {model.lam_:.3g}, ridge of intercepts {model.intercept_ridge_:g}")
print(f"rank {model.rank_}; {model.certificate_}")

# %%
# What is learnt
# --------------
# The intercepts of films are shrunk towards zero, more so for films with few ratings. The
# right plot shows how far predictions are from the truth.

counts = np.bincount(item[known], minlength=item.max() + 1)[model.column_ids_]
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].scatter(counts, model.column_intercepts_, s=4, alpha=0.3, linewidths=0)
axes[0].set(xscale="log", xlabel="ratings of a film", ylabel="intercept of a film")
axes[1].boxplot(
    [predicted[rating[hidden] == r] for r in range(1, 11)], tick_labels=range(1, 11)
)
axes[1].set(xlabel="rating", ylabel="prediction")
plt.show()

# %%
# Recommendations for one person. On the command line, use ``weakprox complete ratings.csv --row
# user --col film --value rating -o predictions.parquet --report report.html``.

busiest = np.bincount(user[known]).argmax()
films, scores = model.recommend(busiest, 5)
print("films for person", busiest)
for film, score in zip(films, scores, strict=True):
    print(f"  {film}: {score:.2f}")

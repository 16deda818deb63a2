r"""
Regression on images with a matrix of coefficients
==================================================

If every observation is a matrix :math:`A_i`, such as an image, the coefficients of a
linear regression form a matrix as well. :class:`weakprox.TraceRegression` estimates one that
is low rank and sparse:

.. math::
   \min_{\|B\|_* \le \tau,\ c}\ \frac1n \sum_i \tfrac12 (\langle A_i, B\rangle + c - b_i)^2
   + \lambda_1 \|B\|_1 + \lambda_2 \|B\|_F^2 .

Ridge regression and the lasso ignore the arrangement of the 64 pixels. The benefit of using it
depends on the response, so this example has two of them.
"""

# %%
# Is it a 3?
# ----------
# The data are scikit-learn's digits, 8 x 8 pixels. Every method is fitted to the same 200
# images, chooses its settings by cross-validation, and predicts the other images.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import train_test_split

import weakprox as wp

digits = load_digits()
images = digits.images / 16.0
known, new, answers, truth = train_test_split(
    images, (digits.target == 3) * 1.0, train_size=200, random_state=1, stratify=digits.target
)


def flat(stack):
    """Return images as rows of pixels."""
    return stack.reshape(len(stack), -1)


def fitted(stack, values):
    """Return the three fitted methods, each at its automatic settings."""
    ridge = RidgeCV(np.logspace(-3, 4, 30)).fit(flat(stack), values)
    lasso = LassoCV(max_iter=5000).fit(flat(stack), values)
    return {
        "ridge": ridge,
        "lasso": lasso,
        "trace": wp.TraceRegression(random_state=0).fit(stack, values),
    }


models = fitted(known, answers)
for name, model in models.items():
    found = model.score(new if name == "trace" else flat(new), truth)
    print(f"{name:6s} R^2 on new images {found:.3f}")
trace = models["trace"]
print(f"trace: rank {trace.result_.rank} of 8, lam = {trace.lam_:.2g}, tau = {trace.tau_:.2g}")
print(trace.certificate_)

# %%
# The image of a 3 is not a low-rank matrix, so the low-rank structure has little benefit here.
# It also does little harm: cross-validation chooses a radius at which the answer is about as
# good as that of ridge regression.


def pictures(models, title, shown=None):
    """Plot the coefficients side by side."""
    panels = {} if shown is None else {"truth": shown}
    panels |= {name: model.coef_.reshape(8, 8) for name, model in models.items()}
    # sphinx_gallery_thumbnail_number = 2
    figure, axes = plt.subplots(1, len(panels), figsize=(2.4 * len(panels), 2.7))
    for ax, (name, coef) in zip(axes, panels.items(), strict=True):
        limit = np.abs(coef).max()
        ax.imshow(coef, cmap="RdBu_r", vmin=-limit, vmax=limit)
        ax.set(title=name, xticks=[], yticks=[])
    figure.suptitle(title)
    figure.tight_layout()
    plt.show()


pictures(models, "Coefficients for: is it a 3?")

# %%
# A response with low-rank coefficients
# -------------------------------------
# The second response has this structure: the amount of ink in the left part of the upper half
# minus that in the right part, with added noise. The images are the same. The response is
# simulated, so the true coefficients are known.

wanted = np.outer([0, 1, 1, 1, 0, 0, 0, 0], [0, 1, 1, 1, -1, -1, -1, 0]).astype(float)
rng = np.random.default_rng(0)
exact = np.tensordot(known, wanted, 2)
measured = exact + 1.0 * exact.std() * rng.standard_normal(len(exact))
models = fitted(known, measured)
for name, model in models.items():
    error = np.linalg.norm(model.coef_.reshape(8, 8) - wanted) / np.linalg.norm(wanted)
    score = model.score(new if name == "trace" else flat(new), np.tensordot(new, wanted, 2))
    print(f"{name:6s} error of coefficients {error:.2f}, R^2 on new images {score:.3f}")

# %%
# The noise is as large as the signal. Using the row and column structure gives coefficients
# closer to the true ones.

pictures(models, "Coefficients for: ink to the left less ink to the right", wanted)

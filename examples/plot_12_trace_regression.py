r"""
Regression on images: coefficients with rows and columns
========================================================

Where every observation is a matrix :math:`A_i`, such as an image, the coefficients of a
linear regression form a matrix too. :class:`weakprox.TraceRegression` looks for one that is
low rank and sparse:

.. math::
   \min_{\|B\|_* \le \tau,\ c}\ \frac1n \sum_i \tfrac12 (\langle A_i, B\rangle + c - b_i)^2
   + \lambda_1 \|B\|_1 + \lambda_2 \|B\|_F^2 .

Ridge regression and the lasso see 64 pixels in no order. What is gained by the order
depends on the question, so here are two.
"""

# %%
# Is it a 3?
# ----------
# scikit-learn's digits, 8 x 8 pixels. Every method learns from the same 200 images, chooses
# its own settings by folds, and predicts the others.

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
    """Images as rows of pixels."""
    return stack.reshape(len(stack), -1)


def fitted(stack, values):
    """The three methods, each at its own automatic settings."""
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
# A written 3 is no matrix of low rank, so little can be gained here, and little is lost:
# the folds choose a radius at which the answer is about as good as ridge regression's.


def pictures(models, title, shown=None):
    """Coefficients side by side."""
    panels = {} if shown is None else {"truth": shown}
    panels |= {name: model.coef_.reshape(8, 8) for name, model in models.items()}
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
# A question about rows and columns
# ---------------------------------
# Now a quantity that does have such a form: how much ink there is in the upper half to the
# left, less that to the right, as it would be measured with noise. The images are the same
# real ones; the question is ours, so that the true coefficients are known.

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
# There is as much noise as signal. Knowing that pixels have rows and columns brings the
# coefficients nearer to the true ones.

pictures(models, "Coefficients for: ink to the left less ink to the right", wanted)

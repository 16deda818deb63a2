"""Losses G: smooth terms given by a matrix, a finite sum or a sampler."""

from weakprox.arguments import made_by_name
from weakprox.losses.completion import Completion
from weakprox.losses.custom import Custom
from weakprox.losses.denoising import Denoising
from weakprox.losses.entry_losses import EntryLoss, Huber, Penalised
from weakprox.losses.logistic import Logistic
from weakprox.losses.regression import Regression
from weakprox.losses.sensing import Sensing
from weakprox.streams import TimeLimit as TimeLimit

__all__ = [
    "Completion",
    "Custom",
    "Denoising",
    "EntryLoss",
    "Huber",
    "Logistic",
    "Penalised",
    "Regression",
    "Sensing",
]

HINTS = {
    "Completion": "for a matrix M with NaN: Completion.from_dense(M), or "
    "MatrixCompletion().fit(M)",
}
for _name in __all__:
    made_by_name(globals()[_name], HINTS.get(_name, ""))

"""Losses G: smooth terms given by a matrix, a finite sum or a sampler."""

from weakprox.losses.completion import Completion
from weakprox.losses.custom import Custom
from weakprox.losses.denoising import Denoising
from weakprox.losses.entry_losses import EntryLoss, Huber, Penalised
from weakprox.losses.regression import Regression
from weakprox.losses.sensing import Sensing
from weakprox.streams import TimeLimit

__all__ = [
    "Completion",
    "Custom",
    "Denoising",
    "EntryLoss",
    "Huber",
    "Penalised",
    "Regression",
    "Sensing",
    "TimeLimit",
]

"""Choosing lam, tau and the rank: paths, folds, thinning and unbiased risk."""

from weakprox.selection.grid import Grid as Grid
from weakprox.selection.grid import default_grid
from weakprox.selection.held_out import HeldOut as HeldOut
from weakprox.selection.held_out import held_out
from weakprox.selection.noise import noise_level
from weakprox.selection.noise import noise_of_mean as noise_of_mean
from weakprox.selection.path import Path
from weakprox.selection.path import Point as Point
from weakprox.selection.sure import sure
from weakprox.selection.sure import sure_over_grid as sure_over_grid
from weakprox.selection.thinning import Copies as Copies
from weakprox.selection.thinning import folded as folded
from weakprox.selection.thinning import thinned
from weakprox.selection.walk import regularization_path

__all__ = [
    "Path",
    "default_grid",
    "held_out",
    "noise_level",
    "regularization_path",
    "sure",
    "thinned",
]

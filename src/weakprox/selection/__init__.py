"""Choosing lam, tau and the rank: paths, folds, thinning and unbiased risk."""

from weakprox.selection.grid import Grid, default_grid
from weakprox.selection.held_out import Copies, HeldOut, folded, held_out, thinned
from weakprox.selection.noise import noise_level, noise_of_mean
from weakprox.selection.path import Path, Point, regularization_path
from weakprox.selection.sure import sure, sure_over_grid

__all__ = [
    "Copies",
    "Grid",
    "HeldOut",
    "Path",
    "Point",
    "default_grid",
    "folded",
    "held_out",
    "noise_level",
    "noise_of_mean",
    "regularization_path",
    "sure",
    "sure_over_grid",
    "thinned",
]

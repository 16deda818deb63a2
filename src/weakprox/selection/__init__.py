"""Choosing lam, tau and the rank: paths, folds, thinning and unbiased risk."""

from weakprox.selection._held_out import HeldOut as HeldOut
from weakprox.selection._held_out import held_out
from weakprox.selection._held_out import sure as sure
from weakprox.selection._held_out import sure_over_grid as sure_over_grid
from weakprox.selection._observed_path import ObservedPath as ObservedPath
from weakprox.selection._observed_path import observed_path
from weakprox.selection.copies import Copies as Copies
from weakprox.selection.copies import folded as folded
from weakprox.selection.copies import thinned as thinned
from weakprox.selection.grid import Grid as Grid
from weakprox.selection.grid import default_grid as default_grid
from weakprox.selection.noise import noise_level
from weakprox.selection.path import Path as Path
from weakprox.selection.path import Point as Point
from weakprox.selection.path import regularization_path

__all__ = [
    "held_out",
    "noise_level",
    "observed_path",
    "regularization_path",
]

"""Linear algebra: arrays of any namespace, low-rank matrices, thin decompositions."""

from weakprox.linalg._thin_svd import ThinEigh, ThinSVD, thin_eigh, thin_svd
from weakprox.linalg.arrays import Array
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.tiled import LowRankPlusSparse

__all__ = [
    "Array",
    "LowRank",
    "LowRankPlusSparse",
    "ThinEigh",
    "ThinSVD",
    "thin_eigh",
    "thin_svd",
]

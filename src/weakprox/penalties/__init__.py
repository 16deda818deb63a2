"""Penalties R: nonsmooth terms in max form, each with its smoothing."""

from weakprox.penalties.base import Combinable as Combinable
from weakprox.penalties.base import Smoothed as Smoothed
from weakprox.penalties.combine import Sum as Sum
from weakprox.penalties.groups import GroupL2
from weakprox.penalties.l1 import L1, ElasticNet
from weakprox.penalties.l1 import Zero as Zero
from weakprox.penalties.max_affine import MaxAffine
from weakprox.penalties.signed import SignedL1

__all__ = [
    "L1",
    "ElasticNet",
    "GroupL2",
    "MaxAffine",
    "SignedL1",
]

"""Penalties R: nonsmooth terms in max form, each with its smoothing."""

from weakprox.penalties.base import Combinable, Smoothed
from weakprox.penalties.combine import Sum
from weakprox.penalties.groups import GroupL2
from weakprox.penalties.l1 import L1, ElasticNet, Zero
from weakprox.penalties.max_affine import MaxAffine
from weakprox.penalties.signed import SignedL1

__all__ = [
    "L1",
    "Combinable",
    "ElasticNet",
    "GroupL2",
    "MaxAffine",
    "SignedL1",
    "Smoothed",
    "Sum",
    "Zero",
]

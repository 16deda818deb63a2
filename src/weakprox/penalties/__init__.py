"""Penalties R: nonsmooth terms in max form, each with its smoothing."""

from weakprox.penalties.base import Combinable as Combinable
from weakprox.penalties.base import Smoothed as Smoothed
from weakprox.penalties.base import Sum as Sum
from weakprox.penalties.groups import GroupL2
from weakprox.penalties.l1 import L1, ElasticNet, SignedL1
from weakprox.penalties.l1 import Zero as Zero
from weakprox.penalties.max_affine import MaxAffine

__all__ = ["L1", "ElasticNet", "GroupL2", "MaxAffine", "SignedL1"]

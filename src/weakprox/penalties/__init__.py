"""Penalties R: nonsmooth terms in max form, each with its smoothing."""

from typing import Any

from weakprox.arguments import made_by_name, withdrawn
from weakprox.penalties import base
from weakprox.penalties.base import Sum as Sum
from weakprox.penalties.box import Box
from weakprox.penalties.max_affine import MaxAffine
from weakprox.penalties.separable import L1, ElasticNet, GroupL2, SignedL1
from weakprox.penalties.separable import Zero as Zero

__all__ = ["L1", "Box", "ElasticNet", "GroupL2", "MaxAffine", "SignedL1"]

for _name in __all__:
    made_by_name(globals()[_name])


def __getattr__(name: str) -> Any:
    """Return a name that is no longer public, with a warning."""
    instead = {
        "Combinable": "Sum, or R + L1(...) in either order",
        "Smoothed": "problem.smoothed(mu)",
    }
    return withdrawn(base, __name__, name, instead)

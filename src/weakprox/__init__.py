"""weakprox: low-rank and sparse matrix problems, min G(X) + R(X) + h(X)."""

from weakprox import losses, penalties, solvers, spectral
from weakprox.errors import (
    ConvexityError,
    InputError,
    SamplerError,
    ShapeError,
    WeakproxError,
)
from weakprox.linalg import LowRank
from weakprox.minimize import minimize
from weakprox.oracles import theory
from weakprox.problem import Problem
from weakprox.result import Certificate, Result, Status
from weakprox.solvers import SVRGCG

__version__ = "0.1.0"

__all__ = [
    "SVRGCG",
    "Certificate",
    "ConvexityError",
    "InputError",
    "LowRank",
    "Problem",
    "Result",
    "SamplerError",
    "ShapeError",
    "Status",
    "WeakproxError",
    "losses",
    "minimize",
    "penalties",
    "solvers",
    "spectral",
    "theory",
]

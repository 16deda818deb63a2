"""weakprox: low-rank and sparse matrix problems, min G(X) + R(X) + h(X)."""

from typing import Any

from weakprox import (
    estimators,
    losses,
    penalties,
    plots,
    selection,
    solvers,
    spectral,
    streams,
)
from weakprox.errors import (
    CheckpointWarning,
    ConvexityError,
    InputError,
    SamplerError,
    ShapeError,
    WeakproxError,
)
from weakprox.linalg import LowRank
from weakprox.minimize import minimize
from weakprox.oracles import theory
from weakprox.plan import Plan, plan
from weakprox.problem import Problem
from weakprox.result import Certificate, Result, Status
from weakprox.solvers import SVRGCG

__version__ = "0.1.0"

__all__ = [
    "SVRGCG",
    "Certificate",
    "CheckpointWarning",
    "ConvexityError",
    "InputError",
    "LowRank",
    "Plan",
    "Problem",
    "Result",
    "SamplerError",
    "ShapeError",
    "Status",
    "WeakproxError",
    "estimators",
    "losses",
    "minimize",
    "penalties",
    "plan",
    "plots",
    "selection",
    "solvers",
    "spectral",
    "streams",
    "theory",
]


def __getattr__(name: str) -> Any:
    """Models of `weakprox.estimators`, which need scikit-learn, loaded on first use."""
    if name in estimators.__all__:
        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *estimators.__all__, "__version__"})

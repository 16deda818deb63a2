"""weakprox: low-rank and sparse matrix problems, min G(X) + R(X) + h(X)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weakprox import (
    datasets,
    estimators,
    losses,
    penalties,
    solvers,
    spectral,
    streams,
    theory,
)
from weakprox._minimize import minimize
from weakprox.errors import (
    CheckpointWarning,
    ConvexityError,
    InputError,
    ProofError,
    SamplerError,
    ShapeError,
    WeakproxError,
)
from weakprox.hints import nearest
from weakprox.linalg import LowRank
from weakprox.problem import Problem
from weakprox.result import Certificate, Result, Status
from weakprox.run.plan import Plan as Plan
from weakprox.run.plan import plan
from weakprox.solvers import SVRGCG
from weakprox.solvers.paper import svrgcg

if TYPE_CHECKING:
    from weakprox import plots, selection
    from weakprox.proofs import Proof, verify
    from weakprox.verifier import Verdict as Verdict

__version__ = "0.2.0"

__all__ = [
    "SVRGCG",
    "Certificate",
    "CheckpointWarning",
    "ConvexityError",
    "InputError",
    "LowRank",
    "Problem",
    "Proof",
    "ProofError",
    "Result",
    "SamplerError",
    "ShapeError",
    "Status",
    "WeakproxError",
    "datasets",
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
    "verify",
]

svrgcg.IMPLEMENTED["arm"] = lambda: import_module(f"{__name__}.experiments.ablation").Arm

_TERMS = (losses, penalties, spectral, solvers)
# Packages that are loaded on first use, since many runs do without them, and their names here.
_LATER = ("plots", "proofs", "selection", "verifier")
_HOMES = {"Proof": "proofs", "verify": "proofs", "Verdict": "verifier"}


def __getattr__(name: str) -> Any:
    """Packages and names that are loaded on first use; models need scikit-learn."""
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in estimators.__all__:
        return getattr(estimators, name)
    said = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(said)
    places = {x: f"{kind.__name__}.{x}" for kind in _TERMS for x in kind.__all__}
    places |= {x: f"{__name__}.{x}" for x in (*__all__, *estimators.__all__)}
    found = nearest(name, places)
    raise AttributeError(f"{said}; did you mean {places[found]}?" if found else said)


def __dir__() -> list[str]:
    return sorted({*__all__, *estimators.__all__, "__version__"})

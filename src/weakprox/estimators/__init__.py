"""Models for data, in scikit-learn's manner: fit, certificate, and nothing to tune."""

from importlib import import_module
from typing import Any

# Where each name lives. Loaded on first use, so that one model does not cost the import
# of all; a helper adding a model adds one line.
_HOMES = {
    "HawkesInfectivity": "hawkes",
    "LinkPredictor": "links",
    "SparseLowRank": "denoising",
    "SparseLowRankCV": "denoising",
    "SparseLowRankCovariance": "covariance",
    "SparseLowRankImputer": "imputer",
    "SubspaceClustering": "subspaces",
    "TraceRegression": "trace_regression",
    "TraceRegressionCV": "trace_regression",
}

__all__ = [
    "HawkesInfectivity",
    "LinkPredictor",
    "SparseLowRank",
    "SparseLowRankCV",
    "SparseLowRankCovariance",
    "SparseLowRankImputer",
    "SubspaceClustering",
    "TraceRegression",
    "TraceRegressionCV",
]


def __getattr__(name: str) -> Any:
    """A model, loaded when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        wanted = "scikit-learn, which is not installed: pip install 'weakprox[learn]'"
        raise ImportError(f"weakprox.{name} needs {wanted}") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

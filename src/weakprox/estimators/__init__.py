"""Models for data with scikit-learn's interface, automatic settings and certificates."""

from importlib import import_module
from typing import Any

from weakprox.arguments import made_by_name

# The module of each model, which is imported on first use.
_HOMES = {
    "HawkesInfectivity": "hawkes",
    "LinkPredictor": "links",
    "MatrixCompletion": "completion",
    "RobustPCA": "robust_pca",
    "MatrixCompletionPanel": "panel",
    "ReducedRankRegressor": "reduced_rank",
    "SparseLowRank": "denoising",
    "SparseLowRankCV": "denoising",
    "SparseLowRankCovariance": "covariance",
    "SparseLowRankImputer": "imputer",
    "SubspaceClustering": "subspaces",
    "TraceClassifier": "trace_regression",
    "TraceRegression": "trace_regression",
    "TraceRegressionCV": "trace_regression",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    """Import a model when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = made_by_name(getattr(import_module(f"{__name__}.{_HOMES[name]}"), name))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        wanted = "scikit-learn, which is not installed: pip install 'weakprox[learn]'"
        raise ImportError(f"weakprox.{name} needs {wanted}") from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

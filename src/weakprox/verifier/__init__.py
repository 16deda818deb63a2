"""A check of claimed optima that shares no code with the solvers.

It imports nothing else of weakprox (a contract in pyproject.toml). Everything is
computed in float64 from the data, the claimed X and the dual point, with an explicit
allowance for every rounding error.
"""

from weakprox.verifier.claims import Claim, Statement, Verdict, check, rejected
from weakprox.verifier.entries import (
    Entries,
    HuberEntry,
    Intercepts,
    LogisticEntry,
    OnEntries,
    OwnEntry,
    PoissonEntry,
    SquaredEntry,
)
from weakprox.verifier.losses import OwnLoss, Squares
from weakprox.verifier.measurements import Measurements, Outcomes
from weakprox.verifier.penalties import Box, Groups, Largest, OwnPenalty, Range
from weakprox.verifier.regression import Regression
from weakprox.verifier.spectral import Ball, Norm, OwnSpectral, Psd
from weakprox.verifier.sums import Dense, Factors

__all__ = [
    "Ball",
    "Box",
    "Claim",
    "Dense",
    "Entries",
    "Factors",
    "Groups",
    "HuberEntry",
    "Intercepts",
    "Largest",
    "LogisticEntry",
    "Measurements",
    "Norm",
    "OnEntries",
    "Outcomes",
    "OwnEntry",
    "OwnLoss",
    "OwnPenalty",
    "OwnSpectral",
    "PoissonEntry",
    "Psd",
    "Range",
    "Regression",
    "SquaredEntry",
    "Squares",
    "Statement",
    "Verdict",
    "check",
    "rejected",
]

"""A check of claimed optima that shares no code with the solvers.

Imports nothing of weakprox but its errors (a contract in pyproject.toml). Everything is
computed in float64 from the data, the claimed X and the dual point, with an explicit
allowance for every rounding error.
"""

from weakprox.verifier.claims import Claim, Statement, Verdict, check, proved
from weakprox.verifier.losses import Entries, Measurements, OwnLoss, Squares
from weakprox.verifier.penalties import Box, Groups, Largest, OwnPenalty
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
    "Largest",
    "Measurements",
    "Norm",
    "OwnLoss",
    "OwnPenalty",
    "OwnSpectral",
    "Psd",
    "Squares",
    "Statement",
    "Verdict",
    "check",
    "proved",
]

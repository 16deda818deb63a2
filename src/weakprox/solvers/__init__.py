"""Solvers: each a file of mathematics; the loop they share is in `_run`."""

from weakprox.solvers._look import Look
from weakprox.solvers.davis_yin import DavisYin
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.solvers.extragradient import Extragradient
from weakprox.solvers.fista import FISTA
from weakprox.solvers.hcgm import HCGM, SHCGM
from weakprox.solvers.lean import LeanSplitting
from weakprox.solvers.sample_average import SampleAverage
from weakprox.solvers.scg import SCG
from weakprox.solvers.scgs import SCGS
from weakprox.solvers.storc import STORC, SVRF
from weakprox.solvers.subgradient import ProjectedSubgradient
from weakprox.solvers.svrgcg import SVRGCG

__all__ = [
    "FISTA",
    "HCGM",
    "SCG",
    "SCGS",
    "SHCGM",
    "STORC",
    "SVRF",
    "SVRGCG",
    "DavisYin",
    "DualAscent",
    "Extragradient",
    "LeanSplitting",
    "Look",
    "ProjectedSubgradient",
    "SampleAverage",
]

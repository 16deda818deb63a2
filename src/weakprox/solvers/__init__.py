"""Solvers: each a file of mathematics; the loop they share is in `weakprox.run`."""

from weakprox.arguments import made_by_name
from weakprox.result import Look as Look
from weakprox.solvers.admm import ADMM
from weakprox.solvers.davis_yin import DavisYin, LeanSplitting
from weakprox.solvers.dense_proximal import DenseProximal
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.solvers.extragradient import Extragradient
from weakprox.solvers.factored_proximal import FactoredProximal
from weakprox.solvers.filled_proximal import FilledProximal
from weakprox.solvers.paper.adaptive_svrgcg import AdaptiveSVRGCG
from weakprox.solvers.paper.conditional import HCGM, SCG, SHCGM, SVRF
from weakprox.solvers.paper.exact import FISTA, ProjectedSubgradient
from weakprox.solvers.paper.sliding import SCGS, STORC
from weakprox.solvers.paper.svrgcg import SVRGCG
from weakprox.solvers.sample_average import SampleAverage
from weakprox.solvers.thresholding import Thresholding

__all__ = [
    "ADMM",
    "FISTA",
    "HCGM",
    "SCG",
    "SCGS",
    "SHCGM",
    "STORC",
    "SVRF",
    "SVRGCG",
    "AdaptiveSVRGCG",
    "DavisYin",
    "DenseProximal",
    "DualAscent",
    "Extragradient",
    "FactoredProximal",
    "FilledProximal",
    "LeanSplitting",
    "ProjectedSubgradient",
    "SampleAverage",
    "Thresholding",
]

for _name in __all__:
    made_by_name(globals()[_name])

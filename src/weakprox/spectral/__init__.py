"""Spectral terms h, which make X low-rank, each with its weak proximal oracle."""

from weakprox.arguments import made_by_name
from weakprox.spectral.exact import Exact
from weakprox.spectral.nuclear import NuclearBall, NuclearNorm
from weakprox.spectral.trace_psd import TracePSD

__all__ = ["Exact", "NuclearBall", "NuclearNorm", "TracePSD"]

for _name in __all__:
    made_by_name(globals()[_name])

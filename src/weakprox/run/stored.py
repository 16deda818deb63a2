"""The classes that the memories of our solvers are made of: a checkpoint holds no others."""

from __future__ import annotations

from weakprox.certificates.factored import FactoredDual
from weakprox.certificates.sampled import Noise, Proof
from weakprox.certificates.split import FixedDual, SplitDual
from weakprox.distributed.blocked import Target
from weakprox.distributed.work import Move
from weakprox.linalg.lowrank import LowRank, Projection
from weakprox.losses.measurements import DenseMeasurements
from weakprox.losses.moments import Moments
from weakprox.passes import Step
from weakprox.passes.ritz import Ritz
from weakprox.penalties import Smoothed
from weakprox.protocols import Smoothability, WeakProx
from weakprox.solvers import (
    _conditional,
    _curvature,
    _extrapolation,
    _gap_driven,
    davis_yin,
    dual_ascent,
    extragradient,
    lean,
    sample_average,
)
from weakprox.solvers.paper import adaptive_svrgcg, fista, hcgm, scgs, subgradient, svrgcg
from weakprox.theory._theorems import Parameters
from weakprox.theory.gradients import Pool

MEMORIES: tuple[type, ...] = (
    _conditional.Memory,
    adaptive_svrgcg.Memory,
    davis_yin.Memory,
    dual_ascent.Memory,
    extragradient.Memory,
    fista.MomentumMemory,
    hcgm.HomotopyMemory,
    lean.Memory,
    sample_average.Memory,
    scgs.SlidingMemory,
    subgradient.SubgradientMemory,
    svrgcg.Memory,
)
PARTS: tuple[type, ...] = (
    DenseMeasurements,
    FactoredDual,
    FixedDual,
    LowRank,
    Moments,
    Move,
    Noise,
    Parameters,
    Pool,
    Projection,
    Proof,
    Ritz,
    Smoothability,
    Smoothed,
    SplitDual,
    Step,
    Target,
    WeakProx,
    _conditional.Ground,
    _curvature.Curvature,
    _extrapolation.History,
    _gap_driven.Plan,
    adaptive_svrgcg.Course,
    extragradient.Trial,
    sample_average.Plan,
)
# those that may have been chosen for the user, or by another solver
SOLVERS: tuple[type, ...] = (
    adaptive_svrgcg.AdaptiveSVRGCG,
    davis_yin.DavisYin,
    dual_ascent.DualAscent,
    lean.LeanSplitting,
    sample_average.SampleAverage,
)
STORED: tuple[type, ...] = (*MEMORIES, *PARTS, *SOLVERS)

"""The classes that the memories of our solvers are made of: a checkpoint holds no others."""

from __future__ import annotations

from weakprox.distributed.blocked import Target
from weakprox.distributed.work import Move
from weakprox.linalg.fused import Step
from weakprox.linalg.lowrank import LowRank, Projection
from weakprox.linalg.subspace import Ritz
from weakprox.losses.measurements import DenseMeasurements
from weakprox.losses.moments import Moments
from weakprox.oracles.certificate import FixedDual, SplitDual
from weakprox.oracles.factored import FactoredDual
from weakprox.oracles.gradients import Pool
from weakprox.oracles.parameters import Parameters
from weakprox.oracles.sampled import Noise, Proof
from weakprox.penalties import Smoothed
from weakprox.protocols import Smoothability, WeakProx
from weakprox.solvers import (
    _conditional,
    _curvature,
    _extrapolation,
    _gap_driven,
    _practical,
    _sample_pool,
    davis_yin,
    dual_ascent,
    extragradient,
    fista,
    hcgm,
    lean,
    sample_average,
    scgs,
    subgradient,
    svrgcg,
)

MEMORIES: tuple[type, ...] = (
    _conditional.Memory,
    _sample_pool.Memory,
    davis_yin.Memory,
    dual_ascent.Memory,
    extragradient.Memory,
    fista.MomentumMemory,
    hcgm.HomotopyMemory,
    lean.Memory,
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
    _practical.Course,
    _sample_pool.Plan,
    extragradient.Trial,
)
# those that may have been chosen for the user, or by another solver
SOLVERS: tuple[type, ...] = (
    davis_yin.DavisYin,
    dual_ascent.DualAscent,
    lean.LeanSplitting,
    sample_average.SampleAverage,
    svrgcg.SVRGCG,
)
STORED: tuple[type, ...] = (*MEMORIES, *PARTS, *SOLVERS)

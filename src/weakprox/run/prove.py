"""Raising the lower bound of a run by whatever dual points there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weakprox.certificates.evidence import Evidence
from weakprox.certificates.factored import FactoredDual
from weakprox.certificates.split import SplitDual, lower_bound, split_bound
from weakprox.linalg.lowrank import LowRank
from weakprox.protocols import Candidate, WeakProx
from weakprox.run.finish import CERTIFICATE

if TYPE_CHECKING:
    from weakprox.run.loop import Run

THOROUGH = 3000  # full decompositions for proofs up to this size, should others fail


def prove(run: Run, candidate: Candidate) -> None:
    """Raise the lower bound by the candidate's dual point, or the solver's at X."""
    if run.sampled or run.memory is None:
        return
    dual = candidate.dual or run.solver.dual(run.problem, run.memory)
    rng = run.tools.rng(CERTIFICATE)
    if isinstance(dual, FactoredDual):
        found = dual.bound(rng)
        run.looker.bounded(*found, Evidence(run.problem, dual, None, found[0]))
        return
    curved = run.problem.strong_convexity(needed=False) > 0.0
    if isinstance(dual, SplitDual) and curved:
        allowed = 0.05 * run.looker.accuracy
        used: list[WeakProx] = []
        arena = run.tools.arena
        found = split_bound(
            run.problem, dual, rng=rng, accuracy=allowed, arena=arena, used=used
        )
        shown = replace(dual, prox=used[-1]) if used else dual
        run.looker.bounded(*found, Evidence(run.problem, shown, shown.at, found[0]))
        if run.looker.seen.gap <= run.looker.accuracy:
            return
    at = getattr(dual, "at", None)  # a dual point that comes with a point of its own
    least = min(run.problem.shape)
    rank = min(2 * run.memory.rank + 8, least)
    if run.looker.seen.attempts > 1 and least <= THOROUGH:
        rank = least  # bounds on what a truncated SVD leaves out have not been enough
    X = candidate.X if at is None else at
    bound, rests_on = lower_bound(
        run.problem,
        X.dense() if isinstance(X, LowRank) else X,
        dual,
        rank=rank,
        rng=rng,
        accuracy=0.01 * run.looker.accuracy,
        reached=run.looker.seen.best_value,
        scratch=candidate.scratch,
    )
    run.looker.bounded(bound, rests_on, Evidence(run.problem, dual, X, bound))

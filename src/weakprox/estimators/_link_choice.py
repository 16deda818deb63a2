"""Settings of a link predictor, by how well they find edges hidden from its graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox.arguments import nonnegative, positive
from weakprox.estimators._graphs import (
    Degrees,
    Graph,
    Vector,
    entries,
    placements,
    scaled,
    unshrunk,
)
from weakprox.linalg import decompositions
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.thin_svd import thin_svd
from weakprox.spectral import NuclearBall, NuclearNorm

SHARE = 0.1  # of the edges are hidden at a time
HIDDEN = 1000  # edges to hide in all, if that takes no more than ROUNDS
ROUNDS = 3
FEWEST = 10  # edges, and pairs without one, below which nothing can be learnt from them
NON_EDGES = 10_000  # pairs that hidden edges are compared with
CUTS = 2.0 ** (-np.arange(1, 17) / 4)  # of singular values, whose largest is 1
HIGHEST = 0.9  # a cut is at most this share of the largest singular value
ZEROED = (0.95, 0.9, 0.75, 0.5, 0.25, 0.0)  # shares of entries that lam is as large as
SAMPLE = 20_000  # entries to find such a quantile from
FULL = 4000  # size up to which all singular values are computed, which is then quicker
KEPT = 256  # how many otherwise

Smooth = Callable[[Graph], Degrees]
Solve = Callable[[Vector, float, NuclearBall | NuclearNorm], LowRank]


@dataclass(frozen=True)
class Settings:
    """What fixes the model, in units that carry over from one graph to another.

    `cut` is a price of the nuclear norm: at lam = 0 it is taken off the singular values of
    N. lam is the quantile `share` of the entries of that answer. tau is the nuclear norm of
    the answer to both prices. The defaults serve where there is nothing to learn from.
    """

    cut: float = 0.5
    share: float = 0.5


@dataclass(frozen=True)
class Given:
    """What the user asked for; None is for us to choose."""

    lam: float | None
    tau: float | None

    @classmethod
    def checked(cls, lam: Any, tau: Any) -> Given:
        """The same from parameters of the model; tau may be infinite."""
        auto = [isinstance(value, str) and value == "auto" for value in (lam, tau)]
        endless = isinstance(tau, (float, np.floating)) and tau == np.inf
        return cls(
            None if auto[0] else nonnegative("lam", lam),
            None if auto[1] else float(np.inf) if endless else positive("tau", tau),
        )

    def spectral(self, N: Vector, cut: float) -> NuclearBall | NuclearNorm:
        """The ball asked for, no larger than any matrix needs, or else the price."""
        if self.tau is None:
            return NuclearNorm(cut)
        return NuclearBall(min(self.tau, float(np.sqrt(min(N.shape)) * np.linalg.norm(N))))


@dataclass(frozen=True)
class Learnt:
    """Settings, and scores of hidden edges and of other pairs at them, perhaps none."""

    settings: Settings
    hidden: Vector
    others: Vector


def choose(graph: Graph, degrees_of: Smooth, given: Given, solve: Solve, seed: int) -> Learnt:
    """Settings that are not given, learnt from hidden edges where there are enough.

    By the AUC: first the cut at lam = 0, where the answer has a closed form; then lam; then,
    as lam shrinks too, whether a neighbouring cut is better.
    """
    trials = [Trial(*each, degrees_of, given, solve, seed) for each in _rounds(graph, seed)]
    if not trials:
        return Learnt(Settings(), np.zeros(0), np.zeros(0))
    place = int(np.argmax(np.mean([trial.curve() for trial in trials], axis=0)))
    shares = ZEROED if given.lam is None else (0.0,)
    options = [Settings(float(CUTS[place]), share) for share in shares]
    best = max((Tried(trials, option) for option in options), key=lambda each: each.auc)
    if given.tau is None and (given.lam or best.settings.share) > 0.0:
        cuts = CUTS[max(0, place - 1) : place + 2]
        options = [replace(best.settings, cut=float(cut)) for cut in cuts if cut != CUTS[place]]
        near = (Tried(trials, option) for option in options)
        best = max([best, *near], key=lambda each: each.auc)
    # More edges, less noise: its singular values fall with the root of the degrees.
    cut = best.settings.cut * float(np.sqrt(1.0 - SHARE))
    hidden, others = (np.concatenate(part) for part in zip(*best.scored, strict=True))
    return Learnt(replace(best.settings, cut=cut), hidden, others)


class Tried:
    """Settings, and how well they place hidden edges."""

    def __init__(self, trials: list[Trial], settings: Settings) -> None:
        self.settings = settings
        self.scored = [trial.scores(settings) for trial in trials]
        places = np.concatenate([placements(*each) for each in self.scored])
        self.auc = float(places.mean())


def resolved(
    X: LowRank, settings: Settings, given: Given, seed: int
) -> tuple[LowRank, float, float]:
    """The answer at lam = 0, the cut that leads to it, and lam, from the triplets of N."""
    highest = HIGHEST * float(X.s[0])
    cut = min(settings.cut, highest) if given.tau is None else cut_for(X.s, given.tau)
    point = cut_off(X, cut)
    if given.lam is not None:
        return point, cut, given.lam
    if settings.share == 0.0:
        return point, cut, 0.0
    rng = np.random.default_rng([seed, 2])
    rows, cols = (rng.integers(0, size, SAMPLE) for size in X.shape)
    lam = float(np.quantile(np.abs(entries(point, rows, cols)), settings.share))
    return point, cut, lam


def decomposed(N: Vector, symmetric: bool) -> LowRank:
    """Singular triplets of N: all of them, or the leading ones where N is large."""
    if min(N.shape) > FULL:
        return thin_svd(N, KEPT, tol=1e-4, strict=False).triplets
    if symmetric:  # an eigendecomposition takes a fraction of the time
        values, V = decompositions.eigh(N)
        order = np.argsort(-np.abs(values))
        values, V = values[order], V[:, order]
        return LowRank(V, np.abs(values), (V * np.where(values < 0, -1.0, 1.0)).T)
    return LowRank(*decompositions.svd(N))


def cut_off(X: LowRank, cut: float) -> LowRank:
    """Singular values less `cut`, but not below zero."""
    keep = max(1, int((X.s > cut).sum()))
    return LowRank(X.U[:, :keep], np.maximum(X.s[:keep] - cut, 0.0), X.Vt[:keep])


def cut_for(s: Vector, tau: float) -> float:
    """The cut that leaves singular values with the sum tau; 0 if they have no more."""
    if float(s.sum()) <= tau:
        return 0.0
    cuts = (np.cumsum(s) - tau) / np.arange(1, s.size + 1)
    return float(cuts[np.nonzero(s > cuts)[0][-1]])


class Trial:
    """A graph with some edges hidden, to find them again among pairs without an edge."""

    def __init__(
        self,
        graph: Graph,
        hidden: Vector,
        others: Vector,
        degrees_of: Smooth,
        given: Given,
        solve: Solve,
        seed: int,
    ) -> None:
        self.hidden, self.others = hidden, others
        self.given, self.solve, self.seed = given, solve, seed
        self.degrees = degrees_of(graph)
        self.N = self.degrees.normalised(graph)
        self.triplets = decomposed(self.N, graph.symmetric)

    def curve(self) -> list[float]:
        """AUC at lam = 0 for each cut; where tau is given they are all the same."""
        s, tau = self.triplets.s, self.given.tau
        cuts = CUTS if tau is None else np.full(1, cut_for(s, tau))
        found = []
        for cut in cuts:
            X = cut_off(self.triplets, float(cut))
            X = scaled(X, float(X.s @ s[: X.s.size]))
            found.append(float(placements(*self._scored(X)).mean()))
        return found

    def scores(self, settings: Settings) -> tuple[Vector, Vector]:
        """Scores of the hidden edges and of the other pairs."""
        X, cut, lam = resolved(self.triplets, settings, self.given, self.seed)
        if lam > 0.0:
            X = self.solve(self.N, lam, self.given.spectral(self.N, cut))
        return self._scored(unshrunk(X, self.N))

    def _scored(self, X: LowRank) -> tuple[Vector, Vector]:
        return self.degrees.scores(X, self.hidden), self.degrees.scores(X, self.others)


def _rounds(graph: Graph, seed: int) -> list[tuple[Graph, Vector, Vector]]:
    """Edges hidden at random, several times over; none where there are too few."""
    rng = np.random.default_rng([seed, 1])
    rows, cols, _ = graph.edges()
    if min(rows.size, graph.pairs - rows.size) < FEWEST:
        return []
    size, order = round(SHARE * rows.size), rng.permutation(rows.size)
    found = []
    for k in range(min(ROUNDS, -(-HIDDEN // size))):
        hidden = order[k * size : (k + 1) * size]
        ends = np.stack([rows[hidden], cols[hidden]], axis=1)
        found.append((graph.without(hidden), ends, graph.some_non_edges(NON_EDGES, rng)))
    return found

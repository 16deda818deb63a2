"""Likelihood of a Hawkes process, and EM steps for the parts that have one number per node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakprox.estimators._hawkes_events import (
    Codes,
    Events,
    Kernel,
    Matrix,
    Vector,
    own_past,
    pulls_of,
)

PRIOR = 0.5  # events at the mean rate added to every baseline, so that none becomes zero
STEPS = 60  # EM steps of the pilot
POLISH = 30  # EM steps after the fit
TINY = 1e-300


@dataclass(frozen=True)
class Sources:
    """What adds up to the intensity at events: source p of node u has its own factor.

    `at` is (source, event), `exposure` its integral over time, (source, node), and
    `length` how long that time is. Source 0 is the baseline, 1 everywhere.
    """

    at: Matrix
    exposure: Matrix
    nodes: Codes
    length: float

    def intensity(self, factors: Matrix) -> Vector:
        """At each event, that of its own node."""
        found: Vector = np.einsum("pn,pn->n", self.at, factors[:, self.nodes])
        return found

    def log_likelihood(self, factors: Matrix) -> float:
        """Sum of log intensities less the integral of all intensities."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.intensity(factors))
        return float(logs.sum() - np.sum(factors * self.exposure))

    def improved(self, factors: Matrix, steps: int) -> Matrix:
        """Factors after EM steps: each is multiplied by its events' share over its due."""
        count = factors.shape[1]
        rate = np.bincount(self.nodes, minlength=count) / self.length
        rate = np.where(rate > 0, rate, max(rate.sum() / max(1, count), TINY))
        due = np.maximum(self.exposure, TINY)
        prior = np.zeros_like(due)
        prior[0] = PRIOR
        due = due + prior / rate
        for _ in range(steps):
            inverse = 1.0 / np.maximum(self.intensity(factors), TINY)
            claims = [np.bincount(self.nodes, row * inverse, count) for row in self.at]
            factors = (factors * np.array(claims) + prior) / due
        return factors


@dataclass(frozen=True)
class Pilot:
    """A first model: every node reacts to its own past and to everyone's, alike."""

    baseline: Vector
    own: Vector
    shared: Vector
    kernel: Kernel


def pilot(events: Events, decays: Vector, *, steps: int = STEPS) -> Pilot:
    """Fit the first model by EM, the shares of the decays with it."""
    count, n = events.count, len(events.times)
    own, every = own_past(events, decays), pulls_of(events.times, decays, events.times)
    ages = events.stop - events.times
    gained = -np.expm1(-np.multiply.outer(decays, ages))  # (decay, event)
    own_due = np.array([np.bincount(events.nodes, row, count) for row in gained])
    every_due = np.repeat(gained.sum(axis=1)[:, None], count, axis=1)
    rate = events.totals / events.length
    factors = np.array([0.5 * rate, np.full(count, 0.3), 0.2 * events.totals / n])
    shares = np.full(len(decays), 1.0 / len(decays))
    ones, length = np.ones(n), np.full(count, events.length)
    for _ in range(steps):
        sources = Sources(
            np.array([ones, shares @ own, shares @ every]),
            np.array([length, shares @ own_due, shares @ every_due]),
            events.nodes,
            events.length,
        )
        inverse = 1.0 / np.maximum(sources.intensity(factors), TINY)
        pulls = own * factors[1][events.nodes] + every * factors[2][events.nodes]
        claims = shares * (pulls @ inverse)
        factors = sources.improved(factors, 1)
        mixed = claims / np.maximum(own_due @ factors[1] + every_due @ factors[2], TINY)
        total = max(float(mixed.sum()), TINY)
        shares, factors[1:] = mixed / total, factors[1:] * total
    return Pilot(factors[0], factors[1], factors[2], Kernel(decays, shares))

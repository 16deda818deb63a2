"""Earthquakes around Japan: log-likelihood per event of the last fifth of the time.

M >= 4.5 in 54 cells, time in days. Every model is fitted to the first 80 % of the time and
scored on the rest given all that happened before, by the same formula. The plain Hawkes
models have one exponential and are fitted by maximum likelihood (EM); of several rates
they get the one that is best on the very period they are scored on, which flatters them.
The last two get our mixture of exponentials, to show what the kernel brings and what the
infectivity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Row, Tally, load

from weakprox.estimators import HawkesInfectivity
from weakprox.estimators._hawkes_process import Kernel, Record, excitation, exposure

HORIZON, SHARE, BAR = 10957.0, 0.8, -3.95
RATES = (0.3, 1.0, 3.0, 5.0, 10.0)
OURS = "HawkesInfectivity"


def record() -> tuple[np.ndarray, float]:
    """Columns time and cell, and when training ends."""
    data = load("japan_quakes_usgs")
    kept = (data["mag"] >= 4.5) & (data["cell"] >= 0)
    return np.column_stack([data["time_days"][kept], data["cell"][kept]]), SHARE * HORIZON


class Fitted:
    """A Hawkes model by EM on the entries of the infectivity that `mask` allows."""

    def __init__(self, events: Record, kernel: Kernel, mask: np.ndarray, steps: int) -> None:
        count, length = events.count, events.length
        pulls = excitation(events, kernel, events.times)
        due = np.maximum(exposure(events, kernel, events.start, events.stop), 1e-300)
        self.events, self.kernel = events, kernel
        self.A = np.where(mask, 0.5 / mask.sum(axis=1, keepdims=True), 0.0)
        self.baseline = 0.5 * events.totals / length
        for _ in range(steps):
            rates = self._rates(events.nodes, pulls)
            claims = np.zeros((count, count))
            np.add.at(claims, events.nodes, (pulls / rates).T)
            self.baseline = self.baseline * np.bincount(events.nodes, 1 / rates, count) / length
            self.A = self.A * claims / due

    def _rates(self, nodes: np.ndarray, pulls: np.ndarray) -> np.ndarray:
        return self.baseline[nodes] + np.einsum("vn,nv->n", pulls, self.A[nodes])

    def score(self, later: Record) -> float:
        """Per event of a later period, given the past."""
        together = self.events.then(later)
        rates = self._rates(later.nodes, excitation(together, self.kernel, later.times))
        due = exposure(together, self.kernel, later.start, later.stop)
        spent = later.length * self.baseline.sum() + float((self.A @ due).sum())
        return float(np.log(rates).sum() - spent) / len(later.times)


def rows(quick: bool = False) -> list[Row]:
    """One split, as the data have one time."""
    table, end = record()
    times, cells = table[:, 0], table[:, 1].astype(np.intp)
    early = times < end
    past = Record(times[early], cells[early], 54, 0.0, end)
    later = Record(times[~early], cells[~early], 54, end, HORIZON)
    full, diagonal = np.ones((54, 54), bool), np.eye(54, dtype=bool)
    tally, steps = Tally(), 30 if quick else 100

    def poisson(_: Any) -> float:
        rates = past.totals / past.length
        return float(np.log(rates[later.nodes]).sum() - rates.sum() * later.length) / len(
            later.times
        )

    def one_exponential(mask: np.ndarray) -> Fitted:
        kernels = [Kernel(np.array([rate]), np.ones(1)) for rate in RATES]
        fitted = [Fitted(past, kernel, mask, steps) for kernel in kernels]
        return max(fitted, key=lambda model: model.score(later))

    tally.add("Poisson", lambda: None, poisson)
    for name, mask in (("diagonal Hawkes, EM", diagonal), ("full Hawkes, EM", full)):
        tally.add(name, lambda mask=mask: one_exponential(mask), lambda m: m.score(later))
    ours = tally.add(
        OURS,
        lambda: HawkesInfectivity(random_state=0).fit(table[early], period=(0.0, end)),
        lambda model: model.score(table[~early], period=(end, HORIZON)),
    )
    kernel = Kernel(ours.decay_, ours.mixture_)
    for name, mask in (("diagonal", diagonal), ("full", full)):
        tally.add(
            f"{name} Hawkes, EM, our kernel",
            lambda mask=mask: Fitted(past, kernel, mask, steps),
            lambda model: model.score(later),
        )
    flattered = "rate of the kernel chosen on the test period"
    notes = {
        "diagonal Hawkes, EM": flattered,
        "full Hawkes, EM": flattered,
        OURS: f"rank {ours.rank_}, {np.mean(ours.infectivity_ == 0):.0%} zeros, "
        f"spectral radius {ours.spectral_radius_:.2f}, gap {ours.certificate_.gap:.1e}",
    }
    metric = "log-likelihood per event, last 20 % of time"
    return tally.rows("japan_quakes_usgs", metric, ours=OURS, bar=BAR, notes=notes)


if __name__ == "__main__":
    for row in rows():
        print(row)

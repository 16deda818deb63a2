"""Residuals that last after adoption, by placebo treatments of untreated units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.estimators._entries import Vector
from weakprox.linalg.lowrank import LowRank
from weakprox.linalg.threads import one_thread
from weakprox.losses import Completion
from weakprox.losses.observed import Effects
from weakprox.passes import compiling
from weakprox.selection._observed_path import HeldOutEntries, Weight, zero_weight
from weakprox.selection.search import Search, clearly_positive, least

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the last residual before adoption
GROUPS, UNITS = 5, 10  # placebo groups, and units that they need
HALVINGS = 10  # weights of the nuclear norm that are tried, from the one at which L = 0
CLEAR = 1.0  # standard errors that a share and its weight must gain over the model without one


def last_residuals(off: Vector, rows: Vector, count: int) -> Vector:
    """The last residual of each row, 0 if it has none; cells are in the order of time."""
    found = np.zeros(count)
    found[rows] = off  # later cells overwrite earlier ones
    return found


@dataclass(frozen=True)
class Placebo:
    """Untreated cells, some of them hidden as if their units were treated."""

    part: HeldOutEntries
    rows: Vector  # of the cells of these units before their placebo treatment
    columns: Vector
    values: Vector

    def losses(self, X: LowRank, effects: Effects) -> tuple[float, ...]:
        """Mean squared errors of the hidden cells, for each share."""
        part, data = self.part, self.part.kept().observed()
        off = self.values - np.asarray(data.predicted(X, effects, self.rows, self.columns))
        last = last_residuals(off, self.rows, part.whole.shape[0])[part.rows]
        away = part.values - np.asarray(data.predicted(X, effects, part.rows, part.columns))
        return tuple(float(np.mean((away - share * last) ** 2)) for share in SHARES)


def placebos(
    loss: Completion,
    cells: tuple[Vector, Vector, Vector],
    never: Vector,
    treated: Sequence[Vector],
    rng: np.random.Generator,
) -> list[Placebo]:
    """Groups of never-treated units, each treated in the periods of some treated unit.

    `cells` has rows, columns and outcomes of the untreated cells; `treated` has the treated
    periods of each treated unit.
    """
    rows, columns, values = cells
    found = []
    for units in np.array_split(rng.permutation(never), GROUPS):
        hidden, before = np.zeros_like(rows, dtype=bool), np.zeros_like(rows, dtype=bool)
        for unit, like in zip(units, rng.integers(len(treated), size=len(units)), strict=True):
            own = np.flatnonzero(rows == unit)
            early = columns[own] < treated[like].min()
            gone = np.isin(columns[own], treated[like])
            if early.any() and gone.any():
                hidden[own], before[own] = gone, early
        if hidden.any():
            part = HeldOutEntries(loss, hidden)
            found.append(Placebo(part, rows[before], columns[before], values[before]))
    return found


def chosen_share(
    parts: Sequence[Placebo],
    solve: Callable[[Any, LowRank | None], tuple[LowRank, Effects]],
    search: Callable[[Sequence[Placebo], Any], Search[Weight]],
    plain: float,
    seed: int,
) -> tuple[float, float]:
    """The weight of the nuclear norm and the share that predict the placebos best.

    They replace the weight `plain` without a share only if they are clearly better.
    """

    def trial(
        placebo: Placebo, candidate: Weight, start: LowRank | None
    ) -> tuple[tuple[float, ...], LowRank]:
        part = placebo.part
        with one_thread(0), compiling.passes(compiling.chosen(kind=compiling.ENTRIES)):
            found, effects = solve(part.problem(part.kept(), candidate.lam), start)
        return placebo.losses(found, effects), found

    found = search(parts, trial)
    top = zero_weight(parts[0].part.whole, seed) or 1.0
    line = [plain, *(top * 0.5**k for k in range(HALVINGS))]
    found.best_of([Weight(lam) for lam in sorted(set(line), reverse=True)], start="before")
    tried = [found.scores(k) for k in range(len(SHARES))]
    options = [(one.lam, share) for share in SHARES for one in tried[0].candidates]
    if (plain, 0.0) not in options:  # no time
        return plain, 0.0
    losses = np.concatenate([one.losses for one in tried], axis=1)
    best = least(losses)
    gain = losses[:, options.index((plain, 0.0))] - losses[:, best]
    return options[best] if clearly_positive(gain, CLEAR) else (plain, 0.0)

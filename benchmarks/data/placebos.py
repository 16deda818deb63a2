"""Panels whose untreated outcomes are known: ours beside simple methods.

    python benchmarks/data/placebos.py

Each state that kept its tax in the data of Proposition 99 is treated in turn as if it had
raised it in 1989. Simulated panels have 40 units and 16 periods, and nine units are treated
from period 10 or 13 on; deviations from parallel courses are white noise or random walks.
Errors are root mean squares over the treated cells, with standard errors over placebos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import load
from scipy.optimize import nnls

from weakprox import MatrixCompletionPanel

SEEDS = 20


def model(Y: Any, treated: Any, **settings: Any) -> Any:
    """Untreated outcomes by our model."""
    fitted = MatrixCompletionPanel(random_state=0, **settings).fit(Y, treated)
    return np.asarray(fitted.counterfactual_)


def changes(Y: Any, treated: Any) -> Any:
    """The last outcome before adoption, and the mean change of the untreated units since."""
    never, found = ~treated.any(axis=1), Y.copy()
    for unit in np.flatnonzero(~never):
        last = np.argmax(treated[unit]) - 1
        found[unit] = Y[unit, last] + (Y[never] - Y[never][:, [last]]).mean(axis=0)
    return found


def synthetic(Y: Any, treated: Any) -> Any:
    """Weighted means of untreated units, with weights fitted before adoption."""
    never, found = ~treated.any(axis=1), Y.copy()
    for unit in np.flatnonzero(~never):
        before = np.arange(Y.shape[1]) < np.argmax(treated[unit])
        A, b = Y[never][:, before].T, Y[unit, before]
        one = 1e3 * np.abs(A).max()  # so that weights sum to one
        weights, _ = nnls(np.vstack([A, np.full(A.shape[1], one)]), np.append(b, one))
        found[unit] = weights @ Y[never]
    return found


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    'MatrixCompletionPanel, persistence="auto"': partial(model, persistence="auto"),
    "the same, persistence=0": model,
    "effects of units and periods": lambda Y, treated: model(Y, treated, lam=1e6),
    "changes since adoption": changes,
    "synthetic control": synthetic,
}


def smoking() -> Iterator[tuple[Any, Any]]:
    """States without a treatment, one of them treated."""
    data = load("prop99_smoking")
    after, Y = data["treated"].any(axis=0), data["packs"].astype(float)
    Y = Y[~data["treated"].any(axis=1)]
    for unit in range(len(Y)):
        treated = np.zeros(Y.shape, dtype=bool)
        treated[unit, after] = True
        yield Y, treated


def simulated(*, walk: bool) -> Iterator[tuple[Any, Any]]:
    """Parallel courses with deviations, which are random walks or white noise."""
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        off = rng.standard_normal((40, 16))
        treated = np.zeros(off.shape, dtype=bool)
        treated[:6, 10:] = treated[6:9, 13:] = True
        off = off.cumsum(axis=1) if walk else off
        yield off + 3.0 * rng.standard_normal((40, 1)) + rng.standard_normal(16), treated


def main() -> None:
    """Print errors, and differences to ours."""
    for name, panels in (
        ("states of Proposition 99", smoking()),
        ("white noise", simulated(walk=False)),
        ("random walks", simulated(walk=True)),
    ):
        found = np.array(
            [
                [np.sqrt(np.mean((each(Y, T) - Y)[T] ** 2)) for each in METHODS.values()]
                for Y, T in panels
            ]
        )
        print(f"{name}, {len(found)} panels")
        for k, title in enumerate(METHODS):
            away = found[:, k] - found[:, 0]
            error = away.std(ddof=1) / np.sqrt(len(away))
            more = f"  ours better by {away.mean():+.3f} ± {error:.3f}" if k else ""
            print(f"  {title:30} {found[:, k].mean():.3f}{more}", flush=True)


if __name__ == "__main__":
    main()

"""Laws of noise on matrices, all of mean zero, for statements that samples support."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from soak.kit import Matrix, Random

Law = Callable[[Random, int, tuple[int, int]], Matrix]  # (rng, k, shape): k matrices


def _gaussian(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    return rng.standard_normal((k, *shape))


def _student(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    return rng.standard_t(3, (k, *shape))


def _lognormal(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    return np.exp(rng.standard_normal((k, *shape))) - np.exp(0.5)


def _shared(values: Callable[[Random, int], Matrix]) -> Law:
    """The same number in every entry: one direction."""
    return lambda rng, k, shape: values(rng, k)[:, None, None] * np.ones(shape)


def _rare(share: float, size: float, noise: float = 0.0) -> Law:
    """A shift that few draws have, the same in all entries, and some noise beside it."""

    def law(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
        shift = size * ((rng.random((k, 1, 1)) < share) - share)
        return shift + noise * rng.standard_normal((k, *shape))

    return law


def _rare_entry(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    N = 0.3 * rng.standard_normal((k, *shape))
    N[:, 0, 0] = 10.0 * ((rng.random(k) < 0.01) - 0.01)
    return N


def _counts(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    return rng.poisson(0.1, (k, *shape)) - 0.1


def _uneven(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    scale = np.exp(np.linspace(-3.0, 3.0, shape[0] * shape[1])).reshape(shape)
    return scale * rng.standard_normal((k, *shape))


def _mixture(rng: Random, k: int, shape: tuple[int, int]) -> Matrix:
    wide = rng.random((k, 1, 1)) < 0.05
    return np.where(wide, 10.0, 1.0) * rng.standard_normal((k, *shape))


LAWS: dict[str, Law] = {
    "Gaussian": _gaussian,
    "t3": _student,
    "t3, one direction": _shared(lambda rng, k: rng.standard_t(3, k)),
    "lognormal": _lognormal,
    "lognormal, one direction": _shared(
        lambda rng, k: np.exp(rng.standard_normal(k)) - np.exp(0.5)
    ),
    "Gaussian, one direction": _shared(lambda rng, k: rng.standard_normal(k)),
    "shift of 10 in 1 %": _rare(0.01, 10.0),
    "shift of 2 in 5 %": _rare(0.05, 2.0),
    "shift of 1 in 10 %": _rare(0.1, 1.0),
    "shift of 10 in 1 %, with noise": _rare(0.01, 10.0, 0.3),
    "shift of 2 in 5 %, with noise": _rare(0.05, 2.0, 0.3),
    "shift of 10 in 1 %, one entry": _rare_entry,
    "Poisson counts": _counts,
    "heteroscedastic": _uneven,
    "mixture of normals": _mixture,
}

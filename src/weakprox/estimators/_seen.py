"""What a denoiser remembers of the noisy copies it has seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakprox.selection import noise_level
from weakprox.selection.noise import Values


@dataclass(frozen=True)
class Seen:
    """What is kept of the samples: their mean, number and scatter, never they themselves."""

    mean: Values
    count: int
    scatter: float

    @classmethod
    def of(cls, samples: Any) -> Seen:
        """Of samples one by one: a memory map is never loaded whole."""
        seen = cls(np.zeros(samples.shape[1:]), 0, 0.0)
        for sample in samples:
            seen = seen.and_also(cls(np.asarray(sample, dtype=float), 1, 0.0))
        return seen

    def and_also(self, other: Seen) -> Seen:
        """Of both together."""
        if self.count == 0:
            return other
        count = self.count + other.count
        step = other.mean - self.mean
        between = float(np.sum(step * step)) * self.count * other.count / count
        mean = self.mean + step * (other.count / count)
        return Seen(mean, count, self.scatter + other.scatter + between)

    def noise(self) -> float:
        """Standard deviation of the noise in the entries of the mean."""
        if self.count == 1:
            return noise_level(self.mean)
        return math.sqrt(self.scatter / ((self.count - 1) * self.mean.size * self.count))

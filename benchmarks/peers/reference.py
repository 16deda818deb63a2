"""Optimal values with a proof of the benchmark's own: a feasible point and a dual bound.

The runs are long, use nothing of weakprox, and are kept between calls by the hash of the
instance's data, since they are the same every time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from clock import Enough
from fixed_point import denoising, sensing
from instances import E1, E2, Instance
from projections import Gram, Partial
from splittings import accelerated_dual, admm, affine_dual
from verify import Judge

VERSION = 2  # of the values kept
MEMORY = 8
STORE = Path(tempfile.gettempdir()) / f"weakprox-references-{os.getuid()}.json"


@dataclass(frozen=True)
class Reference:
    """lower <= f* <= value, both computed by the judge; seconds is what that took."""

    value: float
    lower: float
    seconds: float

    @property
    def gap(self) -> float:
        """Relative width of the interval that holds the optimum."""
        return (self.value - self.lower) / abs(self.lower)


class Prover:
    """Keeps the best point and the best bound; ends the run when they meet."""

    def __init__(self, judge: Judge, goal: float) -> None:
        self.judge, self.goal, self.every = judge, goal, 1
        self.value, self.lower, self.X = math.inf, -math.inf, None
        self.seen, self.until, self.limit = 0, math.inf, math.inf

    def __call__(self, X: np.ndarray, dual: Any) -> None:
        """Take note of a point; every so often, prove a bound."""
        self.seen += 1
        value = self.judge.value(X)
        if value < self.value:
            self.value, self.X = value, X.copy()
        late = time.perf_counter() > self.until or self.seen >= self.limit
        if self.seen % self.every == 0 or late:
            self.lower = max(self.lower, self.judge.bound(*dual()))
            if self.proved or late:
                raise Enough

    @property
    def proved(self) -> bool:
        """Whether the goal is reached."""
        width = self.value - self.lower
        return math.isfinite(width) and width <= self.goal * abs(self.lower)

    def run(self, method: Any, seconds: float, *, every: int, limit: float = math.inf) -> None:
        """Let a method show its points, for so long or so many."""
        if self.proved:
            return
        self.seen, self.every, self.limit = 0, every, limit
        self.until = time.perf_counter() + seconds
        with contextlib.suppress(Enough):
            method(self)


def reference(one: Instance, judge: Judge, goal: float, seconds: float) -> Reference:
    """Bounds on the optimum, `goal` apart relatively if `seconds` allow for it."""
    key = f"{_hash(one)}-{VERSION}"
    if key in (kept := _read()):
        found = Reference(**kept[key])
        if found.gap <= 1.01 * goal or found.seconds >= 0.7 * seconds:
            return found
    begun = time.perf_counter()
    prover = Prover(judge, goal)
    if isinstance(one, E1):
        _denoising(one, prover, seconds)
    elif isinstance(one, E2):
        prover.run(lambda see: affine_dual(one, see), seconds, every=10)
    else:
        prover.run(lambda see: sensing(one, see, 100.0, MEMORY), seconds, every=10)
    value = judge.feasible_value(prover.X)
    found = Reference(value, prover.lower, time.perf_counter() - begun)
    _write({**_read(), key: asdict(found)})
    return found


def _denoising(one: E1, prover: Prover, seconds: float) -> None:
    """Dual ascent, which is fast where X* is low-rank; then splitting, which always works.

    A large rho serves the value, a smaller one the bound.
    """
    side = max(one.shape)
    often = 5 if side <= 300 else 10
    ascent = lambda see: accelerated_dual(one, Gram(one.tau), see)  # noqa: E731
    prover.run(ascent, seconds / 4, every=often, limit=40)
    if side > 600:
        rough = Partial(one.tau, passes=2)
        prover.run(lambda see: admm(one, rough, see, 30.0, rough=True), seconds, every=30)
        return
    for rho, share in ((100.0, 0.35), (300.0, 0.4)):
        run = lambda see, rho=rho: denoising(one, Gram(one.tau), see, rho, MEMORY)  # noqa: E731
        prover.run(run, share * seconds, every=4 * often)


def _hash(one: Instance) -> str:
    """Of all the numbers that make the instance."""
    digest = hashlib.sha256(one.kind.encode())
    for name, field in sorted(vars(one).items()):
        if name not in ("name", "size"):
            digest.update(np.ascontiguousarray(field, dtype=float).tobytes())
    return digest.hexdigest()[:24]


def _read() -> dict[str, Any]:
    try:
        return json.loads(STORE.read_text())
    except (OSError, ValueError):
        return {}


def _write(values: dict[str, Any]) -> None:
    STORE.write_text(json.dumps(values, indent=1))

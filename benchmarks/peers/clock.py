"""The clock of a method: it stops while the benchmark judges what the method shows."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from verify import Judge


class Enough(Exception):  # noqa: N818 (a signal, not an error)
    """Raised inside a method when all accuracies are reached, or its time is up."""


class Course:
    """A method's way to the optimum: when it was first within each gap, verified.

    The gap is f(X) minus the best value known, relative to the best lower bound. Of the
    two ends of the reference's own gap this is the one in the method's favour.
    """

    def __init__(
        self,
        judge: Judge,
        value: float,
        lower: float,
        gaps: Sequence[float],
        seconds: float,
        calls: Callable[[], int | None],
    ) -> None:
        self.judge, self.reference, self.lower = judge, value, lower
        self.gaps, self.limit, self.calls = sorted(gaps, reverse=True), seconds, calls
        self.hits: dict[float, dict[str, Any]] = {}
        self.best, self.spent = math.inf, 0.0
        self._paused, self._begun = 0.0, time.perf_counter()

    def __call__(self, X: Any, dual: Any = None) -> None:
        """Judge a point the method shows; its dual point is not asked for."""
        now = time.perf_counter()
        own = now - self._begun - self._paused
        gap = self._gap(self.judge.value(X))
        if gap < self.best and any(gap <= g for g in self.gaps if g not in self.hits):
            gap = self._gap(self.judge.feasible_value(X))  # dear, so only when it matters
        if gap < self.best:
            self.best = gap
        for g in self.gaps:
            if gap <= g and g not in self.hits:
                self.hits[g] = {"seconds": own, "calls": self.calls()}
        late = own > self.limit or now - self._begun > 3 * self.limit + 5
        self._paused += time.perf_counter() - now
        if late or len(self.hits) == len(self.gaps):
            raise Enough

    def end(self) -> None:
        """The method has returned: take down its time."""
        self.spent = time.perf_counter() - self._begun - self._paused

    def _gap(self, value: float) -> float:
        return max(0.0, (value - self.reference) / abs(self.lower))


def threads_for(shape: tuple[int, int]) -> int:
    """BLAS threads: two only pay on large matrices."""
    return 2 if max(shape) > 300 else 1


@contextlib.contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """So many BLAS threads for everything inside, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # then OPENBLAS_NUM_THREADS decides, for all methods alike
        yield
        return
    with threadpool_limits(limits=count, user_api="blas"):
        yield


def machine() -> dict[str, Any]:
    """What the times depend on."""
    import importlib.metadata as metadata

    import weakprox

    names = ("numpy", "scipy", "cvxpy", "scs", "copt", "pyproximal")
    versions = {"weakprox": weakprox.__version__}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions,
        "load_at_start": round(os.getloadavg()[0], 2),
        "date": time.strftime("%Y-%m-%d"),
        "environment": {k: v for k, v in os.environ.items() if k.startswith("OPENBLAS_")},
    }
    with contextlib.suppress(ImportError):
        from threadpoolctl import threadpool_info

        pools = [p for p in threadpool_info() if p["user_api"] == "blas"]
        facts["blas"] = sorted({f"{p['internal_api']} {p['version']}" for p in pools})
    return facts

"""The peers: what each is called, its grid of settings, and where it is run.

The best setting of the grid is what counts, accuracy by accuracy: it is found in the first
round and only those settings are repeated, so that tuning costs the peer nothing. The first
of a grid is the one of the project's earlier measurements of peers; `--usual` runs it alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import packages
import splittings
from clock import Course, Enough
from instances import Instance
from projections import Full, Gram, Partial
from reference import Reference
from verify import Judge

PENALTIES = (100.0, 30.0, 300.0, 10.0)  # and inverse steps; the likeliest first


@dataclass(frozen=True)
class Peer:
    """A method with its settings.

    `begin` runs it, given instance, course, setting and seconds. `kind` is "package",
    "full" (full SVDs) or "partial" (warm-started ones); `largest` is the largest side it
    is run at; `tolerances` says that its settings are tolerances, loosest first; `extra`
    peers are run only if asked for.
    """

    name: str
    kind: str
    examples: tuple[str, ...]
    settings: tuple[float, ...]
    begin: Callable[[Instance, Any, float, float], None]
    largest: int = 2000
    tolerances: bool = False
    extra: bool = False

    def settings_for(self, gaps: list[float], usual: bool) -> tuple[float, ...]:
        """All settings, or the first; of tolerances those that could reach a gap."""
        if not self.tolerances:
            return self.settings[:1] if usual else self.settings
        return tuple(s for s in self.settings if s <= 10.1 * max(gaps))


class Counted:
    """Where a method writes its count of projections."""

    def __init__(self) -> None:
        self.of: Any = None
        self.count = [0]

    def __call__(self) -> int | None:
        """Projections so far, None for a method without."""
        return (self.of.calls if self.of is not None else self.count[0]) or None


def _full(method: Callable, projector: type = Full) -> Callable:
    def begin(one: Any, see: Course, setting: float, seconds: float) -> None:
        see.calls.of = projector(one.tau)
        more = () if setting == 0.0 else (setting,)
        method(one, see.calls.of, see, *more)

    return begin


def _warm_admm(one: Any, see: Course, setting: float, seconds: float) -> None:
    see.calls.of = Partial(one.tau, passes=1)
    splittings.admm(one, see.calls.of, see, setting, rough=True)


def _warm_dual(one: Any, see: Course, setting: float, seconds: float) -> None:
    see.calls.of = Partial(one.tau, passes=int(setting))
    splittings.accelerated_dual(one, see.calls.of, see, rough=True)


def _copt(one: Any, see: Course, setting: float, seconds: float) -> None:
    packages.copt_splitting(one, see, 1.0 / setting, see.calls.count)


def _pyproximal(one: Any, see: Course, setting: float, seconds: float) -> None:
    packages.pyproximal_admm(one, see, 1.0 / setting, see.calls.count)


def _scs(compress: bool) -> Callable:
    def begin(one: Any, see: Course, setting: float, seconds: float) -> None:
        packages.cvxpy_scs(one, see, setting, seconds, compress)

    return begin


TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
PEERS = (
    Peer("copt", "package", ("E1",), PENALTIES, _copt, largest=1000),
    Peer("pyproximal", "package", ("E1",), PENALTIES, _pyproximal, largest=1000),
    Peer("ADMM", "full", ("E1",), PENALTIES, _full(splittings.admm)),
    Peer("Dykstra", "full", ("E1",), (0.0,), _full(splittings.dykstra)),
    Peer("ADMM, partial SVD", "partial", ("E1",), (30.0, 10.0, 100.0), _warm_admm),
    Peer("dual, partial SVD", "partial", ("E1",), (4.0, 2.0), _warm_dual),
    Peer(
        "dual", "full", ("E2",), (0.0,), lambda one, see, *_: splittings.affine_dual(one, see)
    ),
    Peer(
        "ADMM, 3 blocks",
        "full",
        ("E3",),
        (0.1, 0.3, 1.0),
        lambda one, see, setting, _: splittings.consensus_admm(one, see, setting),
    ),
    Peer(
        "CVXPY + SCS",
        "package",
        ("E1", "E2", "E3"),
        TOLERANCES,
        _scs(False),
        largest=100,
        tolerances=True,
    ),
    Peer("CVXPY + SCS, QR", "package", ("E3",), TOLERANCES, _scs(True), tolerances=True),
    Peer("ADMM, Gram", "full", ("E1",), PENALTIES, _full(splittings.admm, Gram), extra=True),
)


def peers_for(one: Instance, names: list[str] | None, extra: bool) -> list[Peer]:
    """Those that can be run on an instance, and were asked for."""
    return [
        peer
        for peer in PEERS
        if one.kind in peer.examples
        and max(one.shape) <= peer.largest
        and (extra or not peer.extra)
        and (names is None or peer.name in names)
    ]


def run_peer(
    peer: Peer,
    setting: float,
    one: Instance,
    judge: Judge,
    ref: Reference,
    gaps: list[float],
    seconds: float,
) -> Course:
    """One run of a peer with one setting."""
    course = Course(judge, ref.value, ref.lower, gaps, seconds, Counted())
    with contextlib.suppress(Enough):
        peer.begin(one, course, setting, seconds)
    course.end()
    return course

"""Kills runs of every solver at random moments; each must end as if nothing had happened.

    python tests/soak/kills.py --kills 100

A server process imports everything once and forks the runs, which write a checkpoint after
every outer step. Each is sent SIGKILL at a random moment, perhaps several times, and is then
left to end: X must be, bit by bit, that of a run that was never disturbed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from kill_cases import CASES

import weakprox as wp

AGAIN = 0.4  # chance of another kill after a kill
PATIENCE = 300.0  # seconds after which a run counts as hung


def run(name: str, state: Path | None, answer: Path) -> None:
    """One run, as a process of its own does it; its answer goes to a file."""
    problem, solver, options = CASES[name]()
    if state is not None:
        options |= {"checkpoint": state, "checkpoint_every": 0, "resume": True}
    result = wp.minimize(problem, solver, progress=False, **options)
    U, s, Vt = (np.asarray(part) for part in result.factors)
    counts = np.array(list(vars(result.counts).values()))
    partial = answer.with_suffix(".partial.npz")
    np.savez(partial, U=U, s=s, Vt=Vt, value=result.value, gap=result.gap, counts=counts)
    os.replace(partial, answer)


def forked(*arguments: Any) -> int:
    """The process id of a child that does the run and nothing else."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int, within: float) -> int | None:
    """The exit status of a child, None if it is still running after so many seconds."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@dataclass
class Tally:
    """What happened so far."""

    kills: int = 0
    survived: int = 0
    resumed: int = 0  # runs that had a checkpoint to continue from
    failures: list[str] = field(default_factory=list)


@dataclass
class Reference:
    """The undisturbed run of a case, and how long it takes with checkpoints."""

    answer: dict[str, Any]
    seconds: float


def reference(name: str, folder: Path) -> Reference:
    """Without checkpoints for the answer, with them for the time."""
    plain, kept = folder / "plain.npz", folder / "kept.npz"
    for answer, state in ((plain, None), (kept, folder / "timed.safetensors")):
        begun = time.monotonic()
        if ended(forked(name, state, answer), PATIENCE) != 0:
            raise RuntimeError(f"{name}: the undisturbed run failed")
        seconds = time.monotonic() - begun
    with np.load(plain) as one, np.load(kept) as other:
        found = {key: one[key] for key in one.files}
        if any(not np.array_equal(found[key], other[key], equal_nan=True) for key in found):
            raise RuntimeError(f"{name}: writing checkpoints changes the answer")
    return Reference(found, seconds)


def disturbed(
    name: str, expected: Reference, folder: Path, rng: random.Random, tally: Tally
) -> None:
    """A run that is killed at least once, and what became of it."""
    state, answer, tries = folder / "run.safetensors", folder / "answer.npz", 0
    while True:
        child = forked(name, state, answer)
        if ended(child, rng.uniform(0.0, expected.seconds)) is not None:
            break  # too late: it is done, or has failed
        kill(child)
        tries += 1
        if rng.random() > AGAIN:
            break
    tally.kills += tries
    tally.resumed += state.exists()
    if answer.exists():
        answer.unlink()  # the last run must make it anew
    child = forked(name, state, answer)
    code = ended(child, PATIENCE)
    if code is None:
        kill(child)
    if code != 0:
        tally.failures.append(f"{name}: ended with {code} after {tries} kills")
        return
    with np.load(answer) as found:
        wrong = [
            key
            for key, value in expected.answer.items()
            if not np.array_equal(found[key], value, equal_nan=True)
        ]
    if wrong:
        tally.failures.append(f"{name}: other {', '.join(wrong)} after {tries} kills")
    else:
        tally.survived += tries
    left = sorted(path.name for path in folder.iterdir())
    known = {"run.safetensors", "run.safetensors.previous", "answer.npz"}
    known |= {"run.safetensors.partial", "run.safetensors.kept", "answer.partial.npz"}
    if set(left) - known:
        tally.failures.append(f"{name}: left behind {sorted(set(left) - known)}")


def soak(kills: int, seed: int = 0, names: list[str] | None = None) -> Tally:
    """So many kills, over all cases in turn."""
    rng, tally, known = random.Random(seed), Tally(), {}
    names = list(CASES) if names is None else names
    turn = 0
    while tally.kills < kills:
        name = names[turn % len(names)]
        with tempfile.TemporaryDirectory(prefix="weakprox-kills-") as place:
            if name not in known:
                known[name] = reference(name, Path(place))
                for path in Path(place).iterdir():
                    path.unlink()
            disturbed(name, known[name], Path(place), rng, tally)
        turn += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", choices=list(CASES), help="these cases")
    asked = parser.parse_args()
    tally = soak(asked.kills, asked.seed, asked.only)
    for failure in tally.failures:
        print(failure)
    print(
        f"kills survived / tried: {tally.survived} / {tally.kills} "
        f"({len(asked.only or CASES)} cases, {tally.resumed} runs resumed from a file)"
    )
    failed = len(tally.failures) or tally.kills - tally.survived
    print(f"RESULT kills survived={tally.survived} tried={tally.kills} failures={failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

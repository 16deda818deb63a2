"""When the states of a run are written to a file, and what happens if they cannot be."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from weakprox.arguments import number
from weakprox.errors import CheckpointWarning, InputError
from weakprox.problem import Problem
from weakprox.protocols import Solver
from weakprox.run.checkpoint import (
    Checkpoint,
    call_in,
    codec_for,
    state_in,
    version,
    write,
)
from weakprox.run.identity import Call
from weakprox.storage.atomic import checked_target
from weakprox.storage.checkpoint import DamagedError, Stored, load, previous
from weakprox.storage.table import FileError

EVERY = 60.0  # seconds between writes where nothing is asked for


class Keeper:
    """Writes the latest state at most every so often, and the last one at the end.

    A run does not fail because it cannot be written down: there is a warning, the file
    stays as it was, and the next state is tried. Only what cannot be written at all, such
    as samples of an unknown kind, is an error, at the first state.
    """

    def __init__(self, path: Any, every: Any) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise InputError("checkpoint", repr(path), "the name of a file")
        wanted = "seconds between writes, a number >= 0"
        self.every = EVERY if every is None else number("checkpoint_every", every, wanted)
        if self.every < 0.0:
            raise InputError("checkpoint_every", repr(every), wanted)
        self.path: Path = checked_target(path)
        self._whole = False  # whether the file at `path` is one to keep
        self._latest: Checkpoint | None = None
        self._tried = False
        self._written = -float("inf")

    def equip(self, problem: Problem, solver: Solver, *, automatic: bool) -> None:
        """Say what the run is about, before the first state comes.

        A solver that was chosen for the user is written down: the choice depends on how
        much memory there is, and may be another one next time.
        """
        self._reads = codec_for(problem, solver)
        self._writes = codec_for(problem, None if automatic else solver)

    def refuse_existing(self) -> None:
        """Raise rather than write over an earlier run."""
        if self.path.exists():
            wanted = "to resume from it, or another name"
            raise FileError(self.path, "a file that is there already", wanted)

    def reopened(self, problem: Problem, call: Call) -> Checkpoint | None:
        """The state to go on from; None if there is no file yet.

        Raises
        ------
        InputError
            If the file is of another call, or cannot be read. It stays as it is.
        """
        stored = self._stored()
        if stored is None:
            return None
        check_call(call, call_in(stored, self._reads), f"{self.path.name}, a checkpoint")
        state = state_in(stored, self._reads, problem)
        self._tried = True  # such states can be written
        if stored.writer != version():
            _warn(
                f"{stored.path} was written by weakprox {stored.writer}, this is {version()}: "
                "the run goes on, perhaps not to the same bits."
            )
        return state

    def _stored(self) -> Stored | None:
        if not self.path.exists():
            return None
        try:
            found = load(self.path)
        except DamagedError as bad:
            old = previous(self.path)
            if not old.is_file():
                raise
            try:
                found = load(old)
            except FileError as worse:
                given = f"{bad.given}, and {old.name} with {worse.given}"
                raise DamagedError(self.path, given, bad.wanted) from None
            _warn(f"{bad} The run goes on from the checkpoint before, {old.name}.")
            return found
        self._whole = True
        return found

    def offer(self, state: Checkpoint) -> None:
        """Take a state, and write it if it is time to."""
        self._latest = state
        if time.monotonic() - self._written >= self.every:
            self.flush()

    def flush(self) -> None:
        """Write the latest state, unless that has been done."""
        state, self._latest = self._latest, None
        if state is None:
            return
        try:
            write(self.path, state, self._writes, keep=self._whole)
            self._whole = True
        except (OSError, InputError) as problem:
            if isinstance(problem, InputError) and not self._tried:
                raise
            why = str(problem).rstrip(".")
            _warn(f"No checkpoint was written to {self.path}: {why}. The run goes on.")
        self._tried = True
        self._written = time.monotonic()


def check_call(call: Call, earlier: Call, what: str, *besides: str) -> None:
    """Raise unless an earlier call asked for the same."""
    if call.automatic and call.automatic == earlier.automatic:
        call = replace(call, solver=earlier.solver)  # whichever was chosen then
    names = earlier.unlike(call, besides=("automatic", *besides))
    if names:
        given = f"{what} of another {', '.join(names).replace('_', ' ')}"
        raise InputError("resume", given, "the same call that is to go on")


def _warn(message: str) -> None:
    warnings.warn(message, CheckpointWarning, stacklevel=2)

"""Files that appear as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from weakprox.storage.table import FileError, PathLike


@contextmanager
def atomic(path: PathLike, *, durable: bool = True) -> Iterator[Path]:
    """A temporary path to write to, which becomes `path` if the block succeeds.

    It is in the same directory and has the same suffix. If the block raises, `path` is left
    unchanged and the temporary file is removed. Without `durable` the data may still be in
    the system's cache at the end, so that a power failure can leave a damaged file.
    """
    with atomic_all([path], durable=durable) as (temporary,):
        yield temporary


@contextmanager
def atomic_all(paths: Sequence[PathLike], *, durable: bool = True) -> Iterator[list[Path]]:
    """Like `atomic` for several files: all of them appear, or none."""
    targets = [checked_target(path) for path in paths]
    temporaries = [_beside(target) for target in targets]
    try:
        for temporary in temporaries:
            temporary.touch(exist_ok=False)
        yield temporaries
        for temporary, target in zip(temporaries, targets, strict=True):
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o7777)
            if durable:
                sync(temporary)
        _move(temporaries, targets)
    finally:
        for temporary in temporaries:
            with suppress(OSError):
                temporary.unlink()


def checked_target(path: PathLike) -> Path:
    """Resolve the path of a file to write; raise if it cannot be written."""
    try:
        target = Path(path).resolve()
        os.stat(target)
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError, ValueError) as problem:  # too long, a loop, a null byte
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise FileError(path, f"a name that cannot be used ({why})", "another one") from None
    if target.is_dir():
        raise FileError(path, "a directory", "the name of a file to write")
    if target.exists() and not target.is_file():
        raise FileError(path, "something that is not a plain file", "a file to write")
    if not target.parent.is_dir():
        raise FileError(path, "a directory that does not exist", f"{target.parent} to exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise FileError(path, f"{target.parent}, which is write-protected", "another place")
    return target


def _beside(target: Path) -> Path:
    """A hidden, unique name; the suffix stays, since it determines the format."""
    return target.with_name(f".{target.stem[:80]}.{secrets.token_hex(6)}{target.suffix}")


def sync(path: Path) -> None:
    """Wait until the contents are on the disk, so that a crash cannot empty the file."""
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move(temporaries: list[Path], targets: list[Path]) -> None:
    """Rename all; if one fails, those already renamed are undone."""
    olds: list[Path | None] = []
    moved = 0
    try:
        for temporary, target in zip(temporaries, targets, strict=True):
            last = moved == len(targets) - 1  # if this one fails, it has changed nothing
            there = not last and target.exists()
            olds.append(second_name(target, _beside(target)) if there else None)
            os.replace(temporary, target)
            moved += 1
    except BaseException:
        for target, old in zip(targets[:moved], olds, strict=False):
            if old is None:
                target.unlink(missing_ok=True)
            else:
                os.replace(old, target)
        raise
    finally:
        for old in filter(None, olds):
            old.unlink(missing_ok=True)


def second_name(target: Path, name: Path) -> Path:
    """Give the file at `target` a second name; it keeps its own throughout."""
    try:
        os.link(target, name)
    except OSError:  # a file system without links
        shutil.copy2(target, name)
        sync(name)
    return name

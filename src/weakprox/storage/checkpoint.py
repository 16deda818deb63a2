"""Checkpoint files: safetensors with a digest, replaced atomically, the previous one kept."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.resources.memory import let_go, room
from weakprox.storage.atomic import second_name, sync_directory
from weakprox.storage.layout import KINDS, Numbers
from weakprox.storage.table import FileError
from weakprox.storage.tree import Codec, Decoder, Encoder, Malformed

FORMAT, VERSION = "weakprox checkpoint", 2
RESERVED = ("format", "version", "weakprox", "digest")
WHOLE = "a whole checkpoint of weakprox"
PIECE = 1 << 26  # bytes written or read at once


class DamagedError(FileError):
    """A checkpoint that was truncated or changed on the disk."""


@dataclass(frozen=True)
class Stored:
    """A checkpoint as it was read; its entries are decoded on demand."""

    path: Path
    writer: str  # version of weakprox that wrote it
    _entries: Mapping[str, Any]
    _arrays: Mapping[str, Numbers]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def decode(self, codec: Codec, *names: str) -> list[Any]:
        """Decode these entries; raises `DamagedError` if one is missing or invalid."""
        decoder = Decoder(codec, self._arrays, room())
        try:
            return [decoder.decode(self._entries[name]) for name in names]
        except (Malformed, KeyError, RecursionError) as problem:
            given = f"{problem or type(problem).__name__}, by weakprox {self.writer}"
            raise DamagedError(self.path, given, WHOLE) from None


def previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def save(
    path: Path, entries: Mapping[str, Any], codec: Codec, *, writer: str, keep: bool
) -> None:
    """Replace the file by one with these entries; `keep` says that the old one is whole.

    If an error occurs or the process is killed, a complete file stays in place. A kill may
    leave temporary files behind; their names are always the same, so that they do not
    accumulate.
    """
    encoder = Encoder(codec)
    found = {name: json.dumps(encoder.encode(one)) for name, one in entries.items()}
    about = {"format": FORMAT, "version": str(VERSION), "weakprox": writer, **found}
    about["digest"] = _digest(about, encoder.arrays)
    target = path.resolve()
    partial, kept = (target.with_name(target.name + end) for end in (".partial", ".kept"))
    try:
        partial.unlink(missing_ok=True)
        _write(partial, about, encoder.arrays)
        if target.exists():
            partial.chmod(target.stat().st_mode & 0o7777)
        if keep and target.exists():
            kept.unlink(missing_ok=True)
            os.replace(second_name(target, kept), previous(target))
        os.replace(partial, target)
        sync_directory(target.parent)
    finally:
        for left in (partial, kept):
            with suppress(OSError):
                left.unlink()


def _write(path: Path, about: Mapping[str, str], arrays: Mapping[str, Numbers]) -> None:
    """Write a safetensors file and wait until it is on the disk.

    The safetensors library writes to a temporary name of its own and leaves it there if
    the process is killed.
    """
    header: dict[str, Any] = {"__metadata__": dict(about)}
    # wide entries first, so that all are aligned
    ordered = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    end = 0
    for name in ordered:
        array, begin = arrays[name], end
        end += array.nbytes
        kind = KINDS[array.dtype.name]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            for part in _pieces(arrays[name]):
                file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _pieces(array: Numbers) -> Iterator[Any]:
    """The entries in little-endian byte order, a part at a time."""
    flat, step = array.reshape(-1), max(1, PIECE // array.dtype.itemsize)
    for first in range(0, flat.size, step):
        part = flat[first : first + step]
        yield part.astype(part.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
        let_go(array)  # mapped pages would fill the memory


def load(path: Path) -> Stored:
    """Read a checkpoint and verify its digest.

    Raises `DamagedError` if it is truncated or changed, and another `FileError` if it is
    something else or of a later format.
    """
    about, arrays = _read(path)
    if about.get("format") != FORMAT:
        raise FileError(path, "a file of another kind", "a checkpoint of weakprox")
    if about.get("version") != str(VERSION):
        given = f"a checkpoint of format {about.get('version', 'unknown')!r}"
        raise FileError(path, given, f"format {VERSION}: use the weakprox that wrote it")
    if about.pop("digest", "") != _digest(about, arrays):
        raise DamagedError(path, "contents that do not fit their digest", WHOLE)
    try:
        texts = {name: text for name, text in about.items() if name not in RESERVED}
        entries = {
            name: json.loads(text, parse_constant=no_constant) for name, text in texts.items()
        }
    except (ValueError, RecursionError):
        raise DamagedError(path, "text that is not JSON", WHOLE) from None
    return Stored(path, about.get("weakprox", "unknown"), entries, arrays)


def _read(path: Path) -> tuple[dict[str, str], dict[str, Numbers]]:
    """Read metadata and arrays, before any interpretation."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileError(path, "something that is not a plain file", WHOLE)
    try:
        with safe_open(path, framework="np") as file:  # validates the header
            about = dict(file.metadata() or {})
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        dtypes = {kind: np.dtype(name).newbyteorder("<") for name, kind in KINDS.items()}
        header.pop("__metadata__", None)
        arrays: dict[str, Numbers] = {}
        for name, one in header.items():
            dtype, shape, (begin, end) = dtypes[one["dtype"]], one["shape"], one["data_offsets"]
            if begin == end:
                arrays[name] = np.empty(tuple(shape), dtype)
            else:
                arrays[name] = np.memmap(path, dtype, "r", 8 + size + begin, tuple(shape))
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as problem:
        raise DamagedError(path, f"no safetensors file ({problem})", WHOLE) from None
    except OSError:
        raise FileError(path, "a file that cannot be read", "permission to read it") from None
    return about, arrays


def _digest(about: Mapping[str, str], arrays: Mapping[str, Numbers]) -> str:
    """A hash of the whole contents of the file."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(about):
        if name != "digest":
            found.update(json.dumps([name, about[name]]).encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
        for part in _pieces(array):
            found.update(part)
    return found.hexdigest()


def no_constant(constant: str) -> Any:
    """Reject a number that JSON does not have; the `parse_constant` of its reader."""
    raise ValueError(constant)  # JSON has no NaN and no infinity

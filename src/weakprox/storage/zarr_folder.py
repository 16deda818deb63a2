"""Zarr folders: the metadata are checked before zarr reads the array.

Zarr has codecs that unpickle, and chunks can unpack to any size. So only a few codecs are
allowed, and every chunk must state the size that follows from the shape of chunks.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.storage.table import (
    Contents,
    FileError,
    checked_dtype,
    checked_shape,
    claim,
    refusing,
)

LONGEST = 1 << 20  # bytes of metadata
MOST_CHUNKS = 1_000_000
PLAIN = {"bytes", "endian", "transpose"}
PACKED = {"zstd", "blosc"}
DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError)
WANTED = "an array saved by zarr with the codec zstd or blosc, or with none"


def read_zarr(path: Path, max_bytes: int | None) -> Contents:
    """Open the zarr array for reading; no data are loaded yet."""
    shape, chunks, dtype, packing = _metadata(path)
    checked_dtype(path, dtype)
    checked_shape(path, shape)
    each = math.prod(chunks) * dtype.itemsize
    claim(path, each, max_bytes, f"chunks of {chunks}")
    _check_chunks(path, each, packing)
    try:
        import zarr
    except ImportError:
        given = "a zarr folder, without the library for it"
        raise FileError(path, given, 'pip install "weakprox[zarr]"') from None
    # versions of zarr raise different errors
    with refusing(path, "a damaged zarr folder ({})", WANTED, Exception):
        found = zarr.open_array(str(path), mode="r")
    if found.shape != shape or found.dtype != dtype or tuple(found.chunks) != chunks:
        raise FileError(path, "metadata that zarr reads in another way", WANTED)
    return Contents(found)


def _metadata(path: Path) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any], str | None]:
    """Shape, shape of chunks, dtype and packing, from version 3 or 2 of the format."""
    for name, read in (("zarr.json", _version_3), (".zarray", _version_2)):
        file = path / name
        if not file.is_file():
            continue
        if file.stat().st_size > LONGEST:
            raise FileError(path, f"metadata of {file.stat().st_size} bytes", WANTED)
        with refusing(path, f"damaged metadata in {name}", WANTED, *DAMAGED):
            shape, chunks, dtype, packing = read(path, json.loads(file.read_bytes()))
        whole = all(type(n) is int and n >= 0 for n in (*shape, *chunks))
        if len(chunks) != len(shape) or not whole:
            raise FileError(path, f"shape {shape} in chunks of {chunks}", WANTED)
        count = math.prod(-(-n // max(1, c)) for n, c in zip(shape, chunks, strict=True))
        if 0 in chunks or count > MOST_CHUNKS:
            raise FileError(path, f"chunks of {chunks}", f"at most {MOST_CHUNKS} chunks")
        return shape, chunks, dtype, packing
    raise FileError(path, "a directory without zarr's metadata", WANTED)


def _version_3(path: Path, said: dict[str, Any]) -> Any:
    if said["zarr_format"] != 3 or said["node_type"] != "array":
        raise FileError(path, f"a zarr {said['node_type']}", WANTED)
    names = [codec if isinstance(codec, str) else codec["name"] for codec in said["codecs"]]
    packing = _allowed(path, names)
    if said.get("storage_transformers"):
        raise FileError(path, "storage transformers", WANTED)
    chunks = said["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(said["shape"]), tuple(chunks), _dtype(said["data_type"]), packing


def _version_2(path: Path, said: dict[str, Any]) -> Any:
    if said["zarr_format"] != 2 or said.get("filters"):
        raise FileError(path, "filters", WANTED)
    packer = said["compressor"]
    packing = _allowed(path, [] if packer is None else [packer["id"]])
    return tuple(said["shape"]), tuple(said["chunks"]), _dtype(said["dtype"]), packing


def _dtype(name: Any) -> np.dtype[Any]:
    """The dtype of a plain name; NumPy evaluates other strings."""
    if not isinstance(name, str) or not re.fullmatch(r"[<>|]?[A-Za-z?]{1,10}\d{0,3}", name):
        raise ValueError("not the name of a dtype")
    return np.dtype(name)


def _allowed(path: Path, names: list[Any]) -> str | None:
    """Return the compressing codec, if any; raise on codecs that are not allowed."""
    for name in names:
        if name not in PLAIN | PACKED:
            raise FileError(path, f"the codec {str(name)[:40]!r}", WANTED)
    packed = [name for name in names if name in PACKED]
    if len(packed) > 1:
        raise FileError(path, f"{len(packed)} codecs that pack", WANTED)
    return packed[0] if packed else None


def _check_chunks(path: Path, each: int, packing: str | None) -> None:
    """Raise unless all chunks state the right size."""
    for file in path.rglob("*"):
        if file.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup") or not file.is_file():
            continue
        with file.open("rb") as handle:
            front = handle.read(32)
        size = _claimed(front, packing, file.stat().st_size)
        if size != each:
            given = f"a chunk {file.name!r} that claims {size} bytes"
            raise FileError(path, given, f"{each}, as the shape of chunks says")


def _claimed(front: bytes, packing: str | None, held: int) -> int | None:
    """Uncompressed size that a chunk states; None if it does not."""
    if packing is None:
        return held
    if packing == "blosc":
        return int.from_bytes(front[4:8], "little") if len(front) >= 16 else None
    if len(front) < 6 or front[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flags = front[4]
    single, kind = bool(flags & 0x20), flags >> 6
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    width = (1 if single else 0, 2, 4, 8)[kind]
    if width == 0 or len(front) < start + width:
        return None
    return int.from_bytes(front[start : start + width], "little") + (256 if width == 2 else 0)

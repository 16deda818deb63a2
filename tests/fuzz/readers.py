"""What is fuzzed: bytes go in, and a matrix or an error of ours comes out.

`READERS` maps a name to a function of (folder, bytes) that reads the bytes as a file of
that kind. Anything but `WeakproxError` that it raises is a crash.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

from weakprox.errors import WeakproxError
from weakprox.storage import read_matrix

CORPUS = Path(__file__).parent / "corpus"
MOST = 32 << 20  # bytes that a matrix may take: the fuzzer's memory limit is far above it


def _file(suffix: str) -> Callable[[Path, bytes], None]:
    """Bytes as a file with this suffix, read with and without missing values."""

    def read(folder: Path, data: bytes) -> None:
        path = folder / f"fuzzed{suffix}"
        path.write_bytes(data)
        for missing in (False, True):
            try:
                found = read_matrix(path, missing=missing, max_bytes=MOST)
            except WeakproxError:
                continue
            try:
                values = found.dense(max_bytes=MOST)
            except WeakproxError:
                continue
            # whatever is accepted is a matrix of floats that can be worked with
            assert values.ndim == 2
            assert values.dtype.kind == "f"
            float(abs(values).max())

    return read


def _member(folder: Path, data: bytes) -> None:
    """Bytes as the arrays of a sound archive: its checksums would stop the fuzzer early."""
    buffer = io.BytesIO()
    parts = data.split(b"\xff\xfe\xff")[:4]
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, part in zip(("a", "rows", "columns", "shape"), parts, strict=False):
            archive.writestr(f"{name}.npy", part)
    _file(".npz")(folder, buffer.getvalue())


def _zarr(folder: Path, data: bytes) -> None:
    """Bytes as the metadata of a zarr folder, and as one of its chunks."""
    metadata, _, chunk = data.partition(b"\xff\xfe\xff")
    path = folder / "fuzzed.zarr"
    (path / "c" / "0").mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_bytes(metadata)
    (path / "c" / "0" / "0").write_bytes(chunk)
    read_matrix(path, max_bytes=MOST).dense(max_bytes=MOST)


def _checkpoint(name: str) -> Callable[[Path, bytes], None]:
    """Bytes as a checkpoint, or as what is in one; solvers are imported for these only."""

    def read(folder: Path, data: bytes) -> None:
        from fuzz import checkpoints

        getattr(checkpoints, name)(folder, data)

    return read


def _proof(name: str) -> Callable[[Path, bytes], None]:
    """Bytes as a proof file, or as the description in one."""

    def read(folder: Path, data: bytes) -> None:
        from fuzz import proofs

        getattr(proofs, name)(folder, data)

    return read


READERS: dict[str, Callable[[Path, bytes], None]] = {
    "npy": _file(".npy"),
    "npz": _file(".npz"),
    "members": _member,
    "csv": _file(".csv"),
    "tsv": _file(".tsv"),
    "mtx": _file(".mtx"),
    "parquet": _file(".parquet"),
    "zarr": _zarr,
    "checkpoint": _checkpoint("read"),
    "entries": _checkpoint("read_entries"),
    "proof": _proof("read"),
    "claims": _proof("read_claims"),
}


def attempt(name: str, folder: Path, data: bytes) -> None:
    """Read; errors of ours are how a bad file is refused, and warnings are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            READERS[name](folder, data)
        except WeakproxError:
            return


def corpus(name: str) -> list[Path]:
    """The files kept for a reader: small valid ones, and all that ever led to a crash."""
    return sorted(path for path in (CORPUS / name).iterdir() if path.is_file())

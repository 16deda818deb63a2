"""Connect to a scheduler, and load a matrix from a file onto its workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.distributed.blocked import block_rows
from weakprox.distributed.engine import each
from weakprox.distributed.terms import cut
from weakprox.errors import InputError

TIMEOUT = 15.0  # seconds to wait for a scheduler


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Context in which dask uses the scheduler at this address; yields its client."""
    try:
        from distributed import Client
    except ImportError:
        wanted = 'dask; install it with: pip install "weakprox[dask]"'
        raise InputError("scheduler", repr(address), wanted) from None
    try:
        client = Client(address, timeout=TIMEOUT)
    except (OSError, ValueError) as problem:  # a timeout is also an OSError
        given = f"{address!r}, where none answers ({type(problem).__name__})"
        raise InputError("scheduler", given, "such as tcp://HOST:8786") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError("scheduler", f"{address!r}, without workers", "one with workers")
        yield client


def handed_over(client: Any, source: Path, matrix: Any) -> Any:
    """The matrix as a dask array, read by the workers if all see its file, or sent to them."""
    import dask.array as da

    m, d = (int(n) for n in matrix.shape)
    slices = cut(m, block_rows((m, d), matrix.dtype))
    path = source.resolve()
    if path.suffix.lower() == ".npy" and _seen_by_all(client, path):
        parts = each(read_rows, [str(path)] * len(slices), slices)
    else:
        sent = [client.scatter(np.asarray(matrix[part]), hash=False) for part in slices]
        parts = each(np.asarray, sent)
    blocks = [
        da.from_delayed(task, (part.stop - part.start, d), dtype=matrix.dtype)
        for task, part in zip(parts, slices, strict=True)
    ]
    return da.concatenate(blocks)


def read_rows(path: str, rows: slice) -> Any:
    """Read these rows of a .npy file, without unpickling."""
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[rows])


def _seen_by_all(client: Any, path: Path) -> bool:
    """Return True if the workers see the same file under this name."""
    here = _stamp(str(path))
    return here is not None and {here} == set(client.run(_stamp, str(path)).values())


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns

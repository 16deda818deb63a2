"""Matrix files: checked when they are read, and written as a whole or not at all."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weakprox.storage.table import READS as READS
from weakprox.storage.table import WRITES as WRITES
from weakprox.storage.table import FileError
from weakprox.storage.table import Table as Table

if TYPE_CHECKING:
    from weakprox.storage.matrices import read_matrix, write_matrix
    from weakprox.storage.matrices import write_factors as write_factors
    from weakprox.storage.matrices import write_text as write_text

__all__ = ["FileError", "read_matrix", "write_matrix"]

_MATRICES = ("read_matrix", "write_factors", "write_matrix", "write_text")


def __getattr__(name: str) -> Any:
    """Readers and writers, loaded on first use, since data are mostly in memory already."""
    if name not in _MATRICES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.matrices"), name)

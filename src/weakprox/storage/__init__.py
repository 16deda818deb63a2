"""Matrix files: read without trust, written whole or not at all."""

from weakprox.storage.atomic import atomic, atomic_all
from weakprox.storage.read import read_matrix
from weakprox.storage.table import READS, WRITES, FileError, Table
from weakprox.storage.write import write_factors, write_matrix, write_text

__all__ = [
    "READS",
    "WRITES",
    "FileError",
    "Table",
    "atomic",
    "atomic_all",
    "read_matrix",
    "write_factors",
    "write_matrix",
    "write_text",
]

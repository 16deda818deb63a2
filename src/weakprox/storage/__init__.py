"""Matrix files: read without trust, written whole or not at all."""

from weakprox.storage.matrices import read_matrix, write_matrix
from weakprox.storage.matrices import write_factors as write_factors
from weakprox.storage.matrices import write_text as write_text
from weakprox.storage.table import READS as READS
from weakprox.storage.table import WRITES as WRITES
from weakprox.storage.table import FileError
from weakprox.storage.table import Table as Table

__all__ = ["FileError", "read_matrix", "write_matrix"]

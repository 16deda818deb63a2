"""Parquet files, through pyarrow (`pip install weakprox[parquet]`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.display import counted
from weakprox.resources.memory import shown_bytes
from weakprox.storage.table import (
    FILLED_BY,
    Contents,
    FileError,
    Labels,
    Matrix,
    checked_shape,
    claim,
)

INDEX = "__index_level_0__"  # where pandas puts row labels, after the columns
ZEROS = re.compile(r"( 00:00:00)?\.0+(?=Z?$)")  # midnight and parts of a second
BATCH_ROWS = 4096
LONGEST_LABEL = 1 << 17  # bytes; the same as Python's csv allows for a cell


def arrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet; the error says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        hint = "Parquet files need pyarrow: pip install 'weakprox[parquet]'"
        raise ModuleNotFoundError(hint, name="pyarrow") from None
    return pyarrow, pyarrow.parquet


def read_parquet(path: Path, missing: bool, max_bytes: int | None) -> Contents:
    """Numbers by column; row labels are the index of a frame or a first column of text."""
    pa, parquet = arrow()
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            text = [_is_text(pa, field.type) for field in schema]
            label = _index_column(path, schema)  # number of the column of row labels
            label = 0 if label is None and text[:1] == [True] else label
        # dictionary-encoded labels: a long text shared by all rows is not copied for each
        coded = label is not None and text[label]
        by_number = [str(schema.field(label).name)] if coded else None
        with parquet.ParquetFile(path, read_dictionary=by_number) as file:
            return _read(pa, path, file, label, missing, max_bytes)
    except FileError:
        raise
    except (pa.ArrowException, OSError, ValueError) as failure:
        reason = (str(failure).splitlines() or [type(failure).__name__])[0][:120]
        raise FileError(path, f"a damaged file ({reason})", "a Parquet file") from None


def _read(
    pa: Any, path: Path, file: Any, label: int | None, missing: bool, max_bytes: int | None
) -> Contents:
    schema, m = file.schema_arrow, int(file.metadata.num_rows)
    fields = [i for i in range(len(schema)) if i != label]
    for field in (schema.field(i) for i in fields):
        kind = field.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or kind == pa.bool_()):
            given = f"{kind} in column '{field.name}'"
            raise FileError(path, given, "real numbers (and text in the first column only)")
    checked_shape(path, (m, len(fields)))
    narrow = all(schema.field(i).type in (pa.float16(), pa.float32()) for i in fields)
    dtype = np.dtype(np.float32 if narrow else np.float64)
    size, what = m * len(fields) * dtype.itemsize, f"{m} x {len(fields)} entries"
    claim(path, size, max_bytes, what, packed=True)
    names = tuple(str(schema.field(i).name) for i in fields)
    # The unpacked pages must not be larger than numbers and labels can be. Sizes are summed by
    # row groups, since pyarrow ends the process for a column of a damaged file.
    for i in range(0 if label is None else file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        size, each = int(group.total_byte_size), LONGEST_LABEL + 16 * int(group.num_columns)
        if size > (group.num_rows + 1) * each:
            raise _too_long(path)
        claim(path, size, max_bytes, "row labels")
    values, filled, held = np.empty((m, len(fields)), dtype=dtype), 0, 0
    rows: list[str] = []
    for batch in file.iter_batches(batch_size=BATCH_ROWS):
        block = values[filled : filled + batch.num_rows]
        for j, i in enumerate(fields):
            column = batch.column(i)
            if column.null_count and not missing:
                row = filled + int(np.flatnonzero(np.asarray(column.is_null()))[0]) + 1
                given = f"an empty cell at row {row}, column '{names[j]}'"
                raise FileError(path, given, f"a number{FILLED_BY}")
            cells = column.to_numpy(zero_copy_only=False)
            if cells.dtype == object:  # booleans with gaps
                cells = [np.nan if cell is None else float(cell) for cell in cells]
            block[:, j] = cells
        if label is not None:
            found = _texts(pa, path, batch.column(label))
            held += sum(map(len, found))
            claim(path, values.nbytes + held, max_bytes, "row labels")
            rows += found
        filled += batch.num_rows
    if filled != m:
        raise FileError(
            path, f"{counted(filled, 'row')}, a truncated file", f"{m}, as its header says"
        )
    return Contents(values, None if label is None else tuple(rows), names)


def _texts(pa: Any, path: Path, column: Any) -> list[str]:
    """Labels of one batch; rows with the same text share it."""
    dates = pa.types.is_temporal(column.type)
    if not _is_text(pa, column.type):  # numbers or dates
        column = column.cast(pa.string())
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    for text in coded.dictionary:
        buffer = text.as_buffer()
        if buffer is not None and buffer.size > LONGEST_LABEL:
            raise _too_long(path)
    texts = ["" if text is None else str(text) for text in coded.dictionary.to_pylist()]
    texts = [ZEROS.sub("", text) for text in texts] if dates else texts
    return ["" if i is None else texts[i] for i in coded.indices.to_pylist()]


def _too_long(path: Path) -> FileError:
    limit = shown_bytes(LONGEST_LABEL)
    return FileError(path, f"a row label longer than {limit}", f"labels of at most {limit}")


def _index_column(path: Path, schema: Any) -> int | None:
    """Number of the column in which pandas stored the index of a frame; None for no column."""
    try:
        names = list((schema.pandas_metadata or {"index_columns": [INDEX]})["index_columns"])
    except (KeyError, TypeError):  # not written by pandas
        return None
    if len(names) > 1:
        wanted = "one level; frame.reset_index() makes columns of the others"
        raise FileError(path, f"an index of {len(names)} levels", wanted)
    # a range is not a name, since it has no column
    found = schema.get_field_index(names[0]) if names and isinstance(names[0], str) else -1
    return None if found < 0 else int(found)


def _is_text(pa: Any, kind: Any) -> bool:
    """Return True if a column can be labels; categories are text given by numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def write_parquet(path: Path, values: Matrix, rows: Labels | None, columns: Labels) -> None:
    """One column each, after the row labels if there are any."""
    pa, parquet = arrow()
    arrays = [pa.array(np.ascontiguousarray(values[:, j])) for j in range(values.shape[1])]
    names = list(columns)
    if rows is not None:
        arrays.insert(0, pa.array(rows, type=pa.string()))
        names.insert(0, "")
    parquet.write_table(pa.Table.from_arrays(arrays, names=names), path)

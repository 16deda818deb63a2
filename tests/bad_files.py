"""Files that no reader may accept: name -> (suffix, how to make it, a word of the error).

Shared by the tests of the storage and of the command line.
"""

import io
import pickle
import struct
import zipfile

import numpy as np

GOOD = np.arange(12.0).reshape(3, 4)


class Evil:
    """A pickle of this would make a directory when loaded."""

    def __reduce__(self):
        import os

        return os.mkdir, ("was_here",)


def npy(values, **options):
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(values), **options)
    return buffer.getvalue()


def npz(compressed=False, **arrays):
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def header_only(shape, descr="<f8", version=(1, 0)):
    """A .npy file that claims a shape and has no data."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text.encode()


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def bomb():
    """A few bytes that claim to unpack to 8 TB, in the archive's directory too."""
    header, buffer = header_only((10**6, 10**6)), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", header)
        file.filelist[0].file_size = len(header) + 8 * 10**12  # written at the end
    return buffer.getvalue()


def flipped(data, at):
    """The same with one byte changed."""
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def long_header(size=1 << 20):
    """An archive whose array claims, and has, a header of so many bytes."""
    return archive(a=b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + b" " * size)


def parquet(options=None, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **(options or {}))
    return buffer.getvalue()


def long_labels(rows=100, **options):
    """A few bytes with labels of 1 MiB each, all the same."""
    options = {"compression": "zstd", **options}
    return parquet(options, id=["x" * (1 << 20)] * rows, a=np.arange(float(rows)))


def objects():
    return npy(np.array([[Evil()]], dtype=object), allow_pickle=True)


MTX = b"%%MatrixMarket matrix "
ARRAYS = {
    "truncated npy": (".npy", lambda: npy(GOOD)[:-5], "truncated"),
    "npy header only": (".npy", lambda: header_only((3, 4)), "truncated"),
    "npy of 8 TB": (".npy", lambda: header_only((10**6, 10**6)), "truncated"),
    "negative shape": (".npy", lambda: header_only((-3, 4)), "shape"),
    "broken npy header": (".npy", lambda: npy(GOOD)[:30], "header"),
    "npy header that is code": (
        ".npy",
        lambda: header_only("__import__('os').mkdir('was_here')"),
        "header",
    ),
    "boolean shape": (".npy", lambda: header_only((True, 3)) + bytes(24), "shape (True, 3)"),
    "npy version 9": (".npy", lambda: header_only((3, 4), version=(9, 0)), "version 9.0"),
    "vector": (".npy", lambda: npy(np.ones(3)), "1 axis"),
    "three axes": (".npy", lambda: npy(np.ones((2, 2, 2))), "3 axes"),
    "complex": (".npy", lambda: npy(GOOD * 1j), "complex"),
    "text": (".npy", lambda: npy([["a", "b"]]), "text"),
    "dates": (".npy", lambda: npy(np.zeros((2, 2), dtype="M8[D]")), "dates"),
    "records": (".npy", lambda: npy(np.zeros((2, 2), dtype=[("x", float)])), "records"),
    "object array": (".npy", objects, "pickle"),
    "NaN": (".npy", lambda: npy(np.where(GOOD == 6, np.nan, GOOD)), "NaN at row 2, column 3"),
    "NaN by columns": (
        ".npy",
        lambda: npy(np.asfortranarray(np.where(GOOD == 6, np.nan, GOOD))),
        "NaN at row 2, column 3",
    ),
    "infinite": (".npy", lambda: npy(np.where(GOOD == 6, np.inf, GOOD)), "infinite"),
    "empty matrix": (".npy", lambda: npy(np.ones((0, 4))), "empty matrix"),
    "empty file": (".npy", lambda: b"", "empty file"),
    "pickle as npy": (".npy", lambda: pickle.dumps(Evil()), "pickle"),
    "old pickle as npy": (".npy", lambda: pickle.dumps(Evil(), protocol=0), "first bytes"),
    "npz as npy": (".npy", lambda: npz(a=GOOD), ".npz"),
    "several matrices": (".npz", lambda: npz(first=GOOD, second=GOOD), "first, second"),
    "no matrix": (".npz", lambda: npz(first=GOOD[0], second=GOOD[0]), "no matrix"),
    "vector in npz": (".npz", lambda: npz(a=GOOD[0]), "1 axis"),
    "objects in npz": (".npz", lambda: archive(a=objects()), "pickle"),
    "complex in npz": (".npz", lambda: npz(a=GOOD * 1j), "complex"),
    "NaN in npz": (".npz", lambda: npz(a=GOOD * np.nan), "NaN"),
    "truncated npz": (".npz", lambda: npz(a=GOOD)[:-30], "damaged"),
    "damaged npz": (".npz", lambda: flipped(npz(a=GOOD), 200), "damaged"),
    "short member": (".npz", lambda: archive(a=npy(GOOD)[:-8]), "as its header says"),
    "npz of 8 TB": (".npz", lambda: archive(a=header_only((10**6, 10**6))), "header says"),
    "zip bomb": (".npz", bomb, "7.3 TiB"),
    "wrong labels": (".npz", lambda: npz(a=GOOD, rows=np.array(["x"])), "labels"),
    "long header": (".npz", long_header, "a header of 1.0 MiB in 'a'"),
    "labels as objects": (
        ".npz",
        lambda: npz(a=GOOD, rows=np.array(["x", "y", "z"], dtype=object)),
        "labels in 'rows' as Python objects",
    ),
    "labels as bytes": (
        ".npz",
        lambda: npz(a=GOOD, columns=np.array([b"x"] * 4)),
        "labels in 'columns' as bytes",
    ),
    "half a character": (
        ".npz",
        lambda: npz(a=GOOD, rows=np.array(["x", "\udcff", "z"])),
        "half a character in 'rows'",
    ),
    "not an archive": (".npz", lambda: b"PK\x03\x04" + b"x" * 100, "damaged"),
    "empty archive": (".npz", lambda: archive(), "no arrays"),
    "sparse, bad indices": (
        ".npz",
        lambda: npz(
            format=np.array(b"csr"),
            shape=np.array([2, 2]),
            data=np.ones(2),
            indices=np.array([0, 7]),
            indptr=np.array([0, 1, 2]),
        ),
        "damaged",
    ),
}
TEXTS = {
    "text among numbers": (
        ".csv",
        lambda: b"a,b\n1,2\n3,oops\n",
        "'oops' at row 2, column 'b'",
    ),
    "text in the first row": (".csv", lambda: b"1,x,3\n4,5,6\n", "'x' at row 1, column 2"),
    "text last in the first row": (
        ".csv",
        lambda: b"1,oops\n3,4\n5,6\n",
        "'oops' at row 1, column 2 (line 1) beside the number 1 in column 1",
    ),
    "text in the first cell": (".csv", lambda: b"oops,2\n3,4\n5,6\n", "'oops' at row 1"),
    "underscore in the first cell": (".tsv", lambda: b"1_0\t2\n3\t4\n", "'1_0' at row 1"),
    "hexadecimal": (".csv", lambda: b"0x10,2\n3,4\n", "'0x10' at row 1, column 1"),
    "numbers for names": (
        ".csv",
        lambda: b"id,2001,2001\na,1,2\nb,3,4",
        "names or of numbers, or ",
    ),
    "a number in the header": (".csv", lambda: b"7,a,b\nx,1,2\n", "the number 7"),
    "a gap in the header": (".csv", lambda: b"a,,c\n1,2,3\n", "beside an empty cell"),
    "numbers and labels": (
        ".csv",
        lambda: b"id,a\nx,1\n5,2\n",
        "the number 5 at row 2, column 1 (line 3) beside the text 'x'",
    ),
    "labels and numbers": (".csv", lambda: b"id,a\n5,1\nx,2\n", "'x' at row 2, column 'id'"),
    "comment": (".csv", lambda: b"# made by X\n1,2\n3,4\n", "the comment '# made by X'"),
    "comment with a comma": (".csv", lambda: b"# by X, Y\n1,2,3\n", "2 column names"),
    "NUL": (".csv", lambda: b"1,2\0\n3,4", "a NUL byte (line 1)"),
    "NUL in a label": (".csv", lambda: b"a,b\n1,2\n3,4\0", "a NUL byte (line 3)"),
    "empty cell": (".csv", lambda: b"r,a,b\ng1,1,\ng2,3,4\n", "empty cell at row 'g1'"),
    "NA": (".tsv", lambda: b"1\t2\n3\tNA\n", "missing value 'NA' at row 2, column 2"),
    "ragged": (".csv", lambda: b"1,2\n3,4,5\n", "3 numbers in row 2 (line 2)"),
    "header only": (".csv", lambda: b"a,b\n", "header and no numbers"),
    "labels only": (".csv", lambda: b"a\nb\nc\n", "no numbers"),
    "blank lines": (".csv", lambda: b"\n\n\n", "no cells"),
    "infinity": (".csv", lambda: b"1,2\n3,inf\n", "inf at row 2"),
    "too large a number": (".csv", lambda: b"1,2\n3,1e999\n", "inf at row 2"),
    "underscores": (".csv", lambda: b"1,2\n3,1_000\n", "'1_000'"),
    "Latin-1": (".csv", lambda: "é,b\n1,2\n".encode("latin-1"), "UTF-8"),
    "binary as csv": (".csv", lambda: npy(GOOD), ".npy"),
    "pickle as csv": (".csv", lambda: pickle.dumps(GOOD), "pickle"),
    "UTF-16": (".csv", lambda: "1,2\n3,4\n".encode("utf-16"), "UTF-8"),
    "long cell": (".csv", lambda: b"1,2\n3," + b"4" * 200000 + b"\n", "cannot be split"),
    "mtx header": (".mtx", lambda: MTX + b"nonsense\n", "header"),
    "mtx complex": (".mtx", lambda: MTX + b"array complex general\n1 1\n1 1\n", "complex"),
    "mtx truncated": (".mtx", lambda: MTX + b"array real general\n2 2\n1\n2\n", "truncated"),
    "mtx of 8 TB": (
        ".mtx",
        lambda: MTX + b"array real general\n1000000 1000000\n1\n",
        "truncated",
    ),
    "mtx with many entries": (
        ".mtx",
        lambda: MTX + b"coordinate real general\n9 9 99999999999\n1 1 1\n",
        "truncated",
    ),
    "mtx entry missing": (
        ".mtx",
        lambda: MTX + b"coordinate real general\n9 9 3\n1 1 1.000\n2 2 1.000\n",
        "entries",
    ),
    "mtx out of range": (
        ".mtx",
        lambda: MTX + b"coordinate real general\n2 2 1\n3 1 1\n",
        "entries",
    ),
    "mtx text": (".mtx", lambda: MTX + b"array real general\n1 2\nx\n2\n", "entries"),
    "mtx NaN": (".mtx", lambda: MTX + b"array real general\n1 2\nnan\n2\n", "NaN"),
    "mtx empty": (".mtx", lambda: MTX + b"array real general\n0 2\n", "empty matrix"),
    "csv as mtx": (".mtx", lambda: b"1,2\n3,4\n", "first bytes"),
    "parquet text": (".parquet", lambda: parquet(a=[1.0], b=["x"]), "column 'b'"),
    "parquet gap": (".parquet", lambda: parquet(a=[1.0, None]), "row 2, column 'a'"),
    "parquet NaN": (".parquet", lambda: parquet(a=[1.0, np.nan]), "NaN at row 2"),
    "parquet list": (".parquet", lambda: parquet(a=[[1.0]]), "list"),
    "parquet, long labels": (".parquet", long_labels, "a row label longer than 128.0 KiB"),
    "parquet truncated": (".parquet", lambda: parquet(a=[1.0])[:-20], "damaged"),
    "parquet without rows": (".parquet", lambda: parquet(a=np.ones(0)), "empty matrix"),
    "parquet labels only": (".parquet", lambda: parquet(a=["x"]), "empty matrix"),
    "unknown suffix": (".xlsx", lambda: b"PK", ".xlsx"),
    "no suffix": ("", lambda: b"1,2\n", "no suffix"),
}
BAD = {**ARRAYS, **TEXTS}

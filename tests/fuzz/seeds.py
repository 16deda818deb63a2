"""The valid files a fuzzer begins with; from tests/, `python -m fuzz.seeds` writes them."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from fuzz import checkpoints, proofs
from scipy import sparse

SMALL = np.array([[1.5, -2.0], [0.0, 3e5], [4.0, 0.25]])
MARKET = {
    "array": b"%%MatrixMarket matrix array real general\n3 2\n1\n2\n3\n4.5\n-5\n6e3\n",
    "coordinate": b"%%MatrixMarket matrix coordinate real general\n%\n3 2 2\n1 1 2.5\n3 2 -1\n",
    "symmetric": b"%%MatrixMarket matrix coordinate integer symmetric\n2 2 2\n1 1 4\n2 1 -1\n",
    "skew": b"%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n",
    "pattern": b"%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 3\n2 1\n",
}
TEXT = {
    "plain": "1.5,-2\n0,3e5\n4,0.25\n",
    "labels": ",a,b\nr1,1,2\nr2,3,4\n",
    "missing": "x,y\n1,\n,2\nnan,NA\n",
    "quoted": '"a, ""b""",c\n1_0,2\n"3",4\n',
    "endings": "1,2\r\n3,4\r\n\r\n",
    "script": "<script>alert(1)</script>,=cmd()\n1,2\n",
}


def _npy(values: object, **options: object) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(values), **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def _npz(compressed: bool = False, **arrays: object) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def _sparse() -> bytes:
    buffer = io.BytesIO()
    sparse.save_npz(buffer, sparse.coo_matrix(SMALL))
    return buffer.getvalue()


def _escape() -> bytes:
    """An archive whose member's name leads out of its folder."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../outside.npy", _npy(SMALL))
    return buffer.getvalue()


def _parquet() -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def written(table: pa.Table, **options: object) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **options)
        return buffer.getvalue()

    plain = pa.table({"a": SMALL[:, 0], "b": SMALL[:, 1]})
    labelled = pa.table({"": ["x", "y", "x"], "a": [1, None, 3]})
    return {
        "plain": written(plain, compression="none"),
        "snappy": written(plain),
        "labels": written(labelled, compression="none"),
        "no-dictionary": written(labelled, use_dictionary=False, compression="none"),
    }


def _zarr() -> dict[str, bytes]:
    import zarr

    found = {}
    for name, codec in (("plain", None), ("zstd", "auto")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.zarr"
            array = zarr.create_array(
                path, shape=(3, 2), chunks=(3, 2), dtype="f8", compressors=codec
            )
            array[:] = SMALL
            parts = [(path / name).read_bytes() for name in ("zarr.json", "c/0/0")]
            found[name] = b"\xff\xfe\xff".join(parts)
    return found


def made() -> dict[str, dict[str, bytes]]:
    """Contents by reader and name."""
    text = {name: lines.encode() for name, lines in TEXT.items()}
    arrays = {
        "float64": _npy(SMALL),
        "float32": _npy(SMALL.astype(np.float32)),
        "big-endian": _npy(SMALL.astype(">f8")),
        "integers": _npy(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "fortran": _npy(np.asfortranarray(SMALL)),
        "booleans": _npy(SMALL > 0),
        "objects": _npy(np.array([[1, "a"]], dtype=object), allow_pickle=True),
    }
    rows = _npy(np.array(["x", "y", "z"]))
    return {
        "npy": arrays,
        "npz": {
            "one": _npz(a=SMALL),
            "compressed": _npz(True, a=SMALL, b=SMALL[0]),
            "labels": _npz(
                a=SMALL, rows=np.array(["x", "y", "z"]), columns=np.array(["p", "q"])
            ),
            "sparse": _sparse(),
            "escape": _escape(),
            "objects": _npz(a=np.array([[1, "a"]], dtype=object)),
        },
        "members": {
            "one": arrays["float64"],
            "labels": b"\xff\xfe\xff".join([arrays["float64"], rows, rows]),
        },
        "csv": text,
        "tsv": {name: data.replace(b",", b"\t") for name, data in text.items()},
        "mtx": MARKET,
        "parquet": _parquet(),
        "zarr": _zarr(),
        "checkpoint": checkpoints.files(),
        "entries": checkpoints.entries(),
        "proof": proofs.files(),
        "claims": proofs.claims(),
    }


def main() -> None:
    """Write them, beside what is already there."""
    from fuzz.readers import CORPUS

    for reader, files in made().items():
        folder = CORPUS / reader
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()

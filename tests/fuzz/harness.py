"""One reader under atheris: `python harness.py READER [libFuzzer options and folders]`.

Coverage of the readers and of the pure-Python libraries under them guides the fuzzer.
`run.py` starts this in a process of its own for each reader.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["weakprox.storage", "zipfile", "csv"]):
    from fuzz.readers import READERS, attempt


def main(name: str) -> None:
    """Fuzz until libFuzzer's limit or the first crash."""
    if name not in READERS:
        sys.exit(f"no reader {name!r}: one of {', '.join(READERS)}")
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))

    def one(data: bytes) -> None:
        attempt(name, folder, data)

    try:
        atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
        atheris.Fuzz()  # leaves by os._exit
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Results in files: factors and history as safetensors, the rest as JSON in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weakprox.storage.atomic import atomic
from weakprox.storage.table import FileError, PathLike
from weakprox.storage.tree import plain

FORMAT = "weakprox result"
VERSIONS = ("1", "2")  # without an estimate, and with one
SUFFIX = ".safetensors"
ARRAYS = ("U", "s", "Vt", "trace")
# The estimate of a model, if there is one: in factors, or as a whole matrix.
ESTIMATES = ((), ("estimate_U", "estimate_s", "estimate_Vt"), ("estimate",))
LARGEST = 64 << 20  # bytes of JSON about a result that are read


def write_result(path: PathLike, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Path:
    """Write arrays by name and a record of numbers and text; replace the file as a whole."""
    from safetensors.numpy import save

    if Path(path).suffix.lower() != SUFFIX:
        raise FileError(path, f"the suffix {Path(path).suffix!r}", f"a name with {SUFFIX}")
    text = json.dumps(plain(about, str, lambda x: {"float": repr(x)}), allow_nan=False)
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    version = VERSIONS[any(name.startswith("estimate") for name in kept)]
    content = save(kept, {"format": FORMAT, "version": version, "result": text})
    with atomic(path) as temporary:
        temporary.write_bytes(content)
    return Path(path)


def read_result(path: PathLike) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record and the arrays of a file that `write_result` wrote."""
    from safetensors import SafetensorError, safe_open

    wanted = "a file that Result.save wrote"
    if not Path(path).is_file():
        raise FileError(path, "no such file", wanted)
    try:
        with safe_open(Path(path), framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                given = f"a {about['format']}" if "format" in about else "another file"
                raise FileError(path, given, wanted)
            if about.get("version") not in VERSIONS:
                given = f"version {about.get('version')} of the format"
                raise FileError(path, given, f"version {VERSIONS[-1]}, or a newer weakprox")
            text = about.get("result", "")
            known = [sorted((*ARRAYS, *more)) for more in ESTIMATES]
            if len(text) > LARGEST or sorted(file.keys()) not in known:
                raise FileError(path, "unknown contents", wanted)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            record = json.loads(text, object_hook=_number)
    except (SafetensorError, OSError, ValueError, RecursionError) as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(path, f"a damaged file ({problem})", wanted) from None
    if not isinstance(record, dict) or any(x.dtype.kind != "f" for x in arrays.values()):
        raise FileError(path, "unknown contents", wanted)
    return record, arrays


def _number(found: dict[str, Any]) -> Any:
    """A number that JSON does not have, or the object unchanged."""
    return float(found["float"]) if set(found) == {"float"} else found

"""Proof files: plain .npz archives, written atomically and checked when read."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib import format as npy

from weakprox.errors import ProofError
from weakprox.resources.memory import room, shown_bytes
from weakprox.storage.arrays import DAMAGED, read_header
from weakprox.storage.atomic import atomic
from weakprox.storage.checkpoint import no_constant
from weakprox.storage.table import FileError, PathLike, refusing, shown_path

VERSION = 2
NAMES = re.compile(
    r"meta|X_U|X_s|X_Vt|X0|X0_U|X0_s|X0_Vt|y\d{1,3}(?:_\d{1,3})?|"
    r"q|intercepts_(?:mean|rows|columns)"
)
LONGEST = 1 << 20  # bytes of the description
FLOATS, DUALS = ("f4", "f8"), ("i1", "i2", "i4", "f4", "f8")
ENTRIES = ("i4", "i8")  # integers of a dual point on observed entries
SMALLEST, GREATEST = -900, 900  # exponents of their unit
DATA = re.compile(
    r"M|rows|cols|values|weights|(?:row|col)_scaling|A|U|V|b|y|X|Y|"
    r"penalty\d{1,3}_(?:A|b|weights|low|high)"
)
NUMBERS = (*DUALS, "i8", "u1", "u2", "u4", "b1")
MAPPED = 1 << 26  # bytes from which an array is mapped instead of read
CHUNK = 1 << 24

Arrays: TypeAlias = dict[str, Any]
Kinds: TypeAlias = Callable[[str], tuple[str, ...]]  # types that a member may have, by name


def write(path: PathLike, meta: Callable[[], Arrays], arrays: Arrays) -> None:
    """Write the archive, the description last; it appears whole or not at all."""
    # no fsync: checksums detect a damaged file, and it can be written again
    with atomic(path, durable=False) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in arrays.items():
            _write_member(archive, name, array)
        text = json.dumps({"weakprox_proof": VERSION, **meta()}, allow_nan=False).encode()
        _write_member(archive, "meta", np.frombuffer(text, np.uint8))


def _write_member(archive: zipfile.ZipFile, name: str, array: Any) -> None:
    """Write one member in C order, little-endian, block by block."""
    entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    dtype = array.dtype.newbyteorder("<")
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": array.shape}
    row = max(1, array.nbytes // max(1, len(array)))
    step = max(1, CHUNK // row)
    with archive.open(entry, "w", force_zip64=True) as handle:
        npy.write_array_header_1_0(handle, header)
        for first in range(0, len(array), step):
            part = np.ascontiguousarray(array[first : first + step], dtype=dtype)
            handle.write(part.reshape(-1).view(np.uint8).data)


def read(path: PathLike) -> tuple[Arrays, Arrays]:
    """Read the description and the arrays; raises ProofError unless all of it is valid."""
    if not Path(path).exists():
        raise ProofError(shown_path(path), "no such file", "a proof file")
    kinds: Kinds = lambda name: {"m": ("u1",), "y": DUALS, "q": ENTRIES}.get(name[0], FLOATS)  # noqa: E731
    try:
        arrays = _archive(path, NAMES, kinds, "an .npz file written by Proof.save")
    except FileError as problem:
        raise ProofError(problem.argument, problem.given, problem.wanted) from None
    meta, wanted = arrays.pop("meta", None), "a description written by Proof.save"
    if meta is None:
        raise ProofError(shown_path(path), "no description", wanted)
    try:
        told = json.loads(bytes(meta).decode(), parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise ProofError(shown_path(path), "a damaged description", wanted) from None
    if not isinstance(told, dict) or told.get("weakprox_proof") != VERSION:
        given = told.get("weakprox_proof") if isinstance(told, dict) else told
        raise ProofError(shown_path(path), f"version {given!r:.40}", f"version {VERSION}")
    _check(path, told, arrays)
    return told, arrays


def read_data(path: PathLike) -> Arrays:
    """Read the arrays of an .npz file, for problems whose data are more than one matrix."""
    return _archive(path, DATA, lambda name: NUMBERS, "an .npz file with arrays of numbers")


def _archive(path: PathLike, names: re.Pattern[str], kinds: Kinds, wanted: str) -> Arrays:
    given = "a file that cannot be read ({})"
    with refusing(path, given, wanted, *DAMAGED), zipfile.ZipFile(Path(path)) as archive:
        return _members(Path(path), archive, names, kinds)


def _members(
    where: Path, archive: zipfile.ZipFile, names: re.Pattern[str], kinds: Kinds
) -> Arrays:
    """Arrays by name, each checked before it is read."""
    refuse = partial(ProofError, shown_path(where))
    found: Arrays = {}
    free = room()
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        known = info.filename.endswith(".npy") and names.fullmatch(name)
        if not known or name in found:
            raise refuse(f"a member {info.filename[:40]!r}", "known ones")
        with archive.open(info) as handle:
            header = read_header(where, handle, f" of {name}")
            fits = header.dtype.newbyteorder("<").str[1:] in kinds(name)
            if not fits or header.by_columns or not 1 <= len(header.shape) <= 4:
                given = f"{name} of {header.dtype} with shape {header.shape}"
                raise refuse(given, "numbers in C order")
            size = header.end - header.start
            if header.end != info.file_size or (name == "meta" and size > LONGEST):
                given = f"{name} of {shown_bytes(info.file_size)}"
                raise refuse(given, shown_bytes(header.end))
            mapped = size >= MAPPED and info.compress_type == zipfile.ZIP_STORED
            if size > free and not mapped:
                raise refuse(f"{name} of {shown_bytes(size)}", f"at most {shown_bytes(free)}")
            # the end of a member is where its checksum is tested
            parts = []
            while part := handle.read(CHUNK):
                parts.append(b"" if mapped else part)
        if mapped:
            with where.open("rb") as raw:  # the lengths of name and extra field come first
                raw.seek(info.header_offset + 26)
                lengths = [int.from_bytes(raw.read(2), "little") for _ in range(2)]
            start = info.header_offset + 30 + sum(lengths) + header.start
            found[name] = np.memmap(where, header.dtype, "r", start, header.shape)
        else:
            found[name] = np.frombuffer(b"".join(parts), header.dtype).reshape(header.shape)
            free -= size
    return found


def _number(x: Any, *, least: float = -math.inf) -> bool:
    plain = isinstance(x, (int, float)) and not isinstance(x, bool)
    try:
        return plain and math.isfinite(x) and x >= least
    except OverflowError:  # an integer beyond the range of float64
        return False


KINDS = {
    "box": {"above": 0.0, "below": 0.0, "curvature": 0.0},
    "groups": {"lam": 0.0, "axis": 0.0},
    "largest": {"count": 1.0},
    "weighted": {"lam": 0.0},
    "range": {"slope": 0.0},
    "ball": {"tau": 0.0},
    "psd": {"tau": 0.0},
    "norm": {"lam": 0.0},
    "own": {},
}
WHOLE = ("axis", "count")  # parameters that are integers
# Parameters of losses. A file with others could show a reader more than is checked.
LOSSES = {
    "Denoising": {"samples"},
    "Completion": {"reduction", "loss", "weights", "intercepts", "ridge", "scaling"},
    "Sensing": {"form"},
    "Logistic": {"intercept", "form"},
    "Regression": {"intercept", "form"},
    "own": {"name"},
}
INNER = {"huber": {"k"}, "own": {"name"}}  # parameters of losses of an entry


def _check(path: PathLike, meta: Arrays, arrays: Arrays) -> None:
    """Raise unless claims, terms and arrays are of the kind that `Proof.save` writes."""
    refuse = partial(ProofError, shown_path(path))
    claims, terms = meta.get("claims"), meta.get("terms")
    names = ("value", "lower_bound", "eps", "strong_convexity")
    if not isinstance(claims, dict) or not all(_number(claims.get(name)) for name in names):
        raise refuse("claims that are not numbers", f"finite {', '.join(names)}")
    if not isinstance(claims.get("certified"), bool) or claims["strong_convexity"] < 0.0:
        raise refuse("damaged claims", "certified: true or false, strong_convexity >= 0")
    if not isinstance(meta.get("digest"), dict) or not isinstance(terms, dict):
        raise refuse("a damaged description", "terms and a digest")
    found: list[Any] = [terms.get(name) for name in ("shape", "loss", "penalty")]
    shape, loss, parts = found
    whole = isinstance(shape, list) and len(shape) == 2
    if not whole or not all(isinstance(n, int) and 1 <= n < 1 << 40 for n in shape):
        raise refuse(f"the shape {shape!r:.40}", "two positive integers")
    fine = set(terms) <= {"shape", "loss", "penalty", "spectral"}
    fine = fine and isinstance(loss, dict) and isinstance(loss.get("kind"), str)
    fine = fine and isinstance(parts, list) and len(parts) <= 100
    if not fine or (loss["kind"] == "Completion" and "reduction" not in loss):
        raise refuse("damaged terms", "a loss and the parts of a penalty")
    for term in [*parts, terms.get("spectral")]:
        kind = term.get("kind") if isinstance(term, dict) else None
        numbers = KINDS.get(kind) if isinstance(kind, str) else None
        if numbers is None or not all(
            _number(term.get(name), least=least) for name, least in numbers.items()
        ):
            raise refuse(f"a term {term!r:.60}", "one that Proof.save writes")
        words = {"kind", "name"} if kind == "own" else {"kind", *numbers}
        if set(term) - words or any(type(term.get(name, 0)) is not int for name in WHOLE):
            raise refuse(f"a term {term!r:.60}", "one that Proof.save writes")
        if kind == "groups" and term["axis"] > 1:
            raise refuse(f"groups along axis {term['axis']}", "axis 0 or 1")
        if kind in ("ball", "psd", "norm") and not term.get("tau", term.get("lam")) > 0.0:
            raise refuse(f"a term {term!r:.60}", "a positive weight or radius")
    m, d = shape
    if set(loss) - {"kind"} - LOSSES.get(loss["kind"], set(loss)):
        raise refuse(f"a loss {loss!r:.80}", "one that Proof.save writes")
    if loss["kind"] == "Completion":
        _check_entries(refuse, loss)
    with_intercept = loss["kind"] in ("Logistic", "Regression")
    if with_intercept and not isinstance(loss.get("intercept"), bool):
        raise refuse(f"a loss {loss!r:.80}", "intercept: true or false")
    if "q" in arrays:
        unit = claims.get("exponent")
        if type(unit) is not int or not SMALLEST <= unit <= GREATEST:
            raise refuse(f"an exponent {unit!r:.40} of q", f"{SMALLEST} to {GREATEST}")
    for name in ("X", "X0") if "X0_U" in arrays else ("X",):
        factors: list[Any] = [arrays.get(f"{name}_{factor}") for factor in ("U", "s", "Vt")]
        if any(factor is None for factor in factors):
            raise refuse(f"no factors of {name}", "three")
        U, s, Vt = factors
        fits = s.ndim == 1 and U.shape == (m, len(s)) and Vt.shape == (len(s), d)
        if not fits or len({factor.dtype for factor in factors}) != 1:
            given = f"factors of {name} of shapes {[factor.shape for factor in factors]}"
            raise refuse(given, f"{(m, d)}")
    if "X0" in arrays and arrays["X0"].shape != (m, d):
        raise refuse(f"X0 of shape {arrays['X0'].shape}", f"{(m, d)}")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise refuse(f"NaN or infinite entries of {name}", "finite numbers")


def _check_entries(refuse: Any, loss: Any) -> None:
    """Raise unless the loss of observed entries is a known one with valid parameters."""
    inner, ridge = loss.get("loss", {"kind": "squared"}), loss.get("ridge", 0.0)
    kind = inner.get("kind") if isinstance(inner, dict) else None
    fine = kind in ("squared", "huber", "logistic", "poisson", "own")
    fine = fine and not set(inner) - {"kind"} - INNER.get(str(kind), set())
    fine = fine and _number(ridge, least=0.0) and isinstance(loss.get("weights", True), bool)
    fine = fine and (kind != "huber" or (_number(inner.get("k")) and inner["k"] > 0.0))
    fine = fine and loss["reduction"] in ("sum", "mean")
    fine = fine and loss.get("intercepts", "none") in ("none", "rows", "columns", "both")
    if not fine or loss.get("scaling", "none") not in ("none", "counts", "arrays"):
        raise refuse(f"a loss {loss!r:.80}", "one that Proof.save writes")

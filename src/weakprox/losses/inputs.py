"""Input checks shared by the losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np

from weakprox.arguments import is_integer, nonnegative, refuse_foreign
from weakprox.errors import InputError, SamplerError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array
from weakprox.linalg.tiled import is_chunked
from weakprox.resources.memory import budget, let_go

MOST = math.sqrt(np.finfo(float).max)  # largest number whose square is finite
CHUNK_BYTES = 64 << 20  # samples held at once when reading or drawing many


def as_array(name: str, value: Any, ndim: int) -> Array:
    """Convert to an array with this number of axes, none of them empty."""
    if is_frame(value):
        value = of_frame(name, value)
    if isinstance(value, np.matrix):
        value = np.asarray(value)  # `*` of np.matrix is a product
    if isinstance(value, (list, tuple)):
        try:
            value = np.asarray(value)
        except ValueError:
            raise ShapeError(name, "a ragged list", f"{ndim} axes of fixed length") from None
    if is_chunked(value) and ndim == 1:
        value = value[:]  # a zarr array: indices and values are needed in memory
    if getattr(value, "requires_grad", False):
        value = value.detach()  # no autograd graph is needed
    refuse_foreign(name, value)
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(name, "a masked array", "a plain array, or losses.Completion")
    if not arrays.is_array(value):
        wanted = f"a {ndim}-dimensional array (NumPy or torch)"
        if isinstance(value, (str, PathLike)):
            wanted += "; a file is read by weakprox.storage.read_matrix(path).dense()"
        raise InputError(name, type(value).__name__, wanted)
    if value.ndim != ndim or 0 in tuple(value.shape):
        wanted = "one axis, not empty" if ndim == 1 else f"{ndim} axes, none of them empty"
        raise ShapeError(name, f"shape {tuple(value.shape)}", wanted)
    if not arrays.is_real(value):
        wanted = "float32, float64 or integers"
        if getattr(value.dtype, "kind", "") in ("U", "S", "O"):
            wanted += f"; numbers as text are converted by {name}.astype(float)"
        raise InputError(name, f"dtype {value.dtype}", wanted)
    return value


def is_frame(value: Any) -> bool:
    """Return True for a frame or a series of pandas or polars."""
    library = type(value).__module__.partition(".")[0]
    return library in ("pandas", "polars") and hasattr(value, "to_numpy")


def of_frame(name: str, frame: Any) -> Any:
    """The numbers of a frame as an array; raises if a column contains anything else."""
    found = frame.to_numpy()
    if found.dtype != object:
        return found
    if hasattr(frame, "isna"):  # pandas.NA is no number
        found = np.where(frame.isna().to_numpy(), np.nan, found)
    try:
        return found.astype(float)  # columns of several kinds, or with missing values
    except (TypeError, ValueError):
        pass
    columns = getattr(frame, "columns", ["values"])
    bad = [c for c, x in zip(columns, found.reshape(len(found), -1).T, strict=True) if _text(x)]
    shown = ", ".join(repr(column) for column in bad[:5]) + (", ..." if len(bad) > 5 else "")
    wanted = "numbers only: drop these columns, or make them the index of the frame"
    raise InputError(name, f"a frame whose columns {shown} are not numbers", wanted)


def _text(column: Any) -> bool:
    """Return True if a column cannot be converted to numbers."""
    try:
        column.astype(float)
    except (TypeError, ValueError):
        return True
    return False


def labels_of(value: Any) -> tuple[list[str] | None, list[str] | None]:
    """Names of the rows and columns of a frame; None where there are none."""
    if not is_frame(value) or len(value.shape) != 2:
        return None, None
    sides = getattr(value, "index", None), value.columns
    return _names(sides[0]), _names(sides[1])


def _names(index: Any) -> list[str] | None:
    """The labels of an index; None for positions, which are not names."""
    if index is None or list(index) == list(range(len(index))):
        return None
    return [str(label) for label in index]


def as_sized(name: str, value: Any, ndim: int, *, nan_hint: str = "") -> tuple[Array, float]:
    """A finite floating-point array, integers as float64, and the size of its largest entry."""
    value = floating(as_array(name, value, ndim))
    if not arrays.all_finite(value):
        raise InputError(name, "NaN or infinite entries", f"finite numbers{nan_hint}")
    most = float(arrays.namespace(value).finfo(value.dtype).max)
    return value, check_size(name, arrays.largest(value), value.shape, most)


def check_size(name: str, size: float, shape: Any, most: float) -> float:
    """Return the size of the largest entry; raise if the sum of squares could overflow."""
    limit = 0.01 * min(MOST, most) / math.sqrt(math.prod(shape))
    if size > limit:
        wanted = f"at most {limit:.1e}, or their squares overflow: rescale the data"
        raise InputError(name, f"entries up to {size:.1e}", wanted)
    return size


def floating(value: Array) -> Array:
    """The array itself; integers as float64, and numbers in the byte order of the machine."""
    if not arrays.is_floating(value):
        xp = arrays.namespace(value)
        return xp.astype(value, xp.float64)
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))  # compiled passes need it
    return value


def constant(name: str, value: float | None) -> float | None:
    """Check a given constant; return None if it is None."""
    return None if value is None else nonnegative(name, value)


def as_shape(value: Any, hint: str = "") -> tuple[int, int]:
    """A pair of positive integers."""
    wanted = f"(m, d), integers >= 1{hint}"
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not pair or not all(is_integer(n) and n >= 1 for n in value):
        raise ShapeError("shape", repr(value), wanted)
    return int(value[0]), int(value[1])


def positioned(sampler: Any) -> Any:
    """The sampler itself if it has a position, like a stream; otherwise None."""
    members = [getattr(sampler, name, None) for name in ("tell", "seek")]
    return sampler if all(callable(member) for member in members) else None


def call_sampler(sampler: Callable[..., Any], rng: np.random.Generator, size: int) -> Any:
    """Call the user's sampler; report its failures as `SamplerError`."""
    try:
        return sampler(rng, size)
    except SamplerError:  # raised by a stream, with a more precise message
        raise
    except Exception as problem:
        given = f"{type(problem).__name__}: {problem}"
        raise SamplerError("sampler", given, "samples from f(rng, k)") from problem


def checked_draw(value: Any, shape: tuple[int, ...], what: str = "sampler") -> Array:
    """Check a sampler's return value for kind, shape and finite entries."""
    refuse_foreign(what, value)
    if not arrays.is_array(value) or tuple(value.shape) != shape:
        given = getattr(value, "shape", type(value).__name__)
        raise SamplerError(what, f"a return value of shape {given}", f"shape {shape}")
    if not arrays.is_real(value):
        raise SamplerError(what, f"dtype {value.dtype}", "real numbers")
    value = floating(value)
    if not arrays.all_finite(value):
        raise SamplerError(what, "NaN or infinite entries", "finite samples")
    return value


def chunk_of(bytes_per_sample: int) -> int:
    """Number of samples in one chunk; fewer under a small memory budget."""
    most = budget()
    size = CHUNK_BYTES if most is None else min(CHUNK_BYTES, most // 16)
    return max(1, size // max(1, bytes_per_sample))


def as_stack(name: str, value: Any) -> Any:
    """An array with three axes; a zarr array remains one, to be read in parts."""
    if not is_chunked(value):
        return as_array(name, value, 3)
    if value.ndim != 3 or 0 in value.shape:
        raise ShapeError(name, f"shape {value.shape}", "3 axes, none of them empty")
    if value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
        raise InputError(name, f"dtype {value.dtype}", "float32, float64 or integers")
    return value


def chunks_of(stack: Any, parts: Any) -> Iterator[Array]:
    """Yield these parts of a stack; release the pages of a map after each."""
    for part in parts:
        yield stack[part]
        let_go(stack)

"""Checks of arguments: of calls as a whole, and of single values.

The latter return the value in its own type, or raise an InputError.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from weakprox.errors import InputError
from weakprox.hints import misfit, suggestion

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

# All computation uses NumPy or torch. An array of another library would fail at some later
# point or be copied to the host without notice.
TO_HOST = "np.asarray(x)"
WAYS_OUT = {  # module of the array's class: name of the library, conversion
    "cupy": ("CuPy", 'torch.as_tensor(x, device="cuda"), which shares its memory'),
    "jax": ("JAX", f"{TO_HOST}, or torch.from_dlpack(x) where it is on a GPU"),
    "jaxlib": ("JAX", f"{TO_HOST}, or torch.from_dlpack(x) where it is on a GPU"),
    "tensorflow": ("TensorFlow", f"{TO_HOST}, or torch.from_dlpack of its DLPack capsule"),
    "mlx": ("MLX", TO_HOST),
    "dpnp": ("dpnp", "x.asnumpy()"),
    "ndonnx": ("ndonnx", "x.unwrap_numpy()"),
    "sparse": ("PyData sparse", "x.todense(), or a SciPy matrix (x.to_scipy_sparse())"),
    "array_api_strict": ("array-api-strict", TO_HOST),
}


def by_name(hint: str = "") -> Callable[[F], F]:
    """Decorate a function so that a wrong call names the right arguments.

    An unknown keyword gets the nearest known one; `hint` follows the signature in the
    message about missing or superfluous arguments.
    """

    def decorate(call: F) -> F:
        signature = inspect.signature(call)

        @wraps(call)
        def checked(*args: Any, **options: Any) -> Any:
            try:
                return call(*args, **options)
            except TypeError:
                problem = misfit(call, signature, args, options, hint)
                if problem is None:
                    raise  # the call was right
            raise problem

        return checked  # type: ignore[return-value]

    return decorate


def withdrawn(home: ModuleType, module: str, name: str, instead: dict[str, str]) -> Any:
    """Return a helper that was public until 0.2, with a warning that names what replaces it."""
    if name not in instead:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    text = f"{module}.{name} is no longer public and will be removed; use {instead[name]}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    return vars(home)[name]


def made_by_name(kind: Any, hint: str = "") -> Any:
    """Decorate the constructor of a class by `by_name`; return the class."""
    if "__init__" in vars(kind) and not hasattr(vars(kind)["__init__"], "__wrapped__"):
        kind.__init__ = by_name(hint)(kind.__init__)
    return kind


def shown(value: object) -> str:
    """Return the value as text, numbers of NumPy as those of Python; of an array its shape."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape and not isinstance(value, type):
        return f"an array of shape {tuple(map(int, shape))}"
    return repr(value.item() if isinstance(value, np.generic) else value)


def number(argument: str, value: object, wanted: str = "a finite number") -> float:
    """The value as a finite float; strings, booleans and arrays are not numbers."""
    if isinstance(value, (bool, str, bytes)):
        if value == "auto" and argument in ("lam", "tau"):
            wanted += "; models such as SparseLowRank choose it"
        raise InputError(argument, shown(value), wanted)
    try:
        found = float(value)  # type: ignore[arg-type]
    except Exception:  # whatever the object's own conversion raises
        raise InputError(argument, shown(value), wanted) from None
    if not math.isfinite(found):
        raise InputError(argument, shown(value), wanted)
    return found


def positive(argument: str, value: object) -> float:
    """The value as a finite float > 0."""
    found = number(argument, value, "a finite number > 0")
    if found <= 0.0:
        raise InputError(argument, shown(value), "a finite number > 0")
    return found


def accuracy(argument: str, value: object) -> float:
    """The value as a relative accuracy, a float between 0 and 1."""
    wanted = "a number > 0 and < 1, relative to the optimum"
    found = number(argument, value, wanted)
    if not 0.0 < found < 1.0:
        raise InputError(argument, shown(value), wanted)
    return found


def nonnegative(argument: str, value: object) -> float:
    """The value as a finite float >= 0."""
    found = number(argument, value, "a finite number >= 0")
    if found < 0.0:
        raise InputError(argument, shown(value), "a finite number >= 0")
    return found


def is_integer(value: object) -> bool:
    """Return True if the value is an integer of Python or NumPy; a boolean is not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(
    argument: str, value: Any, least: int, most: float = math.inf, *, instead: str = ""
) -> int:
    """The value as an int from `least` to `most`.

    `instead` names other values that the caller accepts, such as "None", for the message.
    """
    if is_integer(value) and least <= value <= most:
        return int(value)
    upper = f" and <= {most:g}" if most < math.inf else ""
    wanted = f"an integer >= {least}{upper}{f', or {instead}' if instead else ''}"
    raise InputError(argument, shown(value), wanted)


def flag(argument: str, value: object) -> bool:
    """True or False, as a bool also if NumPy's; other values, such as "no", would be true."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(argument, shown(value), "True or False")
    return bool(value)


def one_of(argument: str, value: Any, options: tuple[Any, ...]) -> Any:
    """The value, if it is one of the options."""
    known = [value is x or (type(value) is type(x) and value == x) for x in options]
    if not any(known):
        near = ""
        if isinstance(value, str):
            near = suggestion(value, [x for x in options if isinstance(x, str)])
        raise InputError(argument, shown(value) + near, " or ".join(map(repr, options)))
    return value


def is_auto(value: object) -> bool:
    """Return True if a setting is left to be chosen; arrays may be compared safely."""
    return isinstance(value, str) and value == "auto"


def or_auto(argument: str, value: Any, check: Callable[[str, Any], T]) -> T | None:
    """None for "auto", else the value as `check` returns it."""
    if is_auto(value):
        return None
    try:
        return check(argument, value)
    except InputError as error:
        raise InputError(argument, error.given, f"{error.wanted}, or 'auto'") from None


def bound(argument: str, value: Any) -> float:
    """The value as a float > 0; None and infinity mean no bound."""
    if value is None or (isinstance(value, (float, np.floating)) and value == math.inf):
        return math.inf
    return positive(argument, value)


def generator(argument: str, seed: object) -> np.random.Generator:
    """A random generator from None, an integer >= 0, or a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None or (is_integer(seed) and int(seed) >= 0):  # type: ignore[call-overload]
        return np.random.default_rng(seed)  # type: ignore[arg-type]
    raise InputError(argument, shown(seed), "None, an integer >= 0 or a numpy Generator")


def seed_number(argument: str, seed: object) -> int:
    """The integer that names the random streams of a call: the seed, or one drawn from it."""
    if is_integer(seed):
        return integer(argument, seed, 0)
    return int(generator(argument, seed).integers(1 << 53))


def optional_numbers(**settings: object) -> None:
    """Raise unless every setting is None or a finite number >= 0."""
    for name, value in settings.items():
        if value is not None:
            nonnegative(name, value)


def optional_counts(**settings: object) -> None:
    """Raise unless every setting is None or an integer >= 1."""
    for name, value in settings.items():
        if value is not None:
            integer(name, value, 1, instead="None")


def refuse_foreign(argument: str, x: object) -> None:
    """Raise if x is an array of an unsupported library or kind."""
    for kind in type(x).__mro__:
        library = kind.__module__.split(".")[0]
        if library in WAYS_OUT:
            name, way = WAYS_OUT[library]
            raise InputError(argument, f"a {name} array", f"a NumPy or torch one: {way}")
    if str(getattr(x, "layout", "")).startswith("torch.sparse"):
        wanted = "a dense tensor (x.to_dense()), or a SciPy sparse matrix"
        raise InputError(argument, "a sparse torch tensor", wanted)
    if getattr(getattr(x, "device", None), "type", None) == "meta":
        raise InputError(argument, "a tensor on the device meta", "one that holds numbers")

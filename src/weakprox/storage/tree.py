"""Objects as JSON and named arrays, and back: known classes only, no pickle, no eval."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from weakprox.errors import InputError
from weakprox.storage.layout import DISK, KINDS, Layout, Numbers, is_torch


class Malformed(Exception):  # noqa: N818 (the caller says which file it is)
    """The data are not an encoded tree."""


class AnArray:
    """A placeholder for the annotation `Array`, which is `Any` at run time."""


@dataclass(frozen=True)
class Codec:
    """The classes that may occur in a tree."""

    # dataclasses, named tuples and enumerations by name; no other class is instantiated
    classes: Mapping[str, type]
    # objects that both sides have, such as the problem's penalty: written as a name
    given: Mapping[str, object]

    @classmethod
    def of(cls, classes: Iterable[type], given: Mapping[str, object]) -> Codec:
        """A codec that calls classes by their full names."""
        return cls({full_name(one): one for one in classes}, given)


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class Encoder:
    """An encoder of values as JSON types, which collects their arrays."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.arrays: dict[str, Numbers] = {}
        self._names: dict[Any, str] = {}  # of arrays by address: each is stored once
        self._kept: list[Any] = []  # references, so that no address is reused

    def encode(self, value: Any) -> Any:
        """The value as None, numbers, text, lists and dictionaries."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is tuple:
            return [self.encode(one) for one in value]
        if type(value) is list:
            return {"list": [self.encode(one) for one in value]}
        if type(value) is dict:
            pairs = [[self.encode(key), self.encode(one)] for key, one in value.items()]
            return {"dict": pairs}
        for name, one in self.codec.given.items():
            if value is one or (type(value) is type(one) and repr(value) == repr(one)):
                return {"given": name}
        if isinstance(value, np.generic):
            return {**self._array(np.asarray(value)), "scalar": True}
        if isinstance(value, np.ndarray) or is_torch(value):
            return self._array(value)
        kind, name = type(value), full_name(type(value))
        if self.codec.classes.get(name) is not kind:
            wanted = "arrays of NumPy or torch, numbers, and classes that a solver `stores`"
            raise InputError("checkpoint", f"{name}, which cannot be written", wanted)
        if isinstance(value, Enum):
            return {"class": name, "member": value.name}
        parts = {part: self.encode(getattr(value, part)) for part in parts_of(kind)}
        return {"class": name, "fields": parts}

    def _array(self, array: Any) -> Any:
        kind = str(array.dtype).removeprefix("torch.")
        if kind not in KINDS or (not is_torch(array) and not array.dtype.isnative):
            raise InputError("checkpoint", f"an array of {array.dtype}", "real numbers")
        layout = Layout.of(array)
        where = array.data_ptr() if is_torch(array) else array.__array_interface__["data"][0]
        steps = tuple(layout.strides[i] for i in layout.axes)
        key = (where, str(array.dtype), layout.stored, steps, layout.device)
        name = self._names.get(key)
        if name is None or 0 in layout.shape:
            name = self._names[key] = f"array{len(self.arrays)}"
            self.arrays[name] = layout.entries(array)
            self._kept.append(array)
        shape, strides = list(layout.shape), list(layout.strides)
        return {"array": name, "shape": shape, "strides": strides, "device": layout.device}


class Decoder:
    """A decoder for the output of `Encoder`; raises `Malformed` if it is damaged."""

    def __init__(self, codec: Codec, arrays: Mapping[str, Numbers], room: int) -> None:
        self.codec = codec
        self.arrays = arrays
        self.room = room  # bytes that arrays may take
        # by name and layout, so that shared arrays remain shared
        self._made: dict[Any, Any] = {}

    def decode(self, node: Any) -> Any:
        if node is None or type(node) in (bool, int, str, float):
            return node
        if type(node) is list:
            return tuple(self.decode(one) for one in node)
        if type(node) is not dict:
            raise Malformed(f"a {type(node).__name__}")
        if set(node) == {"float"} and node["float"] in ("inf", "-inf", "nan"):
            return float(node["float"])
        if set(node) == {"list"} and type(node["list"]) is list:
            return [self.decode(one) for one in node["list"]]
        if set(node) == {"dict"} and type(node["dict"]) is list:
            pairs = node["dict"]
            if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
                raise Malformed("a dictionary without pairs")
            found = [(self.decode(key), self.decode(one)) for key, one in pairs]
            try:
                return dict(found)
            except TypeError:
                raise Malformed("a dictionary with a key that is none") from None
        if set(node) == {"given"}:
            return _picked(self.codec.given, node["given"], "object")
        if "array" in node:
            return self._array(node)
        return self._object(node)

    def _object(self, node: dict[str, Any]) -> Any:
        kind: Any = _picked(self.codec.classes, node.get("class"), "class")
        if set(node) == {"class", "member"} and issubclass(kind, Enum):
            return _picked(kind.__members__, node["member"], "member")
        given: Any = node.get("fields")
        fine = set(node) == {"class", "fields"} and type(given) is dict
        if not fine or issubclass(kind, Enum):
            raise Malformed(f"no fields of {kind.__name__}")
        hints, parts = hints_of(kind), parts_of(kind)
        if not required_of(kind) <= set(given) <= set(parts):
            raise Malformed(f"other fields than those of {kind.__name__}")
        values = {name: self.decode(given[name]) for name in parts if name in given}
        for name, value in values.items():
            if not fits(value, hints[name]):
                raise Malformed(f"{kind.__name__}.{name} of type {type(value).__name__}")
        try:
            return kind(**values)
        except Exception as problem:  # raised by the class itself
            raise Malformed(f"no {kind.__name__}: {problem}") from None

    def _array(self, node: dict[str, Any]) -> Any:
        scalar = node.get("scalar", False)
        if set(node) - {"scalar"} != {"array", "shape", "strides", "device"}:
            raise Malformed("an array without its layout")
        shape, strides, device = node["shape"], node["strides"], node["device"]
        for numbers in (shape, strides):
            if type(numbers) is not list or any(type(n) is not int for n in numbers):
                raise Malformed("an array whose layout is no numbers")
        layout = Layout(tuple(shape), tuple(strides), device)
        entries: Numbers = _picked(self.arrays, node["array"], "array")
        if type(device) is not str or not layout.sound or entries.shape != layout.stored:
            raise Malformed("an array whose layout does not fit its entries")
        key = (node["array"], layout)
        if key not in self._made:
            self.room -= 0 if device == DISK else layout.span * entries.dtype.itemsize
            if self.room < 0:
                raise Malformed("arrays that need more memory than there is")
            try:
                self._made[key] = layout.arranged(entries)
            except (ImportError, RuntimeError, MemoryError, TypeError, ValueError) as problem:
                where = device or "memory"
                raise Malformed(f"an array that cannot be put on {where}: {problem}") from None
        array = self._made[key]
        return array[()] if scalar is True and not shape and not device else array


def plain(
    value: Any,
    other: Callable[[Any], Any] | None = None,
    infinite: Callable[[float], Any] = lambda number: None,
) -> Any:
    """The value as JSON types, NaN and infinities as null unless `infinite` converts them.

    `other` converts unknown objects.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(one, other, infinite) for key, one in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(one, other, infinite) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else infinite(value)
    if value is None or isinstance(value, (int, str)):
        return value
    if other is None:
        raise InputError("result", type(value).__name__, "a value that JSON can hold")
    return other(value)


def required_of(kind: type) -> set[str]:
    """Names of the fields without a default, which files of all versions have."""
    if is_dataclass(kind):
        plain = (
            x for x in fields(kind) if x.default is MISSING and x.default_factory is MISSING
        )
        return {field.name for field in plain}
    return set(parts_of(kind)) - set(vars(kind).get("_field_defaults", {}))


def parts_of(kind: type) -> list[str]:
    """Names of the fields of a dataclass or named tuple."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    return list(vars(kind)["_fields"])


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """Types of its fields, with a separate type for `Array`."""
    return get_type_hints(kind, localns={"Array": AnArray})


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value has the annotated type, as far as this can be checked."""
    origin, options = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in options)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in options)
    if hint is AnArray:
        return isinstance(value, np.ndarray) or is_torch(value)
    if hint in (int, float):
        kinds = (int, np.integer) if hint is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(options) == 2 and options[1] is Ellipsis:
            return all(fits(one, options[0]) for one in value)
        return len(value) == len(options) and all(map(fits, value, options))
    if origin is list:
        return isinstance(value, list) and all(fits(one, options[0]) for one in value)
    kind = origin or hint
    if isinstance(kind, type) and not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    return True


def _picked(known: Mapping[str, Any], name: Any, what: str) -> Any:
    if type(name) is not str or name not in known:
        raise Malformed(f"an unknown {what}")
    return known[name]

"""Copies of the state of iterations that are short on small matrices."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def replace(record: T, /, **changes: Any) -> T:
    """Copy of a frozen dataclass with other values of some fields.

    As `dataclasses.replace`, which calls the constructor and takes ten times as long. The class
    must have neither slots nor `__post_init__`.
    """
    old = record.__dict__
    if not changes.keys() <= old.keys():
        unknown = ", ".join(sorted(changes.keys() - old.keys()))
        raise TypeError(f"{type(record).__name__} has no field {unknown}")
    new = object.__new__(type(record))
    new.__dict__.update(old)
    new.__dict__.update(changes)
    return new

"""The experiments by name; a module is imported only when its experiment is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from weakprox.experiments.base import ORDER, Experiment


class Registry(Mapping[str, Experiment]):
    """Experiments by name, the paper's first.

    To add one, write a module `weakprox.experiments.NAME` that defines `EXPERIMENT`, and
    put NAME into `base.ORDER`.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Experiment:
        if name not in self._names:
            raise KeyError(name)
        experiment: Experiment = import_module(f"weakprox.experiments.{name}").EXPERIMENT
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # the inherited test would import the module


ALL: Final = Registry(ORDER)

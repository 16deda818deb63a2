"""A loss whose declared constants turned out to be wrong, with better ones."""

from __future__ import annotations

from typing import Any

from weakprox.protocols import Loss


class Restated:
    """The same loss with another strong convexity; everything else is passed on."""

    def __init__(self, loss: Loss, strong_convexity: float) -> None:
        self._loss = loss
        self.strong_convexity = strong_convexity

    def in_float64(self) -> Restated | None:
        """The same computed in float64, if the loss offers that."""
        offered = getattr(self._loss, "in_float64", None)
        found = None if offered is None else offered()
        return None if found is None else Restated(found, self.strong_convexity)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_loss":
            raise AttributeError(name)  # while being copied, there is no loss yet
        return getattr(self._loss, name)

    def __repr__(self) -> str:
        return repr(self._loss)

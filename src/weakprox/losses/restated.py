"""A loss with corrected constants, if the declared ones turned out to be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weakprox.protocols import Loss, LossCapabilities, loss_capabilities


class Restated:
    """The same loss with another strong convexity; all other members are forwarded."""

    def __init__(self, loss: Loss, strong_convexity: float) -> None:
        self._loss = loss
        self.strong_convexity = strong_convexity

    @property
    def capabilities(self) -> LossCapabilities:
        """Capabilities of the loss."""
        one = loss_capabilities(self._loss)
        compute = one.in_float64

        def in_float64() -> Restated | None:
            found = compute and compute()
            return None if found is None else Restated(found, self.strong_convexity)

        return replace(one, in_float64=compute and in_float64)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_loss":
            raise AttributeError(name)  # while being copied, the loss is not set yet
        return getattr(self._loss, name)

    def __repr__(self) -> str:
        return repr(self._loss)

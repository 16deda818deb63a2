"""What the parts of the soak share: arrays for the library, and wide ones to judge by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Matrix = np.ndarray
Value = Callable[[Matrix], Any]
Random = np.random.Generator
WIDE = np.longdouble  # what values are summed in here: its squares do not overflow


@dataclass(frozen=True)
class Kit:
    """The arrays that the library is given: their dtype, and NumPy's or torch's."""

    dtype: Any
    torch: bool = False

    @property
    def single(self) -> bool:
        return self.dtype is np.float32

    def give(self, x: Any) -> Any:
        """The numbers as the library gets them."""
        host = np.array(getattr(x, "numpy", lambda: x)(), dtype=self.dtype, order="C")
        if not self.torch:
            return host
        import torch

        return torch.from_numpy(host)

    def rounded(self, x: Any) -> Matrix:
        """The same numbers, to compute with here."""
        return np.asarray(x, dtype=self.dtype).astype(WIDE)


@dataclass(frozen=True)
class Part:
    """A term for the library, its value in wide numbers, and its name."""

    ours: Any
    value: Value
    name: str


def nuclear_norm(X: Matrix) -> float:
    """In float64, of a matrix of any size."""
    scale = float(np.abs(X).max()) or 1.0
    return scale * float(np.linalg.norm((X / scale).astype(float), "nuc"))

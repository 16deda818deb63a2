"""Which chunks hold the terms that were drawn, and where in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Indices = np.ndarray[Any, np.dtype[np.int64]]


class Picked(NamedTuple):
    """Terms by chunk; `order` puts what the chunks return in the order of the drawing."""

    chunks: list[int]
    within: list[Indices]
    order: Indices

    def arranged(self, parts: list[Any]) -> Any:
        """What the chunks return, one entry for each term, as it was drawn."""
        together = np.concatenate(parts)
        out = np.empty_like(together)
        out[self.order] = together
        return out

    def dealt(self, values: Any) -> list[Any]:
        """One value for each term drawn, by chunk."""
        ends = np.cumsum([len(part) for part in self.within])
        return np.split(np.asarray(values)[self.order], ends[:-1])


def picked(indices: Any, starts: list[int], count: int) -> Picked:
    """Sort terms (a slice or integers, some perhaps repeated) by chunk.

    `starts` are the first terms of the chunks, `count` the number of all terms.
    """
    wanted = np.arange(count)[indices] if isinstance(indices, slice) else np.asarray(indices)
    chunk = np.searchsorted(starts, wanted, side="right") - 1
    order = np.argsort(chunk, kind="stable")
    used = np.unique(chunk)
    within = [wanted[order][chunk[order] == i] - starts[i] for i in used]
    return Picked([int(i) for i in used], within, order)

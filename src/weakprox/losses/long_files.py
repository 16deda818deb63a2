"""Observations from long tables in Parquet files: in memory if they fit, otherwise in files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weakprox.errors import InputError
from weakprox.losses.entry_losses import EntryLoss
from weakprox.losses.inputs import check_size
from weakprox.passes.blocks import BLOCK, HELD, LEAST, BlockPattern, Vector, few
from weakprox.passes.on_disk import Batch, sorted_in_files
from weakprox.resources.memory import room

if TYPE_CHECKING:
    from weakprox.storage.long import LongFiles

IN_MEMORY = 200  # bytes for each observation, with the vectors of a run
SHARE = 8  # the available memory divided by this is the largest size of a block


@dataclass(frozen=True, eq=False)
class LongObservations:
    """A long table with the shape of its matrix, and the ids of rows and columns."""

    files: LongFiles
    shape: tuple[int, int]
    names: dict[str, Any]  # ids by the name of their column; none if ids are indices
    weighted: bool

    @classmethod
    def of(cls, files: LongFiles, shape: tuple[int, int] | None) -> LongObservations:
        """Open files whose ids are indices if a shape is given, otherwise of any kind."""
        weighted = len(files.numbers) > 1
        if shape is not None:
            files.check_integers()
            return cls(files, shape, {}, weighted)
        names = {name: files.names(name) for name in files.ids}
        m, d = (len(names[name]) for name in files.ids)
        return cls(files, (m, d), names, weighted)

    def ids(self, side: int) -> Any:
        """Ids of rows (0) or columns (1); None if they are indices."""
        names = self.names.get(self.files.ids[side])
        return None if names is None else names.to_numpy(zero_copy_only=False)

    def fits(self) -> bool:
        """Return True if a run on all observations fits in memory."""
        return IN_MEMORY * self.files.count <= room()

    def batches(self) -> Iterator[Batch]:
        """Yield all observations, checked."""
        kind = np.float32 if self.files.single else np.float64
        for some in self.files.batches(self.names):
            index = [some[name] for name in self.files.ids]
            for argument, x, limit in zip(("row", "col"), index, self.shape, strict=True):
                low, high = int(x.min()), int(x.max())
                if low < 0 or high >= limit:
                    raise InputError(argument, f"ids from {low} to {high}", f"0 to {limit - 1}")
            values, *weights = (some[name] for name in self.files.numbers)
            if not np.isfinite(values).all():
                raise InputError("value", "NaN or infinite entries", "finite numbers")
            if weights and not (np.isfinite(weights[0]).all() and weights[0].min() > 0.0):
                wanted = "positive numbers: leave others out"
                raise InputError("weight", "entries that are not positive", wanted)
            weight = weights[0] if weights else None
            yield Batch(index[0], index[1], values.astype(kind, copy=False), weight)

    def whole(self) -> Batch:
        """Return all observations in memory."""
        rows, columns, values, weights = zip(*self.batches(), strict=True)
        i, j, found = (np.concatenate(x) for x in (rows, columns, values))
        return Batch(i, j, found, np.concatenate(weights) if self.weighted else None)

    def in_files(
        self, loss: EntryLoss, folder: str | None
    ) -> tuple[BlockPattern, Vector, Vector | None, float]:
        """Return the pattern, values, weights and the largest value, sorted into files."""
        counts = tuple(np.zeros(n, np.int64) for n in self.shape)
        shown, size = np.empty(0), 0.0
        for batch in self.batches():
            for count, index in zip(counts, batch[:2], strict=True):
                count += np.bincount(index, minlength=len(count))
            shown = few(np.concatenate([shown, batch.values]))
            size = max(size, float(np.abs(batch.values).max()))
        kind: Any = np.float32 if self.files.single else np.float64
        check_size("value", size, (self.files.count,), float(np.finfo(kind).max))
        # at least as many positions as columns, or products with transposes cost more
        most = max(min(BLOCK, max(LEAST, room() // (SHARE * HELD))), self.shape[1])
        found = sorted_in_files(
            self.batches,
            (counts[0], counts[1]),
            dtype=kind,
            weighted=self.weighted,
            most=most,
            recode=partial(recoded, loss, shown.astype(kind)),
            folder=folder,
        )
        return *found, size


def recoded(loss: EntryLoss, shown: Any, values: Any) -> Any:
    """Return values as the loss recodes them; the values `shown` include all classes."""
    return loss.check(np.concatenate([shown, values]))[len(shown) :]

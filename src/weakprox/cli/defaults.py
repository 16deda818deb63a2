"""Values for lam and tau where none are given: simple, stated, and yours to change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from weakprox.errors import InputError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import Array, norm, row_blocks
from weakprox.linalg.thin_eigh import thin_eigh
from weakprox.linalg.thin_svd import thin_svd
from weakprox.linalg.tiled import RowsOnDemand, Tiled
from weakprox.resources.memory import on_disk

Values: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

TAU_SHARE = 0.9
MOST_ENTRIES = 1_000_000  # that the noise level is judged by
GAUSSIAN = 1.4826  # standard deviations in a median absolute deviation
FULL_BELOW = 400  # full decompositions up to this size


@dataclass(frozen=True)
class Choice:
    """lam and tau, and how those that were not given were chosen."""

    lam: float
    tau: float
    noise: float | None
    notes: dict[str, str]


def choose(M: Array, lam: float | None, tau: float | None, psd: bool) -> Choice:
    """Fill in what was not given, from the noise level of the entries."""
    notes: dict[str, str] = {}
    if lam is not None and tau is not None:
        return Choice(lam, tau, None, notes)
    noise = noise_level(M)
    m, d = M.shape
    if noise == 0.0:
        given = "no value, and a noise level of 0 (half of the entries are equal)"
        raise InputError("tau" if lam is not None else "lam", given, "a number")
    if lam is None:
        lam = noise * math.sqrt(2.0 * math.log(max(2, m * d)))
        notes["lam"] = f"noise level {noise:.4g} x sqrt(2 log({m * d}))"
    if tau is None:
        tau, notes["tau"] = _radius(M, lam, noise, psd)
    return Choice(lam, tau, noise, notes)


def _radius(M: Array, lam: float, noise: float, psd: bool) -> tuple[float, str]:
    """tau, and how it came about.

    Of the matrix soft-thresholded by lam, since the penalty shrinks the answer as much: a
    larger ball would not touch it, and its rank would be high.
    """
    edge = noise * (math.sqrt(M.shape[0]) + math.sqrt(M.shape[1]))
    count = int(np.sum(values(M, edge, psd) > edge))
    kind = "eigenvalue" if psd else "singular value"
    if count == 0:
        given = f"no value, and no {kind} above the noise (up to {edge:.4g})"
        raise InputError("tau", given, "a number")
    shrunk = _shrunk(M, lam)
    kept = float(np.maximum(values(shrunk, 0.0, psd, count)[:count], 0.0).sum())
    if kept == 0.0:
        raise InputError("tau", f"no value, and no entry above lam = {lam:.4g}", "a number")
    many = kind if count == 1 else f"{count} {kind}s"
    how = f"{TAU_SHARE} of the leading {many} of M soft-thresholded by lam"
    return TAU_SHARE * kept, f"{how}; so many of M are above the noise, {edge:.4g}"


def _shrunk(M: Array, lam: float) -> Array:
    """M soft-thresholded by lam; in tiles where M is."""

    def part(M: Array) -> Array:
        return np.sign(M) * np.maximum(np.abs(M) - lam, 0.0)

    if not isinstance(M, Tiled) and not on_disk(M):
        return part(M)
    return RowsOnDemand(lambda rows: part(M[rows]), M.shape, M.dtype)


def noise_level(M: Array) -> float:
    """Standard deviation of Gaussian noise, by the median absolute deviation of entries.

    Sound while the signal touches less than half of the entries; of a large matrix a
    million entries are looked at.
    """
    if M.size <= MOST_ENTRIES:
        entries = np.asarray(M, dtype=np.float64).ravel()
    else:
        rng = np.random.default_rng(0)
        rows = np.sort(rng.integers(0, M.shape[0], MOST_ENTRIES))
        columns = rng.integers(0, M.shape[1], MOST_ENTRIES)
        entries = np.concatenate(list(_picked(M, rows, columns)))
    return GAUSSIAN * float(np.median(np.abs(entries - np.median(entries))))


def _picked(M: Array, rows: Any, columns: Any) -> Iterator[Any]:
    """These entries, by sorted rows: what is on disk is read once, block by block."""
    for block in row_blocks(M):
        here = slice(*np.searchsorted(rows, [block.start, block.stop]))
        yield np.asarray(M[block][rows[here] - block.start, columns[here]], dtype=float)


def values(M: Array, edge: float, psd: bool, first: int = 16) -> Values:
    """Leading singular values (eigenvalues with psd), to a few digits and falling.

    As many as are above the edge, and at least one more unless there are no more; `first`
    of them if the edge is 0.
    """
    smaller = min(M.shape)
    rank = (
        smaller if smaller <= FULL_BELOW and not isinstance(M, Tiled) else min(first, smaller)
    )
    while True:
        if rank == smaller:
            all_of = decompositions.eigvalsh(M)[::-1] if psd else decompositions.svdvals(M)
            return np.asarray(all_of, dtype=np.float64)
        thin = (
            thin_eigh(M, rank, tol=1e-4, strict=False).values
            if psd
            else thin_svd(M, rank, tol=1e-4, strict=False).triplets.s
        )
        if edge == 0.0 or thin[-1] <= edge:
            return np.asarray(thin, dtype=np.float64)
        rank = smaller if 8 * rank > smaller else 2 * rank


def value_at_zero(M: Array) -> float:
    """Half the squared Frobenius norm, the loss at X = 0."""
    return 0.5 * norm(M) ** 2

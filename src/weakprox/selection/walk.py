"""The way over a grid of weights and radii, each run begun where its neighbours ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from weakprox.arguments import positive
from weakprox.errors import InputError
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.lowrank import LowRank
from weakprox.penalties import L1
from weakprox.progress import Progress
from weakprox.protocols import Loss, Penalty, SpectralTerm, loss_capabilities
from weakprox.selection._chain import Chain, need_finite
from weakprox.selection._lean import Solved
from weakprox.selection.grid import Grid, as_grid, default_grid
from weakprox.selection.path import Path
from weakprox.selection.thinning import whole
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

TINY = float(np.finfo(float).tiny)
ZERO = 1e-3  # entries below this share of the largest count as zero, as in Result.nonzeros


def regularization_path(
    loss: Loss,
    lams: Any = None,
    taus: Any = None,
    *,
    penalty: Callable[[float], Penalty] = L1,
    spectral: Callable[[float], SpectralTerm] = NuclearBall,
    tol: float = 1e-3,
    rank: int | None = None,
    seed: int = 0,
    certify: bool = False,
    progress: bool | Literal["auto"] = False,
) -> Path:
    """Solve min G(X) + R(X) + h(X) for all weights of R and all radii of h on a grid.

    The path goes from the simplest answers to the richest, weights falling and radii
    rising. Each run begins at the corner that its three solved neighbours suggest, with
    their dual points and the block of the last decomposition.

    Parameters
    ----------
    loss : Loss
        G, a finite sum.
    lams : sequence of float, optional
        Weights, in any order.
    taus : sequence of float, or array of shape (len(lams), k), optional
        Radii, the same ones for all weights or a row for each. Both are found by
        `default_grid` if not given, for a loss that is a squared distance.
    penalty : callable
        `penalty(lam)` is R; `penalties.L1` by default.
    spectral : callable
        `spectral(tau)` is h: `NuclearBall` by default, `TracePSD`, `NuclearNorm` (for
        which `taus` are prices, tried from high to low), or your own.
    tol : float
        Accuracy relative to f. Scores on held-out data differ by more than the default
        from chance alone; the answer that is chosen can be solved to any.
    rank : int, optional
        Largest rank of the answers. Those of a higher rank are cut to it, and their gaps
        say what that costs.
    seed : int
        Fixes every random choice.
    certify : bool
        Prove every gap. Without, runs end by the solver's own estimate, which takes
        singular values that a thin decomposition does not show at its word; that saves
        the time of the proofs. `Path.solve` gives any single point with its proof.
    progress : bool or "auto"
        A progress bar on stderr; "auto" shows it on a terminal only.

    Returns
    -------
    Path
    """
    need_finite(loss)
    grid = grid_for(loss, lams, taus, spectral)
    shape = grid.shape
    values, gaps = np.full(shape, np.nan), np.full(shape, np.nan)
    ranks, nonzeros, svds = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    answers: list[list[LowRank]] = [[] for _ in grid.lams]
    begun = time.perf_counter()
    steps = walk(loss, grid, penalty, spectral, tol=tol, rank=rank, seed=seed, certify=certify)
    with Progress(progress, counted=True) as display:
        bar = display.add("regularization path", values.size)
        for i, j, found in steps:
            answer = found.low_rank
            values[i, j], gaps[i, j] = found.value, found.gap
            ranks[i, j], svds[i, j] = answer.rank, found.svds
            nonzeros[i, j] = count_nonzeros(answer)
            answers[i].append(answer)
            note = f"lam {grid.lams[i]:.3g}  tau {grid.taus[i, j]:.3g}"
            display.advance(bar, note=note)
    return Path(
        lams=grid.lams,
        taus=grid.taus,
        values=values,
        gaps=gaps,
        ranks=ranks,
        nonzeros=nonzeros,
        svds=svds,
        answers=tuple(tuple(row) for row in answers),
        certified=certify,
        seconds=time.perf_counter() - begun,
        loss=loss,
        penalty=penalty,
        spectral=spectral,
    )


def grid_for(loss: Loss, lams: Any, taus: Any, spectral: Any) -> Grid:
    """The grid asked for, or the one that the data suggest."""
    if lams is not None and taus is not None:
        return as_grid(lams, taus, rising=spectral is not NuclearNorm)
    centre = loss_capabilities(loss).centre
    known = spectral in (NuclearBall, TracePSD)
    if lams is not None or taus is not None or centre is None or not known:
        given = "one of them" if (lams is None) != (taus is None) else "neither"
        wanted = "both, unless the loss is a squared distance with a ball: then neither"
        raise InputError("lams, taus", given, wanted)
    return default_grid(centre(loss.everything()), psd=spectral is TracePSD)


def walk(
    loss: Loss,
    grid: Grid,
    penalty: Callable[[float], Penalty],
    spectral: Callable[[float], SpectralTerm],
    *,
    tol: float,
    rank: int | None = None,
    seed: int = 0,
    certify: bool = False,
) -> Iterator[tuple[int, int, Solved]]:
    """Row, column and answer of every point, in the order of the path."""
    tol = positive("tol", tol)
    if rank is not None:
        rank = whole("rank", rank, least=1)
    settings: dict[str, Any] = {"tol": tol, "rank": rank, "seed": seed, "certify": certify}
    chain = Chain(loss, columns=grid.shape[1], **settings)
    for i, lam in enumerate(grid.lams):
        chain.next_row()
        R = penalty(float(lam))
        for j, tau in enumerate(grid.taus[i]):
            yield i, j, chain.solve(R, spectral(float(tau)), float(tau))


def count_nonzeros(X: LowRank) -> int:
    """Entries above a thousandth of the largest in size."""
    size = np.abs(np.asarray(to_numpy(X.dense())))
    return int(np.count_nonzero(size > max(ZERO * size.max(initial=0.0), TINY)))

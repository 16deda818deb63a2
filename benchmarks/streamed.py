"""A matrix larger than the memory of the device: seconds and sweeps, against bus and disk.

    python benchmarks/streamed.py 130000                   # page-locked host memory
    python benchmarks/streamed.py 100000 --source file --folder /tmp
    python benchmarks/streamed.py 40000 --source memory    # ordinary host memory

Instances as in `gpu.py` (rank 10, tau factor .9), float32. The device is held to `--memory`;
`peak` is what torch had allocated at most. A bare sweep copies every tile and does nothing
with it: its time is the limit of the bus or of the disk. Times are of whole calls, from the
problem to the certificate; a first call of another problem compiles the kernels.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import weakprox as wp

CHUNK = 2000


def filled(M: Any, r: int = 10, factor: float = 0.9) -> float:
    """Write YY' + N(0, 1) to M, made on the device; return tau."""
    torch.manual_seed(0)
    d = M.shape[0]
    small = torch.randint(1, 11, (d, r), device="cuda").float()
    Y = (torch.rand(d, r, device="cuda") < d**-0.5) * small
    for i in range(0, d, CHUNK):
        part = Y[i : i + CHUNK] @ Y.T
        part += torch.randn_like(part)
        M[i : i + CHUNK] = part.cpu().numpy()
    return factor * float((Y**2).sum())


def problem(M: Any, tau: float, memory: str) -> wp.Problem:
    """The paper's first example on the device."""
    loss = wp.losses.Denoising(M, device="cuda", device_memory=memory)
    return wp.Problem(loss, wp.penalties.L1(2.0), wp.spectral.NuclearBall(tau))


def bare_sweep(source: Any) -> float:
    """Seconds of copying every tile."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in source.tiles():
        pass
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def forget(path: Path) -> None:
    """Drop the pages of a file from the system's cache."""
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
        os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("d", type=int)
    parser.add_argument("--source", choices=("pinned", "memory", "file"), default="pinned")
    parser.add_argument("--memory", default="24GB")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-2, 1e-4])
    told = parser.parse_args()
    d, gb = told.d, 4e-9 * told.d**2
    small = np.empty((4096, 4096), np.float32)
    tau = filled(small)
    wp.minimize(problem(small, tau, "150MB"), tol=1e-6, progress=False)  # compiles
    with tempfile.TemporaryDirectory(dir=told.folder) as folder:
        path = Path(folder) / "M.npy"
        if told.source == "file":
            M = np.lib.format.open_memmap(path, "w+", np.float32, (d, d))
        else:
            M = np.empty((d, d), np.float32)
        tau = filled(M)
        if told.source == "pinned":  # in place: torch's own allocator rounds up to powers of 2
            register = torch.cuda.cudart().cudaHostRegister
            torch.cuda.check_error(int(register(M.ctypes.data, M.nbytes, 0)))
        elif told.source == "file":
            M.flush()
            M = np.load(path, mmap_mode="r")
            forget(path)
        for tol in told.tol:
            torch.cuda.reset_peak_memory_stats()
            begun = time.perf_counter()
            one = problem(M, tau, told.memory)
            source = one.loss.target
            checked = time.perf_counter() - begun
            if told.source == "file":
                forget(path)
            begun, before = time.perf_counter(), source.sweeps
            result = wp.minimize(one, tol=tol, progress=False)
            spent, sweeps = time.perf_counter() - begun, source.sweeps - before
            if told.source == "file":
                forget(path)
            bare = bare_sweep(source)
            gap, steps = result.gap / abs(result.value), result.counts.svds
            print(
                f"d {d} ({gb:.1f} GB) from {told.source}, tol {tol:g}: {result.status.name}, "
                f"gap {gap:.1e}, rank {result.rank}, {spent:.1f} s, "
                f"{steps} iterations, {sweeps} sweeps, {spent / sweeps:.2f} s each; "
                f"bare sweep {bare:.2f} s ({gb / bare:.1f} GB/s); check of the data "
                f"{checked:.1f} s; peak {torch.cuda.max_memory_allocated() / 1e9:.1f} GB",
                flush=True,
            )


if __name__ == "__main__":
    main()

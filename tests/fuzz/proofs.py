"""Proof files for fuzzers: whole files, and descriptions in a sound archive."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import weakprox as wp
from weakprox.proofs.proof import verify_data

M = np.array([[1.5, -2.0], [0.0, 3.0], [4.0, 0.25]])


@cache
def _members() -> dict[str, np.ndarray]:
    """The arrays of a proof about M."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.npz"
        path.write_bytes(files()["denoising"])
        return dict(np.load(path, allow_pickle=False))


@cache
def files() -> dict[str, bytes]:
    """Valid ones."""
    rows, cols = np.nonzero(M)
    losses = {
        "denoising": (
            wp.losses.Denoising(M),
            wp.penalties.L1(0.3),
            wp.spectral.NuclearBall(3.0),
        ),
        "completion": (
            wp.losses.Completion(rows, cols, M[rows, cols], M.shape),
            wp.penalties.GroupL2(0.3),
            wp.spectral.NuclearNorm(0.5),
        ),
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, terms in losses.items():
            path = Path(folder) / "proof.npz"
            problem = wp.Problem(*terms)
            wp.minimize(problem).proof.save(path)
            found[name] = path.read_bytes()
    return found


def claims() -> dict[str, bytes]:
    """The description of one."""
    return {"denoising": _members()["meta"].tobytes()}


def read(folder: Path, data: bytes) -> None:
    """Bytes as a proof file, verified if it is one."""
    path = folder / "fuzzed.npz"
    path.write_bytes(data)
    verdict = verify_data(path, {"M": M})
    assert not verdict or verdict.value >= verdict.lower_bound


def read_claims(folder: Path, data: bytes) -> None:
    """Bytes as the description in a sound archive."""
    buffer = io.BytesIO()
    np.savez(buffer, **{**_members(), "meta": np.frombuffer(data or b" ", np.uint8)})
    read(folder, buffer.getvalue())

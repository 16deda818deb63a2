"""Checkpoints for the fuzzer: files as they are, and trees whose digest would be right."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import weakprox as wp
from weakprox.run.checkpoint import NAMES, call_in, codec_for, state_in
from weakprox.solvers import DavisYin
from weakprox.storage.checkpoint import Stored, load

M = np.array([[1.5, -2.0], [0.5, 3.0], [4.0, 0.25]])
PROBLEM = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.3), wp.spectral.NuclearBall(2.0))
SOLVERS: dict[str, Any] = {
    "davis-yin": DavisYin(),
    "svrgcg": wp.solvers.AdaptiveSVRGCG(rank=1),
}
CODEC = codec_for(PROBLEM, None)


def read(folder: Path, data: bytes) -> None:
    """Bytes as a checkpoint file: whole with its digest, or refused."""
    path = folder / "fuzzed.safetensors"
    path.write_bytes(data)
    stored = load(path)
    call_in(stored, CODEC)
    state_in(stored, CODEC, PROBLEM)


def read_entries(folder: Path, data: bytes) -> None:
    """Bytes as the JSON within a checkpoint: what a forger who knows the digest can write."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(tree, dict):
        return
    arrays = {"0": M, "1": M[0], "2": np.zeros((1, 11)), "3": np.array([7])}
    stored = Stored(folder / "none", "fuzzer", tree, arrays)
    call_in(stored, CODEC)
    state_in(stored, CODEC, PROBLEM)


def _stored() -> dict[str, tuple[bytes, Stored]]:
    """Checkpoints of short runs."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, solver in SOLVERS.items():
            path = Path(folder) / f"{name}.safetensors"
            options = {"eps": 1e-9, "max_svds": 2, "progress": False}
            wp.minimize(PROBLEM, solver, checkpoint=path, checkpoint_every=0, **options)
            found[name] = (path.read_bytes(), load(path))
    return found


def files() -> dict[str, bytes]:
    """Checkpoints as they are written."""
    return {name: data for name, (data, _) in _stored().items()}


def entries() -> dict[str, bytes]:
    """The JSON within them."""
    trees = {name: stored._entries for name, (_, stored) in _stored().items()}
    assert all(set(NAMES) <= set(tree) for tree in trees.values())
    return {name: json.dumps(tree).encode() for name, tree in trees.items()}

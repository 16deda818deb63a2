"""`weakprox info`: the problem, the expected work and the memory, without a run."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import numpy as np
import typer

from weakprox import __version__, plan, theory
from weakprox.cli import options
from weakprox.cli.case import Case, load
from weakprox.cli.console import as_json, show, shown_path
from weakprox.cli.options import unset
from weakprox.cli.reading import AS_FOUND, Reading, layout_options
from weakprox.linalg._thin_svd import thin_svd
from weakprox.linalg.arrays import largest, norm
from weakprox.resources.memory import as_bytes, limited, shown_bytes

TOL = 1e-3  # by default, relative to the value at zero


@layout_options
def info(
    file: options.File,
    lam: options.Lam = None,
    tau: options.Tau = None,
    psd: options.Psd = False,
    eps: options.Eps = None,
    tol: Annotated[
        float | None,
        unset(
            "Accuracy relative to the value at zero, since that at the answer is not known "
            "before a run. Default: 1e-3, unless --eps is given."
        ),
    ] = None,
    seed: options.Seed = 0,
    max_memory: options.MaxMemory = None,
    reading: Reading = AS_FOUND,
    json: options.Json = False,
) -> None:
    """Show a matrix, the problem it would define, and the work and memory to solve it."""
    if eps is None and tol is None:
        tol = TOL
    given: dict[str, Any] = {"lam": lam, "tau": tau, "eps": eps, "tol": tol}
    most = None if max_memory is None else as_bytes("max_memory", max_memory)
    with limited(most):
        case = load(file, **given, psd=psd, reading=reading, seed=seed, run=False)
    memory = plan(case.problem, max_memory=most)  # before anything else takes memory
    p = theory.parameters(case.problem, case.eps, seed=seed)
    M = case.matrix
    spectral_norm = float(thin_svd(M, 1, tol=1e-6, strict=False).triplets.s[0])
    found = {
        **case.settings,
        "format": case.table.format,
        "memory_mapped": isinstance(case.table.values, np.memmap),
        "bytes": M.size * M.dtype.itemsize,
        "norms": {"frobenius": norm(M), "spectral": spectral_norm, "largest_entry": largest(M)},
        "version": __version__,
        "solver": memory.chosen,
        "reason": memory.reason,
        "parameters": asdict(p),
        "predicted": {
            "svds": p.predicted_svds,
            "samples": p.predicted_samples,
            "arrays": memory[memory.chosen].work,
            "bytes": memory.early,
            "bytes_at_most": memory.process,
            "room": memory.room,
        },
        "memory": asdict(memory),
    }
    if json:
        typer.echo(as_json(found))
    else:
        alone = replace(memory, needs=(memory[memory.chosen],))
        _show(case, found, str(p), "\n".join(str(alone).splitlines()[:3]))


def _show(case: Case, found: dict[str, Any], parameters: str, memory: str) -> None:
    m, d = case.table.shape
    norms, predicted = found["norms"], found["predicted"]
    labels = [side for side in ("row", "column") if found[f"{side}_labels"]]
    size = shown_bytes(found["bytes"])
    mapped = ", memory-mapped" if found["memory_mapped"] else ""
    labelled = f", with {' and '.join(labels)} labels" if labels else ""
    sizes = f"Frobenius {norms['frobenius']:.6g}, spectral {norms['spectral']:.6g}, largest "
    sizes += f"entry {norms['largest_entry']:.6g}"
    accuracy = f"{case.eps:.6g}" + ("" if case.tol is None else f"   (tol {case.tol:g})")
    run = f"{found['solver']}, until a duality gap proves the accuracy: {found['reason']}"
    most = f"{predicted['svds']} SVDs of SVRGCG (a proof usually ends runs far earlier)"
    early, later = (shown_bytes(predicted[name]) for name in ("bytes", "bytes_at_most"))
    lines = [
        ("matrix", f"{m} x {d}, {found['dtype']}, {size}{mapped}{labelled}"),
        ("norms", sizes),
        *case.lines(),
        ("accuracy", accuracy),
        ("would run", run),
        ("by theory", parameters),
        ("at most", most),
        ("memory", f"about {early}; {later} after more than 16 iterations"),
        ("in arrays", memory),
    ]
    show(shown_path(case.table.source), lines)

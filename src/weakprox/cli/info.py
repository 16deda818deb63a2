"""`weakprox info`: what a run would be, before it is run."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import typer

from weakprox.cli import options
from weakprox.cli.console import as_json, show, shown_file

if TYPE_CHECKING:
    from weakprox.cli.case import Case


def info(
    file: options.File,
    lam: options.Lam = None,
    tau: options.Tau = None,
    psd: options.Psd = False,
    eps: options.Eps = None,
    tol: options.Tol = None,
    seed: options.Seed = 0,
    key: options.Key = None,
    header: options.Header = None,
    json: options.Json = False,
) -> None:
    """Show a matrix, the problem it would state, and the work and memory to solve it."""
    from weakprox import theory
    from weakprox.cli.case import ARRAYS, load
    from weakprox.solvers.auto import choose
    from weakprox.solvers.davis_yin import ARRAYS as DAVIS_YIN
    from weakprox.solvers.davis_yin import DavisYin
    from weakprox.storage.limits import room

    given = {"lam": lam, "tau": tau, "eps": eps, "tol": tol}
    case = load(file, **given, psd=psd, key=key, header=header, run=False)
    p = theory.parameters(case.problem, case.eps, seed=seed)
    choice = choose(case.problem)
    arrays = DAVIS_YIN if isinstance(choice.solver, DavisYin) else ARRAYS
    found = {
        **describe(case),
        "solver": type(choice.solver).__name__,
        "reason": choice.reason,
        "parameters": {f.name: getattr(p, f.name) for f in fields(p)},
    }
    found["predicted"] = {
        "svds": p.predicted_svds,
        "samples": p.predicted_samples,
        "arrays": arrays,
        "bytes": found["bytes"] * arrays,
        "room": room(),
    }
    if json:
        typer.echo(as_json(found))
    else:
        _show(case, found, str(p))


def describe(case: Case) -> dict[str, Any]:
    """Size, kind and norms of the matrix."""
    import numpy as np

    from weakprox import __version__
    from weakprox.linalg.arrays import largest, norm
    from weakprox.linalg.thin_svd import thin_svd

    M = case.matrix
    spectral_norm = float(thin_svd(M, 1, tol=1e-6, strict=False).triplets.s[0])
    return {
        **case.settings,
        "format": case.table.format,
        "memory_mapped": isinstance(M, np.memmap),
        "bytes": M.size * M.dtype.itemsize,
        "norms": {
            "frobenius": norm(M),
            "spectral": spectral_norm,
            "largest_entry": largest(M),
        },
        "version": __version__,
    }


def _show(case: Case, found: dict[str, Any], parameters: str) -> None:
    """The same for a reader."""
    from weakprox.storage.limits import shown_bytes

    m, d = case.table.shape
    norms, predicted = found["norms"], found["predicted"]
    labels = [side for side in ("row", "column") if found[f"{side}_labels"]]
    size = shown_bytes(found["bytes"])
    lines = [
        (
            "matrix",
            f"{m} x {d}, {found['dtype']}, {size}"
            + (", memory-mapped" if found["memory_mapped"] else "")
            + (f", with {' and '.join(labels)} labels" if labels else ""),
        ),
        (
            "norms",
            f"Frobenius {norms['frobenius']:.6g}, spectral {norms['spectral']:.6g}, largest "
            f"entry {norms['largest_entry']:.6g}",
        ),
        *case.lines(),
        (
            "accuracy",
            f"{case.eps:.6g}" + ("" if case.tol is None else f"   (tol {case.tol:g})"),
        ),
        (
            "would run",
            f"{found['solver']}, until a duality gap proves the accuracy: {found['reason']}",
        ),
        ("by theory", parameters),
        (
            "at most",
            f"{predicted['svds']} SVDs of SVRGCG (a proof mostly ends runs far earlier); about "
            f"{predicted['arrays']} arrays of {size}, {shown_bytes(predicted['bytes'])} of the "
            f"{shown_bytes(predicted['room'])} there are",
        ),
    ]
    show(shown_file(case.table.source), lines)

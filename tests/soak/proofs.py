"""Proof files of random problems: true ones are accepted, changed ones refused.

From the root of the repository, `python tests/soak/proofs.py 500` makes proofs of random
problems until the stand-alone verifier of docs/verify.md has accepted 500 of them and
refused 500 that had one number changed. `wp.verify` judges all of them, too, and those that
the stand-alone verifier does not cover. Whether a change makes the claim false is decided
here, in extended precision.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from soak.certificates import solvers
from soak.instances import Instance, instance
from soak.kit import WIDE

import weakprox as wp
from weakprox.errors import InputError, ProofError
from weakprox.proofs.describe import described

ROOT = Path(__file__).resolve().parents[2]
UNCOVERED = {"loss", "weights", "scaling", "intercepts"}  # of squares, without q
NEW = ("weighted", "range")  # kinds of penalties that the programs do not cover
COVERED = ("Denoising", "Completion", "Sensing")
Changed = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]  # what, meta, arrays, data


def standalone() -> Callable[[Any, Any], tuple[bool, str]]:
    """The functions `verify` of the texts in docs/verify.md: the one that suits a proof."""
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    functions = []
    for code in found[-2:]:
        module: dict[str, Any] = {"__name__": "standalone"}
        exec(compile(code, "docs/verify.md", "exec"), module)
        functions.append(module["verify"])

    def verify(proof: Any, data: Any) -> tuple[bool, str]:
        on_entries = "q" in np.load(proof, allow_pickle=False).files
        return functions[0 if on_entries else 1](proof, data)

    return verify


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the arrays of a proof file, by NumPy alone."""
    arrays = dict(np.load(path, allow_pickle=False))
    return json.loads(arrays.pop("meta").tobytes()), arrays


def write(path: Path, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """The same, changed or not."""
    text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    np.savez(path, meta=text, **arrays)


def product(arrays: dict[str, Any]) -> Any:
    """X in extended precision."""
    U, s, Vt = (arrays[f"X_{name}"].astype(WIDE) for name in ("U", "s", "Vt"))
    return (U * s) @ Vt


def changes(
    rng: np.random.Generator, case: Instance, meta: Any, arrays: Any, data: Any
) -> Iterator[Changed]:
    """Files, or data, with one number changed so that the claim is false."""
    X = product(arrays)
    value, scale = case.value(X)
    claims = meta["claims"]
    gap = claims["value"] - claims["lower_bound"]
    sizes = scale + case.cancelled(X)
    clear = max(1e-9, 4096 * case.eps) * sizes + 10 * abs(claims["value"] - value)

    def claimed(**changed: Any) -> dict[str, Any]:
        return {**meta, "claims": {**claims, **changed}}

    if clear > 0.0:
        yield "value", claimed(value=value - clear), arrays, data
        # above f(X), and f(X) is at least the optimum
        above = max(value, claims["value"]) + clear
        yield "bound", claimed(lower_bound=above, value=above + gap), arrays, data
    if gap > 0.0:
        yield "eps", claimed(eps=0.5 * gap, certified=True), arrays, data
    yield from _moved(rng, case, meta, arrays, data, clear)
    yield from _weakened(case, X, meta, arrays, data, clear)
    yield from _restated(case, X, meta, arrays, data, clear)
    if data:
        name = sorted(data)[int(rng.integers(0, len(data)))]
        other = np.array(data[name])
        spot = np.unravel_index(int(rng.integers(0, other.size)), other.shape)
        other[spot] = (
            other[spot] * 2 + 1 if name not in ("rows", "cols") else 1 - other[spot] % 2
        )
        if other[spot] != data[name][spot]:
            yield "data", meta, arrays, {**data, name: other}


def _moved(rng: Any, case: Instance, meta: Any, arrays: Any, data: Any, clear: float) -> Any:
    """One entry of X's factors changed: a larger value, or outside the set."""
    single = arrays["X_s"].dtype == np.float32
    for _ in range(4):
        name = str(rng.choice(["X_U", "X_s", "X_Vt"]))
        part = np.array(arrays[name])
        spot = np.unravel_index(int(rng.integers(0, part.size)), part.shape)
        part[spot] = part[spot] * 1.5 + np.abs(part).max() * 0.5
        other = {**arrays, name: part}
        moved = product(other)
        off = float(case.excess(moved))
        worse = case.value(moved)[0] > meta["claims"]["value"] + clear
        if worse or off > (1e-4 if single else 1e-6):
            yield "X", meta, other, data
            return


def _weakened(case: Instance, X: Any, meta: Any, arrays: Any, data: Any, clear: float) -> Any:
    """One entry of y at the other end: the Lagrangian at X is below the claimed bound."""
    parts = meta["terms"]["penalty"]
    if len(parts) != 1 or parts[0]["kind"] != "box":
        return
    q = np.array(arrays["y0"])
    most = np.iinfo(q.dtype).max if q.dtype.kind == "i" else 1.0
    spot = np.unravel_index(int(np.abs(X).argmax()), X.shape)
    q[spot] = -most if X[spot] > 0 else most
    share = q.astype(WIDE) / most
    y = np.where(share > 0, parts[0]["above"], parts[0]["below"]) * share
    bent = parts[0]["curvature"] / 2 * (X**2).sum()
    others = sum(part(X) for i, part in enumerate(case.parts) if i != 1)
    if float(others + bent + (y * X).sum()) < meta["claims"]["lower_bound"] - clear:
        yield "y", meta, {**arrays, "y0": q}, data


def _restated(case: Instance, X: Any, meta: Any, arrays: Any, data: Any, clear: float) -> Any:
    """One parameter changed: X is outside the set, or has a larger value."""
    terms = meta["terms"]
    spectral = terms["spectral"]
    if spectral["kind"] in ("ball", "psd"):
        tau = 0.5 * float(np.linalg.norm(X.astype(float), "nuc"))
        if 0.0 < tau < spectral["tau"]:
            other = {**terms, "spectral": {**spectral, "tau": tau}}
            yield "tau", {**meta, "terms": other}, arrays, data
    for i, part in enumerate(terms["penalty"]):
        if part["kind"] == "box" and part["above"] * float(np.maximum(X, 0).sum()) > clear:
            more = [*terms["penalty"]]
            more[i] = {**part, "above": 2 * part["above"]}
            if float(part["above"] * np.maximum(X, 0).sum()) > clear:
                yield "lam", {**meta, "terms": {**terms, "penalty": more}}, arrays, data


class Bench:
    """Judges proofs with both verifiers and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.own = folder, standalone()
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.failures: list[str] = []

    def judged(self, problem: wp.Problem, data: dict[str, Any]) -> tuple[str, str]:
        """What `wp.verify` and the stand-alone verifier say of the proof in the folder."""
        path = self.folder / "proof.npz"
        try:
            ours = str(bool(wp.verify(path, problem)))
        except ProofError:
            ours = "False"
        if not data:
            return ours, ""
        np.savez(self.folder / "data.npz", **data)
        with np.errstate(all="ignore"):
            return ours, str(self.own(path, self.folder / "data.npz")[0])

    def seed(self, seed: int) -> None:
        """One problem, one run, its proof, and changes of it."""
        case = instance(seed)
        rng = np.random.default_rng([seed, 86])
        case.best, case.scale = case.value(np.zeros(case.problem.shape))
        chosen = solvers(rng, case)
        solver, options = chosen[int(rng.integers(0, len(chosen)))]
        label = f"{seed} {case.name} {'default' if solver is None else solver} {options}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = wp.minimize(
                    case.problem, solver, **options, seed=seed, proof=True, max_seconds=1.0
                )
                if not result.certificate.proves:
                    return
                proof = result.proof
        except ProofError as problem:
            self.counts["none"] += 1
            if "by itself" not in str(problem):
                self.failures.append(f"{label}: {problem}")
            return
        except InputError:
            return  # a method that does not apply
        except Exception:
            self.failures.append(f"{label}\n{traceback.format_exc()}")
            return
        self.judge(label, case, proof)

    def judge(self, label: str, case: Instance, proof: wp.Proof) -> None:
        """The proof as it is, and with one number changed."""
        path, rng = self.folder / "proof.npz", np.random.default_rng(len(label))
        proof.save(path)
        meta, arrays = read(path)
        told = meta["terms"]["loss"]
        pieces = described(case.problem).pieces
        plain = told["kind"] in COVERED and "samples" not in told and "form" not in told
        plain = plain and ("q" not in arrays or meta["terms"]["penalty"] == [])
        # the program for squares knows neither weights nor intercepts
        plain = plain and ("q" in arrays or not UNCOVERED & {*told})
        plain = plain and not any(one["kind"] in NEW for one in meta["terms"]["penalty"])
        plain = plain and meta["terms"]["spectral"]["kind"] != "own"
        # the pieces are weights divided by their number, those of the user are not
        plain = plain and not ("weights" in told and told["reduction"] == "mean")
        data = {one.name: one.whole() for one in pieces} if plain else {}
        verdicts = self.judged(case.problem, data)
        self.counts["accepted"] += verdicts[0] == "True"
        self.counts["accepted_standalone"] += verdicts[1] == "True"
        self.kinds[f"{told['kind']} {meta['terms']['spectral']['kind']}"] += 1
        if "False" in verdicts:
            self.failures.append(f"{label}: a true proof was refused {verdicts}")
            try:
                self.failures.append(str(wp.verify(path, case.problem)))
            except ProofError as problem:
                self.failures.append(str(problem))
        for what, other, changed, entries in changes(rng, case, meta, arrays, data):
            write(path, other, changed)
            problem = case.problem
            if what == "data":  # of another problem, which only the digest shows
                found = ("", str(self._data(path, entries)))
            else:
                found = self.judged(problem, entries)
            self.counts["refused"] += found[0] == "False"
            self.counts["refused_standalone"] += found[1] == "False"
            self.kinds[what] += 1
            if "True" in found:
                self.failures.append(f"{label}: {what} changed, accepted {found}")

    def _data(self, path: Path, entries: dict[str, Any]) -> bool:
        np.savez(self.folder / "data.npz", **entries)
        with np.errstate(all="ignore"):
            return self.own(path, self.folder / "data.npz")[0]


def run(wanted: int, first: int = 0) -> Bench:
    """Seeds until the stand-alone verifier has judged so many of both kinds."""
    with tempfile.TemporaryDirectory() as folder:
        bench, seed = Bench(Path(folder)), first
        names = ("accepted_standalone", "refused_standalone")
        while min(bench.counts[name] for name in names) < wanted and seed < first + 20 * wanted:
            bench.seed(seed)
            seed += 1
    return bench


def main(argv: list[str]) -> int:
    """Run, print the failures and the counts."""
    bench = run(int(argv[0]) if argv else 500, int(argv[1]) if len(argv) > 1 else 0)
    for failure in bench.failures:
        print(failure)
    print(dict(bench.kinds))
    counts = " ".join(f"{name}={bench.counts[name]}" for name in sorted(bench.counts))
    print(f"RESULT proofs {counts} failures={len(bench.failures)}")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

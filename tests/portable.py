"""The numerical core as other machines would run it: `python tests/portable.py`.

Each setting is a process of its own, with one of OpenBLAS's kernels, vectors of another
width, one or two threads, and random numbers of its own. What counts on roundings runs in
every setting, the rest of the core in one of `SHARES` each, and random problems of the soak
are solved whose certificates must be true. A setting that this processor cannot run is
named with the reason. The exit status is 1 if anything fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")
ALSO = {"Prescott": "Katmai"}  # another name that OpenBLAS has for the same kernel
SHARES = 40
PROBLEMS = 3  # of the soak, in each setting
CORE = (
    "tests/unit/linalg",
    "tests/unit/certificates",
    "tests/unit/theory",
    "tests/unit/test_metering.py",
    "tests/unit/spectral",
    "tests/properties",
    "tests/contracts/test_solvers.py",
    "tests/contracts/test_lean.py",
    "tests/contracts/test_davis_yin.py",
    "tests/contracts/test_extragradient.py",
    "tests/contracts/test_float32.py",
)

PROBE = """
import numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
A = np.random.default_rng(0).standard_normal((200, 200))
assert np.isfinite(np.linalg.svd(A @ A)[1]).all() and np.isfinite(scipy.linalg.svdvals(A)).all()
print(*sorted({x["architecture"] for x in threadpool_info() if "architecture" in x}))
"""
FEATURES = """
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(*(name for name in __cpu_dispatch__ if __cpu_features__.get(name)))
"""
SOAK = """
import sys, warnings
sys.path.insert(0, "tests")
from soak.certificates import check
first, count = int(sys.argv[1]), int(sys.argv[2])
found = [text for seed in range(first, first + count) for text in check(seed, 60)]
print(*found, sep="\\n")
sys.exit(bool(found))
"""


@dataclass(frozen=True)
class Setting:
    """A machine to be: its name, its environment, a random seed and a number of threads."""

    name: str
    seed: int
    threads: int
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self, caches: Path) -> dict[str, str]:
        """The environment of its processes, with compiled code of their own."""
        env = dict(os.environ)
        for name in ("OPENBLAS_CORETYPE", "NUMBA_CPU_NAME", "NPY_DISABLE_CPU_FEATURES"):
            env.pop(name, None)
        if "NUMBA_CPU_NAME" in self.variables:  # numba's own cache is not keyed by it
            env["NUMBA_CACHE_DIR"] = str(caches / "generic")
        paths = [str(ROOT / "src"), env.get("PYTHONPATH", "")]
        return env | {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "MPLBACKEND": "Agg",
            "OPENBLAS_NUM_THREADS": str(self.threads),
            "OMP_NUM_THREADS": str(self.threads),
            "WEAKPROX_TEST_SEED": str(self.seed),
            "WEAKPROX_TEST_ALL": "1",
            "WEAKPROX_TEST_SHARE": f"{self.seed % SHARES}/{SHARES}",
            **self.variables,
        }


def run(code: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *code], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def can_run(setting: Setting, caches: Path) -> str:
    """Why this processor cannot run it; empty if it can."""
    wanted = setting.variables.get("OPENBLAS_CORETYPE")
    if wanted is None:
        return ""
    done = run(["-c", PROBE], setting.environment(caches))
    if done.returncode:
        return f"its instructions are not there (exit status {done.returncode})"
    found = done.stdout.split()
    known = found in ([wanted], [ALSO.get(wanted)])
    return "" if known else f"OpenBLAS takes {' and '.join(found)} instead"


def settings(features: str) -> list[Setting]:
    """Ten seeds over kernels, narrow vectors, and one and two threads."""
    kernels: list[dict[str, str]] = [{"OPENBLAS_CORETYPE": name} for name in KERNELS]
    plain: dict[str, str] = {"NUMBA_CPU_NAME": "generic"}
    narrow = {"NPY_DISABLE_CPU_FEATURES": features} if features else {}
    variables = [*kernels, plain, narrow, kernels[0] | plain | narrow, {}]
    return [
        Setting(", ".join(v.values()) or "as it is", seed, 1 + seed % 2, v)
        for seed, v in enumerate(variables, 1)
    ]


def checked(setting: Setting, caches: Path) -> tuple[bool, str]:
    """Whether everything holds there, and what to print."""
    began = time.monotonic()
    title = f"{setting.name}; seed {setting.seed}, threads {setting.threads}"
    reason = can_run(setting, caches)
    if reason:  # the seed is not lost
        plain = Setting("as it is", setting.seed, setting.threads)
        good, text = checked(plain, caches)
        return good, f"SKIPPED  {title}: {reason}\n{text}"
    env = setting.environment(caches)
    tests = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", *CORE], env)
    first = 1_000_000 + 1000 * setting.seed
    soak = run(["-c", SOAK, str(first), str(PROBLEMS)], env)
    good = tests.returncode == 0 and soak.returncode == 0
    spent = time.monotonic() - began
    last = (tests.stdout.strip().splitlines() or ["nothing was printed"])[-1]
    verdict = "passed " if good else "FAILED "
    text = f"{verdict}  {title}: {last}; {PROBLEMS} problems; {spent:.0f} s in all"
    if tests.returncode:
        text += f"\n{tests.stdout}{tests.stderr}"
    if soak.returncode:
        text += f"\n{soak.stdout}{soak.stderr}"
    return good, text


def main() -> int:
    """Check all settings, two at a time."""
    features = run(["-c", FEATURES], dict(os.environ)).stdout.strip()
    everything = True
    with (
        tempfile.TemporaryDirectory(prefix="weakprox-portable-") as folder,
        ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool,
    ):
        caches = Path(folder)
        for good, text in pool.map(lambda one: checked(one, caches), settings(features)):
            print(text, flush=True)
            everything = everything and good
    return 0 if everything else 1


if __name__ == "__main__":
    sys.exit(main())

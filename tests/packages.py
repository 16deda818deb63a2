"""The wheel and the sdist, built and tried: `python tests/packages.py [DIRECTORY]`.

The wheel is installed without extras into an environment that holds nothing else. There the
example of the README, a copy of `examples/first_steps.py` and the command line must run, and
the time from the start of the installation to the first certified answer is printed. A wheel
built from the sdist must hold the same files. Needs only the standard library; the exit status
is 1 if anything fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WANTED = (
    "weakprox/py.typed",
    "weakprox/cli/__init__.py",
    "weakprox/report/assets/",
    "weakprox/datasets/data/SOURCES.md",
)

# A matrix with two sparse patterns in it, as a file that the commands read.
MATRIX = """
import numpy as np
rng = np.random.default_rng(0)
Y = rng.integers(1, 10, (60, 2)) * (rng.random((60, 2)) < 0.2)
np.savetxt("noisy.csv", Y @ Y.T + rng.standard_normal((60, 60)), delimiter=",")
"""
CERTIFIED = """
exec(open("example.py").read())
assert result.certified, result
assert wp.datasets.load_un_votes().vote.shape == (200, 6203)
assert wp.__version__ == {version!r}, wp.__version__
assert not wp.__file__.startswith({root!r}), wp.__file__
"""
COMMANDS = (
    "--version",
    "info noisy.csv",
    "estimate noisy.csv -o found.csv --lam 1 --tau 300 --proof proof.npz --report found.html",
    "certify found.csv --data noisy.csv --lam 1 --tau 300",
    "verify proof.npz --data noisy.csv",
    "estimate noisy.csv -o chosen.npy",
)


def environment() -> dict[str, str]:
    """The variables of this process, without what could bring the source tree in."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}


def run(*command: object, at: Path) -> None:
    """Run a command; show its output and raise if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout)
        shown = " ".join(str(part) for part in command)
        raise SystemExit(f"ended with code {done.returncode}: {shown}")


def fresh(folder: Path) -> Path:
    """Make an environment that holds pip alone; return its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def install(programs: Path, *what: object, at: Path) -> None:
    constraints = ("-c", ROOT / "constraints.txt")
    run(programs / "python", "-m", "pip", "install", "-qq", *constraints, *what, at=at)


def first_block(page: str) -> str:
    found = re.search(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as files:
        return set(files.namelist())


def build(dist: Path, work: Path) -> tuple[Path, Path]:
    """Build both packages into `dist`; return the wheel and the sdist."""
    programs = fresh(work / "builder")
    install(programs, "hatchling", at=work)
    run(programs / "python", "-m", "hatchling", "build", "-d", dist, at=ROOT)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    again = work / "again"
    pip = (programs / "python", "-m", "pip", "wheel", "-qq", "--no-deps")
    run(*pip, "--no-build-isolation", "-w", again, sdist, at=work)
    (other,) = again.glob("*.whl")
    differing = contents(wheel) ^ contents(other)
    if differing:
        raise SystemExit(f"wheel and sdist differ in {', '.join(sorted(differing))}")
    for name in WANTED:
        if not any(held.startswith(name) for held in contents(wheel)):
            raise SystemExit(f"the wheel lacks {name}")
    return wheel, sdist


def try_out(wheel: Path, work: Path) -> float:
    """Use the wheel in a clean environment; return the seconds to the first answer."""
    folder = work / "reader"
    folder.mkdir()
    (folder / "example.py").write_text(first_block((ROOT / "README.md").read_text("utf-8")))
    version = wheel.name.split("-")[1]
    begun = time.perf_counter()
    programs = fresh(work / "clean")
    install(programs, wheel, at=folder)
    check = CERTIFIED.format(version=version, root=str(ROOT))
    run(programs / "python", "-W", "error", "-c", check, at=folder)
    seconds = time.perf_counter() - begun
    copied = shutil.copy(ROOT / "examples" / "first_steps.py", folder)
    run(programs / "python", "-W", "error", copied, at=folder)
    run(programs / "python", "-c", MATRIX, at=folder)
    for command in COMMANDS:
        run(programs / "weakprox", *command.split(), at=folder)
    return seconds


def main() -> None:
    dist = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    for old in dist.glob("weakprox-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as made:
        wheel, sdist = build(dist, Path(made))
        seconds = try_out(wheel, Path(made))
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")
    print(f"From the start of pip to the first certified answer: {seconds:.0f} s")


if __name__ == "__main__":
    main()

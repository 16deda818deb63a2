"""Fuzz every reader for its share of some seconds, and count executions and crashes.

`python tests/fuzz/run.py --seconds 600` needs atheris (`pip install weakprox[fuzz]`). An
input that crashes a reader, takes longer than 10 s or too much memory is kept in the
corpus, where `tests/fuzz/test_corpus.py` reads it again ever after.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz.readers import CORPUS, READERS  # noqa: E402

TIMEOUT = 10  # seconds for one input
MEMORY = 1500  # MiB for the process: Python, pyarrow and what a reader may claim
JOBS = 2  # readers fuzzed at the same time


@dataclass(frozen=True)
class Outcome:
    """What fuzzing one reader came to."""

    reader: str
    executions: int
    crashes: int
    report: str


def fuzz(reader: str, seconds: int) -> Outcome:
    """One reader for so long; a machine that paused is no hang, so timeouts are tried again."""
    executions, until = 0, time.monotonic() + seconds
    while (left := round(until - time.monotonic())) > 0:
        found = _stretch(reader, left)
        executions += found.executions
        if found.crashes:
            return replace(found, executions=executions)
    return Outcome(reader, executions, 0, "")


def _stretch(reader: str, seconds: int) -> Outcome:
    """Until the end or the first crash; new inputs go to a folder that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as folder:
        limits = (f"-max_total_time={seconds}", "-max_len=8192", "-print_final_stats=1")
        artifacts = f"-artifact_prefix={folder}/crash."
        done = _harness(reader, folder, str(CORPUS / reader), artifacts, *limits)
        confirmed = 0
        for path in Path(folder).glob("crash.*"):
            if "timeout" in path.name and _harness(reader, str(path)).returncode == 0:
                continue
            confirmed += 1
            target = CORPUS / reader / path.name.removeprefix("crash.")
            target.write_bytes(path.read_bytes())
        paused = any(Path(folder).glob("crash.timeout-*")) and not confirmed
    counted = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    broken = not paused and (done.returncode != 0 or not counted)
    executions = int(counted[-1]) if counted else 0
    return Outcome(reader, executions, confirmed or int(broken), done.stderr[-4000:])


def _harness(reader: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that fuzzes, or reads the one file given."""
    limits = (f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}")
    command = [sys.executable, str(HERE / "harness.py"), reader, *arguments, *limits]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, check=False
    )


def main(argv: list[str]) -> int:
    """Fuzz all readers, or those named."""
    parser = argparse.ArgumentParser(description="Fuzz the readers of weakprox.")
    parser.add_argument("--seconds", type=int, default=600, help="in all, over the readers")
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(READERS))
    asked = parser.parse_args(argv)
    readers = asked.readers or list(READERS)
    share = max(1, asked.seconds // len(readers))
    print(f"{len(readers)} readers, {share} s each, {JOBS} at a time", flush=True)
    executions = crashes = 0
    with ThreadPoolExecutor(JOBS) as pool:
        for outcome in pool.map(lambda reader: fuzz(reader, share), readers):
            crashes += outcome.crashes
            executions += outcome.executions
            print(
                f"{outcome.reader:<12} {outcome.executions:>9} executions "
                f"{outcome.crashes:>3} crashes",
                flush=True,
            )
            if outcome.crashes:
                print(outcome.report, flush=True)
    print(f"RESULT fuzz executions={executions} crashes={crashes} failures={crashes}")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

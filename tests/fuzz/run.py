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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz.readers import CORPUS, READERS  # noqa: E402

TIMEOUT = 10  # seconds for one input
MEMORY = 1500  # MiB for the process: Python, pyarrow and what a reader may claim
SLOW = 600  # seconds that a busy machine may need beyond those asked for
JOBS = 2  # readers fuzzed at the same time


@dataclass(frozen=True)
class Outcome:
    """What fuzzing one reader came to."""

    reader: str
    executions: int
    crashes: int
    report: str


def fuzz(reader: str, seconds: int) -> Outcome:
    """One reader in a process of its own; new inputs go to a folder that is thrown away."""
    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as found:
        command = [
            *(sys.executable, str(HERE / "harness.py"), reader, found, str(CORPUS / reader)),
            *(f"-max_total_time={seconds}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}"),
            *("-max_len=8192", "-print_final_stats=1", f"-artifact_prefix={found}/crash."),
        ]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", env=environment,
                timeout=2 * seconds + SLOW, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(reader, 0, 1, f"no end after {2 * seconds + SLOW} s")
        crashes = sorted(Path(found).glob("crash.*"))
        for path in crashes:
            target = CORPUS / reader / path.name.removeprefix("crash.")
            target.write_bytes(path.read_bytes())
    counted = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    wrong = len(crashes) or int(done.returncode != 0 or not counted)
    return Outcome(reader, int(counted[-1]) if counted else 0, wrong, done.stderr[-4000:])


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

"""The whole soak: certificates under attack, kills, worker deaths, proofs, hostile files.

From the root of the repository, `python tests/soak/run.py` runs all parts, one line each at
the end, and writes the counts to docs/_static/soak.inc. Names of parts run those only, and
`--quick` a small share of each, whose counts are not written.
Each part is a script whose last line reads `RESULT name key=value ... failures=N`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "docs" / "_static"
PARTS = {
    "certificates": ("tests/soak/certificates.py", "0", "10000"),
    "kills": ("tests/soak/kills.py", "--kills", "100"),
    "workers": ("tests/soak/workers.py",),
    "coverage": ("tests/soak/confidence.py",),
    "proofs": ("tests/soak/proofs.py", "500"),
    "fuzz": ("tests/fuzz/run.py", "--seconds", "600"),
}
QUICK = {
    "certificates": ("tests/soak/certificates.py", "0", "300"),
    "kills": ("tests/soak/kills.py", "--kills", "10"),
    "workers": ("tests/soak/workers.py", "2"),
    "coverage": ("tests/soak/confidence.py", "10"),
    "proofs": ("tests/soak/proofs.py", "40"),
    "fuzz": ("tests/fuzz/run.py", "--seconds", "50"),
}
LINES = {
    "certificates": "instances checked / violations: {instances} / {violations}",
    "kills": "kills survived / tried: {survived} / {tried}",
    "workers": "worker deaths survived / tried: {survived} / {tried}",
    "coverage": "statements at 95 % confidence / false: {statements} / {false}, "
    "at most {worst_percent} % for any law and setting",
    "proofs": "proofs accepted / changed ones refused by the stand-alone verifier: "
    "{accepted_standalone} / {refused_standalone}",
    "fuzz": "fuzz executions / crashes: {executions} / {crashes}",
}


def parsed(output: str) -> dict[str, str] | None:
    """The keys and values of the last RESULT line."""
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    return dict(word.split("=", 1) for word in lines[-1].split()[2:]) if lines else None


def run(script: str, *arguments: str, name: str) -> tuple[dict[str, str], bool]:
    """One part: what it counted, and whether nothing failed."""
    command = [sys.executable, str(ROOT / script), *arguments]
    begun, lines = time.monotonic(), []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"[{name}] {line}", end="", flush=True)
            lines.append(line)
    found = parsed("".join(lines))
    fine = process.returncode == 0 and found is not None and found.get("failures") == "0"
    return {**(found or {}), "seconds": f"{time.monotonic() - begun:.0f}"}, fine


def line_of(name: str, counts: dict[str, str]) -> str:
    """The counts in words; a part that did not end has none."""
    try:
        return LINES[name].format(**counts)
    except KeyError:
        return f"{name}: ended without a result"


def keep(counts: dict[str, dict[str, str]]) -> None:
    """Write the counts for the documentation, beside those of parts run at other times."""
    path = STATIC / "soak.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known = {name: {**known, **counts}[name] for name in PARTS if name in {**known, **counts}}
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    rows = []
    for name, found in known.items():
        command = " ".join(("python", *PARTS[name]))
        rows.append(f"| `{command}` | {line_of(name, found)} | {found['seconds']} |")
    table = ["| Command | Result | Seconds |", "| --- | --- | --- |", *rows]
    (STATIC / "soak.inc").write_text("\n".join(table) + "\n", encoding="utf-8")


def main(argv: list[str]) -> int:
    """Run the parts named, or all."""
    parts = QUICK if "--quick" in argv else PARTS
    names = [name for name in argv if name != "--quick"] or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part {unknown[0]!r}: one of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    done = {name: run(*parts[name], name=name) for name in names}
    if parts is PARTS:
        keep({name: counts for name, (counts, _) in done.items()})
    for name, (counts, fine) in done.items():
        print(line_of(name, counts) + ("" if fine else "  ** FAILED **"))
    return 0 if all(fine for _, fine in done.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measure the tests by mutation: change an expression of the library, see whether a test fails.

    python tests/mutants.py --count 100
    python tests/mutants.py --group certificates='certificates/*.py' --count 30

All tests run once on the unmutated library, which shows how long each takes and which functions
it calls; tests that fail there are left out. For each mutant, tests that call the changed
function then run until one fails: the quickest variant of each test first, as far as `--budget`
seconds go. A mutant is killed by a failure, by an error at import, or by running for too long.
Times are those of the processor, so that other work on the machine changes no verdict.

Each mutant has its own copy of the source tree. Numba keeps compiled code beside the source and
compares the time of the source file, so a copy takes along what is compiled, and only what
changed is compiled again. Calls of compiled functions are not seen: mutate Python code only.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from tempfile import mkdtemp

PAIRS = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)
PAIRS += (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)
SWAPS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
NAMES = ("min max", "minimum maximum", "floor ceil", "any all", "ones zeros", "argmin argmax")
NAMES = {a: b for pair in NAMES for a, b in (pair.split(), pair.split()[::-1])}
WORDS = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)  # nothing that is computed with
TEXT = (ast.JoinedStr, ast.List, ast.Tuple)  # operands of a + that has no -
SHOWN = ("__repr__", "__str__", "_repr_html_")
GROUPS = (
    "certificates=certificates/*.py",
    "bounds=linalg/bounds.py,linalg/gram_svd.py,spectral/*.py,penalties/*.py",
    "solvers=solvers/*.py,solvers/paper/*.py,run/evaluate.py",
    "parameters=theory/*.py,selection/*.py,problem.py",
)
SHARE = 600  # tests of one process on the unmutated library
PATIENCE = 10  # times as long as its processor time may a run take, beside other work


class Sites(ast.NodeVisitor):
    """All mutants of a module: where, what was there, what comes instead, in which function."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines(keepends=True)
        self.found: list[dict] = []
        self.function: ast.FunctionDef | None = None
        self.visit(ast.parse(source))

    def put(self, node: ast.expr, new: str) -> None:
        f = self.function
        first = f and min([f.lineno, *(x.lineno for x in f.decorator_list)])
        where = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        self.found.append({"at": where, "was": ast.unparse(node), "new": new, "first": first,
                           "function": f and f.name})  # fmt: skip

    def changed(self, node: ast.expr, **fields: object) -> None:
        copy = type(node)(**{**{x: getattr(node, x) for x in node._fields}, **fields})
        self.put(
            node, ast.unparse(copy) if isinstance(node, ast.stmt) else f"({ast.unparse(copy)})"
        )

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            outer, self.function = self.function, self.function or node
            if node.name not in SHOWN:
                for x in [*node.body, *node.args.defaults, *node.args.kw_defaults]:
                    x and self.visit(x)
            self.function = outer
        elif isinstance(node, ast.AnnAssign):
            node.value and self.visit(node.value)
        elif isinstance(node, ast.ClassDef):
            for x in node.body:
                self.visit(x)
        elif isinstance(node, ast.Call) and "warn" in ast.unparse(node.func):
            pass
        elif not isinstance(node, WORDS) and not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            self.mutate(node)
            for x in ast.iter_child_nodes(node):
                self.visit(x)

    def mutate(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            self.changed(node, ops=[SWAPS[type(node.ops[0])](), *node.ops[1:]])
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            ends = [node.left, node.right] if isinstance(node, ast.BinOp) else []
            if not any(isinstance(getattr(x, "value", x), (str, *TEXT)) for x in ends):
                self.changed(node, op=SWAPS[type(node.op)]())
        elif isinstance(node, ast.AugAssign) and type(node.op) in SWAPS:
            self.changed(node, op=SWAPS[type(node.op)]())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            self.put(node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.Name) and node.id in NAMES:
            self.put(node, NAMES[node.id])
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            self.put(node, f"{ast.unparse(node.value)}.{NAMES[node.attr]}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            self.put(node, repr(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            self.put(node, repr(node.value + 1 if node.value < 10 else node.value * 3 // 2))
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            large = abs(node.value) >= 1e-3  # half as much again of a tolerance is hardly wrong
            self.put(node, repr(node.value * (1.5 if large else 1e3) or 1.0))
        elif isinstance(node, ast.If | ast.IfExp):
            self.put(node.test, f"(not ({ast.unparse(node.test)}))")
        elif isinstance(node, ast.Return) and node.value and self.function:
            x = ast.unparse(node.value)
            for sign in "+-" if getattr(self.function.returns, "id", "") == "float" else "":
                self.put(node.value, f"({x}) {sign} 1e-3 * (1.0 + abs({x}))")

    def source(self, mutant: dict) -> str:
        """The module with the mutant in it. Columns count bytes."""
        top, left, bottom, right = mutant["at"]
        before = "".join(self.lines[: top - 1]).encode() + self.lines[top - 1].encode()[:left]
        after = self.lines[bottom - 1].encode()[right:] + "".join(self.lines[bottom:]).encode()
        return (before + mutant["new"].encode() + after).decode()


class Tests:
    """Plugin of pytest: runs chosen tests, and notes their outcome, time and calls."""

    def __init__(self, spec: dict) -> None:
        self.order = {x: i for i, x in enumerate(spec["tests"])}
        self.files = frozenset(spec["watch"])
        self.items: list[str] = []
        self.bad: list[str] = []
        self.seconds: dict[str, float] = {}
        self.outcome: dict[str, str] = {}
        self.calls: dict[str, list] = {}

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.bad.append(report.nodeid)

    def pytest_collection_finish(self, session) -> None:
        if self.order:
            chosen = [x for x in session.items if x.nodeid in self.order]
            session.items[:] = sorted(chosen, key=lambda x: self.order[x.nodeid])
        self.items = [x.nodeid for x in session.items]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began = time.process_time()
        if self.files:
            self.seen: set = set()
            threading.settrace(self.called)
            sys.settrace(self.called)

    def called(self, frame, event, arg) -> None:
        if frame.f_code.co_filename in self.files:
            self.seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.process_time() - self.began
        if self.files:
            sys.settrace(None)
            threading.settrace(None)
            self.calls[nodeid] = sorted(self.seen)

    def pytest_runtest_logreport(self, report) -> None:
        if not report.passed:
            self.outcome[report.nodeid] = report.outcome


def inner(path: str) -> int:
    """Run pytest on the tests of a file, and write what was seen of them there."""
    import pytest

    spec = json.loads(Path(path).read_text())
    if spec["limit"] is not None:
        own = time.process_time()
        resource.setrlimit(resource.RLIMIT_CPU, 2 * (math.ceil(own + spec["limit"]),))
    tests = Tests(spec)
    done = pytest.main(spec["args"], plugins=[tests])
    seen = ("items", "bad", "seconds", "outcome", "calls")
    Path(path).write_text(json.dumps({x: getattr(tests, x) for x in seen}))
    return int(done)


class Runs:
    """Runs of tests on copies of the library, as many at once as there are jobs."""

    def __init__(self, root: Path, jobs: int, seconds: float) -> None:
        self.root, self.jobs, self.end = root, jobs, time.monotonic() + seconds
        self.work = Path(mkdtemp(prefix="mutants-"))
        self.base = self.work / "base" / "src"
        built = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(root / "src", self.base, ignore=built)

    def pytest(self, src: Path, args, tests=(), watch=(), limit=None, thinned=False):
        """Exit status and output of tests on a copy of the source, and what they did.

        The status is None after `limit` seconds of the processor.
        """
        own = Path(mkdtemp(dir=self.work))
        flags = ["-q", "-p", "no:cacheprovider", "-rfE", "-c", "pyproject.toml", "--rootdir=."]
        spec = {"args": [*args, *flags], "tests": list(tests), "watch": list(watch)}
        spec["limit"] = limit
        (own / "spec").write_text(json.dumps(spec))
        paths = [
            str(src),
            str(self.root / "tests"),
            *filter(None, [os.environ.get("PYTHONPATH")]),
        ]
        env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        env |= {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(own), "MPLBACKEND": "Agg"}
        env |= {f"{x}_NUM_THREADS": "1" for x in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
        env |= {"HYPOTHESIS_STORAGE_DIRECTORY": str(own / "hypothesis")}
        env |= {} if thinned else {"WEAKPROX_TEST_ALL": "1"}  # they are thinned already
        command = [sys.executable, "-P", __file__, "--inner", str(own / "spec")]
        with (own / "out").open("w") as out:
            to = {"stdout": out, "stderr": subprocess.STDOUT}
            run = subprocess.Popen(
                command, cwd=self.root, env=env, start_new_session=True, **to
            )
            wait = math.inf if limit is None else PATIENCE * limit
            try:
                status = run.wait(max(0.0, min(wait, self.end - time.monotonic())))
            except subprocess.TimeoutExpired:
                status = None
            with suppress(ProcessLookupError):  # what it started, too
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        status = None if status in (-signal.SIGXCPU, -signal.SIGKILL) else status
        seen = json.loads((own / "spec").read_text())
        output = (own / "out").read_text(errors="replace")
        shutil.rmtree(own, ignore_errors=True)
        return status, output, seen

    def unmutated(self, paths, watch):
        """Tests that pass on the unmutated library: their times and the functions they call."""
        status, output, seen = self.pytest(self.base, [*paths, "--collect-only"], thinned=True)
        if "items" not in seen or not seen["items"]:
            sys.exit(f"no tests were found:\n{output[-3000:]}")
        by_file = defaultdict(list)
        for x in seen["items"]:
            by_file[x.split("::")[0]].append(x)
        shares: list[tuple[list[str], list[str]]] = [([], [])]
        for file, of_file in by_file.items():
            if len(shares[-1][1]) + len(of_file) > SHARE:
                shares.append(([], []))
            shares[-1][0].append(file)
            shares[-1][1].extend(of_file)
        with ThreadPoolExecutor(self.jobs) as pool:
            done = list(pool.map(lambda x: self.pytest(self.base, *x, watch), shares))
        tests, left_out = {}, dict.fromkeys(seen["bad"], "error at import")
        for (files, share), (status, output, run) in zip(shares, done, strict=True):
            if "items" not in run:
                left_out[" ".join(files)] = f"ended with {status}: {output[-300:]}"
                continue
            for x in share:
                if run["outcome"].get(x) == "failed" or x not in run["calls"]:
                    left_out[x] = "failed"
                elif x not in run["outcome"]:
                    tests[x] = (run["seconds"][x], {tuple(c) for c in run["calls"][x]})
        return tests, left_out


def concerned(tests: dict, mutant: dict, file: str, budget: float) -> tuple[list[str], float]:
    """Tests that call the mutant's function, then others of their files.

    Others may see results that the first have left in a cache. Second variants of a test come
    after the first ones of all, so that the budget goes to many tests.
    """

    def calls(found):
        return any(f == file and mutant["first"] in (None, at) for f, at in found)

    callers = {x for x, (_, found) in tests.items() if calls(found)}
    files = {x.split("::")[0] for x in callers}
    variants: Counter[str] = Counter()
    order = []
    for x in sorted(tests, key=lambda x: tests[x][0]):
        if x.split("::")[0] in files:
            name = x.split("[")[0]
            order.append((x not in callers, variants[name], x))
            variants[name] += 1
    chosen, spent = defaultdict(list), 0.0
    for _, _, x in sorted(order, key=lambda x: x[:2]):
        if spent + tests[x][0] <= budget:
            chosen[x.split("::")[0]].append(x)
            spent += tests[x][0]
    quick = sorted(chosen.values(), key=lambda group: sum(tests[x][0] for x in group))
    return [x for group in quick for x in group], spent


def candidates(package: Path, groups: list[str]) -> dict[tuple, dict]:
    """All mutants of the groups' modules, by what is changed in which function."""
    found = {}
    for group, _, globs in (x.partition("=") for x in groups):
        for file in sorted({x for glob in globs.split(",") for x in package.glob(glob)}):
            repeated: Counter[tuple] = Counter()
            for x in Sites(file.read_text()).found if file.name != "__init__.py" else ():
                key = (group, x["function"] or "", x["was"], x["new"])
                while (*key, repeated[key]) in found:
                    repeated[key] += 1
                x |= {"group": group, "module": str(file.relative_to(package.parent))}
                found[*key, repeated[key]] = x
    return found


def sampled(found: dict[tuple, dict], count: int, seed: int) -> list[dict]:
    """Mutants of each group in turn, and of its functions in turn."""
    functions: dict = defaultdict(lambda: defaultdict(list))
    rng = random.Random(seed)
    for key in rng.sample(sorted(found), len(found)):
        functions[key[0]][key[1]].append(found[key])
    in_turn = [
        [x for turn in zip_longest(*f.values()) for x in turn] for f in functions.values()
    ]
    in_turn = [[x for x in group if x] for group in in_turn]
    return [x for turn in zip_longest(*in_turn) for x in turn if x][:count]


def identity(mutant: dict) -> tuple:
    return (mutant["module"], *mutant["at"], mutant["new"])


def attempt(runs: Runs, mutant: dict, tests: dict, args: argparse.Namespace) -> dict:
    """Run the tests on one mutant and add what became of it."""
    file = runs.base / mutant["module"]
    chosen, seconds = concerned(tests, mutant, str(file), args.budget)
    mutant |= {"tests": len(chosen), "status": "not called" if not chosen else "not run"}
    limit = max(args.limit, 3 * seconds)
    if not chosen or runs.end - time.monotonic() < limit / 3:
        return mutant
    own = Path(mkdtemp(dir=runs.work))
    shutil.copytree(runs.base, own / "src")
    target = own / "src" / mutant["module"]
    source = target.read_text()
    target.write_text(Sites(source).source(mutant))
    for old in own.rglob("*.nb?") if "numba" in source else ():
        old.unlink()  # compiled code may hold functions of other modules
    began = time.monotonic()
    files = dict.fromkeys(x.split("::")[0] for x in chosen)
    status, output, _ = runs.pytest(own / "src", [*files, "-x"], chosen, limit=limit)
    shutil.rmtree(own, ignore_errors=True)
    mutant["seconds"] = round(time.monotonic() - began, 1)
    by = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if status is None:
        over = time.monotonic() < runs.end
        return mutant | {"status": "killed" if over else "not run", "by": "time"}
    return mutant | {
        "status": "killed" if status else "survived",
        "by": by[-1] if by else str(status),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add(
        "--root",
        type=Path,
        default=Path(),
        help="folder of src/weakprox, tests, pyproject.toml",
    )
    add("--group", action="append", help="NAME=GLOB,...: modules of weakprox")
    add("--also-in", type=Path, help="another such root: make only mutants that both have")
    add("--tests", nargs="+", default=["tests"], help="paths of tests, relative to the root")
    add(
        "--count",
        type=int,
        default=100,
        help="number of mutants, in equal shares for the groups",
    )
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=2, help="runs at once")
    add("--budget", type=float, default=40, help="processor seconds of tests for a mutant")
    add("--limit", type=float, default=120, help="processor seconds that kill a mutant")
    add("--seconds", type=float, default=3600, help="limit of the whole")
    add("--out", type=Path, help="JSON file of the results")
    add("--again", type=Path, help="such a file: try only the survivors that it names")
    args = parser.parse_args()
    args.group = args.group or list(GROUPS)
    runs = Runs(args.root.resolve(), args.jobs, args.seconds)
    found = candidates(runs.base / "weakprox", args.group)
    watch = {str(runs.base / x["module"]) for x in found.values()}
    if args.also_in:
        other = candidates(args.also_in / "src" / "weakprox", args.group)
        found = {key: x for key, x in found.items() if key in other}
    tests, left_out = runs.unmutated(args.tests, sorted(watch))
    print(f"{len(tests)} tests pass unmutated ({sum(x[0] for x in tests.values()):.0f} s),")
    print(
        f"{len(left_out)} do not", *(f"  {x}: {why}" for x, why in left_out.items()), sep="\n"
    )
    with ThreadPoolExecutor(args.jobs) as pool:
        mutants = sampled(found, args.count, args.seed)
        if args.again:
            before = json.loads(args.again.read_text())["mutants"]
            left = {identity(x) for x in before if x["status"] in ("survived", "not called")}
            mutants = [x for x in found.values() if identity(x) in left]
        waiting = [pool.submit(attempt, runs, x, tests, args) for x in mutants]
        mutants = []
        for x in (y.result() for y in waiting):
            mutants.append(x)
            what = f"{x['function']}: {x['was']} -> {x['new']}"
            cost = f"{x['tests']} tests, {x.get('seconds', 0)} s, {x.get('by')}"
            print(f"{x['status']:10} {x['module']}:{x['at'][0]} {what} ({cost})", flush=True)
    scores = {}
    for name in [*(x.partition("=")[0] for x in args.group), "all"]:
        of = Counter(x["status"] for x in mutants if name in (x["group"], "all"))
        tried = of.total() - of["not run"]
        scores[name] = {"score": of["killed"] / max(tried, 1), "tried": tried, **of}
        print(f"{name:14} {scores[name]['score']:.0%} of {tried} killed", dict(of))
    if args.out:
        files: Counter[str] = Counter()
        for x, (seconds, _) in tests.items():
            files[x.split("::")[0]] += round(seconds, 2)
        about = {"seed": args.seed, "seconds": files, "left_out": left_out, "scores": scores}
        args.out.write_text(json.dumps({**about, "mutants": mutants}, indent=1))
    shutil.rmtree(runs.work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(inner(sys.argv[2]) if sys.argv[1:2] == ["--inner"] else main())

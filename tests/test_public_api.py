"""Public names are documented, the library is silent, and imports stay light."""

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import weakprox

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(weakprox.__file__).parent
MODULES = (
    "weakprox",
    "weakprox.losses",
    "weakprox.penalties",
    "weakprox.spectral",
    "weakprox.solvers",
    "weakprox.checks",
    "weakprox.report",
    "weakprox.storage",
    "weakprox.estimators",
    "weakprox.selection",
    "weakprox.plots",
    "weakprox.streams",
    "weakprox.datasets",
)
NAMES = [(module, name) for module in MODULES for name in import_module(module).__all__]
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.md"))
FILES = sorted(SOURCE.rglob("*.py"))


def ids(pair):
    return f"{pair[0]}.{pair[1]}"


@pytest.mark.parametrize("pair", NAMES, ids=ids)
def test_every_public_name_exists_and_has_a_docstring(pair):
    found = getattr(import_module(pair[0]), pair[1])
    text = inspect.getdoc(found)
    assert text
    assert len(text) > 10


@pytest.mark.parametrize("pair", NAMES, ids=ids)
def test_public_classes_document_their_public_methods(pair):
    found = getattr(import_module(pair[0]), pair[1])
    if not inspect.isclass(found) or issubclass(found, Exception):
        return
    for name, member in vars(found).items():
        if name.startswith("_") or not (
            inspect.isfunction(member) or isinstance(member, property)
        ):
            continue
        assert inspect.getdoc(member), f"{found.__name__}.{name}"


@pytest.mark.parametrize("pair", NAMES, ids=ids)
def test_every_public_name_is_in_the_reference(pair):
    text = "\n".join(page.read_text("utf-8") for page in REFERENCE)
    assert re.search(rf"\b{pair[1]}\b", text), f"{pair[1]} is missing in docs/api/"


def documented_names():
    """Names with an entry of their own, on any page of the documentation."""
    entry = re.compile(r"^\.\. auto(?:class|data|exception|function):: (\S+)$", re.MULTILINE)
    pages = [*sorted((ROOT / "docs").glob("*.md")), *REFERENCE]
    return [name for page in pages for name in entry.findall(page.read_text("utf-8"))]


def test_the_reference_lists_at_most_90_names():
    names = documented_names()
    assert len(set(names)) == len(names)
    assert 60 <= len(names) <= 90


def test_the_reference_links_all_its_pages_and_names():
    """The first page of the reference lists every page, and every name with an entry."""
    overview = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for page in REFERENCE:
        assert overview.count(f"api/{page.stem}") == 2, page.name  # table and contents
    for name in documented_names():
        assert f"`{name.rpartition('.')[2]}`" in overview, name


@pytest.mark.parametrize("name", documented_names())
def test_documented_names_exist(name):
    module, _, last = name.rpartition(".")
    assert hasattr(import_module(module or "weakprox"), last)


@pytest.mark.parametrize(
    "pair", [p for p in NAMES if inspect.isclass(getattr(import_module(p[0]), p[1]))], ids=ids
)
def test_parameters_in_docstrings_exist(pair):
    """Names listed under "Parameters" are parameters of the signature, and all are listed."""
    found = getattr(import_module(pair[0]), pair[1])
    text = inspect.getdoc(found) or ""
    if "Parameters\n----------" not in text:
        return
    block = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    listed = [
        name.strip()
        for line in block.splitlines()
        if line and not line.startswith(" ")
        for name in line.split(":")[0].split(",")
    ]
    real = [n for n in inspect.signature(found).parameters if n != "args"]
    assert sorted(listed) == sorted(real)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_module_prints(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
    names = {f.id for f in calls if isinstance(f, ast.Name)}
    assert "print" not in names
    assert "breakpoint" not in names


@pytest.mark.parametrize(
    ("module", "name"),
    [("penalties", "Smoothed"), ("penalties", "Combinable"), ("report", "Page")],
)
def test_helpers_that_are_no_longer_public_still_work(module, name):
    found = import_module(f"weakprox.{module}")
    assert name not in vars(found)
    assert name not in dir(found)
    with pytest.warns(DeprecationWarning, match=f"{name} is no longer public"):
        assert inspect.isclass(getattr(found, name))
    with pytest.raises(AttributeError, match="Unknown"):
        _ = found.Unknown


def test_importing_is_light_and_silent():
    code = (
        "import sys, weakprox, weakprox.checks;"
        "heavy = {'torch', 'matplotlib', 'sklearn', 'dask', 'pandas', 'cvxpy', 'rich'};"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == ""
    assert done.returncode == 0


def test_a_numpy_run_does_not_import_torch():
    code = (
        "import sys, numpy as np, weakprox as wp;"
        "p = wp.Problem(wp.losses.Denoising(np.eye(4)), None, wp.spectral.NuclearBall(1.0));"
        "r = wp.minimize(p, wp.SVRGCG(2), eps=0.1); repr(r);"
        "sys.exit(','.join({'torch', 'matplotlib'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


PACKAGES = [path.parent.relative_to(SOURCE.parent) for path in SOURCE.rglob("__init__.py")]


@pytest.mark.parametrize("folder", sorted(PACKAGES), ids=str)
def test_no_name_of_a_package_shadows_one_of_its_modules(folder):
    """`package.name` is the module of that name, or it depends on what was imported first."""
    package = import_module(".".join(folder.parts))
    modules = [path.stem for path in (SOURCE.parent / folder).glob("*.py")]
    modules += [path.parent.name for path in (SOURCE.parent / folder).glob("*/__init__.py")]
    found = {name: vars(package)[name] for name in modules if name in vars(package)}
    assert [name for name, what in found.items() if not isinstance(what, ModuleType)] == []


def test_the_citation_has_the_version_of_the_package():
    """The version is stated in `__init__.py`; the citation cannot read it there."""
    assert weakprox.__version__.count(".") == 2
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {weakprox.__version__}\n" in cited


def test_exports_are_sorted_and_unique():
    for module in MODULES:
        names = import_module(module).__all__
        assert len(set(names)) == len(names)
        assert all(isinstance(name, str) for name in names)

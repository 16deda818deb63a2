"""The code in README and docs runs as it stands, top to bottom, page by page."""

from __future__ import annotations

import ast
import doctest
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from weakprox import datasets, estimators
from weakprox.protocols import (
    Candidate,
    Constraint,
    LossCapabilities,
    PenaltyCapabilities,
    SpectralCapabilities,
)
from weakprox.solvers.base import Method

ROOT = Path(__file__).parent.parent
GALLERY = sorted((ROOT / "examples").glob("plot_*.py"))


def pages() -> list[str]:
    """All pages that show Python code."""
    docs = ROOT / "docs"
    found = [ROOT / "README.md", *sorted(docs.glob("*.md")), *sorted(docs.glob("api/*.md"))]
    return [str(p.relative_to(ROOT)) for p in found if "```python" in p.read_text("utf-8")]


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("page", pages())
def test_code_blocks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # whatever a page writes stays out of the tree
    found = blocks(page)
    assert found, f"{page} shows no code"
    module = ModuleType("page")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "page", module)
    for number, code in enumerate(found, start=1):
        exec(compile(code, f"{page}, block {number}", "exec"), vars(module))


@pytest.mark.parametrize("name", estimators.__all__)
def test_examples_of_models_print_what_they_show(name: str) -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(estimators, name), name)
    ended = doctest.DocTestRunner().run(example)
    assert ended.attempted > 0
    assert ended.failed == 0


def test_pictures_and_linked_pages_exist() -> None:
    """Relative links of README and documentation lead to files."""
    docs = ROOT / "docs"
    for page in [ROOT / "README.md", *docs.glob("*.md"), *docs.glob("api/*.md")]:
        text = re.sub(
            r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for link in re.findall(r"\]\(([^)#:\s]+\.(?:md|png|svg|cff|ipynb))(?:#[^)]*)?\)", text):
            assert (page.parent / link).is_file(), f"{page.name}: {link}"


def test_source_files_that_pages_name_exist() -> None:
    """Names such as `spectral/nuclear.py` are relative to the package or to the repository."""
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"`([a-z_]+/[a-z_/]+\.py)", page.read_text("utf-8")):
            found = (ROOT / name).is_file() or (ROOT / "src/weakprox" / name).is_file()
            assert found, f"{page.name}: {name}"


@pytest.mark.parametrize(
    "record",
    [LossCapabilities, PenaltyCapabilities, SpectralCapabilities, Constraint, Candidate],
)
def test_the_page_on_extending_names_every_field(record: Any) -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    assert [name for name in record.__dataclass_fields__ if f"`{name}" not in page] == []


def test_the_page_on_extending_names_every_member_of_a_solver() -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    public = [name for name in vars(Method) if not name.startswith("_")]
    assert [name for name in public if f"`{name}" not in page] == []


def test_readme_shows_what_the_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers in README come from examples/first_steps.py.

    Another processor rounds differently and may stop some steps earlier or later, so the
    words must agree to the letter and the proved interval to one percent.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert shown is not None
    source = (ROOT / "examples" / "first_steps.py").read_text(encoding="utf-8")
    exec(compile(source, "first_steps.py", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out

    def words(output: str) -> list[str]:
        return re.sub(r"[-+]?\d[\d.e+-]*", "#", output).split()

    def interval(output: str) -> list[float]:
        found = re.search(r"between ([\d.e+]+) and ([\d.e+]+)[: ]", output)
        assert found is not None
        return [float(number) for number in found.groups()]

    assert words(printed) == words(shown.group(1))
    assert interval(printed) == pytest.approx(interval(shown.group(1)), rel=0.01)


def test_gallery_scripts_use_bundled_data() -> None:
    """A downloaded script finds its data wherever it is run."""
    for script in GALLERY:
        text = script.read_text("utf-8")
        assert "np.load(" not in text, script.name
        assert "Path(" not in text, script.name


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_every_panel_is_drawn_in_the_cell_that_makes_it(path: Path) -> None:
    """The gallery takes the figures at the end of a cell: a panel drawn later stays empty."""
    for cell in re.split(r"^# %%.*$", path.read_text("utf-8"), flags=re.MULTILINE):
        nodes = list(ast.walk(ast.parse(cell)))
        made = {
            name.id
            for node in nodes
            if isinstance(node, ast.Assign)
            and ast.unparse(node.value).startswith("plt.subplots")
            for name in ast.walk(node.targets[0])
            if isinstance(name, ast.Name) and name.id not in ("fig", "figure")
        }
        used = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        assert made <= used, f"{path.name}: {sorted(made - used)} stay empty"


@pytest.mark.parametrize("name", datasets.__all__)
def test_bundled_data(name: str) -> None:
    data = getattr(datasets, name)()
    assert len(data) >= 1
    for key in data:
        assert getattr(data, key) is data[key]
    assert repr(data).startswith("Dataset(")
    with pytest.raises(AttributeError, match="no array 'none'"):
        _ = data.none

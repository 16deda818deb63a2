"""The notebooks in examples/notebooks run from top to bottom and show what they name.

Cells are run as IPython runs them: all statements, and the value of a last expression is shown.
No kernel is needed.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def shown(code: str, names: dict[str, Any], title: str) -> Any:
    """Run a cell; return the value of its last expression, None if it ends otherwise."""
    tree = ast.parse(code, title)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, title, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), title, "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text("utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    values = [
        shown("".join(cell["source"]), names, f"{path.name}, cell {number}")
        for number, cell in enumerate(cells)
        if cell["cell_type"] == "code"
    ]
    tables = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    assert len(tables) >= 5
    assert all("<table" in text for text in tables)
    assert values[-1] is True
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_output(path):
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_there_is_a_notebook():
    assert NOTEBOOKS

"""Plots as files: every plot of a page, the same bytes each time."""

import re
import sys
from importlib.resources import files

import numpy as np
import pytest

from weakprox.plots._panels import COLOURS, Panel, Series
from weakprox.report.page import Page


def page() -> Page:
    made = Page("Figures")
    x = np.arange(1.0, 60.0)
    series = [
        Series("ours", x, 1 / x, low=0.5 / x, high=2 / x),
        Series("theirs", x, 2 / x, dashed=True, steps=True),
    ]
    made.panels("Figure 1: value", [Panel(series, log_x=True, log_y=True)] * 2)
    made.lines("Nothing positive", [Series("a", [0, 1], [0, -1])], log_y=True)
    made.heatmap("Map", [[1.0, np.nan], [-2.0, 0.0]], ["a", "b"], ["c", "d"])
    made.heatmap("Support", np.eye(3), binary=True)
    made.stems("Values", {"answer": [3.0, 1.0, 0.0]})
    return made


NAMES = ["figure-1-value", "nothing-positive", "map", "support", "values"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return page().save_figures(tmp_path_factory.mktemp("plots") / "new" / "folder")


def test_every_plot_becomes_a_file_with_a_stable_name(paths):
    plots = [f"{name}.{suffix}" for name in NAMES for suffix in ("png", "svg")]
    assert [path.name for path in paths] == plots
    starts = {".png": b"\x89PNG", ".svg": b"<?xml"}
    for path in paths:
        assert path.read_bytes().startswith(starts[path.suffix])
    curves = paths[1].read_text(encoding="utf-8")
    assert "ours" in curves
    assert "theirs" in curves
    assert COLOURS[1] in curves


def test_two_runs_give_the_same_bytes(paths, tmp_path):
    for one, other in zip(paths, page().save_figures(tmp_path), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_colours_are_those_of_the_page():
    css = (files("weakprox.report") / "assets" / "page.css").read_text(encoding="utf-8")
    light = css[: css.index("data-theme")]
    assert tuple(re.findall(r"--s\d: (#[0-9a-f]{6})", light)) == COLOURS


def test_without_matplotlib_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install weakprox\[plot\]"):
        page().save_figures(tmp_path)

"""The report of `weakprox reproduce` in a real browser: drawn, and equal to its JSON."""

import json
from dataclasses import replace

import pytest

from weakprox.experiments import figures, run
from weakprox.report.reproduction import MAIN, rounded, write_reproduction

SCRIPT = """
probe.drawn = document.documentElement.dataset.drawn;
probe.paths = all("path.line").map((p) => p.getAttribute("d").length);
probe.cells = all("table").map((t) => all("tr", t).map((r) => texts("th, td", r)));
probe.notices = texts(".notice");
probe.data = JSON.parse(one("#report-data").textContent);
probe.fits = document.documentElement.scrollWidth <= window.innerWidth;
"""


@pytest.fixture(scope="module")
def summaries():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("figure1", "figure2"):
            setup = figures.SETUPS[name]
            made = replace(setup, d=20, quick_runs={0.01: 1}, quick_cap={0.01: 60})
            patch.setitem(figures.SETUPS, name, made)
        return run(["figure1", "figure2"], quick=True, processes=1, progress=False)


@pytest.fixture(scope="module")
def page(summaries, tmp_path_factory):
    return write_reproduction(tmp_path_factory.mktemp("reproduction"), summaries)


def test_drawn_without_errors_and_equal_to_the_json(visit, page, summaries):
    found = visit(page, SCRIPT)
    assert found["errors"] == []
    assert found["resources"] == []
    assert found["drawn"] is not None
    methods = len(figures.METHODS)
    curves = [length for length in found["paths"] if length > 20]  # the rest: legends
    assert len(curves) == 2 * 3 * methods  # two figures of three panels each
    assert {name: found["data"][name] for name in summaries} == json.loads(
        json.dumps(summaries)
    )
    for shown, (name, summary) in zip(found["cells"], summaries.items(), strict=True):
        headers, rows = rounded(MAIN[name](summary))
        words = [["–" if cell is None else str(cell) for cell in row] for row in rows]  # noqa: RUF001
        assert shown == [headers, *words]
    assert sum("A quick run:" in notice for notice in found["notices"]) == 1
    assert not any("The paper's claim" in notice for notice in found["notices"])


def test_on_a_phone(visit, page):
    found = visit(page, SCRIPT, phone=True)
    assert found["errors"] == []
    assert found["fits"]

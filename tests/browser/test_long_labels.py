"""Labels of any length in a real browser: shortened, drawn, and never in the way."""

import numpy as np
import pytest

from weakprox.report.page import Page

BREAKING = "</script><script>window.broken = true;</script>" * 40
LABELS = {
    "60 characters": "x" * 60,
    "5000 characters": "gene " * 1000,
    "narrow characters": "i" * 41,
    "no width at all": "\u200b" * 5000,
    "characters in two halves": "\U0001f600" * 300,
    "markup": BREAKING,
}

LOOK = """
probe.drawn = document.documentElement.dataset.drawn;
probe.scripts = all("script").length;
probe.broken = window.broken === true;
probe.colours = all("canvas").map(coloursOf);
const map = one("#map .plot");
map.focus();
for (const key of ["ArrowDown", "ArrowRight", "ArrowLeft"]) {
  map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}
probe.cell = tip();
const box = one("#tooltip").getBoundingClientRect();
probe.inside = box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
probe.width = [document.documentElement.scrollWidth, innerWidth];
"""


FIRST = ("5000 characters", "markup")


@pytest.mark.parametrize(
    "kind", [pytest.param(x, marks=[pytest.mark.long] * (x not in FIRST)) for x in LABELS]
)
def test_a_long_label_is_cut_and_the_page_lives(kind, visit, tmp_path):
    label = LABELS[kind]
    page = Page("Long labels")
    page.section("Maps")
    page.heatmap("Map", np.array([[1.5, -2.0], [0.5, 3.0]]), [label, "b"], ["c", label])
    seen = visit(page.write(tmp_path / "page.html"), LOOK)
    assert seen["errors"] == []
    assert seen["drawn"] is not None
    assert not seen["broken"]
    assert min(seen["colours"]) > 5  # frame, labels and cells
    assert label[:60] in seen["cell"]
    assert len(seen["cell"]) < 300
    assert seen["inside"]
    assert seen["width"][0] <= seen["width"][1]

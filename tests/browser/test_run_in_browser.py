"""The report of a run in a real browser: what is shown is what was computed."""

import json
import re

import numpy as np
import pytest

import weakprox as wp
from weakprox.report import write_report
from weakprox.report.statement import statement
from weakprox.report.summary import gather, proved

NASTY = "<script>alert(1)</script>"
ROWS = [f"gene {index}" for index in range(24)]
SETTINGS = {"file": "folder/expression.csv", "command": NASTY}
COLUMNS = [NASTY, *(f"sample {index}" for index in range(1, 18))]

LOOK = """
probe.json = JSON.parse(one("#report-data").textContent).report;
probe.facts = Object.fromEntries(all(".facts div").map((pair) => [
  one("dt", pair).textContent,
  one("data", pair) ? Number(one("data", pair).value) : one("dd", pair).textContent]));
const notice = one("main .notice");
probe.notice = [notice.className, notice.innerText];
probe.title = [document.title, one("h1").textContent];
probe.colours = all("canvas").map(coloursOf);
probe.undrawn = all("figure").filter((figure) => !(
  one("canvas", figure) || all("path.line[data-name]", figure).some((p) => p.getAttribute("d"))
)).map((figure) => figure.id);
probe.figures = texts("figure h3");
const map = one("#estimate .plot");
map.focus();
for (const key of ["ArrowDown", "ArrowRight", "ArrowLeft"]) {
  map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}
probe.cell = tip();
const plotted = (id) => all(`#${id} .plot`);
const zoomed = () => all("figure .reset").filter((button) => !button.hidden)
  .map((button) => button.closest("figure").id);
map.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
probe.zoomed = [zoomed()];
map.dispatchEvent(new KeyboardEvent("keydown", { key: "0", bubbles: true }));
probe.zoomed.push(zoomed());
const curve = plotted("value")[0];
curve.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
probe.zoomed.push(zoomed());
probe.ticks = ["value", "gap"].map((id) => texts(".tick-x", plotted(id)[0]).join());
curve.dispatchEvent(new KeyboardEvent("keydown", { key: "0", bubbles: true }));
probe.zoomed.push(zoomed());
probe.formulas = all(".formulas math").map((math) => {
  const box = math.getBoundingClientRect();
  return [math.getAttribute("alttext"), box.width > 20 && box.height > 10];
});
probe.width = [document.documentElement.scrollWidth, innerWidth];
probe.sideways = all(".scroll").filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.getAttribute("aria-label"));
"""


@pytest.fixture(scope="module")
def solved():
    rng = np.random.default_rng(0)
    left, right = rng.random((24, 2)), rng.random((18, 2))
    M = 5 * left @ right.T + 0.1 * rng.standard_normal((24, 18))
    terms = wp.losses.Denoising(M), wp.penalties.L1(0.05), wp.spectral.NuclearBall(40.0)
    problem = wp.Problem(*terms)
    return problem, M, wp.minimize(problem, wp.SVRGCG(3), eps=0.5, seed=0)


def test_page_shows_what_report_data_says(visit, solved, tmp_path):
    problem, M, result = solved
    about = {"problem": problem, "data": M, "rows": ROWS, "columns": COLUMNS}
    page = write_report(tmp_path / "run.html", result, **about, settings=SETTINGS)
    numbers = gather(result, **about, settings=SETTINGS).numbers
    seen = visit(page, LOOK, phone=True)
    assert seen["errors"] == []
    assert seen["resources"] == []
    assert seen["json"] == json.loads(json.dumps(numbers))
    assert seen["facts"]["value"] == numbers["value"] == result.value
    assert seen["facts"]["proved gap"] == numbers["gap"]
    assert seen["facts"]["thin SVDs"] == result.counts.svds
    zeros = 1.0 - result.nonzeros() / M.size
    assert seen["facts"]["share of zeros"] == f"{100 * zeros:.1f} %"
    assert seen["facts"]["lam (L1)"] == 0.05
    assert seen["facts"]["command"] == NASTY
    assert seen["notice"][0].startswith("notice good")
    assert proved(result) in seen["notice"][1]
    assert seen["facts"]["proof"] == proved(result)
    assert seen["title"] == ["expression.csv", "expression.csv"]
    assert seen["undrawn"] == []
    assert len(seen["colours"]) == 4
    assert min(seen["colours"]) > 5  # frame, labels and cells
    assert seen["figures"] == [
        "Data",
        "Estimate",
        "Data minus estimate",
        "Support of the estimate",
        "Singular values",
        "Residual against fit",
        "Singular values of the residual",
        "Value",
        "Gap",
    ]
    matrices = ["data", "estimate", "data-minus-estimate", "support-of-the-estimate"]
    assert seen["zoomed"] == [matrices, [], ["value", "gap"], []]
    assert seen["ticks"][0] == seen["ticks"][1]  # of thin SVDs, which are whole numbers
    assert all(re.fullmatch(r"\d+|10[⁴⁵⁶]|\d·10[⁴⁵⁶]", t) for t in seen["ticks"][0].split(","))
    said = statement(problem)
    assert seen["formulas"] == [[said.objective, True], [said.domain, True]]
    value, *place = seen["cell"].split("\n")
    assert place == ["row", "gene 0", "column", NASTY]
    assert float(value) == pytest.approx(float(result.X[0, 0]), rel=1e-4)
    assert seen["width"][0] <= seen["width"][1]
    assert not any("Components" in name for name in seen["sideways"])  # 390 px suffice

    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", text)
    assert NASTY not in text

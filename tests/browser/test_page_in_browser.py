"""A page with known numbers in a real browser: drawn, readable under the pointer, zoomable."""

import numpy as np
import pytest

from weakprox.plots._panels import Panel, Series
from weakprox.report.page import Page

NASTY = "</script><script>alert(1)</script>"
X = [1.0, 10.0, 100.0, 1000.0]
Y = [8.0, 4.0, 2.0, 1.0]
CELLS = np.array([[1.5, -2.25, 0.0], [np.nan, 3.0, -0.125]])


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = Page("Known numbers", subtitle=NASTY)
    made.section("Plots", "Some words.")
    band = {"low": np.multiply(Y, 0.5), "high": np.multiply(Y, 2.0)}
    made.panels(
        "Curves",
        [
            Panel(
                [
                    Series("first", X, Y, **band),
                    Series(NASTY, X, [3.0, np.nan, np.inf, 5.0], dashed=True),
                ],
                "samples",
                log_x=True,
                log_y=True,
            ),
            Panel([Series("first", [0.0, 2.0, 4.0, 6.0], Y)], "seconds"),
        ],
    )
    made.heatmap("Map", CELLS, ["top", "bottom"], ["a", NASTY, "c"])
    made.heatmap("Support", CELLS > 0, binary=True)
    made.stems("Values", {"answer": [9.0, 3.0, 0.0], "data": [10.0, 4.0, 2.0, 1.0]})
    made.table(["name", "number"], [[NASTY, 1.25], ["b", None]], caption="Numbers")
    return made.write(tmp_path_factory.mktemp("page") / "page.html")


DESKTOP = """
probe.drawn = document.documentElement.dataset.drawn;
probe.scripts = all("script").length;
probe.paths = all("path.line").map((p) => p.getAttribute("d").length);
probe.bands = all("path.band").map((p) => p.getAttribute("d").length);
probe.colours = all("canvas").map(coloursOf);
probe.labels = all(".plot").map((p) => p.getAttribute("aria-label"));
probe.descriptions = texts(".plot svg desc").filter(Boolean).length;

const plot = one("#curves .plot");
const dot = all("circle.dot.s0", plot)[2];
fire(plot, "pointermove", middle(dot));
probe.hover = tip();
probe.cross = all(".cross circle", plot).length;
fire(plot, "pointerleave", middle(dot));
probe.afterLeave = tip();

const ticks = () => texts("#curves .panel:first-child .tick-x").join();
probe.ticks = [ticks()];
const area = plot.getBoundingClientRect();
const from = [area.left + area.width * 0.4, area.top + area.height * 0.3];
const to = [area.left + area.width * 0.6, area.top + area.height * 0.6];
fire(plot, "pointerdown", from);
fire(plot, "pointermove", to);
probe.box = !one(".box", plot).hidden;
fire(plot, "pointerup", to);
probe.ticks.push(ticks());
probe.reset = !one("#curves .reset").hidden;
fire(plot, "dblclick", to);
probe.ticks.push(ticks());
probe.wheelIdle = fire(plot, "wheel", to, { deltaY: -200 }).defaultPrevented;
plot.focus();
probe.wheelFocused = fire(plot, "wheel", to, { deltaY: -200 }).defaultPrevented;
probe.ticks.push(ticks());
one("#curves .reset").click();
probe.ticks.push(ticks());
plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
probe.key = tip();

const [, second] = all("#curves .legend button");
probe.legend = texts("#curves .legend button");
const names = () => all("#curves path.line[data-name]").map((p) => p.dataset.name);
probe.series = [names()];
second.click();
probe.series.push(names());
probe.pressed = second.getAttribute("aria-pressed");
second.click();
probe.series.push(names());

const map = one("#map .plot");
const drawn = one("canvas", map);
const canvas = drawn.getBoundingClientRect();
const pixel = (x, y) => [...drawn.getContext("2d").getImageData(
  ((x - canvas.left) * drawn.width) / canvas.width,
  ((y - canvas.top) * drawn.height) / canvas.height, 1, 1).data];
probe.cells = [];
probe.pixels = {};
for (let y = canvas.top + 8; y < canvas.bottom - 24; y += 12) {
  for (let x = canvas.left + 2; x < canvas.right; x += 12) {
    fire(map, "pointermove", [x, y]);
    if (tip() === null) continue;
    if (!probe.cells.includes(tip())) probe.cells.push(tip());
    probe.pixels[tip().split("\\n")[0]] = pixel(x, y).slice(0, 3);
  }
}
const kept = [];
URL.createObjectURL = (blob) => { kept.push(blob); return "blob:kept"; };
HTMLAnchorElement.prototype.click = function () { probe.file = this.download; };
one("#map .save").click();
one("#curves .save").click();
probe.csv = await Promise.all(kept.map((blob) => blob.text()));

const background = () => getComputedStyle(document.body).backgroundColor;
probe.themes = [background()];
one("#theme").click();
probe.themes.push(background(), one("#theme").textContent);
probe.json = JSON.parse(one("#report-data").textContent);
"""


@pytest.fixture(scope="module")
def seen(visit, page):
    return visit(page, DESKTOP)


def test_everything_is_drawn_without_errors_or_requests(seen):
    assert seen["errors"] == []
    assert seen["resources"] == []
    assert seen["drawn"] == "yes"
    assert seen["scripts"] == 4  # data, page, and the two of the probe: the labels made none

    figures = {figure["id"]: figure for figure in seen["json"]["figures"]}
    assert list(figures) == ["curves", "map", "support", "values"]
    assert len(seen["paths"]) == 2 + 3 + 2 + 2  # keys and lines of two figures
    assert min(seen["paths"]) > 5
    assert seen["bands"][0] > 30
    assert len(seen["colours"]) == 2
    assert min(seen["colours"]) > 5  # cells, frame and labels
    assert all(
        label.startswith(("Curves:", "Map:", "Support:", "Values:")) for label in seen["labels"]
    )
    assert seen["descriptions"] == 3


def test_values_under_the_pointer_and_keys(seen):
    assert seen["hover"].split("\n") == ["samples: 100", "first", "2 [1, 4]"]
    assert seen["cross"] == 1
    assert seen["afterLeave"] is None
    assert seen["key"].split("\n") == [
        "samples: 1000",
        "first",
        "1 [0.5, 2]",
        NASTY,
        "5",
    ]  # on from the hover


def test_zoom_by_box_and_wheel_and_back(seen):
    whole, boxed, back, wheeled, again = seen["ticks"]
    assert whole == "1,10,100,1000"
    assert boxed != whole
    assert seen["box"]
    assert seen["reset"]
    assert back == whole
    assert not seen["wheelIdle"]  # the page scrolls on unless the plot was chosen
    assert seen["wheelFocused"]
    assert wheeled != whole
    assert again == whole


def test_legend_hides_and_theme_changes(seen):
    assert seen["legend"] == ["first", NASTY]
    both = ["first", NASTY, "first"]
    assert seen["series"] == [both, ["first", "first"], both]
    assert seen["pressed"] == "false"
    assert seen["themes"][0] == "rgb(255, 255, 255)"
    assert seen["themes"][1:] == ["rgb(18, 22, 28)", "Light"]


def test_cells_and_files_hold_the_numbers(seen):
    shown = {tuple(text.split("\n")) for text in seen["cells"]}
    expected = {
        (value, "row", row, "column", column)
        for row, line in (
            ("top", ["1.5", "-2.25", "0"]),
            ("bottom", ["missing", "3", "-0.125"]),
        )
        for column, value in zip(("a", NASTY, "c"), line, strict=True)
    }
    assert shown == expected
    colour = seen["pixels"]
    assert colour["3"] == [178, 24, 43]  # the largest: the red end
    assert colour["-2.25"][2] > colour["-2.25"][0] + 60  # negative: blue
    assert colour["0"] == [247, 247, 247]
    assert colour["missing"] == [185, 185, 173]
    matrix, curves = (text.lstrip("\ufeff").split("\r\n") for text in seen["csv"])
    assert matrix == [f",a,{NASTY},c", "top,1.5,-2.25,0", "bottom,,3,-0.125", ""]
    assert curves[:3] == [
        "panel,series,x,y,low,high",
        "samples,first,1,8,4,16",
        "samples,first,10,4,2,8",
    ]
    assert f"samples,{NASTY},10,,," in curves
    assert seen["file"] == "curves.csv"


PHONE = """
probe.size = [document.documentElement.scrollWidth, innerWidth];
probe.wide = all("figure, table, .plot").filter((node) =>
  !node.closest(".scroll") && node.getBoundingClientRect().right > innerWidth + 1).length;
probe.dark = getComputedStyle(document.body).backgroundColor;
const plot = one("#curves .plot");
plot.scrollIntoView();
const dot = all("circle.dot.s0", plot)[1];
const ticks = () => texts("#curves .panel:first-child .tick-x").join();
fire(plot, "pointerdown", middle(dot), { pointerType: "touch" });
probe.touch = tip();
const box = one("#tooltip").getBoundingClientRect();
probe.tipInside = box.left >= 0 && box.right <= innerWidth;
probe.ticks = [ticks()];
const [x, y] = middle(plot);
fire(plot, "pointermove", [x - 10, y], { pointerType: "touch" });
fire(plot, "pointerdown", [x + 10, y], { pointerType: "touch", pointerId: 2 });
fire(plot, "pointermove", [x + 70, y], { pointerType: "touch", pointerId: 2 });
probe.ticks.push(ticks());
const centre = () => {
  const canvas = one("#support canvas");
  return [...canvas.getContext("2d").getImageData(canvas.width - 20, 20, 1, 1).data];
};
probe.pixels = [centre()];
window.dispatchEvent(new Event("beforeprint"));
probe.print = getComputedStyle(document.body).backgroundColor;
probe.pixels.push(centre());
window.dispatchEvent(new Event("afterprint"));
probe.after = getComputedStyle(document.body).backgroundColor;
"""


def test_phone_in_the_dark(visit, page):
    seen = visit(page, PHONE, "--blink-settings=preferredColorScheme=0", phone=True)
    assert seen["errors"] == []
    assert seen["size"][0] <= seen["size"][1] == 390
    assert seen["wide"] == 0
    assert seen["dark"] == "rgb(18, 22, 28)"
    assert seen["touch"].split("\n") == ["samples: 10", "first", "4 [2, 8]"]
    assert seen["tipInside"]
    assert seen["ticks"][0] == "1,10,100,1000"
    assert seen["ticks"][1] != seen["ticks"][0]  # pinched
    assert seen["print"] == "rgb(255, 255, 255)"  # paper is white, canvases too
    assert seen["after"] == seen["dark"]
    assert max(seen["pixels"][0][:3]) < 60
    assert min(seen["pixels"][1][:3]) > 240

"""The page builder: what goes in stands in the file, safely, and wrong input is refused."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import weakprox as wp
from weakprox.plots._panels import Panel, Series
from weakprox.report.page import Page

NASTY = "</script><script>alert(1)</script>\u2028&"


class Tags(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def embedded(text: str) -> dict:
    block = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', text)
    assert block is not None
    return json.loads(block.group(1))


def full_page() -> Page:
    page = Page(NASTY, subtitle=NASTY)
    page.section(NASTY, [NASTY, "Second paragraph."])
    page.text(NASTY)
    page.notice(NASTY, "bad", heading=NASTY)
    page.facts({NASTY: NASTY})
    page.table([NASTY, "n"], [[NASTY, 1.0]], caption=NASTY, note=NASTY)
    page.lines(NASTY, [Series(NASTY, [1], [2])], NASTY, NASTY, note=NASTY)
    page.heatmap(NASTY, np.eye(2), [NASTY, "b"], [NASTY, "d"], note=NASTY)
    page.stems(NASTY, {NASTY: [3.0, 1.0]})
    page.attach("more", {NASTY: NASTY})
    return page


def test_no_text_becomes_markup():
    text = full_page().html()
    tags = Tags(text)
    assert len(tags.all("script")) == 2  # data and script, none from the texts
    assert text.count("alert(1)") == text.count("alert(1)&lt;/script") + text.count(
        "alert(1)\\u003c/script"
    )
    data = embedded(text)
    assert data["title"] == NASTY
    assert data["more"] == {NASTY: NASTY}
    assert data["figures"][0]["panels"][0]["series"][0]["name"] == NASTY
    assert data["figures"][1]["rows"] == [NASTY, "b"]
    assert "\u2028" not in re.findall(r'id="report-data">(.*?)</script>', text)[0]


def test_nothing_is_loaded_and_the_policy_forbids_it():
    tags = Tags(full_page().html())
    for tag, attributes in tags.tags:
        for name in ("src", "href", "srcset", "action"):
            address = attributes.get(name)
            assert address is None or address.startswith(("data:", "#")), (tag, address)
    policy = next(a["content"] for a in tags.all("meta") if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert tags.all("noscript")
    assert any("width=device-width" in str(a.get("content")) for a in tags.all("meta"))


def test_names_are_unique_and_found_in_the_page():
    page = full_page()
    page.section("Again")
    page.lines("Same title", [Series("a", [0], [1])])
    page.lines("Same title", [Series("a", [0], [1])])
    tags = Tags(page.html())
    names = [a["id"] for _, a in tags.tags if a.get("id")]
    assert len(set(names)) == len(names)
    assert "same-title" in names
    assert "same-title-2" in names
    assert {figure["id"] for figure in embedded(page.html())["figures"]} <= set(names)


def test_numbers_keep_their_digits_and_gaps_are_null():
    page = Page("Numbers")
    page.facts({"third": 1 / 3, "whole": 7, "none": None, "nan": float("nan"), "yes": True})
    page.lines("L", [Series("a", [1.0, 2.0, 3.0], [1 / 3, np.nan, -np.inf])])
    text = page.html()
    assert f'<data value="{1 / 3!r}">0.333333</data>' in text
    assert '<data value="7">7</data>' in text
    assert text.count("<dd>\u2013</dd>") == 2
    assert "<dd>yes</dd>" in text
    series = embedded(text)["figures"][0]["panels"][0]["series"][0]
    assert series["y"] == [1 / 3, None, None]


def test_columns_of_numbers_stand_to_the_right():
    page = Page("Table")
    page.table(["name", "paper", "ours"], [["a", 0.5, "0.51 ± 0.02"], ["b", None, 1]])
    rows = re.findall(r"<tr>(.*?)</tr>", page.html())
    assert [row.count("class=number") for row in rows] == [2, 2, 2]
    assert "<td>a</td>" in rows[1]
    assert "<td class=number>\u2013</td>" in rows[2]


def test_large_matrices_are_reduced_and_say_so():
    spike = np.zeros((1000, 650))
    spike[777, 333] = -9.0
    page = Page("Large")
    page.heatmap("Spike", spike, row_labels=[f"r{i}" for i in range(1000)])
    block = page.data()["figures"][0]
    cells = np.array(block["cells"], dtype=float)
    assert cells.shape == (300, 300)
    assert cells.min() == -9.0
    assert np.count_nonzero(cells) == 1
    row, _ = np.argwhere(cells)[0]
    first, last = (int(name[1:]) for name in block["rows"][row].split(" … "))
    assert first <= 777 <= last
    assert "1000 x 650 entries drawn as 300 x 300 cells" in page.html()


def test_writing_replaces_whole_files(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")
    assert Page("New").write(path) == path
    assert "<title>New</title>" in path.read_text(encoding="utf-8")
    page = Page("Broken")
    monkeypatch.setattr(page, "html", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.write(path)
    assert "<title>New</title>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda p: p.heatmap("t", np.zeros(3)), "matrix"),
        (lambda p: p.heatmap("t", np.zeros((0, 3))), "matrix"),
        (lambda p: p.heatmap("t", "text"), "matrix"),
        (lambda p: p.heatmap("t", np.eye(2), row_labels=["a"]), "row_labels"),
        (lambda p: p.heatmap("t", np.eye(2), column_labels=["a"]), "column_labels"),
        (lambda p: p.heatmap("t", np.eye(2), limit=0.0), "limit"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, argument):
    page = Page("Refusals")
    with pytest.raises(wp.InputError) as caught:
        call(page)
    assert caught.value.argument == argument
    assert page.figures == []


def test_panels_share_names_across_axes():
    page = Page("Panels")
    a, b = Series("a", [1, 2], [3, 4]), Series("b", [1], [2], dashed=True)
    page.panels("Both", [Panel([a, b], x_label="n"), Panel([b, a], log_y=True)])
    block = page.data()["figures"][0]
    assert block["names"] == ["a", "b"]
    assert [panel["log_y"] for panel in block["panels"]] == [False, True]
    assert block["panels"][1]["series"][0]["dashed"] is True

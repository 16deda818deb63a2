"""The check of the built documentation finds code and pages that are too wide."""

from built_docs import clipped

LINE = "x" * 300
PAGE = """<!doctype html><meta name="viewport" content="width=device-width">
<style>body { margin: 0 } pre { %s }</style><pre>%s</pre>"""
SCROLLS = "overflow-x: auto"
WRAPS = "white-space: pre-wrap; overflow-wrap: anywhere"


def test_code_that_is_too_wide_is_found_at_both_widths(chromium, tmp_path):
    sources = {
        "scrolls": PAGE % (SCROLLS, LINE),
        "wraps": PAGE % (WRAPS, LINE),
        "middling": PAGE % (SCROLLS, LINE[:80]),  # fits a laptop, not a phone
        "sticks_out": PAGE % ("width: 1500px", "x"),
    }
    for name, source in sources.items():
        (tmp_path / f"{name}.html").write_text(source, encoding="utf-8")
    pages = sorted(tmp_path.glob("*.html"))
    found = {page.stem: faults for page, faults in clipped(chromium, pages).items()}
    assert set(found) == {"scrolls", "middling", "sticks_out"}
    assert [f.split(" px")[0] for f in found["scrolls"]] == [
        "code is clipped at 1400",
        "code is clipped at 390",
    ]
    assert [f.split(" px")[0] for f in found["middling"]] == ["code is clipped at 390"]
    assert [f.split("in a ")[1] for f in found["sticks_out"]] == [
        "window of 1400 px",
        "window of 390 px",
    ]

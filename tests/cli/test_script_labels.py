"""Names in a file stay text in the report, whatever they say.

`tests/browser/test_run_in_browser.py` asks a browser; this parses the page.
"""

import json
from html.parser import HTMLParser

from weakprox.storage import write_matrix

NASTY = '<script>alert(1)</script><img src=x onerror="alert(2)">'


class Tags(HTMLParser):
    """What a browser would see: elements with their attributes, and the data block."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.data, self._inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self._inside = tag == "script" and dict(attrs).get("id") == "report-data"

    def handle_data(self, data):
        self.data += data if self._inside else ""

    def handle_endtag(self, tag):
        self._inside = False


def test_a_column_that_is_named_like_a_script(folder, weakprox, matrix):
    names = [NASTY, *(f"c{i}" for i in range(1, matrix.shape[1]))]
    rows = [NASTY, *(f"r{i}" for i in range(1, matrix.shape[0]))]
    write_matrix("m.csv", matrix, rows=rows, columns=names)
    words = ("--lam", 2.0, "--tau", 60.0, "--report", "r.html", "-o", "out.csv")
    done = weakprox("estimate", "m.csv", *words)
    assert done.exit_code == 0, done.output
    page = Tags((folder / "r.html").read_text(encoding="utf-8"))
    scripts = [attrs for tag, attrs in page.seen if tag == "script"]
    assert len(scripts) == 2  # the data and the page's own
    assert all("src" not in attrs for attrs in scripts)
    handlers = [name for _, attrs in page.seen for name in attrs if name.startswith("on")]
    assert handlers == []
    assert not [attrs for tag, attrs in page.seen if tag == "img" and attrs.get("src") == "x"]
    assert NASTY in json.dumps(json.loads(page.data)).encode().decode("unicode_escape")
    found = (folder / "out.csv").read_text(encoding="utf-8")
    assert NASTY.replace('"', '""') in found  # and they come back as they went in

"""The progress display, on terminals and elsewhere."""

import io
import math
from contextlib import redirect_stderr

import pytest

from weakprox.progress import Progress, RunProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(wanted, stream, **options):
    with redirect_stderr(stream), Progress(wanted, kept=True, **options) as display:
        first, second = display.add("coarse", 4), display.add("fine", 8.0)
        display.advance(first, note="lam 0.5")
        display.advance(second, 2.0)
    return stream.getvalue()


def test_two_bars_show_titles_notes_and_shares():
    text = shown("auto", Terminal())
    assert "coarse" in text
    assert "fine" in text
    assert "lam 0.5" in text
    assert "25%" in text


def test_counted_bars_show_counts():
    text = shown(True, Terminal(), counted=True)
    assert "1/4" in text
    assert "%" not in text


@pytest.mark.parametrize("wanted", ["auto", False])
def test_nothing_is_shown_elsewhere(wanted):
    stream = io.StringIO() if wanted == "auto" else Terminal()
    assert shown(wanted, stream) == ""


def run_text(*looks, svds=0):
    stream = Terminal()
    with redirect_stderr(stream), RunProgress(True, "SCG") as progress:
        progress.predict(svds)
        for look in looks:
            progress.show(epoch=1, samples=0, accuracy=1e-3, **look)
    return stream.getvalue()


def test_a_run_fills_with_the_decrease_of_the_gap():
    start = {"svds": 1, "value": 2.0, "gap": 1e1}
    half = {"svds": 2, "value": 2.0, "gap": 1e-1}  # half way from 1e1 to 1e-3
    assert "50%" in run_text(start, half)
    assert "gap 0.1 (eps 0.001)" in run_text(start, half)


def test_a_run_fills_with_its_predicted_svds_and_never_beyond():
    unknown = {"value": math.inf, "gap": math.inf}
    text = run_text({"svds": 3, **unknown}, svds=4)
    assert "75%" in text
    assert "gap" not in text
    assert " f " not in text
    assert "100%" in run_text({"svds": 9, **unknown}, svds=4)

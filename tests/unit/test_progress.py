"""The progress display, on terminals and elsewhere."""

import io
import math
import re
from contextlib import redirect_stderr
from typing import NamedTuple

import numpy as np
import pytest

import weakprox as wp
from weakprox.progress import Progress, RunProgress
from weakprox.selection.search import Search


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


def lines(stream=None, **options):
    stream = io.StringIO()
    return shown(True, stream, **options).splitlines()


def test_lines_are_printed_where_there_is_no_terminal():
    first, second = lines()
    assert first.startswith("coarse   25 %  lam 0.5  ")
    assert second.startswith("fine   25 %  ")
    assert first.endswith(" s")


def test_counted_lines_show_counts():
    assert lines(counted=True)[0].startswith("coarse  1/4  lam 0.5  ")


def test_lines_come_at_growing_intervals_and_at_the_end(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("weakprox.progress.time.monotonic", lambda: clock[0])
    stream = io.StringIO()
    with redirect_stderr(stream), Progress(True, counted=True) as display:
        bar = display.add("search", 100)
        for _ in range(100):
            clock[0] += 0.1
            display.advance(bar)
    found = [float(line.split()[-2]) for line in stream.getvalue().splitlines()]
    gaps = [b - a for a, b in zip([0.0, *found], found, strict=False)]
    assert gaps[0] == pytest.approx(1.0, abs=0.11)
    assert gaps[1] == pytest.approx(1.5, abs=0.11)
    assert gaps[2] == pytest.approx(2.25, abs=0.11)
    assert stream.getvalue().splitlines()[-1] == "search  100/100  10.0 s"


def test_a_run_without_a_terminal_ends_with_a_line(capsys):
    M = np.random.default_rng(0).standard_normal((12, 8))
    loss, ball = wp.losses.Denoising(M), wp.spectral.NuclearBall(3.0)
    problem = wp.Problem(loss, wp.penalties.L1(0.1), ball)
    wp.minimize(problem, progress=True)
    text = capsys.readouterr().err
    last = text.splitlines()[-1]
    assert re.fullmatch(r"DavisYin  100 %  certified  rank \d+  gap [\d.e-]+  [\d.]+ s", last)
    wp.minimize(problem, progress=True, tol=1e-9, max_svds=1)
    assert "100 %" not in capsys.readouterr().err
    wp.minimize(problem)
    assert capsys.readouterr().err == ""


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


class Setting(NamedTuple):
    lam: float
    kind: str = "l1"


def searched(stream, method):
    """What a search over two candidates shows, whose losses are their weights."""
    search = Search([1.0, 3.0], lambda fold, one, start: (fold * one.lam, None), progress=True)
    with redirect_stderr(stream):
        getattr(search, method)([Setting(0.25), Setting(0.5)])
    return stream.getvalue()


def test_searches_show_the_candidate_its_score_and_the_best():
    (line,) = searched(io.StringIO(), "best_of").splitlines()
    assert line.startswith("search  2/2  lam 0.5  kind l1  score -1 (best -0.5)  ")


def test_grids_show_the_fold_the_candidate_and_its_score():
    (line,) = searched(io.StringIO(), "grid").splitlines()
    assert line.startswith("search  4/4  fold 2 of 2  lam 0.5  kind l1  score -1.5  ")


@pytest.mark.parametrize("method", ["best_of", "grid"])
def test_searches_on_a_terminal(method, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    text = searched(Terminal(), method)
    assert "search" in text
    assert "lam 0.5  kind l1  score -1" in text


def test_paths_and_held_out_errors_show_weights_and_values():
    M = np.random.default_rng(0).standard_normal((12, 8))
    stream = io.StringIO()
    with redirect_stderr(stream):
        wp.selection.regularization_path(wp.losses.Denoising(M), [0.2], [1.0], progress=True)
        copies = wp.selection.thinned(M, 1.0)
        grid = wp.selection.Grid(np.array([0.2]), np.array([[1.0]]))
        wp.selection.held_out(copies, grid, progress=True)
    path, left_out = stream.getvalue().splitlines()
    assert "lam 0.2  tau 1  f " in path
    assert "  rank " in path
    assert re.search(r"fold \d of \d  lam 0.2  tau 1  score -\d", left_out)

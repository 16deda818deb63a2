"""The report of `weakprox reproduce`: our numbers and the paper's on one page."""

import json
import re
from dataclasses import replace

import pytest

from weakprox.experiments import ablation, figures, run, table1, table2
from weakprox.experiments.table1 import orderings
from weakprox.report.reproduction import (
    MAIN,
    reproduction_page,
    rounded,
    write_reproduction,
)


@pytest.fixture(scope="module")
def summaries():
    with pytest.MonkeyPatch.context() as patch:
        for name, setup in list(figures.SETUPS.items()):
            runs, cap = {0.01: 1}, {0.01: 60}
            made = replace(setup, d=20, quick_runs=runs, quick_cap=cap)
            patch.setitem(figures.SETUPS, name, made)
        patch.setattr(ablation, "D", 20)
        patch.setattr(table1, "N", 20)
        patch.setattr(table1, "QUICK_DRAWS", 3)
        patch.setattr(table2, "QUICK_CAP", 20)
        patch.setattr(table2, "QUICK_ACCURACIES", (0.08, 0.04, 0.02))
        names = ["table1", "figure1", "figure2", "table2", "ablation", "epochs"]
        return run(names, quick=True, processes=1, progress=False)


def decided(summary, claim=True):
    """The same summary as that of a full run, with a claim that holds everywhere."""
    rivals = dict.fromkeys(("SCG", "SCGS", "SCGS convex"), claim)
    changed = json.loads(json.dumps(summary))
    changed["made"]["quick"] = False
    names = ("samples", "rank_one_svds", "seconds")
    changed["claim"] = {name: dict(rivals) for name in names}
    return changed


def test_the_page_holds_every_summary_and_the_papers_numbers(summaries, tmp_path):
    path = write_reproduction(tmp_path, summaries)
    text = path.read_text(encoding="utf-8")
    block = re.search(r'id="?report-data"?[^>]*>(.*?)</script>', text, re.DOTALL)
    data = json.loads(block.group(1))
    for name, summary in summaries.items():
        assert data[name] == summary
    assert "1.0991" in text or "1.1" in text  # the paper's error of the 1-SVD at c = 5
    assert len(data["figures"]) == 5  # three figures, and work against accuracy twice
    saved = sorted(p.suffix for p in (tmp_path / "figures").iterdir())
    assert saved == [".png"] * 5 + [".svg"] * 5


def test_failures_of_the_claim_are_said_openly(summaries):
    for held, words, kind in (
        (True, "holds", "good"),
        (False, "FAILS", "bad"),
        (None, "not decided", "warning"),
    ):
        changed = decided(summaries["figure1"])
        changed["claim"]["rank_one_svds"]["SCGS"] = held
        text = reproduction_page({"figure1": changed}).html()
        row = re.search(r"<tr><td>rank-one SVDs</td>(.*?)</tr>", text)[1]
        marks = re.findall(r'<span class="mark (\w+)">([^<]+)</span>', row)
        assert marks == [("good", "holds"), (kind, words), ("good", "holds")]


def test_failed_orderings_are_said_openly(summaries):
    changed = json.loads(json.dumps(summaries["table1"]))
    found = orderings(changed["rows"])
    changed["orderings"] = {**found, "vector_noise": found}
    changed["orderings"]["hold"] = False
    changed["orderings"]["l1_has_smallest_error"]["5"] = False
    text = reproduction_page({"table1": changed}).html()
    row = re.search(r"<tr><td[^>]*>l1 has the smallest error</td>(.*?)</tr>", text)[1]
    levels = list(found["l1_has_smallest_error"])
    marks = re.findall(r'<span class="mark \w+">([^<]+)</span>', row)
    assert marks[levels.index("5")] == "FAILS"


def test_a_quick_run_says_so_and_draws_no_conclusion(summaries):
    text = reproduction_page(summaries).html()
    assert "A quick run:" in text
    assert text.count("(quick run)") >= len(summaries)
    assert "computed again (quick run)</h1>" in text
    for word in ("claim at", ">holds", "FAILS", "not decided", "l1 has the smallest error"):
        assert word not in text, word
    assert "The claim in numbers" not in text
    full = reproduction_page({"figure1": decided(summaries["figure1"])}).html()
    assert "quick run" not in full.lower()
    assert "claim at 1 %:" in full


def test_epochs_are_told(summaries):
    """How many SVRGCG ran, in the text, the table and the legend."""
    changed = decided(summaries["figure1"])
    changed["epochs"]["0.01"] = {"least": 1, "most": 1, "mean": 1.0, "k_1": 29}
    text = reproduction_page({"figure1": changed}).html()
    assert "it was there or was stopped: 1 at 0.01. At the paper" in text
    assert "ends inside its first epoch" in text
    assert re.search(r'alttext="k_1 = 29">.*?</math> in the mean', text)
    assert "SVRGCG, 1 epoch" in text
    own = decided(summaries["epochs"])
    own["epochs"]["0.01"] = {"least": 3, "most": 5, "mean": 4.0}
    text = reproduction_page({"epochs": own}).html()
    assert "(not in the paper)" in text
    assert "stopped: 3 to 5 at 0.01." in text
    assert "first epoch" not in text
    assert "SVRGCG, 3 to 5 epochs" in text
    assert "at 0.01, beyond the paper:" in text
    headers, rows = MAIN["epochs"](own)
    column = headers.index("epochs")
    assert [row[column] for row in rows][:2] == ["3 to 5", None]


def test_tables_are_square_and_readable(summaries):
    for name, summary in summaries.items():
        headers, rows = rounded(MAIN[name](summary))
        assert rows, name
        assert all(len(row) == len(headers) for row in rows), name
    assert rounded((["x"], [[0.000123456], [123456.7], [None], [3]]))[1] == [
        ["0.000123"],
        ["123457"],
        [None],
        [3],
    ]


def test_formulas_are_typeset(summaries):
    text = reproduction_page(summaries).html()
    unseen = r"<math.*?</math>|<script.*</script>|<style.*?</style>|aria-label=\"[^\"]*\""
    body = re.sub(unseen, "", text, flags=re.DOTALL)
    assert "$" not in text.split("<script")[0]
    assert text.count("<math") > 20
    for raw in ("\\", "|YY", "|y|", "1/eps", "N(0, I_n)", "scope=col>lam<", "scope=col>mu<"):
        assert raw not in body, raw


def test_counts_are_whole_numbers(summaries):
    for name in ("figure1", "ablation"):
        headers, rows = MAIN[name](summaries[name])
        column = headers.index("rank-one SVDs")
        counts = [row[column] for row in rows if row[column] is not None]
        assert counts, name
        assert all(re.fullmatch(r"(> )?\d+", str(count)) for count in counts), name

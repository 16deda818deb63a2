"""The report of `weakprox reproduce`: our numbers and the paper's on one page."""

import json
import re

import pytest

from weakprox.experiments import ablation, figures, run, table2
from weakprox.report.reproduced import rounded, tables
from weakprox.report.reproduction import reproduction_page, write_reproduction


@pytest.fixture(scope="module")
def summaries():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "D", 20)
        patch.setattr(figures, "QUICK_RUNS", {0.01: 1})
        patch.setattr(figures, "QUICK_CAP", {0.01: 200})
        patch.setattr(ablation, "D", 20)
        patch.setattr(table2, "QUICK_CAP", 60)
        patch.setattr(table2, "QUICK_ACCURACIES", (0.08, 0.04, 0.02))
        names = ["table1", "figure1", "figure2", "table2", "ablation"]
        return run(names, quick=True, processes=1, progress=False)


def test_the_page_holds_every_summary_and_the_papers_numbers(summaries, tmp_path):
    path = write_reproduction(tmp_path, summaries)
    text = path.read_text(encoding="utf-8")
    block = re.search(r'id="?report-data"?[^>]*>(.*?)</script>', text, re.DOTALL)
    data = json.loads(block.group(1))
    for name, summary in summaries.items():
        assert data[name] == summary
    assert "1.0991" in text or "1.1" in text  # the paper's error of the 1-SVD at c = 5
    assert len(data["figures"]) == 4  # two figures, and work against accuracy twice
    saved = sorted(p.suffix for p in (tmp_path / "figures").iterdir())
    assert saved == [".png"] * 4 + [".svg"] * 4


def test_failures_of_the_claim_are_said_openly(summaries):
    for held, word in (
        (True, "holds"),
        (False, "FAILS for rank-one SVDs against SCGS"),
        (None, "is not decided for rank-one SVDs against SCGS"),
    ):
        changed = json.loads(json.dumps(summaries["figure1"]))
        for measure in changed["claim"].values():
            measure.update(dict.fromkeys(measure, True))
        changed["claim"]["rank_one_svds"]["SCGS"] = held
        assert word in reproduction_page({"figure1": changed}).html()


def test_failed_orderings_are_said_openly(summaries):
    changed = json.loads(json.dumps(summaries["table1"]))
    changed["orderings"]["hold"] = False
    changed["orderings"]["l1_has_smallest_error"]["5"] = False
    assert "smallest error at c = 5: NO" in reproduction_page({"table1": changed}).html()


def test_tables_are_square_and_readable(summaries):
    for name, summary in summaries.items():
        headers, rows = rounded(tables(name, summary))
        assert rows, name
        assert all(len(row) == len(headers) for row in rows), name
    assert rounded((["x"], [[0.000123456], [123456.7], [None], [3]]))[1] == [
        ["0.000123"],
        ["123457"],
        [None],
        [3],
    ]

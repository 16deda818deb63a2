"""Figures 1 and 2, Table 2 and the ablation, at a size that tests can afford."""

import json

import pytest

from weakprox.experiments import ALL, ablation, figures, run, table2


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(figures, "D", 30)
    monkeypatch.setattr(figures, "QUICK_RUNS", {0.01: 2, 0.001: 1})
    monkeypatch.setattr(figures, "QUICK_CAP", {0.01: 400, 0.001: 20})
    monkeypatch.setattr(ablation, "D", 30)
    monkeypatch.setattr(table2, "QUICK_CAP", 300)
    monkeypatch.setattr(table2, "QUICK_ACCURACIES", (0.08, 0.04, 0.02))
    return {"quick": True, "processes": 1, "progress": False}


def test_figures_have_the_keys_that_people_rely_on(small):
    found = run(["figure1"], **small)["figure1"]
    assert set(found["methods"]) >= {"SVRGCG", "SCG", "SCGS", "STORC", "HCGM", "SHCGM"}
    for method, entries in found["methods"].items():
        assert list(entries) == ["0.01", "0.001"], method
        for entry in entries.values():
            if entry is not None:
                assert {"samples", "rank_one_svds", "seconds", "reached"} <= set(entry)
    assert found["methods"]["SVRGCG"]["0.01"]["ratio_to_SVRGCG"]["samples"] == 1.0
    assert found["methods"]["SCG"]["0.001"] is None  # 20 calls do not get it there
    assert found["settings"]["caps_on_oracle_calls"] == {"0.01": 400, "0.001": 20}
    assert found["settings"]["runs"] == {"0.01": 2, "0.001": 1}
    assert set(found["claim"]) == {"samples", "rank_one_svds", "seconds"}
    curve = found["curves"]["0.01"]["SCG"]["samples"]
    assert len(curve["x"]) == len(curve["mean"]) == len(curve["low"]) == len(curve["high"])
    json.dumps(found, allow_nan=False)


def test_counts_are_the_same_again_and_differ_between_runs(small):
    job = next(j for j in figures.jobs("figure2", True, 0) if j["method"] == "SCG")
    first, again = figures.work(job), figures.work(job)
    assert first["X"][0]["samples"] == again["X"][0]["samples"]
    assert [row[-1] for row in first["curve"]] == [row[-1] for row in again["curve"]]
    other = figures.work({**job, "run": 1})
    assert other["curve"][1][-1] != first["curve"][1][-1]


def test_exponents_come_with_theory_and_points(small):
    found = run(["table2"], **small)["table2"]
    rows = {(row["method"], row["mu"]): row for row in found["rows"]}
    assert len(rows) == 16
    assert rows["SVRGCG", "tied"]["theory_svds"] == 1
    assert rows["SCG", "tied"]["theory_samples"] == 4
    assert rows["SVRGCG", "tied"]["svds"]["exponent"] > 0
    assert rows["STORC", "fixed"]["sample_unit"] == "full_gradients"
    for row in rows.values():
        assert len(row["accuracies"]) == len(row["mean_svds"])
        if len(row["accuracies"]) < 3:
            assert row["svds"] is None


def test_slopes_are_slopes():
    hits = {a: [{"calls": 5.0 * a**-2}] for a in (0.1, 0.01, 0.001)}
    found = table2._fit([0.1, 0.01, 0.001], hits, "calls")
    assert found["exponent"] == pytest.approx(2.0)
    assert found["standard_error"] == pytest.approx(0.0, abs=1e-9)
    assert table2._fit([0.1, 0.01], hits, "calls") is None


def test_the_ablation_tells_its_arms_apart(small):
    found = run(["ablation"], **small)["ablation"]
    rows = {(row["instance"], row["arm"]): row for row in found["rows"]}
    assert len(rows) == 16
    for instance in ("figure 2", "example 3"):
        reduced, plain = rows[instance, "weak, reduced"], rows[instance, "weak, plain"]
        assert reduced["reached"] == reduced["runs"]
        assert plain["samples"] != reduced["samples"]
    exact, weak = rows["example 3", "exact, reduced"], rows["example 3", "weak, reduced"]
    assert exact["rank_one_svds"] == exact["calls"] * 12
    assert weak["rank_one_svds"] == weak["calls"] * 2
    ratio = found["verdicts"][0]["samples_plain_over_reduced"]
    first = [rows["figure 1", arm]["samples"] for arm in ("weak, plain", "weak, reduced")]
    assert ratio is None or ratio == pytest.approx(first[0] / first[1])


def test_all_experiments_are_registered():
    assert list(ALL) == ["table1", "figure1", "figure2", "table2", "ablation"]
    for name in ALL:
        assert ALL[name].name == name
        assert ALL[name].jobs(True, 0)
        assert len(ALL[name].jobs(False, 0)) > len(ALL[name].jobs(True, 0))

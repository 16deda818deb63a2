"""Figures 1 and 2, Table 2 and the ablation, at a size that tests can afford."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from weakprox import theory
from weakprox.experiments import ALL, ablation, figures, run, table2
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.problem import Problem
from weakprox.spectral import NuclearBall


@pytest.fixture
def small(monkeypatch):
    for name in ("figure1", "figure2"):
        setup = replace(figures.SETUPS[name], d=30, quick_cap={0.01: 400, 0.001: 20})
        monkeypatch.setitem(figures.SETUPS, name, setup)
    monkeypatch.setitem(
        figures.SETUPS, "epochs", replace(figures.SETUPS["epochs"], d=40, oracle_rank=15)
    )
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
    assert found["claim"] is None  # a quick run decides nothing
    assert found["settings"]["oracle_rank"] == 1
    curve = found["curves"]["0.01"]["SCG"]["samples"]
    assert len(curve["x"]) == len(curve["mean"]) == len(curve["low"]) == len(curve["high"])
    json.dumps(found, allow_nan=False)


def test_several_epochs_are_run_and_counted(small):
    """The figure beyond the paper exists to show doubled batches and later snapshots."""
    found = run(["epochs"], **small)["epochs"]
    ours = found["methods"]["SVRGCG"]["0.0004"]
    assert ours["reached"] == 1
    counted = found["epochs"]["0.0004"]
    assert counted["least"] == counted["most"] == counted["mean"] >= 3
    assert ours["samples"] >= 7 * (counted["k_1"] - 1)  # k_1, 2 k_1, 4 k_1, rounded up
    coarse = run(["figure2"], **small)["figure2"]
    assert coarse["epochs"]["0.01"]["most"] == 1
    assert coarse["methods"]["SVRGCG"]["0.01"]["samples"] == coarse["epochs"]["0.01"]["k_1"]
    assert found["settings"]["rank"] == 10
    assert list(found["spent"]) == list(coarse["spent"])


def test_epochs_are_those_of_all_runs():
    runs = [{"epochs": 5, "k_1": 7}, {"epochs": 3, "k_1": 8}, {"epochs": 4, "k_1": 9}]
    assert figures.epochs_run(runs) == {"least": 3, "most": 5, "mean": 4.0, "k_1": 8.0}


def run_of(samples, svds, seconds, *, there=True):
    names = ("samples", "rank_one_svds", "seconds")
    work = dict(zip(names, (samples, svds, seconds), strict=True))
    more = dict.fromkeys(("calls", "gradients", "full_gradients", "seconds_sampling"), 1.0)
    hit = {**work, **more} if there else None
    return {"X": [hit], "V": [None], "spent": work, "epochs": 1, "k_1": 7}


def test_means_over_runs_that_were_stopped_are_lower_bounds():
    exact = figures.mean_work([run_of(10, 4, 1.0), run_of(30, 8, 3.0)], "X")
    assert (exact["samples"], exact["rank_one_svds"], exact["seconds"]) == (20, 6, 2.0)
    assert exact["exact"]
    partly = figures.mean_work([run_of(10, 4, 1.0), run_of(50, 100, 9.0, there=False)], "X")
    assert (partly["samples"], partly["reached"], partly["runs"]) == (30, 1, 2)
    assert not partly["exact"]
    assert not figures.mean_work([run_of(10, 4, 1.0)], "V")["exact"]


def test_the_claim_is_judged_at_the_coarsest_accuracy():
    jobs = figures.jobs("epochs", False, 0)
    assert {job["accuracy"] for job in jobs} == {0.0004, 0.0002}
    results = []
    for job in jobs:
        cheap = (job["method"] == "SVRGCG") == (job["accuracy"] == 0.0004)
        made = run_of(*((1, 1, 1.0) if cheap else (2, 2, 2.0)))
        results.append({**made, "size": 1.0, "curve": [[0, 0, 0, 1.0], [1, 1, 1, 0.5]]})
    found = figures.summarise(jobs, results)
    assert found["claim"]["samples"] == {"SCG": True, "SCGS": True, "SCGS convex": True}
    assert found["settings"]["runs"] == {"0.0004": 10, "0.0002": 3}


def test_the_claim_needs_all_our_runs_and_counts_what_rivals_had_spent():
    def spent(ours, theirs):
        rivals = {name: {"0.01": theirs} for name in ("SCG", "SCGS", "SCGS convex")}
        return {"SVRGCG": {"0.01": ours}, **rivals}

    good, dear = [run_of(10, 4, 1.0)], [run_of(20, 3, 2.0)]
    stopped = [run_of(20, 3, 2.0, there=False)]
    mean = figures.mean_work
    found = figures.claim(spent(mean(good, "X"), mean(dear, "X")), "0.01")
    assert found["samples"]["SCG"] is True
    assert found["rank_one_svds"]["SCGS"] is False
    found = figures.claim(spent(mean(good, "X"), mean(stopped, "X")), "0.01")
    assert found["samples"]["SCG"] is True  # it had spent more already
    assert found["rank_one_svds"]["SCG"] is None  # it might have needed more, or not
    mine = [run_of(10, 4, 1.0), run_of(1, 1, 0.1, there=False)]
    found = figures.claim(spent(mean(mine, "X"), mean(dear, "X")), "0.01")
    assert found["samples"] == {"SCG": False, "SCGS": False, "SCGS convex": False}


@pytest.mark.parametrize("method", figures.METHODS)
def test_methods_run_with_the_papers_settings(method, monkeypatch):
    seen = {}

    def record(problem, solver, watch, **options):
        seen.update(problem=problem, solver=solver, watch=watch, **options)
        watch.curve.append((0.0, 0.0, 0.0, 1.0))
        return {}

    monkeypatch.setattr(figures, "race", record)
    job = {"figure": "figure2", "accuracy": 0.01, "run": 3, "method": method, "cap": 9}
    found = figures.work({**job, "seed": 2})
    size = found["size"]
    assert seen["watch"].targets == [pytest.approx(0.01 * size)]
    assert (seen["seed"], seen["cap"]) == (2003, 9)
    problem, solver = seen["problem"], seen["solver"]
    assert problem.shape == (300, 300)
    assert problem.penalty.lam == 2.0
    assert found["optimum_gap"] <= 0.05 * 0.01
    if method in ("STORC", "HCGM"):
        assert problem.loss.n_terms == pytest.approx(25 * 300**2 / (0.01 * size), abs=1)
    else:
        assert problem.loss.sigma == 5 * 300
        assert type(problem.loss).__name__ == "NoisyCopies"
    if method not in ("HCGM", "SHCGM"):
        assert solver.mu == pytest.approx(0.01 * size / 300**2)
    if method.startswith("SCGS"):
        assert solver.max_inner == 300
        assert solver.strongly_convex == (method == "SCGS")
    if method == "SVRGCG":
        assert (solver.rank, solver.constants, solver.answer) == (10, "paper", "iterate")
        assert 0 < solver.C0 < 10 * size


def test_counts_are_the_same_again_and_differ_between_runs(small):
    job = next(j for j in figures.jobs("figure2", True, 0) if j["method"] == "SCG")
    first, again = figures.work(job), figures.work(job)
    assert first["X"][0]["samples"] == again["X"][0]["samples"]
    assert [row[-1] for row in first["curve"]] == [row[-1] for row in again["curve"]]
    other = figures.work({**job, "run": 1})
    assert other["curve"][1][-1] != first["curve"][1][-1]
    assert other["spent"] != again["spent"]


def test_exponents_come_with_theory_and_points(small):
    found = run(["table2"], **small)["table2"]
    rows = {(row["method"], row["mu"]): row for row in found["rows"]}
    assert len(rows) == 20
    ranks = {method: row["oracle_rank"] for (method, _), row in rows.items()}
    assert ranks["SVRGCG"] == ranks["SVRGCG finite"] == 2
    assert ranks["SVRGCG, full rank"] == ranks["SVRGCG finite, full rank"] == 40
    assert ranks["SCG"] == 1
    assert rows["SVRGCG", "tied"]["theory_svds"] == 1
    assert rows["SCG", "tied"]["theory_samples"] == 4
    assert rows["SVRGCG", "tied"]["svds"]["exponent"] > 0
    assert rows["STORC", "fixed"]["sample_unit"] == "full_gradients"
    for row in rows.values():
        assert len(row["accuracies"]) == len(row["mean_svds"])
        if len(row["accuracies"]) < 3:
            assert row["svds"] is None


@pytest.mark.parametrize(
    ("name", "row", "unit"),
    [
        ("SVRGCG", "Algorithm 1", "stochastic_gradients"),
        ("SVRGCG, full rank", "Algorithm 1", "stochastic_gradients"),
        ("SCG", "SFW", "stochastic_gradients"),
        ("SCGS", "SCGS", "stochastic_gradients"),
        ("SVRGCG finite", "Algorithm 2", "exact_gradients"),
        ("SVRGCG finite, full rank", "Algorithm 2", "exact_gradients"),
        ("STORC", "STORC", "exact_gradients"),
    ],
)
def test_theorys_exponents_are_those_of_the_papers_table(name, row, unit):
    """Slopes of `theory.complexity` over many decades, where logarithms are flat."""
    problem = Problem(Denoising(np.ones((3, 2))), L1(0.1), NuclearBall(1.0))
    p = replace(theory.parameters(problem, 1.0), sigma=2.0, C0=10.0)

    def work(eps, beta):
        at = replace(p, eps=eps, beta=beta)
        found = {one.method: one for one in theory.complexity(at, tau=3.0, rank=2)}[row]
        return np.log10([getattr(found, unit), found.svds])

    for mu, growth in (("fixed", 1.0), ("tied", 1e30)):
        slopes = (work(1e-60, 5.0 * growth) - work(1e-30, 5.0)) / 30
        assert tuple(np.round(slopes)) == table2.THEORY[name][mu]


def test_theorys_exponents_of_methods_beyond_the_papers_table():
    """O(1/eps^2) samples of convex SCGS; SVRF as STORC; homotopy methods O(1/sqrt k)."""
    assert table2.THEORY["SCGS convex"] == {"fixed": (2, 1), "tied": (2, 2)}
    assert table2.THEORY["SVRF"] == table2.THEORY["STORC"]
    assert table2.THEORY["HCGM"] == {"fixed": None, "tied": (2, 2)}
    assert table2.THEORY["SHCGM"] == {"fixed": None, "tied": (3, 3)}


def test_slopes_are_slopes():
    hits = {a: [{"calls": 5.0 * a**-2}] for a in (0.1, 0.01, 0.001)}
    found = table2._fit([0.1, 0.01, 0.001], hits, "calls")
    assert found["exponent"] == pytest.approx(2.0)
    assert found["standard_error"] == pytest.approx(0.0, abs=1e-9)
    assert table2._fit([0.1, 0.01], hits, "calls") is None


def test_fits_leave_out_accuracies_that_some_run_missed():
    jobs = table2.jobs(True, 0)
    jobs += [{**job, "run": 1} for job in jobs]
    results = []
    for job in jobs:
        hits = [
            {"samples": 1 / a, "calls": 2 / a, "full_gradients": 3 / a}
            for a in job["accuracies"]
        ]
        if job["run"] == 1 and job["accuracies"][-1] == table2.QUICK_ACCURACIES[-1]:
            hits[-1] = None
        results.append({"X": hits})
    found = table2.summarise(jobs, results)
    for row in found["rows"]:
        assert row["accuracies"] == list(table2.QUICK_ACCURACIES[:-1])
        assert row["samples"]["exponent"] == pytest.approx(1.0)
        assert row["mean_svds"] == pytest.approx([2 / a for a in row["accuracies"]])
    unit = {row["method"]: row["mean_samples"][0] for row in found["rows"]}
    assert unit["SCG"] == pytest.approx(1 / 0.02)
    assert unit["STORC"] == pytest.approx(3 / 0.02)


@pytest.mark.parametrize(
    ("method", "rank", "constants"),
    [
        ("SVRGCG", 2, "paper"),
        ("SVRGCG, full rank", 40, "paper"),
        ("SVRGCG finite", 2, "repaired"),
        ("SVRGCG finite, full rank", 40, "repaired"),
    ],
)
def test_the_oracle_has_the_rank_of_the_signal_and_full_rank_beside_it(
    method, rank, constants, monkeypatch
):
    seen = {}

    def record(problem, solver, watch, **options):
        seen.update(problem=problem, solver=solver)
        return {}

    monkeypatch.setattr(table2, "race", record)
    table2.work(next(j for j in table2.jobs(True, 0) if j["method"] == method))
    assert (seen["solver"].rank, seen["solver"].constants) == (rank, constants)
    assert seen["problem"].loss.is_finite_sum == ("finite" in method)


def test_tied_smoothing_costs_half_of_eps(monkeypatch):
    seen = {}

    def record(problem, solver, watch, **options):
        seen.update(solver=solver, watch=watch)
        return {}

    monkeypatch.setattr(table2, "race", record)
    job = next(j for j in table2.jobs(True, 0) if j["mu"] == "tied" and j["method"] == "SCG")
    table2.work(job)
    gamma = 2.0 * 40**2 / 2  # lam m d / 2
    assert seen["solver"].mu * gamma == pytest.approx(0.5 * seen["watch"].targets[-1])


def test_verdicts_are_ratios_of_what_was_counted():
    def row(arm, samples, calls, svds, theory):
        place = {"instance": "example 3", "accuracy": 0.1, "arm": arm}
        work = {"samples": samples, "calls": calls, "rank_one_svds": svds}
        return {**place, **work, "theory_samples": theory}

    rows = [
        row("weak, reduced", 10, 4, 8, 100),
        row("weak, plain", 30, 4, 8, 500),
        row("exact, reduced", 10, 5, 60, 100),
        row("exact, plain", None, None, None, 500),
    ]
    (found,) = ablation._verdicts(rows)
    assert found["samples_plain_over_reduced"] == 3.0
    assert found["theory_samples_plain_over_reduced"] == 5.0
    assert found["calls_weak_over_exact"] == 0.8
    assert found["rank_one_svds_exact_over_weak"] == 7.5
    rows[1] = row("weak, plain", None, None, None, 500)
    assert ablation._verdicts(rows)[0]["samples_plain_over_reduced"] is None


def test_a_mean_with_a_run_missing_is_no_mean():
    hit = {"samples": 4, "gradients": 8, "rank_one_svds": 2, "calls": 2, "seconds": 1.0}
    runs = [{"X": [hit], "theory_samples": 10}, {"X": [None], "theory_samples": 20}]
    found = ablation._mean(runs)
    assert found["samples"] is None
    assert (found["reached"], found["runs"], found["theory_samples"]) == (1, 2, 15.0)
    assert ablation._mean(runs[:1])["gradients"] == 8


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
    assert found["verdicts"] is None  # a quick run decides nothing


def test_samples_by_theory_are_those_of_the_whole_schedule(monkeypatch):
    """Reduced: k_s and the inner batches. Plain: k_fresh in every step."""
    monkeypatch.setattr(ablation, "race", lambda *args, **options: {})
    job = {"instance": "example 3, noisy", "accuracy": 0.1, "run": 0, "seed": 0, "cap": 9}
    reduced, plain = (
        ablation.work({**job, "arm": arm})["theory_samples"]
        for arm in ("weak, reduced", "weak, plain")
    )
    seeds = [0, 5, 0]  # seed, number of the experiment, run
    problem, watch = ablation._sensing(2, 0.1, 3.0, seeds)
    p = theory.parameters(problem, watch.targets[-1], seed=0)
    base = p.sigma**2 / (p.alpha * p.C0)
    steps = range(p.epochs)
    drawn = sum(math.ceil(32 * base * 2**s) for s in steps)
    assert reduced == p.pilot + drawn + p.epochs * (p.inner - 1) * p.k_t
    assert plain == p.pilot + p.inner * sum(math.ceil(15 / 7 * base * 2**s) for s in steps)


def test_all_experiments_are_registered():
    assert list(ALL) == ["table1", "figure1", "figure2", "table2", "ablation", "epochs"]
    for name in ALL:
        assert ALL[name].name == name
        assert ALL[name].jobs(True, 0)
        assert len(ALL[name].jobs(False, 0)) > len(ALL[name].jobs(True, 0))

"""The report of a run says what the result says, for every kind of result and data."""

import json
import re

import numpy as np
import pytest
import scipy.sparse
from registry import NUMPY, SHAPE, TORCH, denoising_sampler, memmap_of, numbers

import weakprox as wp
from weakprox.losses import Completion, Denoising
from weakprox.penalties import L1, ElasticNet
from weakprox.report import summary, write_report
from weakprox.report.imputation import write_imputation_report
from weakprox.report.summary import gather, percentage, verdict
from weakprox.selection.noise import noise_level
from weakprox.spectral import NuclearBall

M = numbers(*SHAPE)
HOLES = np.where(np.abs(M) > 0.3, M, np.nan)


def solve(loss, penalty=None, spectral=None, **options):
    problem = wp.Problem(loss, penalty or L1(0.2), spectral or NuclearBall(2.0))
    return problem, wp.minimize(problem, wp.SVRGCG(2), **{"eps": 1.0, **options})


def report_in(path):
    text = path.read_text(encoding="utf-8")
    block = re.search(r'id="report-data">(.*?)</script>', text)
    assert block is not None
    return json.loads(block.group(1)), text


def test_numbers_are_the_results_own(tmp_path):
    problem, result = solve(Denoising(M))
    about = {"problem": problem, "data": M, "settings": {"file": "a.npy"}}
    data, text = report_in(write_report(tmp_path / "r.html", result, **about))
    report = data["report"]
    assert report == json.loads(json.dumps(gather(result, **about).numbers))
    assert report["value"] == result.value
    assert report["gap"] == result.gap
    assert report["certificate"]["lower_bound"] == result.certificate.lower_bound
    assert report["nonzeros"] == result.nonzeros()
    assert report["rank"] == result.rank
    assert report["counts"]["svds"] == result.counts.svds
    assert report["trace"]["value"] == result.trace["value"].tolist()
    assert report["residual_norm"] == pytest.approx(np.linalg.norm(M - result.X))
    assert report["data_norm"] == pytest.approx(np.linalg.norm(M))
    assert report["problem"]["weights"] == {"lam (L1)": 0.2, "tau (NuclearBall)": 2.0}
    leading = np.linalg.svd(M, compute_uv=False)
    assert report["singular_values"]["data"] == pytest.approx(leading)
    assert report["settings"] == {"file": "a.npy"}
    assert f'<data value="{result.value!r}">' in text
    assert str(result.certificate) in text
    assert report["scale"] == 1.0
    assert report["share_of_zeros"] == 1.0 - result.nonzeros() / M.size
    left = np.linalg.norm(M - result.X) / np.linalg.norm(M)
    assert report["variance_explained"] == pytest.approx(1.0 - left**2)
    assert report["noise"] == pytest.approx(noise_level(M))
    assert data["title"] == "a.npy"

    maps = {figure["title"]: figure for figure in data["figures"]}
    left = np.array(maps["Data minus estimate"]["cells"], dtype=float)
    np.testing.assert_allclose(left, M - result.X, rtol=1e-4)
    size = np.abs(result.X)
    support = np.array(maps["Support of the estimate"]["cells"])
    np.testing.assert_array_equal(support, size > 1e-3 * size.max())
    value = maps["Value"]["panels"][0]
    assert value["series"][0]["y"] == result.trace["value"].tolist()
    bounds = [b for b in value["series"][2]["y"] if b is not None]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize(
    "held",
    [memmap_of(M), scipy.sparse.csr_array(M), TORCH.array(M), M.astype(np.float32)],
    ids=["memmap", "sparse", "torch", "float32"],
)
def test_data_of_any_kind(held, tmp_path):
    _, result = solve(Denoising(M))
    plain, other = gather(result, data=M).numbers, gather(result, data=held).numbers
    for name in ("data_norm", "residual_norm", "relative_residual"):
        assert other[name] == pytest.approx(plain[name], rel=1e-6)
    expected = pytest.approx(plain["singular_values"]["data"], rel=1e-5)
    assert other["singular_values"]["data"] == expected
    assert write_report(tmp_path / "r.html", result, data=held).stat().st_size > 10_000


@pytest.mark.parametrize("held", [HOLES, scipy.sparse.coo_array(np.nan_to_num(HOLES))])
def test_missing_entries_leave_no_residual(held):
    loss = Completion.from_dense(HOLES)
    problem, result = solve(loss, ElasticNet(0.1, 0.1))
    found = gather(result, problem=problem, data=held)
    assert np.isnan(found.residual.cells).tolist() == np.isnan(HOLES).tolist()
    left = np.linalg.norm((HOLES - result.X)[np.isfinite(HOLES)])
    assert found.numbers["residual_norm"] == pytest.approx(left)
    assert "data" not in found.numbers["singular_values"]


@pytest.mark.parametrize("backend", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_every_kind_of_result(backend, tmp_path):
    loss, sampler = Denoising(backend.array(M)), denoising_sampler(backend)
    kinds = {
        "certified": (solve(loss), "good", "Proved: the value is at most"),
        "limited": (solve(loss, eps=1e-9, max_svds=3), "bad", "TARGET NOT CONFIRMED"),
        "no looks": (solve(loss, eps=1e-9, max_svds=0), "bad", "TARGET NOT CONFIRMED"),
        "zero": (solve(loss, L1(100.0), eps=0.1), "good", "Proved:"),
        "sampled": (solve(sampler, evaluation_samples=2), "warning", "in expectation"),
        "confident": (solve(sampler), "good", "above the optimum, at 95 % confidence"),
    }
    for (problem, result), kind, words in kinds.values():
        data, text = report_in(write_report(tmp_path / "r.html", result, problem=problem))
        assert f'<p class="notice {kind} wide"' in text
        assert words in text
        assert kind == "good" or result.status.advice.split(".")[0] in text
        assert data["report"]["confirmed"] == (kind != "bad")
        assert data["report"]["nonzeros"] == result.nonzeros()
        gap_drawn = any(figure["title"] == "Gap" for figure in data["figures"])
        proved = result.certificate.proves and not result.sampled
        assert gap_drawn == (proved and len(result.trace) > 0)


def test_large_answers_are_read_from_their_factors(monkeypatch):
    _, result = solve(Denoising(M))
    expected = gather(result, data=M).numbers
    vars(result).pop("X")
    monkeypatch.setattr(summary, "DENSE_BELOW", 0)
    found = gather(result, data=M).numbers
    assert found["nonzeros"] == expected["nonzeros"]
    assert found["largest_entry"] == pytest.approx(expected["largest_entry"])
    assert found["residual_norm"] == pytest.approx(expected["residual_norm"])
    assert "X" not in vars(result)
    monkeypatch.setattr(summary, "CHEAP_BELOW", 0)
    assert "data" not in gather(result, data=M).numbers["singular_values"]


def test_a_rescaled_estimate_is_shown_and_the_minimiser_proved(tmp_path):
    problem, result = solve(Denoising(M))
    about = {"problem": problem, "data": M, "scale": 1.5, "noise": 0.25}
    data, text = report_in(write_report(tmp_path / "r.html", result, **about, title="mine"))
    maps = {figure["title"]: figure for figure in data["figures"]}
    np.testing.assert_allclose(maps["Estimate"]["cells"], 1.5 * result.X, rtol=1e-4)
    left = np.linalg.norm(M - 1.5 * result.X) / np.linalg.norm(M)
    report = data["report"]
    assert report["variance_explained"] == pytest.approx(1.0 - left**2)
    expected = 1.5 * result.low_rank.s
    assert report["singular_values"]["estimate"] == pytest.approx(expected)
    assert report["value"] == result.value
    assert report["noise"] == 0.25
    assert report["estimated"] == "low-rank and sparse matrix"
    assert "multiplied by 1.5" in text
    assert "<h1>mine</h1>" in text


def test_the_result_of_a_model_shows_its_estimate(tmp_path):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    A += 0.5 * rng.standard_normal(A.shape)
    model = wp.SparseLowRank(random_state=0).fit(A)
    assert model.scale_ > 1.0
    page = model.result_.report(tmp_path / "r.html", data=A)
    report, text = report_in(page)
    shown = report["report"]["singular_values"]["estimate"]
    assert shown == pytest.approx(model.low_rank_.s)
    left = np.linalg.norm(A - model.matrix_) / np.linalg.norm(A)
    assert report["report"]["variance_explained"] == pytest.approx(1.0 - left**2)
    assert report["report"]["value"] == model.result_.value
    assert f"the minimiser multiplied by {model.scale_:.4g}" in text


def test_the_report_of_a_covariance_shows_the_covariance(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 12))
    X = (X + rng.standard_normal(X.shape)) * np.geomspace(1.0, 50.0, 12)
    model = wp.SparseLowRankCovariance(random_state=0).fit(X)
    data, text = report_in(model.result_.report(tmp_path / "r.html", data=np.cov(X.T)))
    shown = next(one for one in data["figures"] if one["title"] == "Estimate")
    size = np.abs(model.covariance_).max()
    np.testing.assert_allclose(shown["cells"], model.covariance_, rtol=1e-4, atol=1e-4 * size)
    values = np.linalg.svd(model.covariance_, compute_uv=False)
    assert data["report"]["singular_values"]["estimate"] == pytest.approx(values, rel=1e-6)
    first = data["report"]["components"][0]
    assert first["share"] == pytest.approx(values[0] ** 2 / np.sum(values**2))
    assert "The proof is about the minimiser." in text


def test_the_report_of_an_imputer_shows_the_filled_table(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 9))
    X = 20 + (X + 0.3 * rng.standard_normal(X.shape)) * np.geomspace(1.0, 50.0, 9)
    seen = np.where(rng.random(X.shape) < 0.8, X, np.nan)
    model = wp.SparseLowRankImputer(random_state=0)
    filled = model.fit_transform(seen)
    np.testing.assert_allclose(filled, model.transform(seen), rtol=1e-9)
    estimate = model.result_.estimate
    np.testing.assert_allclose(estimate, filled, rtol=1e-9)
    data, _ = report_in(model.result_.report(tmp_path / "r.html", data=seen))
    shown = next(one for one in data["figures"] if one["title"] == "Estimate")
    np.testing.assert_allclose(shown["cells"], estimate, rtol=1e-4)
    assert "variance_explained" not in data["report"]  # observed entries explain nothing
    titles = [one["title"] for one in data["figures"]]
    assert "Data" in titles
    assert "Data minus estimate" not in titles

    about = {"title": "mine", "labels": (None, list("abcdefghi")), "settings": {"file": "x"}}
    data, text = report_in(write_imputation_report(tmp_path / "i.html", model, seen, **about))
    shown = next(one for one in data["figures"] if one["title"] == "Estimate")
    standard = (estimate - np.nanmean(seen, axis=0)) / np.nanstd(seen, axis=0)
    np.testing.assert_allclose(shown["cells"], standard, rtol=1e-3, atol=1e-4)
    assert f"{np.isnan(seen).sum()} of 360 entries" in text
    assert "standard deviations" in text


def test_large_tables_keep_no_predictions(monkeypatch):
    monkeypatch.setattr("weakprox.estimators.imputer.KEPT", 10)
    seen = np.where(np.random.default_rng(0).random((8, 5)) < 0.7, 1.0, np.nan)
    model = wp.SparseLowRankImputer(0.0, 1.0, random_state=0)
    assert np.isfinite(model.fit_transform(seen)).all()
    assert model.result_.estimate is None


def test_results_of_completion_and_links_have_their_estimates():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((40, 30)) < 0.6)
    L = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    values = 3 + L[rows, cols] + 0.3 * rng.standard_normal(len(rows))
    model = wp.MatrixCompletion(random_state=0).fit(rows, cols, values)
    estimate = model.result_.estimate
    assert estimate is not None
    product = model.user_factors_ @ model.item_factors_.T
    np.testing.assert_allclose(estimate.dense(), product, atol=1e-9)
    np.testing.assert_allclose(estimate.U.T @ estimate.U, np.eye(estimate.rank), atol=1e-9)
    A = np.kron(np.eye(2), np.ones((12, 12))) * (rng.random((24, 24)) < 0.7)
    A = np.triu(A, 1)
    links = wp.LinkPredictor(random_state=0).fit(A + A.T)
    assert links.result_.estimate.sqnorm > links.result_.low_rank.sqnorm


@pytest.mark.parametrize(
    ("gap", "bound", "expected"),
    [
        (0.0, 2.0, "0 %"),
        (0.01, 100.0, "0.01 %"),
        (0.0101, 100.0, "0.011 %"),
        (1.0, 3.0, "34 %"),
        (1.0, 0.0, None),
        (11.0, 1.0, None),
        (9.5, 1.0, "950 %"),
        (1.0, -np.inf, None),
        (np.inf, 1.0, None),
    ],
)
def test_the_proof_as_a_percentage_is_never_too_small(gap, bound, expected):
    assert percentage(gap, bound) == expected


def test_what_the_bound_rests_on_is_said():
    _, result = solve(Denoising(M))
    grounds = {"exact": "without randomness", "high-probability": "1e-10", "sampled": "normal"}
    for ground, words in grounds.items():
        proof = wp.Certificate(result.value, result.value - 0.5, ground)
        told = verdict(wp.Result(**{**fields_of(result), "certificate": proof}))
        assert words in told.sentences[0]
        assert told.kind == "good"


def fields_of(result):
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"result": 3}, "result"),
        ({"problem": 3}, "problem"),
        ({"problem": wp.Problem(Denoising(M.T), None, NuclearBall(1.0))}, "problem"),
        ({"data": M.T}, "data"),
        ({"data": "text"}, "data"),
        ({"rows": ["a"]}, "rows"),
        ({"scale": 0.0}, "scale"),
        ({"noise": -1.0}, "noise"),
        ({"columns": ["a"]}, "columns"),
        ({"settings": [1, 2]}, "settings"),
        ({"path": M}, "path"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, argument, tmp_path):
    _, result = solve(Denoising(M))
    with pytest.raises(wp.InputError) as caught:
        write_report(**{"path": tmp_path / "r.html", "result": result, **arguments})
    assert caught.value.argument == argument
    assert list(tmp_path.iterdir()) == []

"""What notebooks show, and results in files and as plain numbers."""

import json
import math
import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import weakprox as wp
from weakprox import losses, penalties, spectral
from weakprox.display import Markup, card, counted, spark, table
from weakprox.linalg.lowrank import LowRank
from weakprox.result import Trace
from weakprox.storage import FileError

M = np.random.default_rng(3).standard_normal((14, 9))


@pytest.fixture(scope="module")
def problem():
    return wp.Problem(losses.Denoising(M), penalties.L1(0.1), spectral.NuclearBall(4.0))


@pytest.fixture(scope="module")
def result(problem):
    return wp.minimize(problem, tol=1e-6)


class Balanced(HTMLParser):
    """Collects the text, and fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(html):
    parser = Balanced()
    parser.feed(html)
    assert not parser.open
    return " ".join(parser.words), parser.tags


def test_a_result_shows_its_certificate_and_a_line(result):
    words, tags = read(result._repr_html_())
    assert str(result.certificate) in words
    assert f"rank {result.rank}" in words
    assert {"table", "svg", "polyline"} <= set(tags)
    assert "not confirmed" not in words


def test_an_unfinished_result_says_so(problem):
    words, _ = read(wp.minimize(problem, eps=1e-9, max_svds=2)._repr_html_())
    assert "Accuracy not confirmed." in words


def test_a_result_without_a_bound_says_so(result):
    bare = replace(result, certificate=wp.Certificate.nothing(1.0), trace=Trace())
    words, tags = read(bare._repr_html_())
    assert "Nothing is proved" in words
    assert "svg" not in tags


def test_other_tables(problem, result):
    words, _ = read(problem._repr_html_())
    assert "14 x 9" in words
    assert "L1(lam=0.1)" in words
    assert "none" in read(wp.Problem(problem.loss, None, problem.spectral)._repr_html_())[0]
    words, _ = read(result.certificate._repr_html_())
    assert str(result.certificate) in words
    words, tags = read(result.trace._repr_html_())
    assert "svg" in tags
    words, _ = read(wp.plan(problem)._repr_html_())
    assert words.count("would run") == 1
    assert read(Trace()._repr_html_())[0].startswith("Trace of a run rows 0")


def test_every_letter_has_a_meaning(problem):
    found = wp.theory.parameters(problem, eps=0.1)
    words, _ = read(found._repr_html_())
    for name, (value, meaning) in found.letters.items():
        assert meaning in words
        assert name in words
        assert math.isfinite(value)
    assert found.letters["beta"] == (found.beta, found.letters["beta"][1])
    assert {"alpha", "eta", "mu", "C0", "k_s", "T"} <= set(found.letters)


def test_gaps_fall_to_the_last_one(result):
    gaps = result.trace.gaps()
    assert np.all(np.diff(gaps) <= 0.0)
    assert gaps[-1] == pytest.approx(result.gap, rel=1e-3)
    bare = Trace([(*row[:9], math.nan, row[10]) for row in result.trace.rows])
    assert np.isnan(bare.gaps()).all()


def test_text_is_escaped():
    assert "<script>" not in card("<script>", [("<script>", "<script>")], ["<script>"])
    assert "<script>" not in table("a", ["<script>"], [["<script>"]])
    assert "<b>" in card("a", [("b", Markup("<b></b>"))])


def test_spark_lines_have_few_points_and_skip_what_is_not_positive():
    assert spark([1.0], "gap") == ""
    assert spark([1.0, math.nan, -1.0, math.inf], "gap") == ""
    line = spark([10.0 ** -(k / 100) for k in range(1000)], "gap")
    assert 40 < line.count(",") <= 81
    assert "from 1 to 1.02e-10" in line


def test_a_result_survives_a_file(result, tmp_path):
    path = result.save(tmp_path / "r.safetensors")
    again = wp.Result.load(path)
    assert repr(again) == repr(result)
    assert again.explain() == result.explain()
    assert again.certificate == result.certificate
    assert again.counts == result.counts
    assert again.status is result.status
    np.testing.assert_array_equal(again.X, result.X)
    np.testing.assert_array_equal(again.trace["value"], result.trace["value"])
    twice = wp.Result.load(again.save(tmp_path / "again.safetensors"))
    assert vars(twice.parameters) == vars(again.parameters)


def test_labels_and_infinite_numbers_survive(result, tmp_path):
    odd = replace(result, certificate=wp.Certificate.nothing(2.0), labels=(None, ["ä"] * 9))
    again = wp.Result.load(odd.save(tmp_path / "r.safetensors"))
    assert again.gap == math.inf
    assert again.labels == (None, ["ä"] * 9)


def estimates(result):
    """A model's estimate in factors, and one that is not of low rank."""
    X = result.low_rank
    return {"factors": LowRank(X.U, 1.5 * X.s, X.Vt), "whole": result.X + np.eye(*M.shape)}


def as_array(estimate):
    return estimate.dense() if isinstance(estimate, LowRank) else estimate


@pytest.mark.parametrize("kind", ["factors", "whole"])
def test_the_estimate_of_a_model_survives(result, tmp_path, kind):
    model = replace(result, estimate=estimates(result)[kind])
    path = model.save(tmp_path / "r.safetensors")
    again = wp.Result.load(path)
    assert isinstance(again.estimate, LowRank) == (kind == "factors")
    np.testing.assert_array_equal(as_array(again.estimate), as_array(model.estimate))
    np.testing.assert_array_equal(again.X, result.X)
    pages = [
        one.report(tmp_path / "r.html", data=M).read_text("utf-8") for one in (model, again)
    ]
    values = [re.search(r'"estimate":(\[[^]]*\])', page)[1] for page in pages]
    assert values[0] == values[1] != ""


def header_of(path):
    raw = path.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]


def test_files_of_the_first_version_are_read(result, tmp_path):
    path = result.save(tmp_path / "r.safetensors")
    save_file(load_file(path), path, {**header_of(path), "version": "1"})
    again = wp.Result.load(path)
    assert again.estimate is None
    assert again.value == result.value
    save_file(load_file(path), path, {**header_of(path), "version": "3"})
    with pytest.raises(FileError, match="version 3"):
        wp.Result.load(path)


@pytest.mark.parametrize("kind", ["factors", "whole"])
def test_estimates_of_another_shape_are_refused(result, tmp_path, kind):
    path = replace(result, estimate=estimates(result)[kind]).save(tmp_path / "r.safetensors")
    name = {"factors": "estimate_U", "whole": "estimate"}[kind]
    arrays = load_file(path)
    save_file({**arrays, name: arrays[name][:-1].copy()}, path, header_of(path))
    with pytest.raises(FileError, match="damaged"):
        wp.Result.load(path)
    arrays.pop(name)
    save_file({**arrays, "more": M}, path, header_of(path))
    with pytest.raises(FileError, match="unknown contents"):
        wp.Result.load(path)


def test_numbers_have_the_right_form_of_their_noun(result):
    assert counted(1, "SVD") == "1 SVD"
    assert counted(0, "SVD") == "0 SVDs"
    assert counted(2.0, "entry", "entries") == "2 entries"
    counts = replace(result.counts, svds=1, full_gradients=1)
    single = replace(result, counts=counts, trace=Trace(result.trace.rows[:1]))
    shown = [repr(single), single.explain(), single._repr_html_(), repr(single.trace)]
    for text in shown[:3]:
        assert re.search(r"\b1 SVD\b", text)
    for text in shown:
        assert not re.search(r"\b1 (SVDs|rows|full gradients)\b", text)


def test_a_loaded_result_has_no_proof(result, tmp_path):
    again = wp.Result.load(result.save(tmp_path / "r.safetensors"))
    with pytest.raises(wp.ProofError):
        _ = again.proof


def test_other_files_are_refused(result, tmp_path):
    with pytest.raises(FileError, match="no such file"):
        wp.Result.load(tmp_path / "none.safetensors")
    with pytest.raises(FileError, match="safetensors"):
        result.save(tmp_path / "r.pkl")
    (tmp_path / "text.safetensors").write_text("text")
    with pytest.raises(FileError, match="damaged"):
        wp.Result.load(tmp_path / "text.safetensors")
    save_file({"U": M}, tmp_path / "other.safetensors")
    with pytest.raises(FileError, match="another file"):
        wp.Result.load(tmp_path / "other.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("value"),
        lambda about: about.update(status="fine"),
        lambda about: about["counts"].update(svds="many"),
        lambda about: about.update(certificate=3),
        lambda about: about.update(labels=None),
    ],
)
def test_changed_records_are_refused(result, tmp_path, change):
    path = result.save(tmp_path / "r.safetensors")
    arrays = load_file(path)
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])["__metadata__"]
    about = json.loads(header["result"])
    change(about)
    save_file(arrays, path, {**header, "result": json.dumps(about)})
    with pytest.raises(FileError, match="damaged"):
        wp.Result.load(path)


def test_factors_that_do_not_fit_are_refused(result, tmp_path):
    path = result.save(tmp_path / "r.safetensors")
    arrays, raw = load_file(path), path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    save_file({**arrays, "s": arrays["s"][:-1].copy()}, path, header)
    with pytest.raises(FileError, match="damaged"):
        wp.Result.load(path)


def test_to_dict_is_json(result):
    found = result.to_dict(trace=True)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert found["gap"] == result.gap
    assert found["rank"] == result.rank == len(found["singular_values"])
    assert found["trace"]["value"] == result.trace["value"].tolist()
    assert "trace" not in result.to_dict()


def test_a_report_finds_the_problem_and_its_data(result, problem, tmp_path):
    text = result.report(tmp_path / "r.html").read_text("utf-8")
    assert "Data minus estimate" in text
    assert r"\frac{1}{2} \lVert X - M \rVert_F^2" in text  # read aloud; seen as MathML


def test_a_report_needs_neither(result, tmp_path):
    again = wp.Result.load(result.save(tmp_path / "r.safetensors"))
    text = again.report(tmp_path / "r.html").read_text("utf-8")
    assert "Data minus estimate" not in text
    assert str(result.certificate)[:20] in text
    text = again.report(tmp_path / "r.html", data=M).read_text("utf-8")
    assert "Data minus estimate" in text


def test_results_do_not_keep_the_problem_alive():
    loss = losses.Denoising(M)
    result = wp.minimize(wp.Problem(loss, None, spectral.NuclearBall(4.0)))
    assert result.source() is None
    assert pickle.loads(pickle.dumps(result)).source is None


def test_objects_with_arrays_are_shown_in_one_line(result):
    path = wp.selection.regularization_path(losses.Denoising(M), [0.2, 0.1], [1.0, 2.0, 3.0])
    copies = wp.selection.thinned(M, 1.0)
    assert repr(path).startswith("Path(2 weights x 3 radii on 14 x 9, ranks ")
    assert "estimated gaps" in repr(path)
    assert repr(result.low_rank) == f"LowRank(14 x 9, rank {result.rank})"
    assert repr(result.trace).startswith(f"Trace({len(result.trace)} rows, ")
    assert repr(Trace()) == "Trace(no rows)"
    assert repr(copies) == "Copies(5 noisy copies of 14 x 9)"
    for shown in (path, result.low_rank, result.trace, copies):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 120


def test_a_path_is_a_table():
    path = wp.selection.regularization_path(losses.Denoising(M), [0.2], [1.0, 2.0])
    words, tags = read(path._repr_html_())
    assert "table" in tags
    assert "estimated by the solver" in words
    assert "path.lams[i]" in words


def test_a_plan_is_shown_as_it_is_printed(problem):
    plan = wp.plan(problem)
    assert repr(plan) == str(plan)


def test_certificates_hold_plain_numbers(result):
    assert type(result.certificate.lower_bound) is float
    assert "np.float64" not in repr(result.certificate)

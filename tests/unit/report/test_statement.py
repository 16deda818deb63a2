"""Problems as formulas, settings in words, and how to cite."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, MaxAffine, SignedL1
from weakprox.report import mathml
from weakprox.report.citation import BIBTEX
from weakprox.report.statement import in_words, statement, weights, what_was_estimated
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

M = numbers(*SHAPE)


def parsed(markup):
    """The tree of a formula; attributes without quotes are HTML's, not XML's."""
    return ElementTree.fromstring(re.sub(r"(\w+)=(\w+)", r'\1="\2"', markup))


def shown(tex):
    """Names of elements with their text, in order."""
    plain = re.sub(r' alttext="[^"]*"', "", mathml.formula(tex))
    return [(node.tag, node.text) for node in parsed(plain).iter() if node.tag != "mrow"][1:]


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"x_{i j}^2", [("msubsup", None), ("mi", "x"), ("mi", "i"), ("mi", "j"), ("mn", "2")]),
        (r"\frac{1}{2}", [("mfrac", None), ("mn", "1"), ("mn", "2")]),
        (r"\sum_i a", [("munder", None), ("mo", "∑"), ("mi", "i"), ("mi", "a")]),
        (r"0.25 \lambda", [("mn", "0.25"), ("mi", "λ")]),
        (r"a - b", [("mi", "a"), ("mo", "\u2212"), ("mi", "b")]),
        (r"x < 1", [("mi", "x"), ("mo", "<"), ("mn", "1")]),
        (r"\text{tr} X", [("mtext", "tr"), ("mi", "X")]),
    ],
)
def test_formulas_are_mathml(tex, expected):
    assert shown(tex) == expected


@pytest.mark.parametrize("tex", [r"\foo", r"\frac{1}", "{a", "a}", "a^", r"\frac 1 2", "_a"])
def test_misspelt_formulas_raise(tex):
    with pytest.raises(ValueError, match="formula"):
        mathml.formula(tex)


def test_text_with_formulas_is_escaped():
    found = mathml.typeset("<b> & $x$ <i>")
    assert found.startswith("&lt;b&gt; &amp; <math")
    assert found.endswith("</math> &lt;i&gt;")


@pytest.mark.parametrize(
    ("value", "tex"), [(0.25, "0.25"), (3.0, "3"), (1.5e-7, r"1.5 \cdot 10^{-7}")]
)
def test_numbers_in_formulas(value, tex):
    assert mathml.number(value) == tex


def test_problems_are_stated_with_their_weights():
    ball = statement(wp.Problem(Denoising(M), L1(0.25), NuclearBall(3.0)))
    half = r"\frac{1}{2} \lVert X - M \rVert_F^2"
    assert ball.objective == half + r" + 0.25 \sum_{i,j} |x_{i j}|"
    assert ball.domain == r"X \in \reals^{7 \times 5}, \lVert X \rVert_* \le 3"
    assert ball.where == [("M", "the data")]
    several = statement(wp.Problem(Denoising(M), L1(1.0) + GroupL2(0.5), NuclearNorm(2.0)))
    groups = r"1 \sum_{i,j} |x_{i j}| + 0.5 \sum_i \lVert x_{i :} \rVert_2"
    assert several.objective == rf"{half} + {groups} + 2 \lVert X \rVert_*"
    none = statement(wp.Problem(Denoising(M @ M.T), None, TracePSD(4.0)))
    assert none.objective == half
    assert none.domain.endswith(r"X \succeq 0, \text{tr} X \le 4")


@pytest.mark.parametrize(
    "penalty",
    [
        L1(0.1, weights=np.ones(SHAPE)),
        ElasticNet(0.1, 0.2),
        GroupL2(0.5, groups="columns"),
        Box(0.0, 1.0, 2.0),
        MaxAffine(np.stack([M, -M])),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_every_penalty_can_be_typeset(penalty):
    said = statement(wp.Problem(Denoising(M), penalty, NuclearBall(3.0)))
    for tex in (said.tex, said.objective, said.domain, *(letter for letter, _ in said.where)):
        assert mathml.formula(tex).count("<math") == 1
    assert " + " in said.objective


def test_weights_of_terms_are_their_numbers_by_name():
    penalty = L1(0.1, weights=np.ones(SHAPE)) + SignedL1(1.0, 2.0) + GroupL2(0.5)
    assert weights(wp.Problem(Denoising(M), penalty, NuclearBall(3.0))) == {
        "lam (L1)": 0.1,
        "above (SignedL1)": 1.0,
        "below (SignedL1)": 2.0,
        "lam2 (SignedL1)": 0.0,
        "lam (GroupL2)": 0.5,
        "tau (NuclearBall)": 3.0,
    }


def test_penalties_with_other_slopes_have_formulas():
    signed = statement(wp.Problem(Denoising(M), SignedL1(1.0, 2.0, 0.5), NuclearBall(3.0)))
    sides = r"1 \max(x_{i j}, 0) + 2 \max(-x_{i j}, 0)"
    squares = r"0.5 \lVert X \rVert_F^2"
    assert rf" + \sum_{{i,j}} ({sides}) + {squares}" in signed.objective
    mathml.formula(signed.objective)


def test_weights_and_means_of_observations_are_in_the_formula():
    loss = Completion([0, 1], [1, 0], [1.0, 2.0], SHAPE, weights=[1.0, 3.0], reduction="mean")
    said = statement(wp.Problem(loss, None, NuclearNorm(0.5)))
    assert said.objective.startswith(r"\frac{1}{4} \sum_{i,j} w_{i j} (x_{i j} - y_{i j})^2")
    assert "w_{i j}" in dict(said.where)
    mathml.formula(said.objective)


def test_a_loss_without_a_formula_is_named():
    loss = Custom(
        SHAPE,
        value=lambda X: 0.5 * float(np.sum(X * X)),
        grad=lambda X: X,
        strong_convexity=1.0,
        smoothness=1.0,
    )
    problem = wp.Problem(loss, None, NuclearBall(1.0))
    assert statement(problem).objective == "G(X)"
    assert statement(problem).where == [("G", repr(loss))]


@pytest.mark.parametrize(
    ("options", "objective"),
    [
        ({}, r"\frac{1}{2} \sum_{i,j} (x_{i j} - y_{i j})^2"),
        (
            {"intercepts": "both", "intercept_ridge": 4.0, "scaling": "counts"},
            r"\frac{1}{2} \sum_{i,j} (l_{i j} + \mu + a_i + b_j - y_{i j})^2"
            r" + 2 (\lVert a \rVert^2 + \lVert b \rVert^2)",
        ),
        (
            {"intercepts": "rows"},
            r"\frac{1}{2} \sum_{i,j} (x_{i j} + \mu + a_i - y_{i j})^2",
        ),
    ],
    ids=["plain", "everything", "rows"],
)
def test_completion_is_stated_with_its_intercepts(options, objective):
    loss = Completion([0, 1], [1, 0], [1.0, 2.0], SHAPE, **options)
    said = statement(wp.Problem(loss, None, NuclearNorm(0.5)))
    assert said.objective == objective + r" + 0.5 \lVert X \rVert_*"
    mathml.formula(said.objective)
    for tex, _ in said.where:
        mathml.formula(tex)


def test_what_was_estimated_in_words():
    spectral = NuclearBall(1.0)
    words = [
        ("low-rank matrix", None),
        ("low-rank matrix", L1(0.0)),
        ("low-rank matrix", ElasticNet(0.0, 1.0)),
        ("low-rank and sparse matrix", L1(1.0)),
        ("low-rank and sparse matrix", L1(1.0, np.ones(SHAPE))),
        ("low-rank and sparse matrix", SignedL1(1.0, 2.0)),
        ("low-rank, sparse, row-sparse matrix", L1(1.0) + GroupL2(1.0)),
        ("low-rank and column-sparse matrix", GroupL2(1.0, "columns")),
    ]
    for expected, penalty in words:
        problem = wp.Problem(Denoising(M), penalty, spectral)
        assert what_was_estimated(problem) == expected
    psd = wp.Problem(Denoising(M @ M.T), None, TracePSD(4.0))
    assert what_was_estimated(psd) == "low-rank and positive semidefinite matrix"
    assert what_was_estimated(None) == "low-rank matrix"


def test_settings_in_words():
    given = {
        "shape": [7, 5],
        "lam": 0.123456789,
        "tau": 3.0,
        "chosen": {"lam": "held-out data"},
        "noise": None,
        "row_labels": True,
        "my_own": {"a": [1, 2], "b": "c"},
    }
    assert in_words(given) == {
        "size": "7 x 5",
        "weight of the l1 norm (lam)": "0.123457, chosen by held-out data",
        "bound on the nuclear norm (tau)": 3.0,
        "labels of rows in the file": True,
        "my own": "a: 1, 2; b: c",
    }


def test_the_citation_is_that_of_the_repository():
    text = Path(__file__).parents[3].joinpath("CITATION.cff").read_text(encoding="utf-8")
    flat, cited = " ".join(text.split()), " ".join(BIBTEX.split())
    for name in ("title", "family-names", "given-names", "year", "volume", "journal"):
        for found in re.findall(rf"(?m)^[ -]*{name}: ([^>\n]+)$", text):
            assert found in cited, name
    assert re.search(r"value: (arXiv:\S+)", text)[1] in cited
    assert re.search(r"collection-title: >- (.*?) conference:", flat)[1] in cited
    pages = re.search(r"start: (\d+) end: (\d+)", flat)
    assert f"{{{pages[1]}--{pages[2]}}}" in cited
    assert f"{{{wp.__version__}}}" in cited

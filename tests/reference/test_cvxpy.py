"""Answers agree with an interior-point solver, and the certificate brackets its optimum."""

from __future__ import annotations

import numpy as np
import pytest
from reference._cases import (
    Case,
    affine,
    complete,
    denoise,
    elastic_net,
    group,
    l1,
    sense,
    signal,
)

import weakprox as wp

SMALL = 1e-5  # relative accuracy granted to CVXPY


def build(name, kind, shape, eps, make, share=0.8, rank=None):
    """A case; `make(X0, psd, rng)` gives the loss and the penalties."""
    rng = np.random.default_rng(sum(map(ord, name)))
    X0 = signal(shape, kind == "psd", rng)
    loss, *penalties = make(X0, kind == "psd", rng)
    size = share if kind == "norm" else share * np.linalg.norm(X0, "nuc")
    return Case(name, kind, shape, float(size), loss, tuple(penalties), eps, rank)


def example_1(X0, psd, rng):
    return denoise(X0, psd, rng), l1(0.15)


def example_2(X0, psd, rng):
    return denoise(X0, psd, rng), affine(X0.shape, 9, rng)


def example_3(X0, psd, rng):
    return sense(X0, 4 * X0.size, rng), elastic_net(0.1, 0.1)


def completion(X0, psd, rng):
    return complete(X0, 0.6, rng), elastic_net(0.05, 0.1)


def rows(X0, psd, rng):
    return denoise(X0, psd, rng), group(0.4, "rows")


def columns(X0, psd, rng):
    return denoise(X0, psd, rng), group(0.4, "columns")


def two_norms(X0, psd, rng):
    return denoise(X0, psd, rng), l1(0.1), group(0.3, "rows")


def three_terms(X0, psd, rng):
    lone = affine(X0.shape, 5, rng)
    return complete(X0, 0.7, rng), elastic_net(0.05, 0.2), group(0.1, "columns"), lone


def nothing(X0, psd, rng):
    return (sense(X0, 3 * X0.size, rng),)


CASES = [
    build("ex 1 ball square", "ball", (10, 10), 0.02, example_1),
    build("ex 1 ball tall", "ball", (12, 8), 0.02, example_1),
    build("ex 1 ball wide", "ball", (8, 12), 0.02, example_1),
    build("ex 1 psd", "psd", (10, 10), 0.02, example_1),
    build("ex 1 norm", "norm", (10, 8), 0.02, example_1),
    build("ex 1 larger", "ball", (30, 20), 0.1, example_1),
    build("ex 2 ball square", "ball", (8, 8), 0.2, example_2),
    build("ex 2 ball tall", "ball", (10, 6), 0.2, example_2),
    build("ex 2 psd", "psd", (8, 8), 0.2, example_2),
    build("ex 2 norm", "norm", (8, 6), 0.2, example_2),
    build("ex 3 ball square", "ball", (8, 8), 0.1, example_3),
    build("ex 3 ball wide", "ball", (6, 9), 0.1, example_3),
    build("ex 3 psd", "psd", (8, 8), 0.1, example_3),
    build("ex 3 norm", "norm", (8, 6), 0.1, example_3),
    build("ex 3 larger", "psd", (16, 16), 0.2, example_3),
    build("completion ball", "ball", (12, 10), 0.1, completion),
    build("completion psd", "psd", (10, 10), 0.1, completion),
    build("completion norm", "norm", (10, 8), 0.1, completion, share=0.5),
    build("rows ball", "ball", (10, 8), 0.02, rows),
    build("columns psd", "psd", (9, 9), 0.02, columns),
    build("columns norm", "norm", (9, 7), 0.02, columns),
    build("two norms ball", "ball", (9, 7), 0.1, two_norms),
    build("three terms ball", "ball", (8, 7), 0.2, three_terms),
    build("no penalty norm", "norm", (8, 6), 0.05, nothing),
    build("no penalty ball", "ball", (6, 8), 0.05, nothing),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_value_is_within_eps_of_the_reference(case):
    best, _ = case.optimum
    assert case.result.value <= best + case.eps + SMALL * (1 + abs(best))
    assert case.result.status in (wp.Status.CERTIFIED, wp.Status.EXPECTED)


@every_case
def test_certificate_brackets_the_reference(case):
    best, _ = case.optimum
    slack = SMALL * (1 + abs(best))
    found = case.result.certificate
    assert found.lower_bound <= best + slack
    assert best <= case.result.value + slack
    assert found.value == case.result.value
    assert case.result.gap == pytest.approx(case.result.value - found.lower_bound)


@every_case
def test_answer_is_feasible_of_the_rank_asked_and_honestly_valued(case):
    X = case.result.X
    assert case.result.rank <= case.rank_asked
    assert np.linalg.matrix_rank(X, tol=1e-9 * np.linalg.norm(X)) <= case.rank_asked
    assert case.result.violation <= 1e-9
    assert case.excess(X) <= 1e-9
    assert case.result.value == pytest.approx(case.value(X), rel=1e-9)


@every_case
def test_answer_is_near_the_reference_point(case):
    """Strong convexity: a/2 |X - X*|^2 <= f(X) - f* <= gap."""
    best, target = case.optimum
    alpha = case.problem.constants().alpha
    distance = float(((case.result.X - target) ** 2).sum())
    gap = case.value(case.result.X) - best + SMALL * (1 + abs(best))
    assert alpha / 2 * distance <= gap + 1e-4


WHOLE = ["ex 1 ball tall", "ex 1 psd", "ex 2 norm", "ex 3 ball wide", "two norms ball"]


@pytest.mark.parametrize("case", [c for c in CASES if c.name in WHOLE], ids=lambda c: c.name)
def test_whole_theorem_without_early_stop(case):
    """All S - 1 epochs: within eps by the theorem, whatever the certificate says."""
    best, _ = case.optimum
    solver = wp.SVRGCG(rank=min(case.shape), answer="iterate")
    eps = 0.1 * abs(best)
    result = wp.minimize(
        case.problem, solver, eps=eps, stop_when_certified=False, progress=False
    )
    assert result.counts.svds == result.parameters.predicted_svds
    assert result.status in (wp.Status.CERTIFIED, wp.Status.EXPECTED)
    assert best - SMALL * (1 + abs(best)) <= result.value <= best + eps

"""Exact: the user's own proximal map, factored and checked."""

import numpy as np
import pytest
from registry import DOUBLE, box, numbers

from weakprox.errors import InputError
from weakprox.linalg.arrays import to_numpy
from weakprox.spectral import Exact

A = numbers(6, 4, seed=180)


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_answers_are_the_users(backend):
    found = box(0.5).weak_prox(backend.array(A), weight=2.0, rank=1)
    wanted = np.clip(A, -0.5, 0.5)
    assert to_numpy(found.V.dense()) == pytest.approx(wanted)
    assert found.delta == 0.0
    assert found.lower == pytest.approx(((wanted - A) ** 2).sum())
    assert found.rests_on == "exact"


def test_prox_sees_the_weight():
    term = Exact(prox=lambda B, weight: B * weight / (1 + weight), value_of=lambda X: 0.0)
    assert term.weak_prox(A, weight=3.0, rank=2).V.dense() == pytest.approx(0.75 * A)


def test_value_conjugate_and_violation():
    term = box(0.5)
    inside = term.compress(np.clip(A, -0.5, 0.5), 2, np.random.default_rng(0))
    outside = term.compress(A, 2, np.random.default_rng(0))
    assert term.value(inside) == 0.0
    assert term.violation(inside) == 0.0
    assert term.violation(outside) == np.inf
    assert term.conjugate(A, np.random.default_rng(0)) == pytest.approx(0.5 * np.abs(A).sum())
    silent = Exact(prox=term.prox, value_of=term.value_of)
    assert silent.conjugate(A, np.random.default_rng(0)) == np.inf


def test_compress_does_not_leave_the_domain():
    """Cutting the rank of an unknown h might: X stays as it is."""
    X = np.clip(A, -0.5, 0.5)
    assert box(0.5).compress(X, 1, np.random.default_rng(0)).dense() == pytest.approx(X)


@pytest.mark.parametrize(
    "answer",
    [A.T, A * np.nan, None, "a string", A[0]],
    ids=["shape", "nan", "none", "str", "row"],
)
def test_wrong_answers_are_named(answer):
    term = Exact(prox=lambda B, weight: answer, value_of=lambda X: 0.0)
    with pytest.raises(InputError, match="prox") as caught:
        term.weak_prox(A, weight=1.0, rank=2)
    assert caught.value.argument == "prox"

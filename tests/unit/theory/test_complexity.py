"""Table 2 of the paper, evaluated: the orders in eps, tau and the constants."""

import math
from dataclasses import replace

import numpy as np
import pytest

import weakprox as wp
from weakprox.theory import complexity, parameters


@pytest.fixture(scope="module")
def settings():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((6, 5))
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.5), wp.spectral.NuclearBall(3.0)
    )
    found = parameters(problem, eps=0.1)
    return replace(found, sigma=2.0, C0=10.0, beta_term=3.0, alpha=0.5)


def test_rows_are_the_papers_formulas(settings):
    p, tau = settings, 3.0
    rows = {row.method: row for row in complexity(p, tau=tau, rank=2)}
    rounds = math.log(10.0 / 0.1)
    lmo = p.beta * tau**2 / 0.1
    assert rows["SFW"].stochastic_gradients == pytest.approx(4 * p.beta * 81 / 1e-3)
    assert rows["SCGS"].stochastic_gradients == pytest.approx(4 / (0.5 * 0.1))
    assert rows["Algorithm 1"].stochastic_gradients == pytest.approx(4 / (0.5 * 0.1))
    assert rows["STORC"].stochastic_gradients == pytest.approx((p.beta / 0.5) ** 2 * rounds)
    assert rows["Algorithm 2"].stochastic_gradients == pytest.approx(
        9 * p.beta / 0.5**3 * rounds
    )
    for method in ("SFW", "SCGS", "STORC"):
        assert (rows[method].svd_rank, rows[method].svds) == (1, pytest.approx(lmo))
    for method in ("Algorithm 1", "Algorithm 2"):
        assert rows[method].svds == pytest.approx(p.beta / 0.5 * rounds)
        assert rows[method].svd_rank == 2
    assert [rows[m].exact_gradients > 0 for m in rows] == [False, False, False, True, True]


def test_svds_of_the_papers_methods_grow_with_the_logarithm_only(settings):
    finer = replace(settings, eps=settings.eps / 100)
    old = {r.method: r.svds for r in complexity(settings, tau=3.0, rank=2)}
    new = {r.method: r.svds for r in complexity(finer, tau=3.0, rank=2)}
    assert new["SCGS"] / old["SCGS"] == pytest.approx(100)
    assert new["Algorithm 1"] / old["Algorithm 1"] == pytest.approx(2.0)


def test_a_row_prints_as_a_line(settings):
    line = str(complexity(settings, tau=3.0, rank=2)[0])
    assert line.startswith("SFW")
    assert "\n" not in line


def test_an_accuracy_above_the_first_gap_takes_one_round(settings):
    rows = complexity(replace(settings, eps=settings.C0), tau=3.0, rank=2)
    condition = settings.beta / settings.alpha
    assert rows[2].svds == pytest.approx(condition)
    assert rows[3].exact_gradients == 1.0

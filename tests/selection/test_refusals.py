"""Bad arguments of the functions in `weakprox.selection` get typed errors that name them."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.selection import (
    default_grid,
    folded,
    held_out,
    noise_level,
    observed_path,
    regularization_path,
    sure,
    thinned,
)

M = sparse_low_rank(12, 8)[1]
GRID = default_grid(M, 0.5, n_lams=2, n_taus=2)
LOSS = wp.losses.Denoising(M)
ENTRIES = wp.losses.Completion.from_dense(np.where(M > 0.0, M, np.nan))
COPIES = thinned(M, 0.5, 3)
SEEDED = {
    "regularization_path": lambda seed: regularization_path(LOSS, *GRID_OF, seed=seed),
    "observed_path": lambda seed: observed_path(ENTRIES, [5.0], seed=seed),
    "held_out": lambda seed: held_out(COPIES, GRID, folds=1, seed=seed),
    "thinned": lambda seed: thinned(M, 0.5, seed=seed),
    "folded": lambda seed: folded(np.stack([M, M, M]), seed=seed),
    "parameters": lambda seed: wp.theory.parameters(PROBLEM, 0.1, seed=seed),
}
GRID_OF = GRID.lams, GRID.taus
PROBLEM = wp.Problem(LOSS, wp.penalties.L1(0.1), wp.spectral.NuclearBall(1.0))


@pytest.mark.parametrize("name", SEEDED)
@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_seeds(name, seed):
    with pytest.raises(wp.InputError) as caught:
        SEEDED[name](seed)
    assert caught.value.argument == "seed"


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_may_be_generators_or_none(name):
    for seed in (None, np.random.default_rng(0)):
        SEEDED[name](seed)


def test_a_generator_fixes_the_random_numbers():
    one, two = (thinned(M, 0.5, seed=np.random.default_rng(3)).means for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: noise_level(M.astype(complex)), "M"),
        (lambda: noise_level(M.astype(str)), "M"),
        (lambda: regularization_path(LOSS, *GRID_OF, max_seconds=-1.0), "max_seconds"),
        (lambda: regularization_path(LOSS, *GRID_OF, max_seconds="1"), "max_seconds"),
        (lambda: regularization_path(LOSS, *GRID_OF, penalty=PROBLEM.penalty), "penalty"),
        (lambda: regularization_path(LOSS, *GRID_OF, spectral=2.0), "spectral"),
        (lambda: regularization_path(LOSS, [1.0], "abc"), "taus"),
        (lambda: regularization_path(LOSS, *GRID_OF).best("abc"), "scores"),
        (lambda: default_grid(M, psd=True), "M"),
        (lambda: sure(M, M, 1.0, None), "divergence"),
        (lambda: wp.theory.complexity(None, tau=1.0, rank=1), "p"),
        (lambda: wp.theory.parameters(PROBLEM, 0.1, delta2=None), "delta2"),
        (lambda: ENTRIES.part(np.zeros(ENTRIES.n_terms, bool)), "kept"),
        (lambda: ENTRIES.part(np.ones(3, bool)), "kept"),
        (lambda: held_out(M, GRID), "copies"),
        (lambda: held_out(COPIES, [1.0]), "grid"),
        (lambda: held_out(COPIES, GRID, n_jobs=0), "n_jobs"),
        (lambda: observed_path(ENTRIES, []), "lams"),
        (lambda: observed_path(ENTRIES, clip=3.0), "clip"),
        (lambda: observed_path(ENTRIES, clip=(3.0, 1.0)), "clip"),
        (lambda: observed_path(ENTRIES, max_seconds=-1.0), "max_seconds"),
    ],
)
def test_arguments(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument

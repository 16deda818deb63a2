"""A term that lacks what a solver needs: the message names the member and the page."""

import numpy as np
import pytest

import weakprox as wp
from weakprox.spectral import Exact, NuclearBall, NuclearNorm

M = np.random.default_rng(0).standard_normal((12, 9))


def own_loss(without=None):
    """A squared distance with the required members only, but one."""

    class Own:
        shape, reference = M.shape, M[:0]
        samples_cancel, is_finite_sum, n_terms, sigma, chunk = True, True, 1, 0.0, 1
        smoothness = term_smoothness = strong_convexity = 1.0

        def everything(self):
            return None

        def draw(self, rng, size):
            return None

        def value(self, X, batch):
            return 0.5 * float(np.sum((X - M) ** 2))

        def grad(self, X, batch):
            return X - M

        def spread(self, X, batch):
            return 0.0

    if without:
        delattr(Own, without)
    return Own()


IDENTITY = Exact(lambda A, weight: A, lambda X: 0.0)


@pytest.mark.parametrize(
    ("solver", "spectral", "said"),
    [
        ("lean-splitting", NuclearBall(5.0), "Own declares no `centre`"),
        ("lean-splitting", IDENTITY, "Exact declares no `form`"),
        ("factored-proximal", NuclearNorm(1.0), "Own declares no `observed`"),
        ("filled-proximal", NuclearNorm(1.0), "Own declares no `observed`"),
        ("dense-proximal", NuclearNorm(1.0), "Own declares no `cells`"),
        ("thresholding", NuclearNorm(1.0), "Own declares no `target`"),
        ("admm", NuclearNorm(1.0), "Own declares no `prox`"),
        ("dual-ascent", NuclearBall(5.0), "Own declares no `centre`"),
        ("scg", IDENTITY, "Exact declares no `extreme` and `diameter`"),
    ],
)
def test_a_solver_names_the_capability_that_is_missing(solver, spectral, said):
    problem = wp.Problem(own_loss(), None, spectral)
    with pytest.raises(wp.InputError, match=f"{said}.* \\(see docs/extend.md\\)"):
        wp.minimize(problem, solver, progress=False)


def test_dual_ascent_names_that_of_the_penalty():
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.1), NuclearBall(5.0))
    with pytest.raises(wp.InputError, match="L1 declares no `pieces`"):
        wp.minimize(problem, "dual-ascent", progress=False)


def test_terms_that_declare_them_but_do_not_fit_are_not_said_to_lack_any():
    problem = wp.Problem(wp.losses.Denoising(M), wp.penalties.L1(0.1), NuclearNorm(1.0))
    with pytest.raises(wp.InputError, match="no penalty") as caught:
        wp.minimize(problem, "factored-proximal", progress=False)
    assert "L1 declares" not in str(caught.value)


@pytest.mark.parametrize("member", ["everything", "n_terms", "is_finite_sum", "reference"])
def test_a_loss_without_a_required_member_is_refused_at_the_door(member):
    with pytest.raises(wp.InputError, match=f"loss: .* with {member} \\(see docs/extend.md\\)"):
        wp.Problem(own_loss(without=member), None, NuclearBall(5.0))


def test_a_sampler_needs_no_list_of_its_terms():
    kind = type(own_loss(without="everything"))
    kind.is_finite_sum = False
    assert wp.Problem(kind(), None, NuclearBall(5.0)).shape == M.shape

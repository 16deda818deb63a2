"""Paths: the same answers as single solves, for less work."""

import numpy as np
import pytest
from selection._signals import sparse_low_rank

import weakprox as wp
from weakprox.linalg.simplex import project_capped
from weakprox.losses import Completion, Denoising
from weakprox.penalties import L1, ElasticNet, GroupL2
from weakprox.selection import _unpenalised, default_grid, regularization_path
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

SIGNAL, M = sparse_low_rank()
LOSS = Denoising(M)
GRID = default_grid(M, 0.5, n_lams=4, n_taus=4)
TOL = 1e-4


def optimum(problem):
    """Lower bound and value of a far better solution."""
    found = wp.minimize(problem, tol=1e-7, progress=False)
    return found.certificate.lower_bound, found.value


@pytest.mark.parametrize("certify", [False, True], ids=["estimated", "proved"])
def test_answers_are_optimal(certify):
    path = regularization_path(LOSS, GRID.lams, GRID.taus, tol=TOL, certify=certify)
    assert path.certified is certify
    for i in range(4):
        for j in range(4):
            answer, problem = path.answers[i][j], path.problem(i, j)
            below, above = optimum(problem)
            value = problem.value(answer)
            assert value == pytest.approx(path.values[i, j], rel=1e-9)
            assert below <= value * (1 + 1e-12)
            assert value <= above + 1.5 * TOL * abs(above)
            assert answer.rank == path.ranks[i, j]
            assert answer.nuclear_norm <= path.taus[i, j] * (1 + 1e-9)
            # the gap says no less than the truth
            assert value - above <= path.gaps[i, j] + 1e-6 * above


def test_a_proved_gap_is_a_certificate_and_an_estimate_is_near_it():
    proved = regularization_path(LOSS, GRID.lams, GRID.taus, tol=TOL, certify=True)
    assert (proved.gaps <= TOL * proved.values).all()
    guessed = regularization_path(LOSS, GRID.lams, GRID.taus, tol=TOL)
    assert (guessed.gaps <= TOL * guessed.values).all()
    np.testing.assert_allclose(guessed.values, proved.values, rtol=2 * TOL)


@pytest.mark.parametrize(
    ("m", "d", "rank", "density", "size"),
    [
        pytest.param(60, 20, 2, 0.3, 2.0, marks=pytest.mark.long),
        (20, 70, 1, 1.0, 10.0),
        pytest.param(50, 50, 5, 0.1, 5.0, marks=pytest.mark.long),
        (8, 40, 2, 0.5, 1.0),
    ],
)
def test_estimated_gaps_are_near_the_truth(m, d, rank, density, size):
    """They leave out what a thin decomposition does not show, which is little."""
    A = sparse_low_rank(m, d, rank, density, size, seed=m)[1]
    grid = default_grid(A, n_lams=4, n_taus=4)
    path = regularization_path(Denoising(A), grid.lams, grid.taus, tol=1e-3)
    for i in range(4):
        for j in range(4):
            problem = path.problem(i, j)
            best = wp.minimize(problem, tol=1e-6, progress=False).value
            assert path.gaps[i, j] <= 1e-3 * path.values[i, j]
            assert problem.value(path.answers[i][j]) - best <= path.gaps[i, j] + 5e-4 * best


CASES = {
    "trace": (Denoising(M[:30] + M[:30].T), L1, TracePSD, [0.5, 0.2], [5.0, 10.0, 500.0]),
    "price": (LOSS, L1, NuclearNorm, [0.5, 0.2], [8.0, 4.0, 1.0]),
    "rows": (LOSS, GroupL2, NuclearBall, [1.0, 0.3], [5.0, 10.0, 20.0]),
    "net": (
        Completion(*np.nonzero(M > -0.5), M[M > -0.5], M.shape),
        lambda lam: ElasticNet(lam, 0.05),
        NuclearBall,
        [0.5, 0.2],
        [5.0, 10.0, 20.0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_other_terms(case):
    loss, penalty, spectral, lams, taus = CASES[case]
    path = regularization_path(
        loss, lams, taus, penalty=penalty, spectral=spectral, tol=TOL, certify=True
    )
    for i in range(len(lams)):
        for j in range(len(taus)):
            alone = wp.minimize(path.problem(i, j), tol=TOL, progress=False)
            assert path.values[i, j] == pytest.approx(alone.value, rel=2 * TOL)


def test_prices_are_tried_from_high_to_low():
    path = regularization_path(LOSS, [0.2], [1.0, 8.0, 4.0], spectral=NuclearNorm)
    assert path.taus.tolist() == [[8.0, 4.0, 1.0]]
    assert (np.diff(path.ranks[0]) >= 0).all()


@pytest.mark.parametrize("term", [NuclearNorm, NuclearBall])
def test_terms_are_known_by_what_they_declare(term):
    """A function of the user's may make them."""

    def made(tau):
        return term(tau)

    path, own = (
        regularization_path(LOSS, [0.2], [1.0, 4.0], spectral=one) for one in (term, made)
    )
    assert np.array_equal(own.taus, path.taus)
    assert np.array_equal(own.values, path.values)
    if term is NuclearBall:
        taus = regularization_path(LOSS).taus
        assert np.array_equal(regularization_path(LOSS, spectral=made).taus, taus)


def test_order_does_not_matter_and_bits_are_the_same():
    path = regularization_path(LOSS, GRID.lams, GRID.taus)
    other = regularization_path(LOSS, GRID.lams[::-1], GRID.taus[::-1, ::-1])
    assert path.values.tobytes() == other.values.tobytes()
    assert path.answers[2][1].U.tobytes() == other.answers[2][1].U.tobytes()


def test_warm_starts_save_decompositions():
    strong = Denoising(sparse_low_rank(60, 50, size=6.0)[1])
    lams, taus = np.geomspace(0.6, 0.2, 6), np.linspace(60.0, 120.0, 6)
    path = regularization_path(strong, lams, taus, tol=TOL, certify=True)
    cold = sum(
        wp.minimize(path.problem(i, j), tol=TOL, progress=False).counts.svds
        for i in range(6)
        for j in range(6)
    )
    assert path.svds.sum() < 0.7 * cold


def test_answers_that_are_not_low_rank_start_from_their_neighbours():
    """From this size on, the method for low ranks comes first and would begin anew."""
    _, noisy = sparse_low_rank(240, 220, density=0.3)
    loss = wp.losses.Denoising(noisy)
    size = np.linalg.norm(noisy, "nuc")
    path = regularization_path(loss, [0.5], [0.2 * size, 0.22 * size, 0.24 * size], tol=1e-4)
    assert (path.ranks > 40).all()
    assert (path.svds[0, 1:] < path.svds[0, 0]).all()
    for j in range(3):
        exact = path.solve(0, j, tol=1e-6)
        assert exact.certificate.lower_bound <= path.values[0, j] <= exact.value * (1.0 + 1e-4)


def test_a_ball_without_effect_is_solved_once():
    path = regularization_path(LOSS, [0.4], [1e3, 2e3, 3e3])
    assert path.svds[0].tolist()[1:] == [0, 0]
    expected = np.sign(M) * np.maximum(np.abs(M) - 0.4, 0.0)
    np.testing.assert_allclose(path.answers[0][2].dense(), expected, atol=1e-10)


def test_the_rank_can_be_capped():
    path = regularization_path(LOSS, [0.1], [20.0, 40.0], rank=1)
    free = regularization_path(LOSS, [0.1], [20.0, 40.0])
    assert path.ranks.max() == 1 < free.ranks.min()
    for j in range(2):
        value = path.problem(0, j).value(path.answers[0][j])
        assert path.values[0, j] == pytest.approx(value)
        assert value - free.values[0, j] <= path.gaps[0, j] * (1 + 1e-9)


def test_a_point_can_be_solved_with_its_proof():
    path = regularization_path(LOSS, GRID.lams, GRID.taus)
    result = path.solve(1, 1, tol=1e-6)
    assert result.certified
    assert result.value <= path.values[1, 1]


def test_default_grid_is_taken():
    path = regularization_path(LOSS)
    assert path.taus.shape == (10, 10)
    assert path.lams[-1] == 0.0


def test_the_smallest_score_is_best():
    path = regularization_path(LOSS, GRID.lams, GRID.taus)
    scores = np.array(
        [[np.sum((X.dense() - SIGNAL) ** 2) for X in row] for row in path.answers]
    )
    row, column, lam, tau = path.best(scores)
    assert scores[row, column] == scores.min()
    assert (lam, tau) == (path.lams[row], path.taus[row, column])


def test_one_standard_error_takes_the_simplest_of_the_good():
    path = regularization_path(LOSS, [0.3], [5.0, 10.0, 20.0, 200.0])
    noise = np.array([0.0, 1.0, 2.0])[:, None, None]  # shared by all: it must not count
    gaps = np.array([[[3.0, 0.1, 0.0, 0.2]], [[3.0, 0.0, 0.1, 0.2]], [[3.0, 0.2, 0.0, 0.2]]])
    scores = gaps + noise
    assert path.best(scores).column == 2
    assert path.best(scores, one_standard_error=True).column == 1
    flat = path.best(np.zeros((2, 1, 4)), one_standard_error=True)
    simplest = min(zip(path.ranks[0], path.nonzeros[0], strict=True))
    assert (path.ranks[flat[:2]], path.nonzeros[flat[:2]]) == simplest


def test_progress_is_silent_unless_asked_for(capsys):
    regularization_path(LOSS, [0.4], [10.0, 20.0])
    assert capsys.readouterr() == ("", "")
    regularization_path(LOSS, [0.4], [10.0, 20.0], progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: regularization_path(LOSS, [0.1]), "lams, taus"),
        (lambda: regularization_path(LOSS, spectral=NuclearNorm), "lams, taus"),
        (lambda: regularization_path(CASES["net"][0]), "lams, taus"),
        (lambda: regularization_path(LOSS, [-0.1], [1.0]), "lams"),
        (lambda: regularization_path(LOSS, [], [1.0]), "lams"),
        (lambda: regularization_path(LOSS, 0.1, [1.0]), "lams"),
        (lambda: regularization_path(LOSS, [0.1], [0.0]), "taus"),
        (lambda: regularization_path(LOSS, [0.1, 0.2], [[1.0], [2.0], [3.0]]), "taus"),
        (lambda: regularization_path(LOSS, [0.1], [1.0], tol=0.0), "tol"),
        (lambda: regularization_path(LOSS, [0.1], [1.0], rank=0), "rank"),
        (
            lambda: regularization_path(
                Denoising(sampler=lambda rng, k: np.ones((k, 3, 3)), shape=(3, 3)), [1.0], [1.0]
            ),
            "loss",
        ),
        (lambda: regularization_path(LOSS, [0.1], [1.0]).best([1.0, 2.0]), "scores"),
        (lambda: regularization_path(LOSS, [0.1], [1.0]).best([[np.nan]]), "scores"),
        (
            lambda: regularization_path(LOSS, [0.1], [1.0]).best(
                [[1.0]], one_standard_error=True
            ),
            "scores",
        ),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(wp.InputError) as caught:
        call()
    assert caught.value.argument == argument


@pytest.fixture(scope="module")
def unpenalised():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((420, 5)) @ rng.standard_normal((5, 400))
    A += rng.standard_normal((420, 400))
    return A, np.linalg.svd(A, compute_uv=False)


@pytest.mark.parametrize("form", ["balls", "prices"])
def test_without_a_penalty_all_radii_share_the_decompositions(unpenalised, form, monkeypatch):
    A, s = unpenalised
    whole, real = [], _unpenalised.gram_svd
    spy = lambda *args: whole.append(1) or real(*args)  # noqa: E731
    monkeypatch.setattr(_unpenalised, "gram_svd", spy)
    if form == "balls":
        radii = [0.1 * s[0], 0.9 * s[:5].sum(), 0.3 * s.sum(), 0.4 * s.sum(), 0.6 * s.sum()]
        h, values = NuclearBall, [project_capped(s, tau) for tau in radii]
    else:
        radii = [s[1], s[20], s[90], s[200], s[300]]
        h, values = NuclearNorm, [np.maximum(s - lam, 0.0) for lam in radii]
    path = regularization_path(Denoising(A), [0.0], [radii], spectral=h, tol=1e-3)
    for k, (answer, p) in enumerate(zip(path.answers[0], values, strict=True)):
        problem = path.problem(0, k)
        price = p.sum() * getattr(problem.spectral, "lam", 0.0)
        best, value = 0.5 * np.sum((s - p) ** 2) + price, problem.value(answer)
        assert value == pytest.approx(path.values[0, k], rel=1e-9)
        assert best * (1 - 1e-12) <= value <= best * (1 + 1e-3)
        found = np.pad(answer.s, (0, len(s) - len(answer.s)))
        assert np.linalg.norm(found - p) <= 0.02 * np.linalg.norm(p)
    assert sum(whole) == 1

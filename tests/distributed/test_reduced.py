"""Losses whose X is here and whose data are on workers: gradients are those of NumPy."""

import dask.array as da
import numpy as np
import pytest

import weakprox as wp
from weakprox.distributed import terms
from weakprox.errors import InputError, ShapeError
from weakprox.losses import Completion, Denoising, Sensing

RNG = np.random.default_rng(5)
SHAPE = (12, 9)
X = np.outer(RNG.standard_normal(12) * (RNG.random(12) < 0.5), RNG.standard_normal(9))
S = X + 0.3 * RNG.standard_normal((23, *SHAPE))
A = RNG.standard_normal((300, *SHAPE))
B = np.einsum("nij,ij->n", A, X) + 0.1 * RNG.standard_normal(300)
U, V = RNG.standard_normal((200, 12)), RNG.standard_normal((200, 9))
BUV = np.einsum("ni,ij,nj->n", U, X, V) + 0.1 * RNG.standard_normal(200)
I, J = RNG.integers(0, 12, 400), RNG.integers(0, 9, 400)
O = X[I, J] + 0.1 * RNG.standard_normal(400)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(terms, "CHUNK_BYTES", 10 * 12 * 9 * 8)
    monkeypatch.setattr(terms, "CHUNK", 90)


def far(x, chunks):
    return da.from_array(x, chunks=chunks)


# draws are positions in a list that is sorted in this process
SORTED = np.lexsort((J, I))
I, J, O = I[SORTED], J[SORTED], O[SORTED]

PAIRS = {
    "samples": lambda: (Denoising(samples=S), Denoising(samples=far(S, (7, 5, 4)))),
    "dense": lambda: (Sensing(A, B), Sensing(far(A, (70, 5, 9)), far(B, 33))),
    "integers": lambda: (
        Sensing(np.round(9 * A).astype(int), B),
        Sensing(far(np.round(9 * A).astype(int), (70, 5, 9)), B),
    ),
    "importance": lambda: (
        Sensing(A, B, sampling="importance"),
        Sensing(far(A, (70, 5, 9)), B, sampling="importance"),
    ),
    "rank one": lambda: (
        Sensing((U, V), BUV),
        Sensing((far(U, (70, 5)), far(V, (33, 9))), BUV),
    ),
    "entries": lambda: (
        Completion(I, J, O, SHAPE),
        Completion(far(I, 70), far(J, 70), far(O, 33), SHAPE),
    ),
    "mean entries": lambda: (
        Completion(I, J, O, SHAPE, reduction="mean"),
        Completion(I, J, far(O, 33), SHAPE, reduction="mean"),
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_same_numbers(kind):
    here, there = PAIRS[kind]()
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert there.n_terms == here.n_terms
    for name in ("smoothness", "term_smoothness", "strong_convexity", "size"):
        assert np.isclose(getattr(there, name), getattr(here, name), rtol=1e-9), name
    for batch in (lambda loss: loss.everything(), lambda loss: loss.draw(rng(), 57)):
        mine, theirs = batch(here), batch(there)
        Y = 0.7 * X + 0.1
        assert np.isclose(there.value(Y, theirs), here.value(Y, mine), **close)
        assert np.isclose(there.spread(Y, theirs), here.spread(Y, mine), rtol=1e-9)
        assert np.allclose(there.grad(Y, theirs), here.grad(Y, mine), **close)


@pytest.mark.parametrize("kind", PAIRS)
def test_the_same_answers(kind):
    here, there = (
        wp.Problem(loss, wp.penalties.ElasticNet(0.05, 0.2), wp.spectral.NuclearBall(2.0))
        for loss in PAIRS[kind]()
    )
    one, two = (wp.minimize(problem, tol=1e-9) for problem in (here, there))
    assert two.certified
    assert two.value == pytest.approx(one.value, rel=1e-10)
    settings = {"eps": 0.5 * one.value, "max_svds": 15}
    one, two = (
        wp.minimize(problem, wp.SVRGCG(rank=2), **settings) for problem in (here, there)
    )
    assert two.value == pytest.approx(one.value, rel=1e-10)
    assert two.counts == one.counts


def test_extreme_sizes():
    for here, there in (
        (Denoising(samples=S * 1e90), Denoising(samples=far(S * 1e90, (7, 5, 4)))),
        (Completion(I, J, O * 1e90, SHAPE), Completion(I, J, far(O * 1e90, 33), SHAPE)),
    ):
        values = [
            wp.minimize(
                wp.Problem(
                    loss, wp.penalties.ElasticNet(1e89, 0.1), wp.spectral.NuclearBall(2e90)
                ),
                tol=1e-4,
            ).value
            for loss in (here, there)
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-10)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: Denoising(samples=far(S, 5) / 0.0).everything(), "NaN or infinite"),
        (lambda: Denoising(samples=far(S[0], 5)), "3 axes"),
        (lambda: Sensing(far(A, 50) * np.inf, B), "NaN or infinite"),
        (lambda: Sensing(far(A, 50), B[:5]), "shape"),
        (lambda: Sensing((far(U, 50), V), BUV), "two dask arrays"),
        (lambda: Sensing((far(U, 50), far(V[:9], 50)), BUV), "equally many"),
        (lambda: Completion(far(I, 50), J, O, (5, 9)), "0 to 4"),
        (lambda: Completion(far(I, 50) * 1.0, J, O, SHAPE), "integers"),
        (lambda: Completion(I[:9], J, far(O, 50), SHAPE), "400"),
        (lambda: Completion(I, J, far(O, 50) * np.nan, SHAPE), "NaN or infinite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_bad_data(build, error):
    with pytest.raises((InputError, ShapeError), match=error):
        build()


def rng():
    return np.random.default_rng(3)

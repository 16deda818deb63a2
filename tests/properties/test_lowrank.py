"""Low-rank algebra against dense algebra."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weakprox.linalg import LowRank
from weakprox.linalg.lowrank import blend_into

sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
weights = st.floats(-5, 5)


@st.composite
def pairs(draw):
    """Two low-rank matrices of one shape, with ties and zeros among the values."""
    m, d = draw(sizes)
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)

    def one():
        r = draw(st.integers(1, min(m, d)))
        s = draw(
            st.lists(st.sampled_from([0.0, 1e-8, 0.5, 1.0, 1.0, 3.0]), min_size=r, max_size=r)
        )
        U = np.linalg.qr(rng.standard_normal((m, r)))[0]
        V = np.linalg.qr(rng.standard_normal((d, r)))[0]
        return LowRank(U, np.sort(np.array(s))[::-1], V.T)

    return one(), one()


def close(a, b, scale=1.0):
    return np.abs(np.asarray(a) - np.asarray(b)).max() <= 1e-12 * (1 + scale)


@given(pairs(), weights, weights)
def test_plus(pair, a, b):
    X, Y = pair
    Z = X.plus(Y, mine=a, theirs=b)
    assert close(Z.dense(), a * X.dense() + b * Y.dense(), 100)
    k = len(Z.s)
    assert close(Z.U.T @ Z.U, np.eye(k))
    assert close(Z.Vt @ Z.Vt.T, np.eye(k))
    assert (np.diff(Z.s) <= 0).all()
    assert (Z.s >= 0).all()
    assert k <= min(*X.shape, len(X.s) + len(Y.s))


@given(pairs())
def test_inner_products_and_norms(pair):
    X, Y = pair
    assert close(X.inner(Y), (X.dense() * Y.dense()).sum(), 100)
    assert close(X.inner(Y.dense()), (X.dense() * Y.dense()).sum(), 100)
    assert close(X.sqnorm, (X.dense() ** 2).sum(), 100)
    assert close(X.nuclear_norm, np.linalg.norm(X.dense(), "nuc"), 100)
    assert X.shape == X.dense().shape


@given(pairs(), st.sampled_from([0.0, 1e-9, 0.6, 10.0]))
def test_trimmed(pair, tol):
    X, _ = pair
    cut = X.trimmed(tol)
    kept = max(1, int((X.s > tol).sum()))
    assert len(cut.s) == kept
    lost = X.s[kept:]
    error = np.linalg.norm(X.dense() - cut.dense(), 2)
    assert error <= (lost.max() if len(lost) else 0.0) + 1e-12
    assert X.rank == np.count_nonzero(X.s)


@given(pairs(), st.floats(0, 1))
def test_blend_into(pair, step):
    V, Y = pair
    X = Y.dense()
    wanted = (1 - step) * X + step * V.dense()
    blend_into(X, V, step)
    assert close(X, wanted, 10)

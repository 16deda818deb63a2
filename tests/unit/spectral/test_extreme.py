"""The linear oracle of the bounded sets against full decompositions."""

import math

import numpy as np
import pytest
from registry import DOUBLE, SINGLE, numbers

from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.metering import Budget, Meter, MeteredSpectral
from weakprox.spectral import NuclearBall, TracePSD
from weakprox.spectral.nuclear import LINEAR

TAU = 0.7  # not a number that single precision can hold
KINDS = {"ball": NuclearBall(TAU), "psd": TracePSD(TAU)}
by_kind = pytest.mark.parametrize("kind", KINDS)


def least(kind, G):
    """min <G, V> over the set, by LAPACK in double precision."""
    G = np.asarray(G, dtype=float)
    if kind == "psd":
        return TAU * min(0.0, float(np.linalg.eigvalsh((G + G.T) / 2)[0]))
    return -TAU * float(np.linalg.svd(G, compute_uv=False)[0])


def with_values(values, seed=0):
    """A symmetric matrix with these eigenvalues."""
    n = len(values)
    Q = np.linalg.qr(numbers(n, n, seed=seed))[0]
    G = (Q * values) @ Q.T
    return (G + G.T) / 2


def check(kind, G, backend, *, slack=LINEAR, **options):
    """Feasible, of rank one at most, in the right namespace, and as good as asked."""
    term, given = KINDS[kind], backend.array(G)
    kept = to_numpy(given).copy()
    found = term.extreme(given, rng=np.random.default_rng(1), **options)
    assert np.array_equal(to_numpy(given), kept)
    V = np.asarray(to_numpy(found.V.dense()), dtype=float)
    for x in (found.V.U, found.V.s, found.V.Vt, found.basis):
        assert backend.owns(x)
    assert tuple(found.V.shape) == G.shape
    assert found.V.s.shape[0] == 1
    assert float(found.V.s[0]) <= TAU  # no rounding above the radius
    rounding = 64 * eps_of(found.V.s)  # of the lengths of float32 vectors
    assert term.violation(found.V) <= (rounding if rounding > 1e-9 else 0.0)
    size = np.linalg.norm(V)  # of rank one
    assert size <= TAU * (1 + 64 * float(np.finfo(kept.dtype).eps))
    best = least(kind, kept)
    reached = float((np.asarray(kept, dtype=float) * V).sum())
    rounding = 64 * float(np.finfo(kept.dtype).eps) * TAU * np.linalg.norm(kept, 2)
    assert best - rounding <= reached <= best + slack * abs(best) + rounding
    return found


SMALL = {
    "gauss": with_values(np.linspace(-3, 2, 9)) + 0.0,
    "skewed": numbers(9, 9, seed=3),
    "rank one": np.outer(numbers(9), numbers(9)),
    "rank two": numbers(9, 2, seed=1) @ numbers(9, 2, seed=1).T,
    "minus rank two": -numbers(9, 2, seed=1) @ numbers(9, 2, seed=1).T,
    "tied": with_values(np.array([-2.0, -2.0, -2.0, 0, 0, 1, 1, 2, 2])),
    "identity": np.eye(9),
    "minus identity": -np.eye(9),
    "one entry": np.eye(9)[:1].T @ np.eye(9)[1:2],
}


@by_kind
@pytest.mark.parametrize("backend", [*DOUBLE, *SINGLE], ids=lambda b: b.name)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_small_matrices(kind, name, scale, backend):
    check(kind, scale * SMALL[name], backend)


@pytest.mark.parametrize("backend", [*DOUBLE, *SINGLE], ids=lambda b: b.name)
@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (12, 5), (5, 12), (150, 140)])
def test_rectangles(shape, backend):
    check("ball", numbers(*shape, seed=2), backend)


@by_kind
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
@pytest.mark.parametrize("size", [1, 6, 150])
def test_zero(kind, backend, size):
    """Every point is best; whatever comes back is feasible."""
    found = check(kind, np.zeros((size, size)), backend)
    assert np.all(np.isfinite(to_numpy(found.V.dense())))


@pytest.mark.parametrize("backend", [*DOUBLE, *SINGLE], ids=lambda b: b.name)
@pytest.mark.parametrize("size", [9, 150])
def test_psd_gradients_lead_to_zero(backend, size):
    for values in (1 + np.arange(size), np.r_[np.full(size - 2, 3.0), 1.0, 2.0]):
        found = check("psd", with_values(values), backend)
        assert float(abs(found.V.dense()).max()) == 0.0


LARGE = {
    "gauss": numbers(150, 150, seed=4),
    "semicircle": numbers(150, 150, seed=5) + numbers(150, 150, seed=5).T,
    "one negative": with_values(np.r_[-1.0, 5 + np.linspace(0, 1, 149)]),
    "slightly negative": with_values(np.r_[-0.01, 5 + np.linspace(0, 1, 149)]),
    "negative end hidden": with_values(np.r_[-1.0, np.linspace(50, 100, 149)]),
    "spread": with_values(np.r_[-1e-3, np.linspace(0, 1, 149)]),
    "large positive end": with_values(np.r_[np.linspace(-1, 1, 149), 1e3]),
    "close": with_values(np.r_[-1.0, -0.999, -0.998, np.linspace(-0.9, 1, 147)]),
    "low rank": with_values(np.r_[-2.0, -1.0, np.zeros(146), 1.0, 3.0]),
}


@by_kind
@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
@pytest.mark.parametrize("name", LARGE)
def test_matrices_that_are_iterated_on(kind, name, backend):
    """Too large for a full decomposition, from nothing and from a basis."""
    G = LARGE[name]
    first = check(kind, G, backend)
    assert first.passes > 0
    near = G + 1e-3 * np.abs(G).max() * SYMMETRIC
    again = check(kind, near, backend, start=first.basis)
    cold = check(kind, near, backend)
    assert again.passes <= cold.passes


SYMMETRIC = (numbers(150, 150, seed=6) + numbers(150, 150, seed=6).T) / 30


@by_kind
@pytest.mark.parametrize("backend", SINGLE, ids=lambda b: b.name)
@pytest.mark.parametrize("name", ["gauss", "semicircle", "one negative", "low rank"])
def test_iterated_in_single_precision(kind, name, backend):
    check(kind, LARGE[name], backend, slack=1e-4)


@by_kind
def test_a_misleading_basis_is_left(kind):
    """The start spans eigenvectors of the other end: exact ones, without residuals.

    A call may be taken in; the random columns of the next ones see through it.
    """
    G = with_values(np.r_[-12.0, np.linspace(1, 3, 149)])
    basis, rng = np.linalg.eigh(G)[1][:, -8:], np.random.default_rng(2)
    for _ in range(12):
        found = KINDS[kind].extreme(G, start=basis, rng=rng)
        basis = found.basis
    assert found.V.inner(G) == pytest.approx(-12.0 * TAU, rel=1e-4)


@by_kind
def test_less_accuracy_costs_no_more_and_is_kept(kind):
    G = LARGE["semicircle"]
    best, passes = least(kind, G), []
    for accuracy in (0.0, 1e-3 * abs(best), 0.1 * abs(best)):
        found = KINDS[kind].extreme(G, accuracy=accuracy, rng=np.random.default_rng(1))
        assert found.V.inner(G) <= best + max(accuracy, LINEAR * abs(best))
        passes.append(found.passes)
    assert passes == sorted(passes, reverse=True)
    assert passes[-1] < passes[0]


@pytest.mark.parametrize("tau", [1e-3, 1e3])
def test_accuracies_are_those_of_the_value(tau):
    """Not of the singular value, which the radius multiplies."""
    G, first = LARGE["semicircle"], np.random.default_rng(1)
    largest = float(np.linalg.norm(G, 2))
    exact = NuclearBall(tau).extreme(G, rng=np.random.default_rng(1))
    rough = NuclearBall(tau).extreme(G, accuracy=0.1 * tau * largest, rng=first)
    assert rough.passes < exact.passes
    fine = NuclearBall(tau).extreme(G, accuracy=1e-3 * tau * largest, rng=first)
    assert fine.V.inner(G) <= (1e-3 - 1.0) * tau * largest


def test_diameters_are_attained_and_not_exceeded():
    for kind, wanted in (("ball", 2 * TAU), ("psd", math.sqrt(2) * TAU)):
        term = KINDS[kind]
        assert term.diameter == pytest.approx(wanted)
        u, v = np.eye(5)[:1].T, np.eye(5)[1:2].T
        A, B = (
            (TAU * u @ u.T, TAU * v @ v.T) if kind == "psd" else (TAU * u @ v.T, -TAU * u @ v.T)
        )
        assert np.linalg.norm(A - B) == pytest.approx(wanted)
        rng = np.random.default_rng(0)
        points = [term.random_point(rng, (5, 5), 1 + i % 3, u).dense() for i in range(40)]
        assert max(np.linalg.norm(X - Y) for X in points for Y in points) <= wanted


@by_kind
def test_the_meter_counts_one_rank_one_svd(kind):
    meter = Meter(Budget(max_svds=2))
    metered = MeteredSpectral(KINDS[kind], meter)
    passes = metered.extreme(LARGE["gauss"]).passes
    assert meter.counts.svds == meter.counts.rank_one_svds == 1
    assert meter.counts.passes == passes > 0
    metered.extreme(LARGE["gauss"])
    with pytest.raises(Exception, match="out of SVDs"):
        metered.extreme(LARGE["gauss"])
    assert meter.counts.svds == 2

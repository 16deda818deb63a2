"""TracePSD: eigenvalue projection, symmetry, bounds with a large negative end."""

import numpy as np
import pytest
from registry import DOUBLE, ROUNDED, SINGLE, numbers

from weakprox.errors import ShapeError
from weakprox.linalg import LowRank, thin_eigh
from weakprox.linalg.arrays import to_numpy
from weakprox.linalg.simplex import project_capped
from weakprox.protocols import Tolerance
from weakprox.spectral import TracePSD
from weakprox.spectral.singular import ball_lower
from weakprox.spectral.trace_psd import _largest_deflated, _spectrum, symmetric_part

G = numbers(9, 9, seed=160)
A = G + G.T
by_backend = pytest.mark.parametrize("backend", DOUBLE + SINGLE, ids=lambda b: b.name)


def spectrum(w, seed=0):
    V = np.linalg.qr(numbers(len(w), len(w), seed=seed))[0]
    B = (V * w) @ V.T
    return (B + B.T) / 2


@by_backend
@pytest.mark.parametrize("tau", [0.5, 5.0, 1e3])
@pytest.mark.parametrize("rank", [1, 3, 9])
def test_weak_prox_projects_the_largest_eigenvalues(backend, tau, rank):
    tol = 1e-3 if backend in SINGLE else 1e-9
    found = TracePSD(tau).weak_prox(backend.array(A), weight=2.0, rank=rank)
    w, V = np.linalg.eigh(A)
    w, V = w[::-1][:rank], V[:, ::-1][:, :rank]
    p = project_capped(w, tau)
    X = to_numpy(found.V.dense())
    assert pytest.approx((V * p) @ V.T, abs=tol) == X
    assert pytest.approx(X.T, abs=tol) == X
    assert np.linalg.eigvalsh(X).min() >= -tol
    assert np.trace(X) <= tau * (1 + 1e-6)
    assert found.V.rank <= rank
    assert TracePSD(tau).violation(found.V) <= (ROUNDED if backend in SINGLE else 0.0)


@pytest.mark.parametrize("tau", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("rank", [1, 3, 9])
@pytest.mark.parametrize("certify", [False, True])
def test_delta_and_lower_bound(tau, rank, certify):
    w = np.linalg.eigvalsh(A)[::-1]
    best, p = project_capped(w, tau), project_capped(w[:rank], tau)
    kept = np.concatenate([p, np.zeros(9 - rank)])
    minimum = ((best - w) ** 2).sum()
    true = ((kept - w) ** 2).sum() - minimum
    found = TracePSD(tau).weak_prox(A, weight=2.0, rank=rank, certify=certify)
    assert true - 1e-9 <= found.delta
    assert found.lower <= minimum + 1e-9
    theta = w[0] - p[0]  # of the kept eigenvalues; 0 if they fit
    beyond = w[rank] if rank < 9 else 0.0
    formula = 2 * tau * max(0.0, beyond - theta)
    assert found.delta_estimate == pytest.approx(formula, abs=1e-9)
    assert true <= formula + 1e-9
    if rank < 9:
        assert found.tail >= max(0.0, w[rank]) - 1e-12


def test_only_the_symmetric_part_counts():
    """For symmetric X, |X - A|^2 = |X - sym A|^2 + |skew A|^2: the same answer."""
    whole, sym = (TracePSD(3.0).weak_prox(B, weight=1.0, rank=3) for B in (G, (G + G.T) / 2))
    assert whole.V.dense() == pytest.approx(sym.V.dense(), abs=1e-10)
    skew = (((G - G.T) / 2) ** 2).sum()
    assert whole.lower == pytest.approx(sym.lower + 0.5 * skew)
    assert whole.delta == pytest.approx(sym.delta, abs=1e-9)


def test_symmetric_part_spots_asymmetry():
    assert symmetric_part(A) is A
    B = A.copy()
    B[0, 1] += 1e-3
    assert symmetric_part(B) == pytest.approx((B + B.T) / 2)
    assert np.array_equal(symmetric_part(B), symmetric_part(B).T)


def test_negative_definite_targets_give_zero():
    found = TracePSD(2.0).weak_prox(-np.eye(6), weight=1.0, rank=2)
    assert found.V.rank == 0
    assert found.delta <= 1e-12
    assert found.lower == pytest.approx(3.0)


@pytest.mark.parametrize("rank", [2, 8])
def test_certified_bounds_of_large_matrices(rank):
    """650 rows, and a negative end that would drown a bound on the norm."""
    w = np.concatenate([[60.0, 50.0, 40.0, 30.0], np.linspace(1.0, -300.0, 646)])
    B, tau = spectrum(w), 150.0
    found = TracePSD(tau).weak_prox(
        B, weight=1.0, rank=rank, certify=True, rng=np.random.default_rng(1)
    )
    best = project_capped(w, tau)
    p = np.concatenate([project_capped(w[:rank], tau), np.zeros(650 - rank)])
    minimum = ((best - w) ** 2).sum()
    assert found.passes > 0
    assert found.rests_on == "high-probability"
    assert found.tail >= w[rank] - 1e-9
    assert 2 * found.lower <= minimum
    assert ((p - w) ** 2).sum() - minimum - 1e-6 <= found.delta
    plain = TracePSD(tau).weak_prox(B, weight=1.0, rank=rank)
    assert found.delta <= plain.delta


def test_bounds_from_an_iteration_that_was_cut_short():
    """Bounds on kept and other eigenvalues hold however little has converged."""
    rng = np.random.default_rng(3)
    for seed in range(60):
        w = np.sort(10.0 ** rng.uniform(-2, 1, 40) * rng.choice([-1, 1], 40))[::-1]
        B, rank = spectrum(w, seed), int(rng.integers(1, 8))
        eig = thin_eigh(
            B, rank, full=False, max_sweeps=int(rng.integers(1, 5)), strict=False, rng=rng
        )
        for certify in (False, True):
            spec, _ = _spectrum(B, eig, certify, rng)
            assert (spec.upper >= w[:rank] - 1e-12).all()
            assert spec.tail >= max(0.0, w[rank]) - 1e-12
            tau = float(rng.exponential(5.0))
            minimum = 0.5 * ((project_capped(w, tau) - w) ** 2).sum()
            assert ball_lower(spec, 1.0, tau) <= minimum + 1e-9


@pytest.mark.parametrize("rank", [2, 5])
def test_proofs_of_small_matrices_know_all_eigenvalues(rank):
    """Even if a step without a proof would compute few of them."""
    B = numbers(80, 80) + numbers(80, 80).T
    found = TracePSD(5.0).weak_prox(B, weight=1.0, rank=rank, certify=True)
    assert found.rests_on == "exact"
    assert found.tail == pytest.approx(np.linalg.eigvalsh(B)[-1 - rank])


def test_the_rest_of_small_matrices_is_small():
    """Bounds on what is left out are in the units of the matrix."""
    w = 1e-3 * np.linspace(3.0, -2.0, 40)
    B, rng = spectrum(w), np.random.default_rng(0)
    spec, _ = _spectrum(B, thin_eigh(B, 5, full=False, rng=rng), False, rng)
    rest = float(w[5:] @ w[5:])
    assert rest <= spec.energy <= rest * (1 + 1e-6)
    assert w[5] <= spec.tail <= np.sqrt(rest) * (1 + 1e-6)


def test_a_deflated_bound_ignores_what_couples_kept_vectors_to_the_rest():
    """V is far from invariant: A V has large parts outside of V, which deflation removes."""
    n, kept = 60, 2
    V = np.linalg.qr(numbers(n, n, seed=3))[0]
    block = np.diag(np.linspace(1.0, -3.0, n))
    block[:kept, kept:] = 1e8
    block[kept:, :kept] = 1e8
    bound = _largest_deflated(V @ block @ V.T, V[:, :kept], np.random.default_rng(0))
    largest = block[kept, kept]
    assert largest <= bound <= 3.0 * largest


def test_certificates_do_not_rest_on_a_few_power_steps():
    """A poor start does not show, except to a caller that measures what it costs."""
    w = np.concatenate([[9.0, 8.0, 7.0], np.linspace(2.0, -2.0, 697)])
    B, start = spectrum(w), numbers(700, 40, seed=4)
    tau, tolerance = 12.0, Tolerance(powers=1)
    how = {"weight": 1.0, "rank": 3, "start": start, "tolerance": tolerance}
    rough = TracePSD(tau).weak_prox(B, rng=np.random.default_rng(0), **how)
    sure = TracePSD(tau).weak_prox(B, rng=np.random.default_rng(0), certify=True, **how)
    minimum = 0.5 * float(((project_capped(w, tau) - w) ** 2).sum())
    assert minimum * (1 - 1e-9) <= sure.lower <= minimum
    assert rough.passes < sure.passes


def test_conjugate_is_tau_times_the_largest_eigenvalue():
    rng = np.random.default_rng(0)
    top = np.linalg.eigvalsh(A)[-1]
    assert TracePSD(3.0).conjugate(A, rng) == pytest.approx(3.0 * top)
    assert TracePSD(3.0).conjugate(-np.eye(5), rng) <= 1e-12
    w = np.concatenate([[5.0], np.linspace(1.0, -100.0, 649)])
    bound = TracePSD(2.0).conjugate(spectrum(w), rng)  # the randomised branch
    assert 10.0 <= bound <= 60.0


def test_value_and_violation():
    w, V = np.linalg.eigh(A @ A)
    X = LowRank(V[:, ::-1], w[::-1], V[:, ::-1].T)
    trace = w.sum()
    assert TracePSD(2 * trace).value(X) == 0.0
    assert TracePSD(trace / 2).violation(X) == pytest.approx(1.0)
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    assert TracePSD(1e3).value(LowRank(U, s, Vt)) == np.inf  # not symmetric
    assert TracePSD(1e3).violation(LowRank(U, s, -U.T)) > 0.01  # negative semidefinite


def test_compress_drops_negative_values():
    cut = TracePSD(1.0).compress(A, 9, np.random.default_rng(0))
    w = np.linalg.eigvalsh(A)
    assert cut.nuclear_norm == pytest.approx(w[w > 0].sum())


def test_only_square_matrices():
    TracePSD(1.0).check((4, 4))
    with pytest.raises(ShapeError, match="square"):
        TracePSD(1.0).check((4, 5))


@pytest.mark.parametrize("backend", SINGLE, ids=lambda b: b.name)
def test_single_precision_answers_are_feasible(backend):
    for seed in range(60):
        B = backend.array(numbers(15, 15, seed=seed))
        term = TracePSD(1.7 + 0.1 * seed)
        found = term.weak_prox(B + B.T, weight=1.0, rank=6)
        assert to_numpy(found.V.s).sum(dtype=float) <= term.tau
        assert term.violation(found.V) <= ROUNDED
        assert term.value(found.V) == 0.0

"""Decompositions: accurate by whichever routine they come, typed errors where none helps."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from exact_values import eigenvalues, gap, singular_values
from registry import NUMPY, NUMPY32, TORCH, TORCH32, generator

import weakprox
from weakprox.errors import DecompositionError
from weakprox.linalg import decompositions
from weakprox.linalg.arrays import eps_of, to_numpy
from weakprox.linalg.decompositions import eigh_error, svd_error

BACKENDS = [NUMPY, NUMPY32, TORCH, TORCH32]
HARD = np.load(Path(__file__).parents[2] / "data" / "gesdd_fails.npz")["A"]


def fail(*args, **kwargs):
    raise np.linalg.LinAlgError("did not converge")


def fail_in_torch(*args, **kwargs):
    raise torch.linalg.LinAlgError("The algorithm failed to converge")


def nothing_but_nan(A, **kwargs):
    n = min(A.shape)
    U, s, Vt = np.zeros((A.shape[0], n)), np.full(n, np.nan), np.zeros((n, A.shape[1]))
    return (U, s, Vt) if kwargs.get("full_matrices") is False else (s, Vt)


def without(monkeypatch, *stages):
    """Make stages of the chains fail: "first", "second" (gesvd or syevr), "third" (syev)."""
    from array_api_compat.numpy import linalg as numpy_linalg
    from array_api_compat.torch import linalg as torch_linalg

    if "first" in stages:
        for name in ("svd", "svdvals", "eigh", "eigvalsh"):
            monkeypatch.setattr(numpy_linalg, name, fail)
            monkeypatch.setattr(torch_linalg, name, fail_in_torch)
    whole = scipy.linalg.eigh
    if "second" in stages:
        monkeypatch.setattr(scipy.linalg, "svd", fail)
    if "second" in stages or "third" in stages:
        broken = {"second": "evr", "third": "ev"}
        broken = [broken[stage] for stage in stages if stage in broken]

        def eigh(A, driver, **options):
            return fail() if driver in broken else whole(A, driver=driver, **options)

        monkeypatch.setattr(scipy.linalg, "eigh", eigh)


def matrices():
    rng = generator(1)
    square = rng.standard_normal((7, 7))
    yield square
    yield rng.standard_normal((9, 4))
    yield rng.standard_normal((4, 9))
    yield np.outer(rng.standard_normal(6), rng.standard_normal(5))  # rank one
    yield np.zeros((5, 3))
    yield np.full((1, 1), -2.0)
    yield 1e-150 * square
    yield 1e150 * square
    yield np.linalg.qr(square)[0]  # equal values
    U, _, Vt = np.linalg.svd(square)
    yield (U * 10.0 ** -np.arange(0, 21, 3)) @ Vt  # graded


SVD_STAGES = [(), ("first",), ("first", "second")]
EIGH_STAGES = [*SVD_STAGES, ("first", "second", "third")]


@pytest.mark.portable
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("stages", SVD_STAGES, ids=str)
def test_svd_with_stages_that_fail(monkeypatch, stages, backend):
    without(monkeypatch, *stages)
    for A in matrices():
        if backend in (NUMPY32, TORCH32) and not 1e-30 < np.abs(A).max() < 1e30:
            continue
        check_svd(backend.array(A), backend)


@pytest.mark.portable
@pytest.mark.parametrize("stages", SVD_STAGES, ids=str)
def test_a_matrix_on_which_gesdd_fails(monkeypatch, stages):
    """It does so on some processors; all of them agree on what the values are."""
    wanted = scipy.linalg.svd(HARD, compute_uv=False, lapack_driver="gesvd")
    without(monkeypatch, *stages)
    U, s, Vt = decompositions.svd(HARD)
    allowed = 2 * svd_error(200) * np.finfo(float).eps * wanted[0]
    assert np.abs(s - wanted).max() <= allowed
    assert np.abs(decompositions.svdvals(HARD) - wanted).max() <= allowed
    assert np.linalg.norm((U * s) @ Vt - HARD, 2) <= allowed
    for Q in (U, Vt.T):
        assert np.abs(Q.T @ Q - np.eye(200)).max() <= 1e-13
    assert np.linalg.norm(HARD @ Vt.T - U * s, 2) <= allowed


def check_svd(A, backend):
    U, s, Vt = decompositions.svd(A)
    assert all(backend.owns(x) for x in (U, s, Vt))
    given, eps = to_numpy(A).astype(float), eps_of(A)
    true = singular_values(given)
    allowed = svd_error(len(true)) * eps * float(true[0])
    U, s, Vt = (to_numpy(x).astype(float) for x in (U, s, Vt))
    assert (np.diff(s) <= 0).all()
    assert max(map(gap, s, true)) <= allowed
    assert max(map(gap, to_numpy(decompositions.svdvals(A)).astype(float), true)) <= allowed
    assert np.abs((U * s) @ Vt - given).max() <= 2 * allowed
    for Q in (U, Vt.T):
        assert np.abs(Q.T @ Q - np.eye(len(s))).max() <= 20 * eps


@pytest.mark.portable
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("stages", EIGH_STAGES, ids=str)
def test_eigh_with_stages_that_fail(monkeypatch, stages, backend):
    without(monkeypatch, *stages)
    for A in matrices():
        if backend in (NUMPY32, TORCH32) and not 1e-30 < np.abs(A).max() < 1e30:
            continue
        given = backend.array(A @ A.T if np.abs(A).max() < 1e100 else A)
        for S in (given, given + given.T, -given - given.T):
            if S.shape[0] == S.shape[1]:
                check_eigh((S + S.T) / 2, backend)


def check_eigh(A, backend):
    w, V = decompositions.eigh(A)
    assert all(backend.owns(x) for x in (w, V))
    given, eps = to_numpy(A).astype(float), eps_of(A)
    true = eigenvalues(given)
    largest = float(max(abs(true[0]), abs(true[-1])))
    allowed = eigh_error(len(true)) * eps * largest
    w, V = (to_numpy(x).astype(float) for x in (w, V))
    assert (np.diff(w) >= 0).all()
    assert max(map(gap, w, true)) <= allowed
    assert max(map(gap, to_numpy(decompositions.eigvalsh(A)).astype(float), true)) <= allowed
    assert np.abs(given @ V - V * w).max() <= 2 * allowed
    assert np.abs(V.T @ V - np.eye(len(w))).max() <= 20 * eps


@pytest.mark.parametrize("stages", EIGH_STAGES, ids=str)
@pytest.mark.parametrize("n", [5, 100])
def test_small_eigh(monkeypatch, stages, n):
    A = generator(2, n).standard_normal((n, n))
    A += A.T
    wanted = np.linalg.eigh(A)[0]
    without(monkeypatch, *stages)
    if stages:
        monkeypatch.setattr(
            decompositions.lapack, "dsyevd", lambda A, lower: (A[0], A, 1), raising=True
        )
    w, V = decompositions.small_eigh(A)
    np.testing.assert_allclose(w, wanted, atol=1e-12)
    np.testing.assert_allclose(A @ V, V * w, atol=1e-12)


def test_the_second_routines_return_arrays_of_the_kind_given(monkeypatch):
    A = generator(10).standard_normal((6, 6))
    without(monkeypatch, "first")
    for backend in (TORCH32, NUMPY32, TORCH):
        check_svd(backend.array(A), backend)
        check_eigh(backend.array(A + A.T), backend)


def test_gesvd_is_the_second_routine_for_singular_values(monkeypatch):
    A, used, whole = generator(11).standard_normal((6, 4)), [], scipy.linalg.svd
    without(monkeypatch, "first")

    def svd(A, **options):
        used.append(options["lapack_driver"])
        return whole(A, **options)

    monkeypatch.setattr(scipy.linalg, "svd", svd)
    check_svd(A, NUMPY)
    assert set(used) == {"gesvd"}


def test_squares_of_the_last_routine_stay_in_range(monkeypatch):
    A = generator(12).standard_normal((5, 4))
    wanted = np.linalg.svd(A, compute_uv=False)
    without(monkeypatch, "first", "second")
    for scale in (1e-200, 1e200):
        np.testing.assert_allclose(decompositions.svdvals(scale * A), scale * wanted)


def test_nan_without_an_error_is_a_failure_too(monkeypatch):
    from array_api_compat.numpy import linalg

    A = generator(3).standard_normal((6, 6))
    wanted, S = np.linalg.svd(A, compute_uv=False), A + A.T
    values = np.linalg.eigvalsh(S)
    monkeypatch.setattr(linalg, "svd", nothing_but_nan)
    monkeypatch.setattr(linalg, "svdvals", lambda A: np.full(6, np.nan))
    monkeypatch.setattr(linalg, "eigh", nothing_but_nan)
    monkeypatch.setattr(linalg, "eigvalsh", lambda A: np.full(6, np.nan))
    np.testing.assert_allclose(decompositions.svd(A)[1], wanted)
    np.testing.assert_allclose(decompositions.svdvals(A), wanted)
    np.testing.assert_allclose(decompositions.eigh(S)[0], values)
    np.testing.assert_allclose(decompositions.eigvalsh(S), values)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh"])
def test_entries_that_are_no_numbers(name, bad, backend):
    A = np.eye(5)
    A[2, 1] = A[1, 2] = bad
    with pytest.raises(DecompositionError, match="5 x 5 matrix that contains NaN or infinite"):
        getattr(decompositions, name)(backend.array(A))


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh"])
def test_nothing_helps(monkeypatch, name):
    without(monkeypatch, "first", "second", "third")
    monkeypatch.setattr(decompositions, "_rotated", fail)
    with pytest.raises(DecompositionError, match="of a 5 x 5 matrix were found neither"):
        getattr(decompositions, name)(np.eye(5))


def test_rotations_that_do_not_end(monkeypatch):
    monkeypatch.setattr(decompositions, "SWEEPS", 1)
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        decompositions._rotated(generator(4).standard_normal((6, 6)), np.eye(6))


def test_lack_of_memory_is_no_failure_to_converge(monkeypatch):
    from array_api_compat.torch import linalg

    def full(*args, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(linalg, "svd", full)
    with pytest.raises(torch.OutOfMemoryError):
        decompositions.svd(torch.eye(3))


def test_integers(monkeypatch):
    without(monkeypatch, "first")
    U, s, Vt = decompositions.svd(np.arange(6).reshape(2, 3))
    assert s.dtype == np.float64
    np.testing.assert_allclose((U * s) @ Vt, np.arange(6).reshape(2, 3), atol=1e-14)


def test_eigenvalues_of_any_square_matrix(monkeypatch):
    A = generator(5).standard_normal((6, 6))
    whole, wanted = np.linalg.eigvals, np.sort_complex(np.linalg.eigvals(A))
    seen = []
    for failures in range(4):
        seen.clear()

        def eigvals(B, failures=failures):
            seen.append(B)
            return fail() if len(seen) <= failures else whole(B)

        monkeypatch.setattr(np.linalg, "eigvals", eigvals)
        if failures == 3:
            with pytest.raises(DecompositionError, match="found neither"):
                decompositions.eigvals(A)
        else:
            found = np.sort_complex(decompositions.eigvals(A))
            np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_least_squares(monkeypatch):
    A, B = generator(6).standard_normal((8, 3)), generator(7).standard_normal((8, 2))
    A = np.concatenate([A, A[:, :1]], axis=1)  # of rank 3
    wanted = decompositions.lstsq(A, B)
    monkeypatch.setattr(np.linalg, "lstsq", fail)
    np.testing.assert_allclose(decompositions.lstsq(A, B), wanted, atol=1e-13)


@pytest.mark.portable
def test_errors_of_svds_are_within_what_is_admitted():
    """Wild spectra, where LAPACK deflates: the worst seen are about half of the bound."""
    rng = generator(9)
    for _ in range(25):
        n = int(rng.integers(2, 12))
        U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in "UV")
        A = (U * 10.0 ** rng.uniform(-16, 0, n)) @ V
        true = singular_values(A)
        error = max(map(gap, decompositions.svdvals(A), true))
        assert error <= svd_error(n) * np.finfo(float).eps * float(true[0])


ELSEWHERE = {"svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "lstsq", "pinv", "cond"}


def decomposed_directly(tree):
    """Calls such as xp.linalg.svd, names imported from modules called linalg, and LAPACK."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ELSEWHERE | {"matrix_rank"}:
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name == "linalg":
                yield node.lineno
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if (node.module or "").endswith("linalg.lapack") or (
                (node.module or "") in ("numpy.linalg", "scipy.linalg", "torch.linalg")
                and names & (ELSEWHERE | {"lapack"})
            ):
                yield node.lineno


def test_nobody_else_decomposes():
    root = Path(weakprox.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}"
        for path in sorted(root.rglob("*.py"))
        if path != Path(decompositions.__file__)
        and "verifier" not in path.parts  # shares nothing with the rest, on purpose
        for line in decomposed_directly(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.svd(A)",
        "namespace(A).linalg.eigh(A)",
        "linalg.svdvals(A)",
        "from scipy.linalg import lapack",
        "from numpy.linalg import eigvalsh",
        "from scipy.linalg.lapack import dsyevd",
    ],
)
def test_that_would_be_seen(code):
    assert list(decomposed_directly(ast.parse(code)))

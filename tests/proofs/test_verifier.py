"""The verifier's own numbers: sums, singular values, and bounds with their allowances."""

import ast
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from proofs._cases import matrix, simple
from soak.proofs import read, run, standalone, write

import weakprox as wp
from weakprox import verifier
from weakprox.verifier import spectral, spectrum
from weakprox.verifier.measurements import Measurements, vectors
from weakprox.verifier.sums import Factors, Near, dot, norm, total

ROOT = Path(__file__).resolve().parents[2]


def exact(x):
    return sum((Fraction(float(v)) for v in np.ravel(x)), Fraction(0))


@pytest.mark.parametrize("size", [1, 255, 1000, 4097])
def test_sums_are_exact_up_to_one_rounding(size):
    rng = np.random.default_rng(size)
    x = rng.standard_normal(size) * 10.0 ** rng.uniform(-12, 12, size)
    x = np.concatenate([x, -x[::-1], [1e-9]])
    error = abs(Fraction(total(x)) - exact(x))
    assert error <= Fraction(1e-9) * 2**-52 + Fraction(float(np.abs(x).sum())) * 2**-95


def test_inner_products_are_within_their_allowance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.standard_normal((2, 500)) * 10.0 ** rng.uniform(-8, 8, (2, 500))
        truth = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y, strict=True))
        found = dot(x, y)
        assert abs(Fraction(found.value) - truth) <= Fraction(found.error)
        length = sum(Fraction(float(a)) ** 2 for a in x)
        assert Fraction(norm(x)) ** 2 >= length


def test_bounds_enclose_the_number():
    near = Near(1.0, 0.25)
    assert near.lower < 0.75
    assert near.upper > 1.25
    assert near.times(-3.0).error >= 0.75


@pytest.mark.parametrize("bounded", [False, True])
def test_distances_from_ranges_are_within_their_allowance(bounded):
    """Without ends, a weighted l1 norm; slopes are rounded products lam w."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        shape, lam, size = (4, 3), float(rng.random()), 10.0 ** rng.integers(-8, 8)
        w = rng.random(shape) * (rng.random(shape) < 0.8)
        U, s, Vt = (
            size * rng.standard_normal((4, 2)),
            rng.random(2),
            rng.standard_normal((2, 3)),
        )
        ends = np.where(rng.random((2, *shape)) < 0.3, np.inf, size * rng.random((2, *shape)))
        low, high = (-ends[0], ends[1]) if bounded else np.zeros((2, 1, 1))
        part = verifier.Range(lam * w, low, high)
        slopes = [[Fraction(lam) * Fraction(float(one)) for one in row] for row in w]
        pull = part.pull(3.0 * rng.standard_normal(shape), shape)
        value, phi = Fraction(0), Fraction(0)
        for i, j in np.ndindex(shape):
            terms = zip(U[i], s, Vt[:, j], strict=True)
            x = sum(math.prod(map(Fraction, map(float, term))) for term in terms)
            low_, high_ = (np.broadcast_to(end, shape)[i, j] for end in (low, high))
            beyond = [Fraction(low_) - x] if np.isfinite(low_) else []
            beyond += [x - Fraction(high_)] if np.isfinite(high_) else []
            value += slopes[i][j] * max([Fraction(0), *beyond])
            y = Fraction(float(pull.rows(0, 4)[i, j]))
            assert abs(y) <= slopes[i][j]
            phi += y * Fraction(high_ if y > 0 else low_) if y else 0
        found = part.value(Factors(U, s, Vt))
        assert abs(Fraction(found.value) - value) <= Fraction(found.error)
        assert abs(Fraction(pull.phi.value) - phi) <= Fraction(pull.phi.error)


def slope(c, error=0.0):
    return spectrum.Slope(lambda first, last: c[first:last], c.shape, error)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (25, 25)])
@pytest.mark.parametrize("how", ["svd", "gram", "random"])
def test_singular_values_are_bounded_from_above(shape, how, monkeypatch):
    rng = np.random.default_rng(0)
    c = rng.standard_normal(shape)
    c[:, :3] *= 30.0
    if how == "gram":
        monkeypatch.setattr(spectrum, "HELD", 100)
    if how == "random":
        monkeypatch.setattr(spectrum, "FULL", 5)
    truth = np.linalg.svd(c, compute_uv=False)
    level = 0.5 * (truth[2] + truth[3])
    for error in (0.0, 0.1):
        found = spectrum.singular_values(slope(c, error), 3, lambda _: level)
        assert found.largest >= truth[0] + error
        assert found.beyond(level) >= ((truth + error - level).clip(0) ** 2).sum()
        assert found.sure == (how != "random")
        if not error:
            assert found.beyond(level) <= 1.01 * ((truth - level).clip(0) ** 2).sum() + 1e-3
    assert found.largest <= truth[0] + 0.3


def test_the_randomised_bound_also_reads_by_rows(monkeypatch):
    rng = np.random.default_rng(1)
    c = rng.standard_normal((40, 30))
    monkeypatch.setattr(spectrum, "FULL", 5)
    monkeypatch.setattr(spectrum, "HELD", 10)
    found = spectrum.singular_values(slope(c), 1, lambda _: 1e9)
    assert found.largest >= np.linalg.svd(c, compute_uv=False)[0]


def test_the_randomised_bound_allows_for_the_error_in_all_values(monkeypatch):
    """The exact matrix may have larger values than the one that is read, also those that are
    not bounded one by one."""
    monkeypatch.setattr(spectrum, "FULL", 5)
    c, exact = np.eye(30), 1.01 * np.eye(30)
    error = float(np.linalg.norm(exact - c))
    found = spectrum.singular_values(slope(c, error), 1, lambda _: 1.001)
    for t in (0.0, 0.3, 0.9):
        assert found.beyond(t) >= 30 * (1.01 - t) ** 2


def test_the_randomised_bound_is_never_below_the_norm(monkeypatch):
    monkeypatch.setattr(spectrum, "FULL", 2)
    monkeypatch.setattr(spectrum, "POWERS", 4)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        c = rng.standard_normal((9, 7)) * 10.0 ** rng.uniform(-3, 0, 7)
        found = spectrum.singular_values(slope(c), 1, lambda _: 1e9)
        assert found.largest >= np.linalg.norm(c, 2)


@pytest.mark.parametrize("w", [0.0, 0.3, 5.0])
def test_the_minimum_over_the_ball_is_bounded_from_below_and_attained(w):
    rng = np.random.default_rng(2)
    c, tau = rng.standard_normal((6, 5)), 2.0
    found = spectral.Ball(tau).least(slope(c), w, 2, math.inf)
    U, s, Vt = np.linalg.svd(c)
    if w:
        t = spectral.threshold(s, w * tau)
        V = -(U[:, :5] * (s - t).clip(0) / w) @ Vt
    else:
        V = -tau * np.outer(U[:, 0], Vt[0])
    assert np.linalg.norm(V, "nuc") <= tau * (1 + 1e-12)
    value = float((c * V).sum() + w / 2 * (V**2).sum())
    assert found.value <= value
    assert found.value >= value - 1e-10


@pytest.mark.parametrize("w", [0.0, 0.3, 5.0])
def test_the_minimum_over_the_trace_set(w):
    rng = np.random.default_rng(3)
    c, tau = rng.standard_normal((6, 6)), 2.0
    found = spectral.Psd(tau).least(slope(c), w, 2, math.inf)
    values, Q = np.linalg.eigh(-(c + c.T) / 2)
    p = (values - spectral.threshold(values, w * tau)).clip(0) / w if w else np.zeros(6)
    p = p if w else tau * np.eye(6)[-1]
    V = (Q * p) @ Q.T
    value = float((c * V).sum() + w / 2 * (V**2).sum())
    assert found.value <= value
    assert found.value >= value - 1e-10


@pytest.mark.parametrize("w", [0.0, 0.3])
def test_the_minimum_with_the_nuclear_norm(w):
    rng = np.random.default_rng(4)
    c, lam, rho = rng.standard_normal((6, 5)), 2.0, 3.0
    found = spectral.Norm(lam).least(slope(c), w, 2, rho)
    U, s, Vt = np.linalg.svd(c)
    for scale in np.linspace(0.0, rho, 7):  # of feasible points of that norm
        V = -scale * np.outer(U[:, 0], Vt[0])
        value = float((c * V).sum() + w / 2 * (V**2).sum()) + lam * scale
        assert found.value <= value + 1e-12
    assert spectral.Norm(s[0] + 1.0).least(slope(c), 0.0, 2, math.inf).value == 0.0


def test_dual_points_are_made_feasible():
    rng = np.random.default_rng(5)
    wild = 9.0 * rng.standard_normal((7, 4))
    box = verifier.Box(2.0, 0.5).pull(wild, wild.shape).rows(0, 7)
    assert box.max() <= 2.0
    assert box.min() >= -0.5
    for axis in (0, 1):
        y = verifier.Groups(1.5, axis).pull(wild, wild.shape).rows(0, 7)
        assert np.linalg.norm(y, axis=axis).max() <= 1.5
    A = rng.standard_normal((3, 7, 4))
    pull = verifier.Largest(A, np.array([1.0, 2.0, 3.0])).pull(
        np.array([-1.0, 3.0, 1.0]), (7, 4)
    )
    assert pull.rows(0, 7) == pytest.approx(0.75 * A[1] + 0.25 * A[2])
    assert pull.phi.value == pytest.approx(2.25)


def test_integers_reach_the_ends_exactly():
    for kind in (np.int8, np.int16, np.int32):
        most = np.iinfo(kind).max
        q = np.array([[most, -most, 0, np.iinfo(kind).min]], kind)
        y = verifier.Box(0.1, 0.7).pull(q, q.shape).rows(0, 1)
        assert y.tolist() == [[0.1, -0.7, 0.0, -0.7]]


def test_the_nuclear_norm_is_that_of_the_product():
    rng = np.random.default_rng(6)
    U, s, Vt = (
        rng.standard_normal((8, 3)),
        np.array([3.0, 2.0, 1.0]),
        rng.standard_normal((3, 6)),
    )
    X = Factors(U, s, Vt)  # far from orthonormal
    found = X.nuclear_norm()
    assert abs(found.value - np.linalg.norm((U * s) @ Vt, "nuc")) <= found.error + 1e-10
    assert abs(found.value - s.sum()) > 1.0


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_strong_convexity_is_that_of_the_data(symmetric):
    rng = np.random.default_rng(7)
    A = rng.standard_normal((40, 4, 4))
    loss = Measurements(lambda: iter([(A.reshape(40, 16), np.zeros(40))]), 40, (4, 4))
    F = vectors(A) if symmetric else A.reshape(40, 16)
    least = np.linalg.eigvalsh(F.T @ F / 40)[0]
    found, trusted = loss.convexity(9.0, symmetric)
    assert found == pytest.approx(least, rel=1e-10)
    assert found < least
    assert trusted == ()
    assert loss.convexity(0.5 * least, symmetric)[0] == 0.5 * least


def test_symmetric_parts_keep_inner_products():
    rng = np.random.default_rng(8)
    A, S = rng.standard_normal((5, 4, 4)), rng.standard_normal((4, 4))
    S = S + S.T
    assert vectors(A) @ vectors(S[None])[0] == pytest.approx((A * S).sum(axis=(1, 2)))


def test_a_point_outside_the_set_is_refused():
    problem = simple()
    proof = wp.minimize(problem).proof
    larger = {**proof.arrays, "X_s": proof.arrays["X_s"] * 1.001}
    verdict = wp.verify(wp.Proof(proof.claims, proof.terms, proof.digests, larger), problem)
    assert not verdict
    assert "violates" in verdict.reason


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"value": -1e-6}, "above the claimed"),
        ({"lower_bound": 1.0}, "below the claimed"),
        ({"eps": -1.0}, "larger than"),
    ],
)
def test_claims_beyond_what_is_shown_are_refused(change, word):
    problem = simple()
    proof = wp.minimize(problem).proof
    claims = dict(proof.claims)
    for name, step in change.items():
        scale = proof.value if name == "value" else proof.gap if name == "lower_bound" else 1.0
        claims[name] = claims[name] * 0.1 if name == "eps" else claims[name] + step * scale
    verdict = wp.verify(wp.Proof(claims, proof.terms, proof.digests, proof.arrays), problem)
    assert not verdict
    assert word in verdict.reason


# the text in the documentation


def text() -> str:
    page = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)[-1]


def test_the_standalone_verifier_is_short_and_needs_numpy_only():
    assert len(text().splitlines()) <= 100
    assert max(map(len, text().splitlines())) <= 110
    found = [node for node in ast.walk(ast.parse(text())) if isinstance(node, ast.Import)]
    names = {alias.name for node in found for alias in node.names}
    assert names == {"json", "math", "sys", "numpy"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(ast.parse(text())))


def test_the_standalone_verifier_as_a_script(tmp_path):
    (tmp_path / "verify.py").write_text(text(), encoding="utf-8")
    np.save(tmp_path / "M.npy", matrix())
    proof = wp.minimize(simple()).proof
    proof.save(tmp_path / "proof.npz")
    command = [sys.executable, "-I", "verify.py", "proof.npz", "M.npy"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("valid: f(X) <=")
    claims = {**proof.claims, "lower_bound": proof.value}
    wp.Proof(claims, proof.terms, proof.digests, proof.arrays).save(tmp_path / "proof.npz")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("REFUSED")


def test_the_standalone_verifier_casts_no_data(tmp_path):
    """A file that names another type for the data must not have them rounded."""
    np.save(tmp_path / "M.npy", matrix())
    rounded = wp.Problem(
        wp.losses.Denoising(matrix().astype(np.float32)), simple().penalty, simple().spectral
    )
    wp.minimize(rounded).proof.save(tmp_path / "proof.npz")
    assert standalone()(tmp_path / "proof.npz", tmp_path / "M.npy")[0] is False
    np.save(tmp_path / "M.npy", matrix().astype(np.float32))
    assert standalone()(tmp_path / "proof.npz", tmp_path / "M.npy")[0] is True


def accepted(path, data):
    """Whether the stand-alone verifier accepts a file; it may also end with an error."""
    try:
        return standalone()(path, data)[0]
    except (AssertionError, IndexError, ValueError):
        return False


def forged(path, claims, **arrays):
    """The proof file with other arrays and claims that hold if they are taken at their word."""
    meta, found = read(path)
    meta["claims"] |= {"certified": False, "eps": 1e9, **claims}
    write(path, meta, {**found, **arrays})


@pytest.mark.parametrize("how", ["broadcast", "dense"])
def test_the_point_of_a_forged_file_has_its_shape(how, tmp_path):
    """f is computed at another point than the one whose nuclear norm is small."""
    M = 3.0 + 0.01 * matrix()
    np.save(tmp_path / "M.npy", M)
    problem = wp.Problem(wp.losses.Denoising(M), None, wp.spectral.NuclearBall(20.0))
    proof = wp.minimize(problem).proof
    proof.save(tmp_path / "proof.npz")
    claims = {"value": 0.5 * proof.lower_bound, "lower_bound": 0.0}
    factors = {"X_U": np.ones((1, 1)), "X_s": np.ones(1), "X_Vt": np.full((1, M.shape[1]), 3.0)}
    forged(tmp_path / "proof.npz", claims, **(factors if how == "broadcast" else {"X": M}))
    assert not accepted(tmp_path / "proof.npz", tmp_path / "M.npy")


def test_the_dual_point_of_a_forged_file_has_its_shape(tmp_path):
    """One number for each row passes for a group of length one, and is repeated."""
    M = 3.0 + 0.01 * matrix()
    np.save(tmp_path / "M.npy", M)
    penalty, ball = wp.penalties.GroupL2(2.0), wp.spectral.NuclearBall(1e3)
    problem = wp.Problem(wp.losses.Denoising(M), penalty, ball)
    proof = wp.minimize(problem).proof
    proof.save(tmp_path / "proof.npz")
    claims = {"value": 3.0 * proof.value, "lower_bound": 1.2 * proof.value}
    forged(tmp_path / "proof.npz", claims, y0=np.ones((len(M), 1)))
    assert not accepted(tmp_path / "proof.npz", tmp_path / "M.npy")


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_true_proofs_are_accepted_and_changed_ones_refused(first):
    """Part of the soak, `python tests/soak/proofs.py 500`."""
    bench = run(6, first)
    assert bench.failures == []
    assert bench.counts["accepted_standalone"] >= 6
    assert bench.counts["refused_standalone"] >= 18
    assert bench.counts["refused"] >= 18

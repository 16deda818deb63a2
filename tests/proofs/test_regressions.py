"""Proofs of regressions, of binary outcomes, and of penalties with arrays."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from proofs._cases import SHAPE, matrix, measurements, regression

import weakprox as wp
from weakprox import verifier
from weakprox.errors import ProofError
from weakprox.losses import Denoising, Logistic, Regression
from weakprox.penalties import L1, Box
from weakprox.proofs.proof import verify_data
from weakprox.solvers import LeanSplitting
from weakprox.spectral import NuclearBall, NuclearNorm
from weakprox.verifier.sums import Dense


def outcomes():
    A, b, *_ = measurements()
    return A, np.where(A[:, 0, 0] + 0.5 * b > 0.0, 2.0, -1.0)


def cases():
    """Problems with their data by name."""
    M, (X, Y), (A, y), (_, _, u, v) = matrix(), regression(), outcomes(), measurements()
    free = np.where(np.eye(*SHAPE) > 0, 0.0, 1.0)
    low = np.where(np.arange(18) % 2, -np.inf, -1.0)[None, :]
    high = np.full((1, 1), 2.0)
    norm, ball = NuclearNorm(0.2), NuclearBall(1.0)
    return {
        "regression": (Regression(X, Y), L1(0.01), norm, {"X": X, "Y": Y}),
        "regression-intercept": (
            *(Regression(X + 3.0, Y - 5.0, intercept=True), None, norm),
            {"X": X + 3.0, "Y": Y - 5.0},
        ),
        "outcomes": (Logistic(A, y), L1(1e-3), NuclearNorm(0.05), {"A": A, "y": y}),
        "outcomes-intercept": (
            *(Logistic((u, v), y, intercept=True), None, ball),
            {"U": u, "V": v, "y": y},
        ),
        "weighted-l1": (
            *(Denoising(M), L1(0.3, weights=free), NuclearBall(30.0)),
            {"M": M, "penalty0_weights": free},
        ),
        "bounds": (
            *(Denoising(M), Box(low, high, 20.0), NuclearNorm(1.0)),
            {"M": M, "penalty0_low": low, "penalty0_high": high},
        ),
    }


@pytest.fixture(scope="module")
def made():
    """By name, the problem, its proof and the data."""
    found = {}
    for name, (*terms, data) in cases().items():
        problem = wp.Problem(*terms)
        found[name] = problem, wp.minimize(problem, tol=1e-5).proof, data
    return found


def changed(proof, claims=None, terms=None, **arrays):
    claims, terms = {**proof.claims, **(claims or {})}, {**proof.terms, **(terms or {})}
    return wp.Proof(claims, terms, proof.digests, {**proof.arrays, **arrays})


@pytest.mark.parametrize("name", sorted(cases()))
def test_files_are_verified_with_nothing_but_the_data(name, made, tmp_path):
    problem, proof, data = made[name]
    assert proof.certified
    path = tmp_path / "proof.npz"
    proof.save(path)
    for verdict in (wp.verify(path, problem), verify_data(path, data)):
        assert verdict, str(verdict)
        assert verdict.trusted == ()
    for key, array in data.items():
        other = array.copy()
        spot = np.flatnonzero(np.isfinite(other.ravel()))[0]
        other.flat[spot] += 1.0 if key != "y" else 3.0 * np.sign(0.5 - other.flat[spot])
        with pytest.raises(ProofError, match="other data"):
            verify_data(path, {**data, key: other})
        with pytest.raises(ProofError, match="no array"):
            verify_data(path, {k: x for k, x in data.items() if k != key})


def test_kept_proofs_hold_no_bounds():
    """They are those of the penalty; memory that is kept is counted without them."""
    *terms, data = cases()["bounds"]
    problem = wp.Problem(*terms)
    result = wp.minimize(problem, LeanSplitting(), tol=1e-5, proof=True)
    step = result.evidence.dual.step
    assert step.bounded
    assert step.beside is None
    proof = result.proof
    assert proof.certified
    assert wp.verify(proof, problem)
    assert verify_data(proof, data)


@pytest.mark.parametrize("name", sorted(cases()))
def test_corrupted_files_are_refused(name, made, tmp_path):
    problem, proof, _ = made[name]
    above = proof.value - 0.1 * proof.gap
    below = proof.lower_bound + 0.1 * proof.gap
    assert not wp.verify(changed(proof, {"lower_bound": above}), problem)
    assert not wp.verify(changed(proof, {"value": below}), problem)
    assert not wp.verify(changed(proof, X_s=2.0 * proof.arrays["X_s"]), problem)
    for key in ("y0", "q", "X0"):
        if key in proof.arrays:
            nothing = np.zeros_like(proof.arrays[key])
            assert not wp.verify(changed(proof, **{key: nothing}), problem)
    path = tmp_path / "proof.npz"
    proof.save(path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0x10
    path.write_bytes(bytes(whole))
    with pytest.raises(ProofError):
        wp.verify(path, problem)


def test_descriptions_are_checked_when_read(made, tmp_path):
    for name in ("regression", "outcomes"):
        proof = made[name][1]
        for wrong in ({}, {"intercept": 1}):
            loss = {"kind": proof.terms["loss"]["kind"], **wrong}
            changed(proof, terms={"loss": loss}).save(tmp_path / "proof.npz")
            with pytest.raises(ProofError, match="true or false"):
                wp.Proof.load(tmp_path / "proof.npz")
    for name, number in (("weighted-l1", "lam"), ("bounds", "slope")):
        proof = made[name][1]
        part = {**proof.terms["penalty"][0], number: -1.0}
        changed(proof, terms={"penalty": [part]}).save(tmp_path / "proof.npz")
        with pytest.raises(ProofError, match="term"):
            wp.Proof.load(tmp_path / "proof.npz")


def test_an_intercept_that_the_problem_lacks_is_refused(made):
    X, Y = regression()
    problem = wp.Problem(Regression(X + 3.0, Y - 5.0), None, NuclearNorm(0.2))
    with pytest.raises(ProofError, match="another loss"):
        wp.verify(made["regression-intercept"][1], problem)


@pytest.mark.parametrize("step", [1, -1, 1 << 20])
def test_outcomes_with_an_intercept_need_sums_of_zero(made, step):
    problem, proof, _ = made["outcomes-intercept"]
    q = proof.arrays["q"].copy()
    assert q.sum() == 0
    q[np.abs(q).argmin()] += step
    verdict = wp.verify(changed(proof, q=q), problem)
    assert not verdict
    assert verdict.lower_bound == -math.inf


def test_a_dual_point_of_the_wrong_form_is_refused(made):
    problem, proof, _ = made["outcomes-intercept"]
    assert not wp.verify(changed(proof, q=-proof.arrays["q"]), problem)  # outside the domain
    assert not wp.verify(changed(proof, intercepts_mean=np.array([4.0])), problem)
    with pytest.raises(ProofError, match="q of shape"):
        wp.verify(changed(proof, q=proof.arrays["q"][:3]), problem)
    less = {name: array for name, array in proof.arrays.items() if name != "intercepts_mean"}
    with pytest.raises(ProofError, match="intercepts_mean"):
        wp.verify(wp.Proof(proof.claims, proof.terms, proof.digests, less), problem)
    with pytest.raises(ProofError, match="q of shape"):
        wp.verify(changed(made["outcomes"][1], q=np.zeros(3, np.int64)), made["outcomes"][0])


def test_a_false_strong_convexity_of_a_regression_proves_nothing(made):
    """The smallest eigenvalue of the Gram matrix is computed from the data."""
    problem, proof, _ = made["regression"]
    verdict = wp.verify(changed(proof, {"strong_convexity": 100.0}), problem)
    assert verdict.lower_bound <= proof.value


@pytest.mark.parametrize("intercept", [False, True])
def test_the_loss_and_model_of_a_regression_are_within_their_allowances(intercept):
    """Exact rational arithmetic, on features with large means."""
    rng = np.random.default_rng(3)
    F, Y = rng.standard_normal((9, 3)) + 1e5, rng.standard_normal((9, 2)) + 1e3
    B, n = rng.standard_normal((3, 2)), 9

    def read():
        yield F[:4], Y[:4]
        yield F[4:], Y[4:]

    told = verifier.Regression(read, n, (3, 2), intercept)
    wide = lambda x: [[Fraction(float(v)) for v in row] for row in x]  # noqa: E731
    f, y, b = wide(F), wide(Y), wide(B)
    R = [
        [y[i][j] - sum(f[i][k] * b[k][j] for k in range(3)) for j in range(2)] for i in range(n)
    ]
    if intercept:
        means = [sum(R[i][j] for i in range(n)) / n for j in range(2)]
        R = [[R[i][j] - means[j] for j in range(2)] for i in range(n)]
    truth = sum(r * r for row in R for r in row) / (2 * n)
    found = told.value(Dense(B))
    assert abs(Fraction(found.value) - truth) <= Fraction(found.error)
    model = told.model(Dense(B), 0.0, False)
    g = [[-sum(f[i][k] * R[i][j] for i in range(n)) / n for j in range(2)] for k in range(3)]
    rows = wide(model.rows(0, 3))
    apart = sum((g[k][j] - rows[k][j]) ** 2 for k in range(3) for j in range(2))
    assert apart <= Fraction(model.error) ** 2
    centred = F - F.mean(axis=0) if intercept else F
    least = np.linalg.eigvalsh(centred.T @ centred / n)[0]
    assert told.convexity(1e9, False)[0] <= least * (1 + 1e-9)
    assert told.convexity(1e-3 * least, False)[0] <= 1e-3 * least


def test_models_of_outcomes_lie_below_the_loss():
    A, y = outcomes()
    y, rng = (y > 0).astype(float), np.random.default_rng(4)
    flat, n = A.reshape(len(A), -1), len(A)
    told = verifier.Measurements(lambda: iter([(flat, y)]), n, (6, 5))
    for free in ("none", "mean"):
        loss = verifier.Outcomes(told, free)
        k = rng.integers(0, 1 << 30, n) * np.where(y == 1, 1, -1)
        if free == "mean":  # equally many of both classes
            pairs = min(int(y.sum()), int(n - y.sum()))
            k = np.zeros(n, np.int64)
            k[np.flatnonzero(y == 1)[:pairs]] = 1 << 29
            k[np.flatnonzero(y == 0)[:pairs]] = -(1 << 29)
        model = loss.model(verifier.OnEntries(k, -30), 0.0, False)
        for size in (0.0, 0.1, 1.0, 10.0):
            V = size * rng.standard_normal((6, 5))
            below = model.constant.lower + float(np.vdot(model.rows(0, 6), V))
            shift = 3.0 * size if free == "mean" else 0.0
            where = verifier.Intercepts(shift, np.zeros(0), np.zeros(0))
            assert below <= loss.value(Dense(V), where).upper


def test_the_command_reads_data_of_every_kind(made, tmp_path):
    from typer.testing import CliRunner

    from weakprox.cli import app

    for name in ("regression-intercept", "outcomes-intercept", "weighted-l1", "bounds"):
        _, proof, data = made[name]
        proof.save(tmp_path / "proof.npz")
        np.savez(tmp_path / "data.npz", **data)
        command = ["verify", str(tmp_path / "proof.npz"), "--data", str(tmp_path / "data.npz")]
        done = CliRunner().invoke(app, [*command, "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["valid"] is True


@pytest.mark.parametrize("loss", ["outcomes", "entries"])
def test_integers_whose_sum_overflows_prove_nothing(loss, tmp_path):
    """An even number of least integers adds up to zero modulo 2^64."""
    rng, n = np.random.default_rng(0), 101
    y = np.zeros(n)
    y[-1] = 1.0
    G = Logistic(rng.standard_normal((n, 3, 3)), y, intercept=True)
    if loss == "entries":
        rows, columns = np.zeros(n, dtype=int), np.arange(n)
        G = wp.losses.Completion(rows, columns, y, (1, n), loss="logistic", intercepts="rows")
    problem = wp.Problem(G, None, NuclearBall(1e-6))
    result = wp.minimize(problem, tol=1e-4, proof=True, progress=False)
    proof = result.proof
    assert wp.verify(proof, problem)
    least = np.where(y == 1.0, 0, np.iinfo(np.int64).min)
    for q in (least, np.where(y == 1.0, 0.0, -0.5)):
        lower = 1.5 * result.value
        claims = {**proof.claims, "exponent": -64 if q is least else 0}
        claims |= {"lower_bound": lower, "value": 1.1 * lower, "certified": False}
        false = wp.Proof(claims, proof.terms, proof.digests, {**proof.arrays, "q": q})
        assert not wp.verify(false, problem)


def test_the_dual_point_is_kept_on_request_by_numpy():
    problem = wp.Problem(Denoising(matrix()), L1(0.1), NuclearNorm(1.0))
    proof = wp.minimize(problem, tol=1e-3, proof=np.True_).proof
    assert wp.verify(proof, problem)
    del problem
    result = wp.minimize(
        wp.Problem(Denoising(matrix()), L1(0.1), NuclearNorm(1.0)), proof=np.True_
    )
    assert result.proof.certified  # the problem is kept, too

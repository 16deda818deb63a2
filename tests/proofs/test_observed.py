"""Proofs on observed entries: what they hold, what verifiers compute, and what is refused."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from proofs._cases import matrix
from soak.proofs import read, standalone, write

import weakprox as wp
from weakprox import verifier
from weakprox.errors import ProofError
from weakprox.losses import Completion, Huber
from weakprox.proofs.observed import integers
from weakprox.proofs.proof import verify_data
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD
from weakprox.verifier import entries, sparse

SHAPE = (24, 18)
PICKED = np.random.default_rng(2).permutation(np.flatnonzero(matrix().ravel() > -1.0))[:250]
ROWS, COLS = np.divmod(PICKED, 18)
KINDS = {
    "squared": "squared",
    "huber": Huber(1.0),
    "logistic": "logistic",
    "poisson": "poisson",
}


def data(kind):
    values = matrix()[ROWS, COLS]
    if kind == "logistic":
        values = np.where(values > 0, 1.0, -1.0)
    elif kind == "poisson":
        values = np.floor(np.exp(0.4 * values.clip(-4, 4)))
    return {"rows": ROWS, "cols": COLS, "values": values}


def problem(kind, h=None, **options):
    h = NuclearNorm(1.0) if h is None else h
    return wp.Problem(
        Completion(*data(kind).values(), SHAPE, loss=KINDS[kind], **options), None, h
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A problem with free intercepts, its proof, and the file."""
    path = tmp_path_factory.mktemp("proofs") / "proof.npz"
    case = problem("logistic", intercepts="both")
    proof = wp.minimize(case, tol=1e-6).proof
    proof.save(path)
    return case, proof, path


def changed(proof, claims=None, **arrays):
    claims = {**proof.claims, **(claims or {})}
    return wp.Proof(claims, proof.terms, proof.digests, {**proof.arrays, **arrays})


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    ("options", "ball"),
    [
        ({}, False),
        ({"intercepts": "both"}, True),
        ({"intercepts": "columns", "intercept_ridge": 0.4, "reduction": "mean"}, True),
        ({"intercepts": "rows", "weights": 2.0, "scaling": "counts"}, False),
        ({"intercepts": "both", "weights": 0.5, "scaling": "arrays"}, False),
    ],
)
def test_files_are_verified_against_the_data_as_they_came(kind, options, ball, tmp_path):
    """In the order of the user, with classes, weights and scalings of the user."""
    options, given = dict(options), data(kind)
    if "weights" in options:
        given["weights"] = options["weights"] * np.linspace(0.5, 2.0, len(ROWS))
        options["weights"] = given["weights"]
    if options.get("scaling") == "arrays":
        options["scaling"] = np.linspace(0.5, 2.0, 24), np.linspace(2.0, 0.7, 18)
        given["row_scaling"], given["col_scaling"] = options["scaling"]
    weight = 1.0 / len(ROWS) if "reduction" in options else 1.0
    case = problem(kind, NuclearBall(6.0) if ball else NuclearNorm(weight), **options)
    result = wp.minimize(case, tol=1e-3)
    assert result.proof.certified
    path = tmp_path / "proof.npz"
    result.proof.save(path)
    assert wp.verify(path, case)
    assert verify_data(path, given)
    np.savez(tmp_path / "data.npz", **given)
    valid, why = standalone()(path, tmp_path / "data.npz")
    assert valid, why
    other = given["values"].copy()
    other[3] = other[3] + 1 if kind != "logistic" else -other[3]
    with pytest.raises(ProofError, match="other data"):
        verify_data(path, {**given, "values": other})
    np.savez(tmp_path / "data.npz", **{**given, "values": other})
    assert not standalone()(path, tmp_path / "data.npz")[0]


def test_the_file_holds_integers_and_intercepts(good):
    _, proof, path = good
    with np.load(path, allow_pickle=False) as found:
        meta = json.loads(found["meta"].tobytes())
        assert found["q"].dtype == np.int64
        assert found["q"].shape == ROWS.shape
        assert found["intercepts_rows"].shape == (24,)
    assert meta["terms"]["loss"] == {
        "kind": "Completion",
        "reduction": "sum",
        "loss": {"kind": "logistic"},
        "intercepts": "both",
        "ridge": 0.0,
    }
    order = np.lexsort((COLS, ROWS))
    sums = np.zeros(24, np.int64)
    np.add.at(sums, ROWS[order], proof.arrays["q"])
    assert not sums.any()


@pytest.mark.parametrize("step", [1, -1, 1000])
def test_a_dual_point_whose_sums_are_not_zero_proves_nothing(good, step):
    case, proof, _ = good
    q = proof.arrays["q"].copy()
    q[np.abs(q).argmin()] += step
    verdict = wp.verify(changed(proof, q=q), case)
    assert not verdict
    assert verdict.lower_bound == -math.inf


def test_other_changes_are_refused(good):
    case, proof, _ = good
    arrays = proof.arrays
    # sums stay zero, but the bound is another one
    assert not wp.verify(changed(proof, q=np.zeros_like(arrays["q"])), case)
    assert not wp.verify(changed(proof, q=-arrays["q"]), case)  # outside of the domain
    assert not wp.verify(changed(proof, {"exponent": proof.claims["exponent"] + 1}), case)
    assert not wp.verify(changed(proof, intercepts_mean=arrays["intercepts_mean"] + 1.0), case)
    assert not wp.verify(changed(proof, X_s=2.0 * arrays["X_s"]), case)
    above = proof.value - 0.1 * proof.gap
    assert not wp.verify(changed(proof, {"lower_bound": above}), case)
    below = proof.lower_bound + 0.1 * proof.gap
    assert not wp.verify(changed(proof, {"value": below}), case)


@pytest.mark.parametrize(
    "arrays",
    [
        {"q": np.zeros(3, np.int64)},
        {"intercepts_rows": np.zeros(5)},
        {"X0": np.zeros(SHAPE)},
        {"q": None},
        {"intercepts_mean": None},
    ],
)
def test_arrays_that_do_not_fit(good, arrays):
    case, proof, _ = good
    kept = {**proof.arrays, **arrays}
    kept = {name: array for name, array in kept.items() if array is not None}
    with pytest.raises(ProofError):
        wp.verify(wp.Proof(proof.claims, proof.terms, proof.digests, kept), case)


@pytest.mark.parametrize("unit", [None, 0.5, 5000, "1"])
def test_a_damaged_exponent(good, unit, tmp_path):
    _, proof, _ = good
    changed(proof, {"exponent": unit}).save(tmp_path / "proof.npz")
    with pytest.raises(ProofError, match="exponent"):
        wp.Proof.load(tmp_path / "proof.npz")


def test_intercepts_that_the_problem_does_not_have_do_not_count():
    case = problem("squared", intercepts="rows")
    proof = wp.minimize(case).proof
    best = wp.verify(proof, case).value
    other = changed(proof, intercepts_columns=np.ones(18))
    assert wp.verify(other, case).value == best


def test_data_extremes_are_verified_in_their_own_unit():
    values = 1e60 * data("huber")["values"]
    loss = Completion(ROWS, COLS, values, SHAPE, loss=Huber(1e60), intercepts="both")
    case = wp.Problem(loss, None, NuclearNorm(1e60))
    result = wp.minimize(case)
    assert result.unit != 1.0
    assert result.proof.certified
    assert wp.verify(result.proof, case)


def test_a_result_leaves_the_data_behind():
    case = problem("squared")
    result = wp.minimize(case)
    assert result.dual is None
    assert not hasattr(result.evidence, "problem")
    with pytest.raises(ProofError, match="proof=True"):
        _ = wp.minimize(case, proof=False).proof


# the verifier's own numbers

ENTRY = {
    "squared": verifier.SquaredEntry(),
    "huber": verifier.HuberEntry(1.0),
    "logistic": verifier.LogisticEntry(),
    "poisson": verifier.PoissonEntry(),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_conjugates_bound_the_loss_of_entries_from_below(kind):
    """w l(v, z) >= -q z - w l*(v, -q/w), with equality at the derivative."""
    from weakprox.losses.entry_losses import entry_loss

    rng = np.random.default_rng(3)
    v = np.sort(data(kind)["values"])
    v = (v > 0).astype(float) if kind == "logistic" else v
    loss, entry, w = entry_loss(KINDS[kind]), ENTRY[kind], rng.uniform(0.5, 2.0, len(v))
    z = rng.standard_normal(len(v))
    low, high = entry.limits(v, w)
    q = np.clip(-w * loss.derivative(v, z), low, high)
    found, sizes = entry.conjugate(v, q, w)
    assert w * entry.at(v, z).values + q * z + found == pytest.approx(0.0, abs=1e-12)
    assert (sizes >= np.abs(found) - 1e-12).all()
    other = rng.standard_normal(len(v)) * 3
    assert (w * entry.at(v, other).values >= -q * other - found - 1e-12).all()
    assert entry.at(v, z).values == pytest.approx(loss.value(v, z))


@pytest.mark.parametrize("kind", ["squared", "huber"])
def test_the_constant_is_within_its_allowance(kind):
    """Against exact arithmetic."""
    rng = np.random.default_rng(4)
    order = np.lexsort((COLS, ROWS))
    v, rows, cols = data(kind)["values"][order], ROWS[order], COLS[order]
    loss = verifier.Entries(rows, cols, v, SHAPE, 1.0, ENTRY[kind])
    k = rng.integers(-(2**30), 2**30, len(v))
    model = loss.model(verifier.OnEntries(k, -30), 0.0, False)
    exact = sum(
        Fraction(int(one), 2**30) * Fraction(float(y)) - Fraction(int(one), 2**30) ** 2 / 2
        for one, y in zip(k, v, strict=True)
    )
    assert abs(Fraction(model.constant.value) - exact) <= Fraction(model.constant.error)
    S = np.zeros(SHAPE)
    S[rows, cols] = -k * 2.0**-30
    assert model.rows(0, 24) == pytest.approx(S)


@pytest.mark.parametrize("intercepts", ["rows", "columns", "both"])
def test_integers_are_balanced_on_any_graph(intercepts):
    rng = np.random.default_rng(5)
    for seed in range(12):
        n = int(rng.integers(1, 60))
        rows, cols = rng.integers(0, 7, n), rng.integers(0, 6, n)
        order = np.lexsort((cols, rows))
        loss = verifier.Entries(
            rows[order], cols[order], rng.standard_normal(n), (7, 6), 1.0, intercepts=intercepts
        )
        P = (
            np.linalg.qr(np.concatenate([np.eye(7)[loss.rows], np.eye(6)[loss.cols]], axis=1))[
                0
            ]
            if intercepts == "both"
            else None
        )
        q = rng.standard_normal(n)
        if P is not None:
            q -= P @ (P.T @ q)
        else:
            index, size = (loss.rows, 7) if intercepts == "rows" else (loss.cols, 6)
            counts = np.maximum(np.bincount(index, minlength=size), 1)
            q -= (np.bincount(index, q, size) / counts)[index]
        k, exponent = integers(q, loss, 0.0, 1.0)
        assert (
            loss.model(verifier.OnEntries(k, exponent), 0.0, False).constant.value > -math.inf
        )
        assert np.ldexp(k.astype(float), exponent) == pytest.approx(q, abs=1e-9), seed


def test_large_integers_are_refused_rather_than_overflow():
    loss = verifier.Entries(
        [0, 0, 0, 0], [0, 1, 2, 3], np.zeros(4), (1, 4), 1.0, intercepts="rows"
    )
    wrapped = verifier.OnEntries(np.full(4, 1 << 62), -62)  # their sum is 0 modulo 2^64
    assert loss.model(wrapped, 0.0, False).constant.value == -math.inf
    assert entries.LARGEST < 1 << 53


@pytest.mark.parametrize("kind", ["flat", "ties", "gap", "zero"])
def test_the_randomised_norm_of_a_sparse_matrix(kind, monkeypatch):
    """Never below the norm, and sharp where the leading vectors are given."""
    import scipy.sparse

    monkeypatch.setattr(sparse, "HELD", 0)
    rng = np.random.default_rng(6)
    A = rng.standard_normal((90, 70)) * (rng.random((90, 70)) < 0.3)
    if kind == "zero":
        A *= 0.0
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    if kind == "ties":
        s[:8] = s[0]
        A = (U * s) @ Vt
    elif kind == "gap":
        A += 30 * np.outer(U[:, 0], Vt[0])
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
    S, start = scipy.sparse.csr_array(A), Vt[:4].T + 0.01 * rng.standard_normal((70, 4))
    found, error, sure = sparse.largest_value(S, start, 0.0)
    assert found >= s[0]
    assert found <= s[0] * (1 + 1e-7) + 1e-200
    assert error <= 1e-7 * s[0] + 1e-200
    assert sure == (kind == "zero")
    assert sparse.largest_value(S, start, 3.0 * s[0])[0] >= s[0]


def test_a_large_proof_is_verified_without_the_matrix(monkeypatch):
    """As above its sizes: by random vectors, claimed without being verified."""
    monkeypatch.setattr(sparse, "HELD", 0)
    monkeypatch.setattr("weakprox.proofs.witness.CHECKED", 5)
    case = problem("squared", intercepts="both")
    result = wp.minimize(case, tol=1e-4)
    assert result.proof.certified
    verdict = wp.verify(result.proof, case)
    assert verdict, str(verdict)
    assert verdict.rests_on == "high-probability"


def test_repeated_observations_count_once_in_the_slope():
    """Its size, on which allowances rest, is that of the sums in each cell."""
    rows, cols = np.repeat([0, 2], 50), np.repeat([1, 3], 50)
    loss = verifier.Entries(rows, cols, np.ones(100), (4, 5), 1.0)
    model = loss.model(verifier.OnEntries(np.full(100, 1 << 29), -30), 0.0, False)
    assert model.sparse.nnz == 2
    np.testing.assert_allclose(model.sparse.toarray()[[0, 2], [1, 3]], -25.0)
    np.testing.assert_allclose(model.rows(0, 4), model.sparse.toarray())
    assert np.linalg.norm(model.sparse.data) >= np.linalg.norm(model.rows(0, 4))


@pytest.mark.parametrize(
    ("size", "fine"), [(1 << 36, True), (1 << 38, False), (-(1 << 38), False)]
)
def test_integers_of_many_observations(size, fine):
    """Those of 2^25 observations have fewer bits, so that sums do not overflow."""
    assert entries.summable(np.broadcast_to(np.int64(size), (1 << 25,))) is fine


def test_the_text_takes_integers_only(good, tmp_path):
    """Sums of fractions are not tested in integers."""
    _, _, path = good
    meta, arrays = read(path)
    np.savez(tmp_path / "data.npz", **data("logistic"))
    write(tmp_path / "proof.npz", meta, arrays)
    assert standalone()(tmp_path / "proof.npz", tmp_path / "data.npz")[0]
    write(tmp_path / "proof.npz", meta, {**arrays, "q": arrays["q"].astype(float)})
    valid, why = standalone()(tmp_path / "proof.npz", tmp_path / "data.npz")
    assert not valid
    assert "integer" in why


@pytest.mark.parametrize("part", ["loss", "spectral"])
def test_the_text_refuses_what_it_does_not_cover(part, tmp_path):
    """It does not know functions of the user."""
    case = problem("huber", NuclearBall(6.0))
    wp.minimize(case).proof.save(tmp_path / "proof.npz")
    meta, arrays = read(tmp_path / "proof.npz")
    own = {"kind": "own", "name": "Mine"}
    meta["terms"][part] |= own if part == "spectral" else {"loss": own}
    write(tmp_path / "proof.npz", meta, arrays)
    np.savez(tmp_path / "data.npz", **data("huber"))
    valid, why = standalone()(tmp_path / "proof.npz", tmp_path / "data.npz")
    assert not valid
    assert "does not cover" in why


def test_the_text_and_positive_semidefinite_matrices(tmp_path):
    """Their bound is that of eigenvalues, and no other matrix of the ball is feasible."""
    rows, cols = np.divmod(np.arange(36), 6)
    values = np.random.default_rng(0).standard_normal((6, 6))
    given = {"rows": rows, "cols": cols, "values": -(values @ values.T).ravel()}
    np.savez(tmp_path / "data.npz", **given)
    files = {}
    for h in (TracePSD(5.0), NuclearBall(5.0)):
        case = wp.Problem(Completion(*given.values(), (6, 6), loss=Huber(1.0)), None, h)
        path = tmp_path / f"{type(h).__name__}.npz"
        wp.minimize(case).proof.save(path)
        assert standalone()(path, tmp_path / "data.npz")[0]
        files[type(h)] = read(path)
    meta, arrays = files[NuclearBall]
    meta["terms"] = files[TracePSD][0]["terms"]
    write(tmp_path / "forged.npz", meta, arrays)
    assert not standalone()(tmp_path / "forged.npz", tmp_path / "data.npz")[0]

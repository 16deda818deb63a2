"""`weakprox verify` and `weakprox estimate --proof`."""

import json

import numpy as np
import pytest

import weakprox as wp
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, MaxAffine
from weakprox.spectral import NuclearBall


@pytest.fixture
def proved(folder, weakprox):
    """The folder with proof.npz, about m.npy."""
    done = weakprox("estimate", "m.npy", "--proof", "proof.npz", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["outputs"] == {"proof": "proof.npz"}
    return folder


def test_estimate_writes_a_proof_that_verify_accepts(proved, weakprox):
    done = weakprox("verify", "proof.npz", "--data", "m.npy")
    assert done.exit_code == 0
    for text in ("proof.npz: valid", "Denoising", "ball (tau", "Confirmed"):
        assert text in done.stdout


def test_as_json(proved, weakprox):
    done = weakprox("verify", "proof.npz", "--data", "m.npy", "--json")
    found = json.loads(done.stdout)
    assert found["valid"] is True
    assert found["gap"] <= found["eps"]
    assert found["claimed_lower_bound"] <= found["lower_bound"] <= found["value"]
    assert found["trusted"] == []


def test_the_same_matrix_in_another_format(proved, weakprox, matrix):
    np.savez("m.npz", M=matrix)
    np.savetxt("m.csv", matrix, delimiter=",", fmt="%.17g")
    for name in ("m.npz", "m.csv"):
        assert weakprox("verify", "proof.npz", "--data", name).exit_code == 0


def test_a_claim_that_does_not_hold_is_refused(proved, weakprox):
    proof = wp.Proof.load("proof.npz")
    claims = {**proof.claims, "lower_bound": proof.value}
    wp.Proof(claims, proof.terms, proof.digests, proof.arrays).save("proof.npz")
    done = weakprox("verify", "proof.npz", "--data", "m.npy")
    assert done.exit_code == 1
    assert "REFUSED" in done.stdout
    assert "below the claimed" in done.stdout


def test_other_data_and_damaged_files(proved, refused, matrix):
    np.save("other.npy", matrix + 1e-9)
    np.save("short.npy", matrix[:5])
    (proved / "part.npz").write_bytes((proved / "proof.npz").read_bytes()[:300])
    refused("verify", "proof.npz", "--data", "other.npy", says="other data")
    refused("verify", "proof.npz", "--data", "short.npy", says="as the proof says")
    refused("verify", "part.npz", "--data", "m.npy", says="cannot be read")
    refused("verify", "none.npz", "--data", "m.npy", says="no such file")
    refused("verify", "proof.npz", "--data", "none.npy", says="none.npy")
    refused("verify", "m.npy", "--data", "m.npy", says="m.npy")


def test_data_that_are_several_arrays(folder, weakprox, refused, matrix):
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random(matrix.shape) < 0.6)
    seen = {"rows": rows, "cols": cols, "values": matrix[rows, cols]}
    A, b = rng.standard_normal((50, 5, 4)), rng.standard_normal(50)
    u, v = rng.standard_normal((50, 5)), rng.standard_normal((50, 4))
    pieces = rng.standard_normal((3, *matrix.shape))
    cases = {
        "completion": (Completion(**seen, shape=matrix.shape), L1(0.1), 20.0, seen),
        "sensing": (Sensing(A, b), ElasticNet(0.01, 0.1), 1.0, {"A": A, "b": b}),
        "pairs": (Sensing((u, v), b), ElasticNet(0.01, 0.1), 1.0, {"U": u, "V": v, "b": b}),
        "pieces": (
            *(Denoising(matrix), MaxAffine(pieces), 50.0),
            {"M": matrix, "penalty0_A": pieces, "penalty0_b": np.zeros(3)},
        ),
    }
    for name, (loss, penalty, tau, data) in cases.items():
        problem = wp.Problem(loss, penalty, NuclearBall(tau))
        wp.minimize(problem).proof.save(f"{name}.npz")
        np.savez(f"{name}-data.npz", **data)
        done = weakprox("verify", f"{name}.npz", "--data", f"{name}-data.npz")
        assert done.exit_code == 0, done.output
    refused("verify", "sensing.npz", "--data", "completion-data.npz", says="no array")
    np.savez("bad.npz", **{**seen, "rows": rows + 1000})
    refused("verify", "completion.npz", "--data", "bad.npz", says="rows")
    refused("verify", "completion.npz", "--data", "m.npy", says="m.npy")


def test_problems_with_functions_need_the_problem(folder, refused, matrix):
    stack = np.stack([matrix, matrix + 1.0])
    problem = wp.Problem(Denoising(samples=stack), L1(1.0), NuclearBall(50.0))
    wp.minimize(problem).proof.save("stack.npz")
    refused("verify", "stack.npz", "--data", "m.npy", says="wp.verify(proof, problem)")


def test_estimate_without_a_bound_writes_the_rest(folder, weakprox):
    words = ("estimate", "m.npy", "--proof", "proof.npz", "-o", "x.npy", "--max-svds", 0)
    done = weakprox(*words)
    assert done.exit_code == 3
    assert (folder / "x.npy").exists()
    assert (folder / "proof.npz").exists() != ("no proof written" in done.stderr)


def test_the_proof_has_a_name_of_its_own(refused):
    refused("estimate", "m.npy", "--proof", "proof.json", says=".npz")
    refused("estimate", "m.npy", "--proof", "x.npz", "--factors", "x.npz", says="same file")


def test_errors_name_the_files(proved, refused, matrix):
    np.save("other.npy", matrix + 1.0)
    refused("verify", "proof.npz", "--data", "other.npy", says="proof.npz: got one about other")
    np.save("small.npy", matrix[:2])
    refused("verify", "proof.npz", "--data", "small.npy", says="small.npy: got M of shape")

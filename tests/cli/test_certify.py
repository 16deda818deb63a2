"""`weakprox certify`: valid bounds, honest about feasibility."""

import json

import numpy as np
import pytest

PROBLEM = ("--lam", 2, "--tau", 100)


def judged(weakprox, x, *options, data="m.npy"):
    done = weakprox("certify", x, "--data", data, *PROBLEM, "--json", *options)
    return done.exit_code, json.loads(done.stdout)


def test_an_answer_of_estimate_is_confirmed(folder, weakprox):
    made = weakprox("estimate", "m.npy", *PROBLEM, "-o", "x.csv", "--json")
    value = json.loads(made.stdout)["value"]
    code, found = judged(weakprox, "x.csv")
    assert (code, found["reached"], found["feasible"]) == (0, True, True)
    assert found["value"] == pytest.approx(value, rel=1e-12)
    assert found["gap"] == pytest.approx(found["value"] - found["lower_bound"])
    assert found["gap"] <= found["eps"]
    plain = weakprox("certify", "x.csv", "--data", "m.npy", *PROBLEM)
    assert plain.exit_code == 0
    assert "proved by duality" in plain.stdout


def test_the_bound_is_below_the_optimum_from_wherever_it_is_taken(folder, weakprox, matrix):
    best = json.loads(weakprox("estimate", "m.npy", *PROBLEM, "--tol", 1e-4, "--json").stdout)
    rng = np.random.default_rng(0)
    for name, X in {
        "zero": np.zeros_like(matrix),
        "data": matrix * 0.5,
        "random": rng.standard_normal(matrix.shape),
    }.items():
        np.save(f"{name}.npy", X)
        for work in (0, 30):
            code, found = judged(weakprox, f"{name}.npy", "--max-svds", work)
            assert code == 3
            assert found["reached"] is False
            assert found["lower_bound"] <= best["value"] + 1e-9


def test_more_work_never_weakens_the_bound(folder, weakprox, matrix):
    np.save("zero.npy", np.zeros_like(matrix))
    bounds = [judged(weakprox, "zero.npy", "--max-svds", n)[1]["lower_bound"] for n in (0, 200)]
    assert bounds[1] > bounds[0]


def test_an_infeasible_point_has_no_gap(folder, weakprox, matrix):
    U, _, Vt = np.linalg.svd(matrix, full_matrices=False)
    np.save("out.npy", 101.0 * np.outer(U[:, 0], Vt[0]))
    code, found = judged(weakprox, "out.npy")
    assert (code, found["feasible"], found["gap"]) == (3, False, None)
    assert found["violation"] == pytest.approx(0.01, rel=1e-6)
    done = weakprox("certify", "out.npy", "--data", "m.npy", *PROBLEM)
    assert "not feasible" in done.stdout


def test_psd_judges_negative_eigenvalues_and_asymmetry(folder, weakprox, symmetric):
    _, V = np.linalg.eigh(symmetric)
    good = 90.0 * np.outer(V[:, -1], V[:, -1])
    skew = np.zeros_like(good)
    skew[0, 1] = 1.0
    for name, X, feasible in (
        ("good", good, True),
        ("negative", good - 2.0 * np.outer(V[:, 0], V[:, 0]), False),
        ("skew", good + skew, False),
    ):
        np.save(f"{name}.npy", X)
        code, found = judged(weakprox, f"{name}.npy", "--psd", "--max-svds", 0, data="sym.npy")
        assert found["feasible"] is feasible, name
        assert (found["violation"] > 1e-3) is not feasible
        assert code == 3

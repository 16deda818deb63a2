"""Proofs of results of every kind, as the library makes and verifies them."""

import copy
import gc
import math
import pickle

import numpy as np
import pytest
from proofs._cases import matrix, measurements, problems, simple

import weakprox as wp
from weakprox.errors import InputError, ProofError
from weakprox.losses import Completion, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet
from weakprox.solvers import FISTA, DavisYin, DualAscent, Extragradient, LeanSplitting
from weakprox.spectral import NuclearBall

NAMES = [
    *("matrix", "map", "zarr", "operator", "dask", "float32", "torch", "samples", "copies"),
    *("stream", "extreme", "psd", "sum", "sensing", "pairs", "sparse", "far", "few"),
    *("completion", "mean", "custom", "exact"),
    *("ratings", "votes", "counts", "robust", "votes-l1"),
    *("regression", "regression-intercept", "regression-sparse", "regression-wide"),
    *("regression-float32", "outcomes", "outcomes-intercept", "outcomes-pairs"),
    *("outcomes-sparse", "outcomes-one-class"),
    *("weighted-l1", "fixed-zeros", "bounds", "weighted-data", "outliers"),
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return problems(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", NAMES)
def test_a_proof_of_every_kind_of_data_is_valid(name, cases, tmp_path):
    problem = cases[name]
    result = wp.minimize(problem)
    assert result.status is wp.Status.CERTIFIED
    proof = result.proof
    assert proof.certified
    assert proof.gap <= result.eps
    assert wp.verify(proof, problem)
    proof.save(tmp_path / "proof.npz")
    verdict = wp.verify(tmp_path / "proof.npz", problem)
    assert verdict, str(verdict)
    assert verdict.value == pytest.approx(result.value, rel=1e-6, abs=1e-12)
    assert verdict.lower_bound >= result.certificate.lower_bound - 0.05 * proof.gap


def test_every_kind_is_listed(cases):
    assert sorted(cases) == sorted(NAMES)


@pytest.mark.parametrize(
    "solver", [DavisYin(), LeanSplitting(), Extragradient(), FISTA(), wp.SVRGCG(rank=18)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_kind_of_dual_point_becomes_a_proof(solver, dtype):
    problem = wp.Problem(Denoising(matrix().astype(dtype)), L1(0.3), NuclearBall(30.0))
    result = wp.minimize(problem, solver, eps=1.0, max_svds=20_000)
    assert result.certified
    assert wp.verify(result.proof, problem)


def test_a_dual_method_for_affine_pieces(cases):
    problem = wp.Problem(
        Denoising(matrix()),
        wp.penalties.MaxAffine(np.random.default_rng(6).standard_normal((4, 24, 18))),
        NuclearBall(30.0),
    )
    result = wp.minimize(problem, DualAscent())
    assert result.certified
    assert wp.verify(result.proof, problem)


def test_what_is_not_certified_is_proved_as_far_as_it_goes():
    problem = simple()
    result = wp.minimize(problem, LeanSplitting(), tol=1e-14, max_svds=6, proof=True)
    assert not result.certified
    proof = result.proof
    assert not proof.certified
    assert proof.gap >= result.eps
    assert wp.verify(proof, problem)


def test_a_target_that_moved_on_is_copied_for_the_proof_only():
    """The bound of an attempt that failed rests on an array that the solver overwrites."""
    problem, seen = simple(), []

    def look(now):
        seen.append(now.lower_bound)

    options = {"tol": 1e-5, "stop_when_certified": True, "look_every": 1, "callback": look}
    kept = wp.minimize(problem, LeanSplitting(), proof=True, **options)
    assert wp.verify(kept.proof, problem)
    assert any(math.isfinite(bound) for bound in seen)


def test_nothing_is_kept_where_that_is_asked_for():
    result = wp.minimize(simple(), proof=False)
    assert result.certified
    with pytest.raises(ProofError, match="proof=True"):
        _ = result.proof


def test_large_dual_points_are_kept_on_demand_only(monkeypatch):
    monkeypatch.setattr("weakprox.run.state.KEPT_BYTES", 100)
    with pytest.raises(ProofError, match="proof=True"):
        _ = wp.minimize(simple()).proof
    assert wp.verify(wp.minimize(simple(), proof=True).proof, simple())


def test_a_budget_keeps_them_on_demand_only(tmp_path):
    np.save(tmp_path / "M.npy", matrix())
    M = np.load(tmp_path / "M.npy", mmap_mode="r")
    problem = wp.Problem(Denoising(M), L1(0.3), NuclearBall(30.0))
    with pytest.raises(ProofError, match="proof=True"):
        _ = wp.minimize(problem, max_memory="4GB").proof
    result = wp.minimize(problem, max_memory="4GB", proof=True)
    assert wp.verify(result.proof, problem)


def test_a_sampled_loss_has_no_proof():
    def sampler(rng, k):
        return matrix() + rng.standard_normal((k, 24, 18))

    loss = Denoising(sampler=sampler, shape=(24, 18))
    problem = wp.Problem(loss, L1(0.3), NuclearBall(30.0))
    result = wp.minimize(problem, eps=50.0, max_samples=3000)
    with pytest.raises(ProofError, match="samples"):
        _ = result.proof
    with pytest.raises(ProofError, match="samples"):
        wp.verify(wp.minimize(simple()).proof, problem)


def test_a_pickled_result_leaves_the_data_behind():
    result = wp.minimize(simple())
    other = pickle.loads(pickle.dumps(result))
    assert other.value == result.value
    with pytest.raises(ProofError, match="dual point"):
        _ = other.proof
    assert wp.verify(copy.copy(result).proof, simple())


def test_the_problem_is_kept_on_demand_only():
    def made():
        return wp.Problem(Denoising(matrix()), L1(0.3), NuclearBall(30.0))

    result = wp.minimize(made())
    gc.collect()
    with pytest.raises(ProofError, match="no longer exists"):
        _ = result.proof
    assert wp.verify(wp.minimize(made(), proof=True).proof, made())


@pytest.mark.parametrize("bad", [1, "yes", 0.5])
def test_the_setting_is_true_or_false(bad):
    with pytest.raises(InputError, match="proof"):
        wp.minimize(simple(), proof=bad)


def test_a_resumed_run_has_a_proof(tmp_path):
    problem = simple()
    path = tmp_path / "run.safetensors"
    options = {"tol": 1e-6, "checkpoint": path, "checkpoint_every": 0.0}
    stopped = wp.minimize(problem, DavisYin(), max_svds=9, **options)
    assert not stopped.certified
    result = wp.minimize(problem, DavisYin(), resume=True, **options)
    assert result.certified
    assert result.proof.certified
    assert wp.verify(result.proof, problem)


def test_a_proof_is_about_one_problem():
    problem = simple()
    proof = wp.minimize(problem).proof
    M, ball = matrix(), NuclearBall(30.0)
    others = {
        "spectral": wp.Problem(Denoising(M), L1(0.3), NuclearBall(29.0)),
        "penalty": wp.Problem(Denoising(M), L1(0.4), ball),
        "shape": wp.Problem(Denoising(M[:20]), L1(0.3), ball),
        "loss": wp.Problem(Denoising(samples=np.stack([M, M])), L1(0.3), ball),
    }
    for what, other in others.items():
        with pytest.raises(ProofError, match=f"another {what}"):
            wp.verify(proof, other)
    changed = M.copy()
    changed[3, 4] += 1e-13
    with pytest.raises(ProofError, match="other data"):
        wp.verify(proof, wp.Problem(Denoising(changed), L1(0.3), ball))


@pytest.mark.parametrize("wrong", [None, 3, b"proof.npz"])
def test_things_that_are_no_proof(wrong):
    with pytest.raises(InputError, match="proof"):
        wp.verify(wrong, simple())
    with pytest.raises(InputError, match="problem"):
        wp.verify(wp.minimize(simple()).proof, wrong)


def test_a_false_strong_convexity_proves_nothing(monkeypatch):
    """The verifier computes the constant from the data, whatever the run believed."""
    A, b, *_ = measurements()
    problem = wp.Problem(Sensing(A, b), ElasticNet(0.02, 0.0), NuclearBall(1.0))
    proof = wp.minimize(problem).proof
    assert wp.verify(proof, problem)
    claims = {**proof.claims, "strong_convexity": 100.0}
    honest = wp.verify(wp.Proof(claims, proof.terms, proof.digests, proof.arrays), problem)
    assert honest.lower_bound <= proof.value
    from weakprox.verifier.measurements import Measurements

    monkeypatch.setattr(Measurements, "convexity", lambda *_: (100.0, ()))
    fooled = wp.verify(wp.Proof(claims, proof.terms, proof.digests, proof.arrays), problem)
    assert fooled.lower_bound > honest.lower_bound


def test_what_is_taken_at_its_word_is_listed(cases):
    for name, word in (("custom", "functions of the loss"), ("exact", "spectral term")):
        problem = cases[name]
        verdict = wp.verify(wp.minimize(problem).proof, problem)
        assert any(word in text for text in verdict.trusted)
        assert word in str(verdict)
    problem = cases["matrix"]
    assert wp.verify(wp.minimize(problem).proof, problem).trusted == ()


def test_functions_of_a_spectral_term_are_listed_for_observed_entries():
    """Without a penalty the slope is sparse, which is another path of the verifier."""

    class Mine(NuclearBall):
        pass

    rng = np.random.default_rng(0)
    M = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 9))
    loss = Completion.from_dense(np.where(rng.random(M.shape) < 0.6, M, np.nan))
    problem = wp.Problem(loss, None, Mine(3.0))
    verdict = wp.verify(wp.minimize(problem, tol=1e-3).proof, problem)
    assert verdict
    assert verdict.trusted == ("the functions of the spectral term",)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
def test_dual_points_are_stored_in_as_few_bytes_as_the_gap_allows(tol):
    problem = simple()
    result = wp.minimize(problem, tol=tol)
    proof = result.proof
    kind = {1e-2: (1, 2), 1e-4: (2,), 1e-8: (4, 8)}[tol]
    assert proof.arrays["y0"].dtype.itemsize in kind
    assert proof.gap <= 1.1 * result.gap + 1e-12 * result.value


def test_large_dual_points_are_stored_in_one_byte_if_that_proves_enough():
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    Y = rng.integers(1, 11, (600, 5)) * (rng.random((600, 5)) < 0.05)
    M = Y @ Y.T + rng.standard_normal((600, 600))
    problem = wp.Problem(Denoising(M), L1(2.0), NuclearBall(0.9 * np.sum(Y**2.0)))
    result = wp.minimize(problem, LeanSplitting(), tol=1e-3)
    proof = result.proof
    assert proof.arrays["y0"].dtype == np.int8
    assert proof.certified
    assert proof.gap <= 2.6 * result.gap
    assert wp.verify(proof, problem)


def test_saturated_entries_are_stored_exactly():
    problem = simple()
    proof = wp.minimize(problem).proof
    q = proof.arrays["y0"]
    ends = np.abs(q) == np.iinfo(q.dtype).max
    assert 0.1 < ends.mean() < 1.0
    X = np.asarray(wp.minimize(problem).X)
    assert (np.sign(q[ends]) == np.sign(X[ends])).mean() > 0.95


def test_the_compiled_pass_stores_the_same(monkeypatch):
    pytest.importorskip("numba")
    M = np.kron(np.ones((3, 4)), matrix())
    problem = wp.Problem(Denoising(M), L1(0.3), NuclearBall(60.0))
    plain = wp.minimize(problem, LeanSplitting(), tol=1e-7).proof
    monkeypatch.setattr("weakprox.passes.compiling.COMPILED_FROM", 1)
    compiled = wp.minimize(problem, LeanSplitting(), tol=1e-7).proof
    assert plain.claims == pytest.approx(compiled.claims, rel=1e-8)  # a sharper cost of storing
    assert compiled.lower_bound >= plain.lower_bound - 1e-10 * plain.value
    apart = plain.arrays["y0"].astype(int) - compiled.arrays["y0"]
    assert np.abs(apart).max() <= 1


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_compiled_pass_and_the_other_byte_order(monkeypatch, kind):
    pytest.importorskip("numba")
    M = np.kron(np.ones((3, 4)), matrix()).astype(kind)
    monkeypatch.setattr("weakprox.passes.compiling.COMPILED_FROM", 1)
    proofs = []
    for data in (M, M.astype(M.dtype.newbyteorder())):
        problem = wp.Problem(Denoising(data), L1(0.3), NuclearBall(60.0))
        proofs.append(wp.minimize(problem, LeanSplitting(), proof=True).proof)
        assert wp.verify(proofs[-1], problem)
    assert proofs[0].claims == proofs[1].claims


def test_the_run_itself_is_the_same_with_and_without():
    problem = simple()
    one, two = (wp.minimize(problem, proof=keep) for keep in (True, False))
    assert np.array_equal(one.X, two.X)
    assert one.certificate == two.certificate

"""Terms that say how proofs state them, and subclasses that do not inherit it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from registry import numbers

import weakprox as wp
from weakprox.errors import ProofError
from weakprox.losses import Completion, Denoising, Huber
from weakprox.losses.entry_losses import Squared
from weakprox.penalties import L1, GroupL2, SignedL1, Sum, Zero
from weakprox.proofs.describe import described
from weakprox.proofs.proof import verify_data
from weakprox.protocols import loss_capabilities, penalty_capabilities
from weakprox.spectral import NuclearBall, NuclearNorm

M = numbers(9, 7)


@dataclass(frozen=True)
class Named(SignedL1):
    """`SignedL1` under another name, declared as a term of the user's would be."""

    @property
    def capabilities(self):
        """All that `SignedL1` declares."""
        return super().capabilities


@dataclass(frozen=True)
class Twice(SignedL1):
    """Another penalty that inherits the statement, which would be wrong."""

    def value(self, X):
        return 2.0 * super().value(X)

    def feasible(self, y):
        return 2.0 * super().feasible(0.5 * y)


@dataclass(frozen=True)
class Steep(Squared):
    """Squared errors times four, of a class that inherits from `Squared`."""

    smoothness = 4.0

    def value(self, y, x):
        return 4.0 * super().value(y, x)

    def derivative(self, y, x):
        return 4.0 * super().derivative(y, x)

    def curvature(self, y, x):
        return 4.0 * super().curvature(y, x)

    def conjugate(self, y, s):
        return 4.0 * super().conjugate(y, 0.25 * s)


def test_a_declared_statement_is_verified_without_the_users_code(tmp_path):
    problem = wp.Problem(Denoising(M), Named(0.3, 0.1), NuclearBall(4.0))
    proof = wp.minimize(problem).proof
    verdict = wp.verify(proof, problem)
    assert verdict
    assert verdict.trusted == ()
    proof.save(tmp_path / "proof.npz")
    assert verify_data(tmp_path / "proof.npz", {"M": M})
    same = wp.Problem(Denoising(M), SignedL1(0.3, 0.1), NuclearBall(4.0))
    assert described(same).terms == described(problem).terms


def test_a_subclass_is_stated_as_a_users_own_term():
    problem = wp.Problem(Denoising(M), Twice(0.3, 0.1), NuclearBall(4.0))
    result = wp.minimize(problem)
    assert result.certified
    told = described(problem).terms["penalty"]
    assert told == [{"kind": "own", "name": "Twice"}]
    assert wp.verify(result.proof, problem).trusted
    double = wp.minimize(wp.Problem(Denoising(M), SignedL1(0.6, 0.2), NuclearBall(4.0)))
    assert result.value == pytest.approx(double.value, rel=1e-4)


def test_a_subclass_of_a_loss_of_entries_is_another_loss():
    rows, cols = np.nonzero(numbers(12, 9) > 0.3)
    values = numbers(12, 9)[rows, cols]
    own = wp.Problem(
        Completion(rows, cols, values, (12, 9), loss=Steep()), None, NuclearNorm(0.8)
    )
    plain = wp.Problem(Completion(rows, cols, values, (12, 9)), None, NuclearNorm(0.2))
    found, wanted = (wp.minimize(problem, tol=1e-6) for problem in (own, plain))
    assert found.certified
    low, high = found.certificate.lower_bound, found.value
    assert low <= 4.0 * wanted.value * (1 + 1e-6)
    assert high >= 4.0 * wanted.certificate.lower_bound * (1 - 1e-6)
    assert described(own).terms["loss"]["loss"] == {"kind": "own", "name": "Steep"}
    assert wp.verify(found.proof, own)


def test_cells_with_a_subclass_of_a_loss_use_its_own_derivative():
    found = wp.minimize(
        wp.Problem(Denoising(M, loss=Steep()), None, NuclearNorm(4.0)), tol=1e-6
    )
    wanted = wp.minimize(wp.Problem(Denoising(M), None, NuclearNorm(1.0)), tol=1e-6)
    assert found.value == pytest.approx(4.0 * wanted.value, rel=1e-5)
    assert found.certified


def test_sums_state_their_terms_one_by_one():
    problem = wp.Problem(Denoising(M), Sum((Zero(), L1(0.2), GroupL2(0.1))), NuclearBall(4.0))
    told = described(problem).terms["penalty"]
    assert [part["kind"] for part in told] == ["box", "groups"]
    assert wp.verify(wp.minimize(problem).proof, problem)


def test_a_loss_of_entries_without_a_statement_has_no_proof():
    class Unstated(Completion):
        """A loss of the user's that solvers treat as observed entries."""

        @property
        def capabilities(self):
            return replace(super().capabilities, stated=None)

    rows, cols = np.nonzero(numbers(12, 9) > 0.3)
    values = numbers(12, 9)[rows, cols]
    loss = Unstated(rows, cols, values, (12, 9), loss=Huber(0.5))
    problem = wp.Problem(loss, None, NuclearNorm(0.2))
    result = wp.minimize(problem)
    assert result.certified
    with pytest.raises(ProofError, match="stated"):
        _ = result.proof


def test_penalties_declare_whether_float64_suits_them():
    class Own(L1):
        """A penalty of the user's, which may hold arrays."""

    assert penalty_capabilities(L1(0.1) + GroupL2(0.1)).in_float64() is not None
    assert penalty_capabilities(Own(0.1)).in_float64 is None
    assert penalty_capabilities(Sum((L1(0.1), Own(0.1)))).in_float64() is None
    assert loss_capabilities(Denoising(M)).stated is not None


def test_a_penalty_of_the_users_that_offers_it_continues_in_float64():
    M32 = M.astype(np.float32)
    problem = wp.Problem(Denoising(M32), Named(0.3, 0.1), NuclearBall(4.0))
    result = wp.minimize(problem, tol=1e-6)
    assert "float64" in result.reason

"""Proofs of claimed optima: written from a result, saved to a file, verified by anyone."""

from weakprox.proofs.proof import Proof, verify
from weakprox.proofs.witness import proof_of, sparse_of

__all__ = ["Proof", "proof_of", "sparse_of", "verify"]

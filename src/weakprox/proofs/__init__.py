"""Proofs of claimed optima: written from a result, saved to a file, verified by anyone."""

from weakprox.proofs.proof import Proof, verify
from weakprox.proofs.witness import witnessed

__all__ = ["Proof", "verify", "witnessed"]

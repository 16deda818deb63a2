"""Proofs of claimed optima: written from a result, saved to a file, verified by anyone."""

from weakprox.proofs.evidence import witnessed
from weakprox.proofs.proof import Proof
from weakprox.proofs.verify import verify

__all__ = ["Proof", "verify", "witnessed"]

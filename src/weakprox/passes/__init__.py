"""Splitting steps that never store the low-rank point: each is one pass over two arrays."""

from weakprox.linalg.simplex import ValueForm
from weakprox.passes.engine import blend_into, passes_for
from weakprox.passes.reference import SeparableForm, Step, Sums

__all__ = ["SeparableForm", "Step", "Sums", "ValueForm", "blend_into", "passes_for"]

"""Solvers: each a file of mathematics; the loop they share is in `_run`."""

from weakprox.solvers._look import Look
from weakprox.solvers.svrgcg import SVRGCG

__all__ = ["SVRGCG", "Look"]

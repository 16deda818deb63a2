"""The theorems' predictions: parameters of a run, and the work of the methods of Table 2."""

from weakprox.theory._theorems import Complexity, Parameters, complexity, parameters

__all__ = ["Complexity", "Parameters", "complexity", "parameters"]

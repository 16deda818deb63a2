"""Plots in the style of scikit-learn's displays; matplotlib is imported when drawing."""

from weakprox.plots.convergence import ConvergenceDisplay
from weakprox.plots.event_study import EventStudyDisplay
from weakprox.plots.matrix import MatrixDisplay
from weakprox.plots.path import PathDisplay
from weakprox.plots.spectrum import SpectrumDisplay

__all__ = [
    "ConvergenceDisplay",
    "EventStudyDisplay",
    "MatrixDisplay",
    "PathDisplay",
    "SpectrumDisplay",
]

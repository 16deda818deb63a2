"""Reports: pictures of a result (needs matplotlib, `pip install weakprox[plot]`)."""

from weakprox.report.figures import overview

__all__ = ["overview"]

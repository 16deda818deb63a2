"""Reports: a web page of a run in one file, and pictures.

Pages need nothing beyond weakprox itself. Pictures (`overview`, `Page.save_figures`) need
matplotlib: `pip install weakprox[plot]`.
"""

from weakprox.report.figures import overview
from weakprox.report.page import Page
from weakprox.report.run import write_report

__all__ = ["Page", "overview", "write_report"]

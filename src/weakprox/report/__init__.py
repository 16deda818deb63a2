"""Reports: a web page of a run in one file, and an overview figure.

Pages need nothing beyond weakprox itself. Pictures (`overview`, and `write_report` with
`figures`) need matplotlib: `pip install weakprox[plot]`.
"""

from weakprox.report.page import Page as Page
from weakprox.report.run import overview, write_report

__all__ = ["overview", "write_report"]

"""Reports: a web page of a run in one file, and an overview figure.

Pages need nothing beyond weakprox itself. Pictures (`overview`, and `write_report` with
`figures`) need matplotlib: `pip install weakprox[plot]`.
"""

from typing import Any

from weakprox.arguments import withdrawn
from weakprox.report import page
from weakprox.report.run import overview, write_report

__all__ = ["overview", "write_report"]


def __getattr__(name: str) -> Any:
    """Return a name that is no longer public, with a warning."""
    return withdrawn(page, __name__, name, {"Page": "write_report"})

"""What this benchmark takes from `benchmarks/peers`: instances, judge, reference, methods."""

import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2]
DATA = BENCHMARKS.parent / "examples" / "data"
if str(BENCHMARKS / "peers") not in sys.path:
    sys.path.insert(0, str(BENCHMARKS / "peers"))

import packages  # noqa: E402
import splittings  # noqa: E402
from clock import Enough  # noqa: E402
from instances import E1, e1  # noqa: E402
from methods import PENALTIES  # noqa: E402
from projections import Full, Partial  # noqa: E402
from reference import reference  # noqa: E402
from verify import judge_of  # noqa: E402

__all__ = [
    "DATA",
    "E1",
    "PENALTIES",
    "Enough",
    "Full",
    "Partial",
    "e1",
    "judge_of",
    "packages",
    "reference",
    "splittings",
]

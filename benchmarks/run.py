"""`make bench`: ratios of our work to the least possible, measured in one run."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import step
import thin_svd

import weakprox


def main() -> None:
    """Say where this runs, then run all benchmarks."""
    print(
        f"weakprox {weakprox.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.machine()}"
    )
    step.measure_spread()
    step.measure_memory()
    thin_svd.main()


if __name__ == "__main__":
    main()

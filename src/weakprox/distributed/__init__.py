"""Data on other machines: what dask arrays need to serve as data here.

Dask is imported when a dask array has come in, and not before. Its default scheduler does
the work: that of a `distributed.Client` if there is one, else threads of this process.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat


def is_dask(x: Any) -> bool:
    """Whether x is a dask array; dask need not be there."""
    return bool(compat.is_dask_array(x))

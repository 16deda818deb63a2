"""Data on other machines, given as dask arrays.

Dask is imported only if a dask array is given. Its default scheduler does the work: that of
a `distributed.Client` if there is one, otherwise threads of this process.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat


def is_dask(x: Any) -> bool:
    """Return True if x is a dask array; dask need not be installed."""
    return bool(compat.is_dask_array(x))


def as_dask_array(x: Any) -> Any:
    """A column of a dask frame as a dask array of known length; anything else unchanged."""
    if type(x).__module__.startswith("dask.") and hasattr(x, "to_dask_array"):
        return x.to_dask_array(lengths=True)
    return x

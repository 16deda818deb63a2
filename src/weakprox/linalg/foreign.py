"""Rejection of arrays from unsupported libraries, with a hint on how to convert them.

All computation uses NumPy or torch. An array of another library would fail at some later
point or be copied to the host without notice.
"""

from __future__ import annotations

from weakprox.errors import InputError

TO_HOST = "np.asarray(x)"
WAYS_OUT = {  # module of the array's class: name of the library, conversion
    "cupy": ("CuPy", 'torch.as_tensor(x, device="cuda"), which shares its memory'),
    "jax": ("JAX", f"{TO_HOST}, or torch.from_dlpack(x) where it is on a GPU"),
    "jaxlib": ("JAX", f"{TO_HOST}, or torch.from_dlpack(x) where it is on a GPU"),
    "tensorflow": ("TensorFlow", f"{TO_HOST}, or torch.from_dlpack of its DLPack capsule"),
    "mlx": ("MLX", TO_HOST),
    "dpnp": ("dpnp", "x.asnumpy()"),
    "ndonnx": ("ndonnx", "x.unwrap_numpy()"),
    "sparse": ("PyData sparse", "x.todense(), or a SciPy matrix (x.to_scipy_sparse())"),
    "array_api_strict": ("array-api-strict", TO_HOST),
}


def refuse_foreign(argument: str, x: object) -> None:
    """Raise if x is an array of an unsupported library or kind."""
    for kind in type(x).__mro__:
        library = kind.__module__.split(".")[0]
        if library in WAYS_OUT:
            name, way = WAYS_OUT[library]
            raise InputError(argument, f"a {name} array", f"a NumPy or torch one: {way}")
    if str(getattr(x, "layout", "")).startswith("torch.sparse"):
        wanted = "a dense tensor (x.to_dense()), or a SciPy sparse matrix"
        raise InputError(argument, "a sparse torch tensor", wanted)

"""Arrays of libraries that are not computed with are refused by name, at every door.

CuPy and JAX need not be installed here: their arrays are stood in for by classes that
say they come from there, and do what the real ones do when asked.
"""

import numpy as np
import pytest
from registry import SHAPE, numbers

import weakprox as wp
from weakprox.errors import InputError
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, MaxAffine
from weakprox.spectral import Exact, NuclearBall


def stand_in(module, name):
    """A class that follows the array API as far as a door looks, and says whose it is."""

    class Fake:
        def __init__(self, values):
            self.values = np.asarray(values)

        shape = property(lambda self: self.values.shape)
        ndim = property(lambda self: self.values.ndim)
        dtype = property(lambda self: self.values.dtype)

        def __array_namespace__(self, api_version=None):
            return np

        def __array__(self, dtype=None, copy=None):
            raise TypeError("implicit conversion to NumPy: data would leave the device")

    Fake.__module__, Fake.__qualname__ = module, name
    return Fake


CUPY = stand_in("cupy", "ndarray")
JAX = stand_in("jaxlib._jax", "ArrayImpl")
STRICT = stand_in("array_api_strict._array_object", "Array")
KINDS = {
    "cupy": (CUPY, "CuPy", r'torch\.as_tensor\(x, device="cuda"\)'),
    "jax": (JAX, "JAX", r"np\.asarray\(x\)"),
    "strict": (
        stand_in("array_api_strict._array_object", "Array"),
        "array-api-strict",
        r"np\.asarray\(x\)",
    ),
}
M, MANY, FEW = numbers(*SHAPE), numbers(4, *SHAPE), numbers(4)
ROWS = np.array([0, 1, 2, 3])


def problem(**terms):
    parts = {"loss": Denoising(M), "penalty": L1(0.1), "spectral": NuclearBall(2.0)} | terms
    return wp.Problem(*parts.values())


DOORS = {
    "Denoising": ("M", lambda make: Denoising(make(M))),
    "Denoising, samples": ("samples", lambda make: Denoising(samples=make(MANY))),
    "Denoising, sampler": (
        "sampler",
        lambda make: Denoising(sampler=lambda rng, k: make(MANY[:k]), shape=SHAPE),
    ),
    "Sensing": ("A", lambda make: Sensing(make(MANY), FEW)),
    "Sensing, b": ("b", lambda make: Sensing(MANY, make(FEW))),
    "Sensing, rank one": ("A[0]", lambda make: Sensing((make(MANY[:, :, 0]),) * 2, FEW)),
    "Sensing, sampler": (
        "sampler's A",
        lambda make: Sensing(
            sampler=lambda rng, k: (make(MANY[:k]), make(FEW[:k])), shape=SHAPE
        ),
    ),
    "Completion": ("values", lambda make: Completion(ROWS, ROWS, make(FEW), SHAPE)),
    "Completion, rows": ("rows", lambda make: Completion(make(ROWS), ROWS, FEW, SHAPE)),
    "Completion, dense": ("M", lambda make: Completion.from_dense(make(M))),
    "Custom, like": (
        "like",
        lambda make: Custom(SHAPE, value=lambda X: 0.0, grad=lambda X: X, like=make(M)),
    ),
    "Custom, grad": (
        "grad",
        lambda make: Custom(SHAPE, value=lambda X: 0.0, grad=lambda X: make(X)),
    ),
    "MaxAffine": ("A", lambda make: MaxAffine(make(MANY))),
    "MaxAffine, b": ("b", lambda make: MaxAffine(MANY, make(FEW))),
    "Exact": (
        "prox",
        lambda make: wp.minimize(
            problem(spectral=Exact(lambda A, weight: make(A), lambda X: 0.0)), eps=1.0
        ),
    ),
    "start": ("start", lambda make: wp.minimize(problem(), start=make(0.0 * M))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("door", DOORS)
def test_refused_by_name_with_a_way_out(door, kind):
    make, name, way = KINDS[kind]
    argument, call = DOORS[door]
    with pytest.raises(InputError, match=way) as raised:
        call(make)
    assert raised.value.argument == argument
    assert name in str(raised.value)


def test_subclasses_do_not_slip_through():
    class Mine(CUPY):
        pass

    with pytest.raises(InputError, match="CuPy"):
        Denoising(Mine(M))


def test_own_subclasses_of_numpy_arrays_are_welcome():
    class Mine(np.ndarray):
        pass

    assert Denoising(M.view(Mine)).shape == SHAPE


def test_sparse_tensors_are_refused_too():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="to_dense"):
        Denoising(torch.eye(3).to_sparse())


def test_tensors_without_data_are_refused_too():
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match=r"M: got a tensor on the device meta"):
        Denoising(torch.eye(3, device="meta"))

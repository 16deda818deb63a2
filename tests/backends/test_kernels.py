"""The Triton kernels against the formulas, on a CUDA device or in Triton's interpreter.

Without a device, `make test-kernels` fetches Triton, which is large, and interprets the
kernels; that tells nothing of their rounding on tensor cores, nor of their speed.
"""

import importlib
import os

import numpy as np
import pytest
import torch

from weakprox.linalg.decompositions import orthonormaliser
from weakprox.linalg.lowrank import LowRank
from weakprox.passes import Step, reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs a CUDA device, or `make test-kernels`", allow_module_level=True)

cuda = importlib.import_module("weakprox.passes.cuda")

STEPS = [
    Step(1.0, 1.0, 0.0, 0.7, 0.7),
    Step(0.3, 1.0, 0.4, 0.2, 0.2),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.9),
    Step(0.8, 1.0, 0.1, above=0.3, below=0.1, rows=1.4),
    Step(1.2, 0.9, 0.0, above=0.2, below=0.3, columns=1.7),
    Step(0.7, 1.0, 0.2, above=0.8, below=0.5, low=-0.3, high=0.6),
    Step(1.1, 0.9, 0.0, above=2.0, below=1.5, low=0.2, high=0.7),
    Step(0.9, 1.0, 0.0, above=0.0, below=0.0, factor=0.6),
    Step(0.7, 0.9, 0.2, above=0.3, below=0.1, factor=0.4),
]
SHAPES = [(1, 1), (3, 700), (37, 23), (129, 65)]
SHAPES += [(513, 1031), (1030, 127)] if DEVICE == "cuda" else [(35, 1031), (230, 27)]
WIDTHS = [1, 3, 16, 17, 100, 512]


def there(x, dtype=torch.float32):
    return torch.tensor(x, dtype=dtype, device=DEVICE)


def given(shape, rank, dtype=torch.float32):
    """C, z and a point of low rank, on the device; and the same in NumPy's float64."""
    rng = np.random.default_rng([0, *shape, rank])
    C, z = (rng.standard_normal(shape) for _ in "Cz")
    U, V = (rng.standard_normal((n, rank)) / np.sqrt(n) for n in shape)
    s = np.linspace(3.0, 1.0, rank)
    tensors = [there(x, dtype) for x in (C, z, U, s, V.T)]
    here = [x.double().cpu().numpy().copy() for x in tensors]
    return (*tensors[:2], LowRank(*tensors[2:])), (*here[:2], LowRank(*here[2:]))


def weighted(k, shape, dtype=torch.float32):
    """The step on the device and in NumPy, with weights if it has a factor for them."""
    if not k.factor:
        return k, k
    rng = np.random.default_rng([7, *shape])
    weights = there(rng.choice([0.0, 0.3, 1.0, 50.0], shape) * rng.random(shape), dtype)
    here = weights.double().cpu().numpy()
    return k._replace(beside=weights), k._replace(beside=here)


def far(found, expected):
    """Relative distance of a result on the device from one in NumPy."""
    found = found.double().cpu().numpy()
    return np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-300)


@pytest.mark.parametrize("k", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 17, 40])
def test_passes_in_float64(shape, rank, k):
    (C, z, X), (C0, z0, X0) = given(shape, rank, torch.float64)
    terms = np.abs(X0.U * X0.s) @ np.abs(X0.Vt)  # sums of few entries may cancel
    size = sum(np.linalg.norm(x) for x in (C0, z0, terms))
    k, k0 = weighted(k, shape, torch.float64)
    sums, exact = cuda.look(C, z, X, k), reference.look(C0, z0, X0, k0)
    for name in ("distance", "price", "groups", "along", "rest"):
        assert abs(getattr(sums, name) - getattr(exact, name)) <= 1e-12 * (size + size**2)
    Q = there(np.random.default_rng(1).standard_normal((shape[1], 5)), torch.float64)
    Q0 = Q.cpu().numpy()

    def agree(product):
        assert np.linalg.norm(z.cpu().numpy() - z0) <= 1e-12 * size
        off = np.linalg.norm(product.cpu().numpy() - z0 @ Q0)
        assert off <= 1e-12 * size * np.linalg.norm(Q0)

    for change in (1.0, 0.5):
        sums, product = cuda.advance(C, z, X, k, change, Q)
        exact, _ = reference.advance(C0, z0, X0, k0, change, None)
        agree(product)
        assert abs(sums.value(k) - exact.value(k)) <= 1e-12 * (size + size**2)
        assert abs(sums.rest - exact.rest) <= 1e-12 * size**2 / k.gamma**2
    product = cuda.first(C, z, k, Q)
    reference.first(C0, z0, k0)
    agree(product)
    agree(cuda.times(z, Q))


@pytest.mark.parametrize("k", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [1, 3, 17, 40])
def test_passes(shape, rank, k):
    (C, z, X), (C0, z0, X0) = given(shape, rank)
    k, k0 = weighted(k, shape)
    sums, exact = cuda.look(C, z, X, k), reference.look(C0, z0, X0, k0)
    for name in ("distance", "price", "groups"):
        assert getattr(sums, name) == pytest.approx(getattr(exact, name), rel=1e-11)
    size = exact.distance + exact.penalty + exact.rest
    for name in ("along", "rest"):  # the dual point itself may be of float32
        assert abs(getattr(sums, name) - getattr(exact, name)) <= 1e-5 * size
    assert np.isnan(sums.across)  # left to the triplets
    alone, exact = cuda.look(C, None, X, k), reference.look(C0, None, X0, k0)
    assert alone.value(k) == pytest.approx(exact.value(k), rel=1e-6)

    Q = there(np.random.default_rng(1).standard_normal((shape[1], 5)))
    for change in (1.0, 0.5):
        sums, product = cuda.advance(C, z, X, k, change, Q)
        exact, _ = reference.advance(C0, z0, X0, k0, change, None)
        assert far(z, z0) <= 1e-5
        assert far(product, z0 @ Q.double().cpu().numpy()) <= 3e-3  # products in TF32
        assert sums.value(k) == pytest.approx(exact.value(k), rel=1e-4)
        assert sums.rest == pytest.approx(exact.rest, rel=1e-3, abs=1e-6 * size)
    cuda.first(C, z, k, Q)
    reference.first(C0, z0, k0)
    # rounding may leave a little where the exact step is zero
    assert np.abs(z.double().cpu().numpy() - z0).max() <= 1e-5


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_narrow_blocks(shape, width):
    (_, z, _), (_, z0, _) = given(shape, 1)
    rng = np.random.default_rng(width)
    V, U = (rng.standard_normal((n, width)) for n in shape[::-1])
    tensors = [torch.asarray(x, device=DEVICE) for x in (V, U)]
    assert far(cuda.times(z, tensors[0]), z0 @ V) <= 1e-13
    assert far(cuda.transpose_times(z, tensors[1]), z0.T @ U) <= 1e-13
    after, step = z * 1.0, STEPS[0]
    _, product = cuda.advance(z, after, _nothing(z), step, 1.0, tensors[0])
    assert product.shape == (shape[0], width)
    assert far(product, after.double().cpu().numpy() @ V) <= 3e-3  # in TF32


@pytest.mark.parametrize("decades", [0, 3, 6])
def test_whitening(decades):
    rng = np.random.default_rng(decades)
    Y = rng.standard_normal((50, 16)) * np.logspace(100, 100 - decades, 16)
    Y[:, 1] = Y[:, 0] + 10.0**-decades * Y[:, 1]
    turn, least = cuda.enqueue_whitening(torch.asarray(Y.T @ Y, device=DEVICE))
    expected = orthonormaliser(Y.T @ Y, 0.0)
    assert far(turn, expected) <= 1e-3 * 10.0 ** (2 * decades - 12)
    scaled = Y / np.linalg.norm(Y, axis=0)
    pivots = np.abs(np.diagonal(np.linalg.qr(scaled)[1]))
    assert float(least) == pytest.approx(pivots.min(), rel=1e-3)


def test_columns_that_depend_on_each_other_are_told():
    Y = np.random.default_rng(0).standard_normal((50, 16))
    for which in (3, 15):  # of these, the last pivot alone is zero, too
        for other in (np.zeros(50), Y[:, 0], np.full(50, np.nan)):
            given = Y.copy()
            given[:, which] = other
            least = cuda.enqueue_whitening(torch.asarray(given.T @ given, device=DEVICE))[1]
            assert 0.0 <= float(least) <= 1e-7


def _nothing(z):
    return LowRank(z[:, :1] * 0, z[0, :1] * 0, z[:1] * 0)


def test_factors_and_blocks_of_odd_strides():
    (C, z, X), (C0, z0, X0) = given((130, 70), 6)
    strided = LowRank(
        torch.repeat_interleave(X.U, 2, dim=1)[:, ::2], X.s, X.Vt.T.contiguous().T
    )
    V = torch.repeat_interleave(torch.asarray(X0.Vt.T, device=DEVICE), 3, dim=0)[::3]
    assert far(cuda.times(z, V.T.contiguous().T), z0 @ X0.Vt.T) <= 1e-12
    sums, exact = cuda.look(C, z, strided, STEPS[0]), reference.look(C0, z0, X0, STEPS[0])
    assert sums.distance == pytest.approx(exact.distance, rel=1e-11)
    cuda.advance(C, z, strided, STEPS[0], 1.0)
    reference.advance(C0, z0, X0, STEPS[0], 1.0)
    assert far(z, z0) <= 1e-5

"""Bad data for the losses: a typed error that names the argument, at the door."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from refusals import refused
from registry import numbers

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.spectral import NuclearBall

M = numbers(7, 5)
A, B = numbers(9, 7, 5), numbers(9)
FLAT = sp.csr_array(A.reshape(9, 35))
R, C, V = np.array([0, 1, 6]), np.array([0, 4, 2]), np.array([1.0, 2.0, 3.0])
NAN, INF = np.nan, np.inf
STRINGS = np.full((7, 5), "a")


BAD_MATRICES = {
    "nan": (np.where(np.eye(7, 5) > 0, NAN, M), "NaN"),
    "inf": (np.where(np.eye(7, 5) > 0, -INF, M), "infinite"),
    "complex": (M + 0j, "complex"),
    "strings": (STRINGS, "dtype"),
    "objects": (M.astype(object), "object"),
    "one axis": (M[0], "2 axes"),
    "three axes": (M[None], "2 axes"),
    "empty": (np.zeros((0, 5)), "(0, 5)"),
    "no array": (3.0, "float"),
    "text": ("abc", "str"),
    "ragged": ([[1.0], [2.0, 3.0]], "ragged"),
    "sparse and complex": (sp.csr_array(M + 0j), "complex"),
    "half": (M.astype(np.float16), "float16"),
    "long double": (M.astype(np.longdouble), "float64"),
    "torch half": (torch.asarray(M).to(torch.bfloat16), "bfloat16"),
    "masked": (np.ma.masked_greater(M, 1.0), "Completion"),
    "too large": (M * 1e160, "rescale"),
    "too large in single": ((M * 1e37).astype(np.float32), "rescale"),
    "torch nan": (torch.full((7, 5), NAN), "NaN"),
    "torch complex": (torch.zeros((7, 5), dtype=torch.complex64), "complex"),
}


@pytest.mark.parametrize("name", BAD_MATRICES)
def test_denoising_matrix(name):
    bad, word = BAD_MATRICES[name]
    refused(lambda: Denoising(bad), "M", word)


@pytest.mark.parametrize("name", ["nan", "inf", "complex", "strings", "objects", "one axis"])
def test_denoising_samples(name):
    bad = BAD_MATRICES[name][0]
    refused(lambda: Denoising(samples=np.stack([bad, bad])).everything(), "samples")


def test_a_nan_in_samples_stops_a_run_before_its_first_step():
    samples = np.stack([M, M * NAN])
    problem = wp.Problem(Denoising(samples=samples), None, NuclearBall(1.0))
    refused(lambda: wp.minimize(problem, wp.SVRGCG(2), eps=1.0), "samples", "NaN")


@pytest.mark.parametrize("name", ["half", "torch half", "torch complex"])
def test_only_text_is_said_to_be_text(name):
    with pytest.raises(wp.InputError) as raised:
        Denoising(BAD_MATRICES[name][0])
    assert "text" not in str(raised.value)


def test_nan_points_to_completion():
    refused(lambda: Denoising(M * NAN), "M", "Completion")


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({}, "M, samples, sampler"),
        ({"M": M, "samples": M[None]}, "M, samples, sampler"),
        ({"M": M, "shape": (5, 7)}, "shape"),
        ({"M": M, "shape": 5}, "shape"),
        ({"M": M, "sigma": -1.0}, "sigma"),
        ({"M": M, "sigma": NAN}, "sigma"),
        ({"M": M, "sigma": "a"}, "sigma"),
        ({"sampler": 3, "shape": (7, 5)}, "sampler"),
        ({"sampler": lambda rng, k: None}, "shape"),
    ],
)
def test_denoising_options(options, argument):
    refused(lambda: Denoising(**options), argument)


SHAPES = [5, (7,), (0, 5), (-7, -5), ("a", "b"), (7.0, 5.0), (7, 5, 1), (True, 5), "ab", None]


@pytest.mark.parametrize("shape", SHAPES, ids=repr)
def test_shapes(shape):
    def sampler(rng, k):
        return rng.standard_normal((k, 7, 5))

    refused(lambda: Denoising(sampler=sampler, shape=shape), "shape", "(m, d)")
    refused(lambda: Sensing(FLAT, B, shape=shape), "shape", "(m, d)")
    refused(lambda: Completion(R, C, V, shape), "shape", "(m, d)")
    refused(lambda: Custom(shape, value=lambda X: 0.0, grad=lambda X: X), "shape", "(m, d)")


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        (A[0], "A"),
        (A + 0j, "A"),
        (A * NAN, "A"),
        (np.full((9, 7, 5), "a"), "A"),
        (np.zeros((0, 7, 5)), "A"),
        ((1, 2, 3), "A"),
        ((A[:, :, 0], A[:8, 0, :]), "A"),
        ((A[:, :, 0], "text"), "A[1]"),
        ((A[:, :, 0] * NAN, A[:, 0, :]), "A[0]"),
        ((torch.asarray(A[:, :, 0]), A[:, 0, :]), "A"),
        (None, "A, b"),
        ("text", "A"),
    ],
)
def test_sensing_matrices(given, argument):
    refused(lambda: Sensing(given, B), argument)


@pytest.mark.parametrize("bad", [FLAT * 1j, FLAT * NAN], ids=["complex", "nan"])
def test_sparse_sensing_matrices(bad):
    refused(lambda: Sensing(bad, B, shape=(7, 5)), "A")


@pytest.mark.parametrize("bad", [B[:3], B[None], B * NAN, B + 0j, "text", B * INF])
def test_sensing_measurements(bad):
    refused(lambda: Sensing(A, bad), "b")


def test_sensing_shapes_that_do_not_fit():
    refused(lambda: Sensing(A, B, shape=(5, 7)), "shape", "that of A")
    refused(lambda: Sensing(FLAT, B, shape=(5, 5)), "shape", "35 columns")
    refused(lambda: Sensing(A, B, sampler=lambda rng, k: 0), "sampler")


@pytest.mark.parametrize("name", ["smoothness", "term_smoothness", "strong_convexity", "sigma"])
@pytest.mark.parametrize("bad", [-1.0, NAN, INF, "a", [1.0]])
def test_stated_constants(name, bad):
    refused(lambda: Sensing(A, B, **{name: bad}), name)
    refused(lambda: Custom((7, 5), value=lambda X: 0.0, grad=lambda X: X, **{name: bad}), name)


@pytest.mark.parametrize(
    ("rows", "cols", "values", "argument"),
    [
        (R * 1.0, C, V, "rows"),
        (-R - 1, C, V, "rows"),
        (R + 5, C, V, "rows"),
        (R, C + 3, V, "cols"),
        (R[:2], C, V, "rows"),
        (R > 0, C, V, "rows"),
        (R[None], C, V, "rows"),
        (["a", "b", "c"], C, V, "rows"),
        (R, C, V * NAN, "values"),
        (R, C, V + 0j, "values"),
        (R[:0], C[:0], V[:0], "values"),
    ],
)
def test_completion_entries(rows, cols, values, argument):
    refused(lambda: Completion(rows, cols, values, (7, 5)), argument)


def test_completion_from_matrices():
    refused(lambda: Completion.from_dense(M * NAN), "M", "no observed entry")
    refused(lambda: Completion.from_dense(M * INF), "values", "infinite")
    refused(lambda: Completion.from_dense(M[0]), "M")
    refused(lambda: Completion.from_dense(M + 0j), "M")
    refused(lambda: Completion.from_sparse(M), "M", "sparse")
    refused(lambda: Completion.from_sparse(sp.csr_array((3, 3))), "M", "stored")
    refused(lambda: Completion.from_sparse(sp.csr_array(M + 0j)), "values", "complex")
    refused(lambda: Completion.from_sparse(sp.csr_array(M * NAN)), "values", "NaN")
    refused(lambda: Completion(R, C, V, (7, 5), reduction="median"), "reduction")


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"value": None}, "value"),
        ({"grad": "text"}, "grad"),
        ({"n_terms": 0}, "n_terms"),
        ({"n_terms": "a"}, "n_terms"),
        ({"n_terms": 2.5}, "n_terms"),
        ({"n_terms": 3, "sampler": lambda rng, k: 0}, "n_terms"),
        ({"like": "text"}, "like"),
        ({"like": 3}, "like"),
        ({"like": np.zeros(2, dtype=int)}, "like"),
        ({"sampler": 3}, "sampler"),
        ({"grad": lambda X: X.T}, "grad"),
        ({"grad": lambda X: X * NAN}, "grad"),
        ({"grad": lambda X: None}, "grad"),
        ({"grad": lambda X: [[1.0]]}, "grad"),
        ({"grad": lambda X: X.astype(np.float32)}, "grad"),
        ({"value": lambda X: NAN}, "value"),
        ({"value": lambda X: "text"}, "value"),
        ({"value": lambda X: X}, "value"),
    ],
)
def test_custom(changes, argument):
    good = {"value": lambda X: 0.0, "grad": lambda X: X * 1.0}
    refused(lambda: Custom((7, 5), **{**good, **changes}), argument)

"""Matrices in tiles are the matrices they stand for, and passes cannot tell."""

import numpy as np
import pytest
import scipy.sparse as sp

from weakprox.errors import InputError, ShapeError
from weakprox.linalg import LowRank, LowRankPlusSparse, thin_svd
from weakprox.linalg.arrays import row_blocks, times_by_rows, transpose_times_by_rows
from weakprox.linalg.tiled import RowsOnDemand, Tiled, as_tiled
from weakprox.passes import Step, passes_for, reference
from weakprox.resources.memory import scratch

SHAPE = (37, 23)


def parts(seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    U, Vt = rng.standard_normal((SHAPE[0], 3)), rng.standard_normal((3, SHAPE[1]))
    S = sp.random_array(SHAPE, density=0.2, rng=rng, format="coo")
    return U.astype(dtype), np.arange(3.0, 0.0, -1.0).astype(dtype), Vt.astype(dtype), S


class Rows:
    """A user's own source: shape, dtype and rows."""

    def __init__(self, M):
        self.M, self.shape, self.dtype = M, M.shape, M.dtype

    def rows(self, part):
        return self.M[part]


def kinds():
    U, s, Vt, S = parts()
    yield "low rank", LowRank(U, s, Vt), (U * s) @ Vt
    yield "low rank + sparse", LowRankPlusSparse(U, s, Vt, S), (U * s) @ Vt + S.toarray()
    for form in ("csr", "csc", "coo", "lil", "dia"):
        yield form, S.asformat(form), S.toarray()
    yield "sparse matrix", sp.csr_matrix(S), S.toarray()
    yield "integers", sp.csr_array(np.eye(*SHAPE, dtype=int)), np.eye(*SHAPE)
    yield "rows", Rows(S.toarray()), S.toarray()


CASES = [pytest.param(M, dense, id=name) for name, M, dense in kinds()]


@pytest.mark.parametrize(("M", "dense"), CASES)
def test_tiles_are_rows_of_the_matrix(M, dense, monkeypatch):
    monkeypatch.setattr("weakprox.linalg.tiled.BLOCK_BYTES", 5 * SHAPE[1] * 8)
    found = as_tiled(M)
    assert isinstance(found, Tiled)
    assert (found.shape, found.dtype, found.block_rows) == (SHAPE, np.float64, 5)
    blocks = list(row_blocks(found))
    assert len(blocks) == 8
    np.testing.assert_allclose(np.vstack([found[rows] for rows in blocks]), dense, atol=1e-14)
    np.testing.assert_allclose(found.dense(), dense, atol=1e-14)
    np.testing.assert_allclose(found / 4.0, dense / 4, atol=1e-14)
    Q = np.random.default_rng(1).standard_normal((max(SHAPE), 4))
    right, left = Q[: SHAPE[1]], Q[: SHAPE[0]]
    np.testing.assert_allclose(times_by_rows(found, right), dense @ right, atol=1e-12)
    np.testing.assert_allclose(transpose_times_by_rows(found, left), dense.T @ left, atol=1e-12)
    values = thin_svd(found, 3, tol=1e-10).triplets.s
    np.testing.assert_allclose(values, np.linalg.svd(dense, compute_uv=False)[:3], rtol=1e-8)


@pytest.mark.parametrize("single", [True, False])
def test_float32_only_if_all_parts_are(single):
    U, s, Vt, S = parts(dtype=np.float32)
    S = S.astype(np.float32) if single else S
    M = LowRankPlusSparse(U, s, Vt, S)
    assert M.dtype == M[:3].dtype == (np.float32 if single else np.float64)


def test_passes_over_tiles_and_files_are_those_over_arrays(monkeypatch):
    for module in ("arrays", "tiled"):
        monkeypatch.setattr(f"weakprox.linalg.{module}.BLOCK_BYTES", 7 * SHAPE[1] * 8)
    U, s, Vt, S = parts()
    M = LowRankPlusSparse(U, s, Vt, S)
    X = thin_svd(M, 2).triplets
    k, Q = (
        Step(0.7, 1.0, 0.1, 0.3, 0.3),
        np.random.default_rng(2).standard_normal((SHAPE[1], 4)),
    )
    here, there = np.empty(SHAPE), scratch(SHAPE, float)
    assert passes_for(there, M) is passes_for(here, M) is passes_for(there) is reference
    found = []
    for C, z in ((M.dense(), here), (M, there)):
        seen = [reference.first(C, z, k, Q)]
        seen += [np.array(reference.look(C, z, X, k)), np.array(reference.look(C, None, X, k))]
        sums, product = reference.advance(C, z, X, k, 0.8, Q)
        again = [np.array(sums), product, np.array(z)]
        products = [reference.quick_transpose_times(z, product), reference.times(z, Q)]
        found.append([*seen, *again, *products])
    for mine, wanted in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


def test_rows_that_are_not_what_was_said():
    M = RowsOnDemand(lambda rows: np.zeros((2, 3)), SHAPE, float)
    with pytest.raises(ShapeError, match="rows 0 to 37 of shape"):
        M.dense()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"U": np.zeros((4, 2))}, ShapeError),
        ({"s": np.zeros((3, 3))}, ShapeError),
        ({"S": sp.eye_array(4)}, ShapeError),
        ({"S": np.zeros(SHAPE)}, InputError),
        ({"U": np.zeros((SHAPE[0], 3), complex)}, InputError),
    ],
)
def test_parts_that_do_not_fit(change, error):
    names = dict(zip(("U", "s", "Vt", "S"), parts(), strict=True)) | change
    with pytest.raises(error):
        LowRankPlusSparse(**names)


def test_what_is_no_matrix_in_tiles():
    assert as_tiled(np.zeros(SHAPE)) is None
    assert as_tiled([[1.0]]) is None
    with pytest.raises(ShapeError):
        as_tiled(Rows(np.zeros((2, 3, 4))))

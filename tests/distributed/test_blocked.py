"""A dask matrix whose X stays beside it: the answer is that of NumPy."""

import time

import dask.array as da
import numpy as np
import pytest
from dask_cases import LAM, Staying, assert_same, matrix, problem

import weakprox as wp
from weakprox.distributed import blocked, work
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import Arena
from weakprox.solvers import DavisYin

pytestmark = pytest.mark.usefixtures("small_blocks")
M, TAU = matrix()
TOL = 1e-4


@pytest.fixture(scope="module")
def here():
    return wp.minimize(problem(M, TAU), Staying(), tol=TOL)


@pytest.mark.parametrize("chunks", [(500, 120), (500, 7), (70, 50)])
def test_any_chunks_in_threads(here, chunks):
    found = wp.minimize(problem(da.from_array(M, chunks=chunks), TAU), tol=TOL)
    assert found.solver == "LeanSplitting"
    assert found.certified
    assert_same(found, here)


def test_the_bits_do_not_depend_on_the_chunks(one_by_one):
    one, two = (
        wp.minimize(problem(da.from_array(M, chunks=chunks), TAU), tol=TOL)
        for chunks in ((100, 120), (7, 60))
    )
    assert np.array_equal(one.low_rank.U, two.low_rank.U)
    assert one.value == two.value


def test_elastic_net_and_float32():
    penalty = wp.penalties.ElasticNet(LAM, 0.01)
    there = wp.minimize(problem(da.from_array(M), TAU, penalty), tol=1e-4)
    assert_same(there, wp.minimize(problem(M, TAU, penalty), Staying(), tol=1e-4))
    single = wp.minimize(problem(da.from_array(M.astype("float32")), TAU), tol=1e-4)
    assert single.certified
    assert single.low_rank.U.dtype == np.float32
    swapped = M.astype("float32").astype(np.dtype("float32").newbyteorder())
    assert wp.minimize(problem(da.from_array(swapped), TAU), tol=1e-4).value == single.value


def test_integers_and_extreme_sizes(here):
    whole = np.round(10 * M).astype(int)
    there = wp.minimize(problem(da.from_array(whole), 10 * TAU), tol=1e-4)
    plain = wp.minimize(problem(whole, 10 * TAU), Staying(), tol=1e-4)
    assert_same(there, plain)
    size = 2.0**300
    large = problem(da.from_array(M * size), TAU * size, wp.penalties.L1(LAM * size))
    found = wp.minimize(large, tol=TOL)
    assert found.value == pytest.approx(here.value * size**2, rel=1e-10)


def test_a_rank_that_is_not_low():
    wide = wp.penalties.L1(0.01)
    there = wp.minimize(problem(da.from_array(M), 1e6, wide), tol=1e-4)
    assert there.certified
    assert there.rank > 60
    plain = wp.minimize(problem(M, 1e6, wide), tol=1e-4)
    assert there.value == pytest.approx(plain.value, rel=2e-4)


def test_nothing_as_large_as_x_is_made_here(monkeypatch):
    monkeypatch.setattr(wp.linalg.LowRank, "dense", None)
    monkeypatch.setattr(blocked.Blocked, "gathered", None)
    seen = []
    found = wp.minimize(
        problem(da.from_array(M), TAU), tol=1e-4, callback=lambda look: seen.append(look.X)
    )
    assert found.certified
    assert seen[0].U.shape[0] == 500
    stopped = wp.minimize(problem(da.from_array(M), TAU), max_seconds=0.0)
    assert stopped.status is wp.Status.MAX_SECONDS
    assert stopped.rank == 0


def test_a_run_continues_from_its_moves(here):
    D = da.from_array(M, chunks=(90, 120))
    part = wp.minimize(problem(D, TAU), tol=TOL, max_svds=4)
    assert part.status is wp.Status.MAX_SVDS
    whole = wp.minimize(problem(D, TAU), tol=TOL)
    on = wp.minimize(problem(D, TAU), tol=TOL, resume=part)
    assert np.array_equal(on.low_rank.U, whole.low_rank.U)
    assert on.counts == whole.counts


UNEVEN = np.random.default_rng(2).choice([0.0, 0.5, 2.0], M.shape)
LOW = np.where(UNEVEN > 1.0, -np.inf, UNEVEN - 0.6)
HIGH = np.where(UNEVEN == 0.0, np.inf, UNEVEN + 1.0)


@pytest.mark.parametrize(
    "penalty",
    [
        wp.penalties.L1(LAM),
        wp.penalties.L1(LAM, UNEVEN),
        wp.penalties.Box(LOW, HIGH, LAM),
    ],
    ids=["even", "uneven", "bounds"],
)
def test_a_run_continues_from_a_file(tmp_path, penalty):
    D, path = da.from_array(M, chunks=(90, 120)), tmp_path / "run.safetensors"
    options = {"tol": TOL, "checkpoint": path, "checkpoint_every": 0.0}
    given = problem(D, TAU, penalty)
    wp.minimize(given, max_svds=4, **options)
    assert path.stat().st_size < M.nbytes
    on = wp.minimize(given, resume=True, **options)
    whole = wp.minimize(given, tol=TOL)
    assert np.array_equal(on.low_rank.U, whole.low_rank.U)


FORMS = {
    "groups": (wp.penalties.GroupL2(1.0), wp.spectral.NuclearBall(TAU)),
    "signed": (wp.penalties.SignedL1(LAM, 2 * LAM), wp.spectral.NuclearBall(TAU)),
    "box": (wp.penalties.Box(-0.1, 3.0, LAM), wp.spectral.NuclearBall(TAU)),
    "bounds": (wp.penalties.Box(LOW, HIGH, LAM), wp.spectral.NuclearBall(TAU)),
    "row of bounds": (wp.penalties.Box(-0.1, UNEVEN[:1], LAM), wp.spectral.NuclearBall(TAU)),
    "weights": (wp.penalties.L1(LAM, UNEVEN), wp.spectral.NuclearBall(TAU)),
    "none": (None, wp.spectral.NuclearBall(TAU)),
}


@pytest.mark.parametrize("name", FORMS)
def test_other_separable_forms_stay_on_the_workers(name):
    D = da.from_array(M, chunks=(90, 50))
    there, plain = (
        wp.minimize(wp.Problem(wp.losses.Denoising(data), *FORMS[name]), tol=1e-6)
        for data in (D, M)
    )
    assert there.solver == "LeanSplitting"
    assert there.certified
    assert there.value == pytest.approx(plain.value, rel=2e-6)


@pytest.mark.parametrize("kind", ["file", "dask", "row", "column", "number", "float32"])
def test_weights_of_any_kind_are_beside_the_blocks(kind, tmp_path):
    np.save(tmp_path / "W.npy", UNEVEN)
    weights = {
        "file": np.load(tmp_path / "W.npy", mmap_mode="r"),
        "dask": da.from_array(UNEVEN, chunks=(70, 30)),
        "row": UNEVEN[:1],
        "column": UNEVEN[:, :1],
        "number": 0.7,
        "float32": UNEVEN.astype(np.float32),
    }[kind]
    D = da.from_array(M, chunks=(90, 50))
    penalty = wp.penalties.L1(LAM, weights)
    there, plain = (wp.minimize(problem(data, TAU, penalty), tol=1e-6) for data in (D, M))
    assert there.solver == "LeanSplitting"
    assert there.certified
    assert there.value == pytest.approx(plain.value, rel=2e-6)


def test_a_nuclear_norm_is_solved_on_the_workers_if_it_must_be(monkeypatch):
    terms = wp.penalties.L1(LAM), wp.spectral.NuclearNorm(3.0)
    plain = wp.minimize(wp.Problem(wp.losses.Denoising(M), *terms), tol=1e-4)
    for room in (1 << 30, 100):
        monkeypatch.setattr("weakprox.losses.denoising.room", lambda room=room: room)
        D = da.from_array(M, chunks=(90, 50))
        problem = wp.Problem(wp.losses.Denoising(D), *terms)
        assert problem.elsewhere == (room == 100)
        there = wp.minimize(problem, "lean-splitting", tol=1e-4)
        assert there.certified
        assert there.value == pytest.approx(plain.value, rel=2e-4)


def pieces():
    """A penalty that is not separable, whose terms need X as a whole."""
    A = np.zeros((2, *M.shape))
    A[0, 0, 0], A[1, 1, 1] = 1.0, -1.0
    return wp.penalties.MaxAffine(A, np.zeros(2))


def test_other_terms_and_methods_gather_it():
    D = da.from_array(M, chunks=(90, 50))
    there, plain = (
        wp.minimize(
            wp.Problem(wp.losses.Denoising(data), pieces(), wp.spectral.NuclearBall(TAU)),
            tol=1e-4,
        )
        for data in (D, M)
    )
    assert there.value == plain.value
    there, plain = (wp.minimize(problem(x, TAU), DavisYin(), tol=1e-4) for x in (D, M))
    assert there.value == plain.value


def test_what_is_not_gathered(monkeypatch):
    monkeypatch.setattr("weakprox.losses.denoising.room", lambda: 1000)
    loss = wp.losses.Denoising(da.from_array(M))
    with pytest.raises(InputError, match="not fit in this process"):
        wp.Problem(loss, pieces(), wp.spectral.NuclearBall(TAU))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: da.from_array(np.where(M > 1.0, np.nan, M)), "NaN or infinite"),
        (lambda: da.from_array(M * 1e200), "squares overflow"),
        (lambda: da.from_array(M * 1j), "complex128"),
        (lambda: da.from_array(M[None]), "2 axes"),
        (lambda: da.from_array(M)[da.from_array(M[:, 0]) > 0], "compute_chunk_sizes"),
        (lambda: da.zeros((0, 3)), "none of them empty"),
    ],
)
def test_bad_arrays(bad, error):
    with pytest.raises(InputError, match=error):
        wp.losses.Denoising(bad())


def test_a_shape_that_does_not_fit():
    with pytest.raises(ShapeError):
        wp.losses.Denoising(da.from_array(M), shape=(3, 4))


def test_blocks_grow_with_the_matrix_alone():
    rows = blocked.block_rows
    assert rows((10, 20), np.float64) >= 1
    assert -(-(10**9) // rows((10**9, 1000), np.float32)) <= blocked.MOST_BLOCKS


def test_workers_use_memory_again_and_give_it_back(monkeypatch):
    monkeypatch.setattr(work, "SHARED", Arena())
    monkeypatch.setattr(work, "IDLE", 0.2)
    like = np.ones((10, 10))
    first = work._fresh(like)
    where = first.ctypes.data
    other = work._fresh(like)
    assert other.ctypes.data != where  # the first one is still held
    del first
    again = work._fresh(like)
    assert again.ctypes.data == where
    assert len(work.SHARED._arrays) == 2
    patience = time.monotonic() + 300.0
    while work.SHARED._arrays and time.monotonic() < patience:
        time.sleep(0.02)
    assert not work.SHARED._arrays
    again[...] = 1.0  # forgotten, not taken away
    assert again.sum() == 100.0

"""Data that stay on the host and are streamed through a device, against data that fit."""

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.errors import InputError, ShapeError
from weakprox.linalg.lowrank import LowRank
from weakprox.losses import Denoising
from weakprox.passes import Step, reference, streamed
from weakprox.passes.beside import Bounds
from weakprox.penalties import L1, Box, ElasticNet, GroupL2, SignedL1
from weakprox.problem import Problem
from weakprox.spectral import NuclearBall, NuclearNorm, TracePSD

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
on_devices = pytest.mark.parametrize("device", DEVICES)


def matrix(m=96, d=64, r=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng([seed, m, d])
    U, V = ((rng.random((n, r)) < 0.3) * rng.integers(1, 6, (n, r)) for n in (m, d))
    M = (U @ V.T + rng.standard_normal((m, d))).astype(dtype)
    return M, 0.8 * float(np.linalg.svd(U @ V.T, compute_uv=False).sum())


def small(M):
    """Memory for tiles of 16 rows."""
    return 200 * M.shape[-1] * 8


def streaming(M, device="cpu"):
    loss = Denoising(M, device=device, device_memory=small(M) * M.itemsize // 8)
    assert isinstance(loss.target, streamed.Streamed)
    return loss


UNEVEN = np.random.default_rng(2).choice([0.0, 0.5, 2.0], (96, 64))
LOW = np.where(UNEVEN > 1.0, -np.inf, UNEVEN - 0.5)
HIGH = np.where(UNEVEN == 0.0, np.inf, UNEVEN + 3.0)
BOUNDS = Bounds((LOW, HIGH), (96, 64), 8)
TERMS = {
    "L1": (L1(0.7), NuclearBall),
    "signed": (SignedL1(0.5, 1.0), NuclearBall),
    "elastic": (ElasticNet(0.5, 0.3), NuclearBall),
    "rows": (GroupL2(0.5, "rows"), NuclearBall),
    "none": (None, NuclearBall),
    "box": (Box(-1.0, 6.0, 1.0), NuclearBall),
    "positive": (Box(0.1, np.inf, 0.3), NuclearBall),
    "bounds": (Box(LOW, HIGH, 1.0), NuclearBall),
    "row of bounds": (Box(-1.0, 3.0 + UNEVEN[:1], 1.0), NuclearBall),
    "weights": (L1(0.7, UNEVEN), NuclearBall),
    "row of weights": (SignedL1(0.1, 0.2) + L1(0.7, UNEVEN[:1]), NuclearBall),
    "norm": (L1(0.7), lambda tau: NuclearNorm(12.0)),
}


@on_devices
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", TERMS)
def test_the_answer_is_that_of_data_that_fit(name, dtype, device):
    M, tau = matrix(dtype=dtype)
    penalty, spectral = TERMS[name]
    tol = 1e-3
    problem = Problem(streaming(M, device), penalty, spectral(tau))
    found = wp.minimize(problem, tol=tol, progress=False)
    wanted = wp.minimize(Problem(Denoising(M), penalty, spectral(tau)), tol=tol, progress=False)
    assert found.certified
    assert found.certificate.lower_bound <= wanted.value
    assert wanted.certificate.lower_bound <= found.value
    assert found.value == pytest.approx(wanted.value, rel=2 * tol)


@on_devices
def test_a_power_step_is_one_sweep(device):
    M, _ = matrix()
    C = streaming(M, device).target
    z, rng, k = C.fresh(), np.random.default_rng(1), Step(1.0, 1.0, 0.0, 0.7, 0.7)
    Q = torch.from_numpy(rng.standard_normal((64, 6))).to(device)
    product = streamed.first(C, z, k, Q)
    swept = C.sweeps
    pushed = streamed.transpose_times(z, product * torch.arange(1.0, 7.0, device=device))
    assert C.sweeps == swept
    whole = np.empty_like(M)
    reference.first(M, whole, k)
    expected = whole.T @ (whole @ Q.cpu().numpy()) * np.arange(1.0, 7.0)
    np.testing.assert_allclose(pushed.cpu().numpy(), expected, rtol=1e-9)
    other = torch.from_numpy(rng.standard_normal((96, 3))).to(device)
    found = streamed.transpose_times(z, other)  # spanned by nothing known
    assert C.sweeps == swept + 1
    np.testing.assert_allclose(found.cpu().numpy(), whole.T @ other.cpu().numpy(), atol=1e-9)


@on_devices
@pytest.mark.parametrize(
    "ends",
    [
        {},
        {"low": -0.5, "high": 1.0},
        {"factor": 0.4, "beside": UNEVEN},
        {"bounded": True, "beside": BOUNDS},
    ],
    ids=["zero", "bounds", "weights", "arrays of bounds"],
)
def test_passes_agree_with_the_reference(device, ends):
    M, _ = matrix()
    C = streaming(M, device).target / 2.0
    z, rng, k0 = C.fresh(), np.random.default_rng(1), Step(0.7, 1.0, 0.1, 0.7, 0.3, **ends)
    k = k0 if k0.beside is None else k0._replace(beside=streamed.beside(C, k0.beside))
    z.beside = k.beside
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in M.shape)
    X, half, whole = LowRank(U, np.array([9.0, 5.0, 1.0]), V.T), M / 2.0, np.empty_like(M)
    here = LowRank(
        *(torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in (U, X.s, V.T))
    )
    streamed.first(C, z, k)
    reference.first(half, whole, k0)
    for change in (1.0, 1.5):
        np.testing.assert_allclose(
            streamed.look(C, z, here, k), reference.look(half, whole, X, k0), rtol=1e-9
        )
        sums, _ = streamed.advance(C, z, here, k, change)
        expected, _ = reference.advance(half, whole, X, k0, change)
        np.testing.assert_allclose(sums, expected, rtol=1e-9)
    np.testing.assert_allclose(z[40:60].cpu().numpy(), whole[40:60], rtol=1e-9)
    np.testing.assert_allclose(
        streamed.look(C, None, here, k)[:2], reference.look(half, None, X, k0)[:2], rtol=1e-9
    )


@on_devices
@pytest.mark.parametrize("stored", [np.float32, np.float64], ids=["float32", "float64"])
def test_weights_in_files(tmp_path, device, stored):
    """They are read in tiles, also with another precision than the data's."""
    M, tau = matrix(dtype=np.float32)
    np.save(tmp_path / "W.npy", UNEVEN.astype(stored) / 3.0)
    W = np.load(tmp_path / "W.npy", mmap_mode="r")
    problem = Problem(streaming(M, device), L1(2.1, W), NuclearBall(tau))
    assert np.shares_memory(problem.entrywise().beside.host, W)
    assert problem.entrywise().beside.rows == 16
    found = wp.minimize(problem, tol=1e-3, progress=False, checkpoint=tmp_path / "run")
    wanted = wp.minimize(Problem(Denoising(M), L1(0.7, UNEVEN), NuclearBall(tau)), tol=1e-3)
    assert found.certified
    assert found.certificate.lower_bound <= wanted.value
    assert wanted.certificate.lower_bound <= found.value * (1.0 + 1e-6)


@on_devices
def test_files_and_tensors(tmp_path, device):
    M, tau = matrix(dtype=np.float32)
    np.save(tmp_path / "M.npy", M)
    values = []
    for data in (M, np.load(tmp_path / "M.npy", mmap_mode="r"), torch.from_numpy(M)):
        problem = Problem(streaming(data, device), L1(0.7), NuclearBall(tau))
        values.append(wp.minimize(problem, tol=1e-3, progress=False).value)
    assert values[0] == values[1] == values[2]


@on_devices
@pytest.mark.parametrize("weights", [None, UNEVEN[:80, :60]], ids=["even", "uneven"])
def test_a_run_resumes_from_its_moves(tmp_path, device, weights):
    M, tau = matrix(80, 60)
    problem = Problem(streaming(M, device), L1(0.7, weights), NuclearBall(tau))
    options = {"tol": 1e-3, "progress": False}
    whole = wp.minimize(problem, **options)
    options |= {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 0.0}
    part = wp.minimize(problem, max_svds=3, **options)
    assert part.status is wp.Status.MAX_SVDS
    resumed = wp.minimize(problem, resume=True, **options)
    assert torch.equal(resumed.low_rank.U, whole.low_rank.U)
    assert resumed.gap == whole.gap


def test_a_proof_file(tmp_path):
    M, tau = matrix()
    problem = Problem(streaming(M), L1(0.7), NuclearBall(tau))
    found = wp.minimize(problem, tol=1e-4, proof=True, progress=False)
    found.proof.save(tmp_path / "p.npz")
    assert wp.verify(tmp_path / "p.npz", Problem(Denoising(M), L1(0.7), NuclearBall(tau)))


def test_what_fits_is_copied():
    M, _ = matrix()
    loss = Denoising(M, device="cpu")
    assert isinstance(loss.target, torch.Tensor)
    assert not loss.elsewhere


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": "nowhere"}, "device"),
        ({"device": 7.5}, "device"),
        ({"device": "cpu", "device_memory": "little"}, "device_memory"),
        ({"device": "cpu", "device_memory": 1000}, "device_memory"),
        ({"device_memory": "1GB"}, "without a device"),
    ],
)
def test_bad_devices(options, words):
    with pytest.raises(InputError, match=words):
        Denoising(matrix()[0], **options)


def test_bad_data():
    M, _ = matrix()
    for bad, error in (
        (np.where(M[70, 3] == M, np.nan, M), InputError),
        (M.astype(int), InputError),
        (M[0], ShapeError),
    ):
        with pytest.raises(error, match="M"):
            Denoising(bad, device="cpu", device_memory=small(M))
    with pytest.raises(InputError, match="device"):
        Denoising(samples=np.stack([M, M]), device="cpu")


def test_terms_that_need_the_whole_matrix():
    M, tau = matrix(96, 96)
    with pytest.raises(InputError, match="Streamed"):
        Problem(streaming(M + M.T), L1(0.7), TracePSD(tau))

"""Zarr folders: read in chunks, and checked before zarr or its codecs see them."""

import json

import numpy as np
import pytest
import zarr

import weakprox as wp
from weakprox.storage import FileError, read_matrix

SHAPE, CHUNKS = (50, 40), (16, 40)


def values(shape=SHAPE):
    return np.random.default_rng(0).standard_normal(shape)


def folder(path, data=None, chunks=CHUNKS, dtype=float, **options):
    data = values() if data is None else data
    made = zarr.create_array(
        store=str(path), shape=data.shape, chunks=chunks, dtype=dtype, **options
    )
    made[:] = data
    return made


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("packed", ["auto", None])
@pytest.mark.parametrize("chunks", [CHUNKS, (7, 9)])
def test_folders_of_both_versions_are_read(version, packed, chunks, tmp_path):
    path = tmp_path / "M.zarr"
    folder(path, chunks=chunks, zarr_format=version, compressors=packed)
    table = read_matrix(path)
    assert (table.shape, table.format) == (SHAPE, "zarr")
    np.testing.assert_array_equal(table.dense(), values())


def test_a_zarr_matrix_and_stack_are_solved_like_arrays(tmp_path, monkeypatch):
    M = 3.0 * np.outer(np.arange(50) % 5, np.arange(40) % 3) + values()
    terms = wp.penalties.L1(0.5), wp.spectral.NuclearBall(300.0)
    wanted = wp.minimize(wp.Problem(wp.losses.Denoising(M), *terms), tol=1e-7, progress=False)
    on_disk = folder(tmp_path / "M.zarr", M)
    found = wp.minimize(
        wp.Problem(wp.losses.Denoising(on_disk), *terms), tol=1e-7, progress=False
    )
    assert found.value == pytest.approx(wanted.value, rel=1e-6)
    monkeypatch.setattr("weakprox.losses.inputs.CHUNK_BYTES", 3 * 50 * 40 * 8)
    stack = M + values((10, *SHAPE))
    here = wp.losses.Denoising(samples=stack)
    there = wp.losses.Denoising(samples=folder(tmp_path / "S.zarr", stack, chunks=(3, 50, 40)))
    np.testing.assert_allclose(there.everything().mean, here.everything().mean, atol=1e-12)
    drawn = [loss.draw(np.random.default_rng(1), 8).mean for loss in (here, there)]
    np.testing.assert_allclose(drawn[1], drawn[0], atol=1e-12)
    b = np.arange(10.0)
    here, there = (
        wp.losses.Sensing(A, y)
        for A, y in (
            (stack, b),
            (there._terms, folder(tmp_path / "b.zarr", b, chunks=(4,))),
        )
    )
    grads = [loss.grad(M, loss.everything()) for loss in (here, there)]
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-10, atol=1e-8)


def changed(path, version, change):
    """The folder with other metadata."""
    folder(path, zarr_format=version)
    file = path / ("zarr.json" if version == 3 else ".zarray")
    said = json.loads(file.read_text())
    change(said)
    file.write_text(json.dumps(said))


BAD = {
    "pickle": (2, lambda s: s.update(filters=[{"id": "pickle"}]), "filters"),
    "pickled": (2, lambda s: s.update(compressor={"id": "pickle"}), "the codec 'pickle'"),
    "gzip": (3, lambda s: s["codecs"].append({"name": "gzip"}), "the codec 'gzip'"),
    "numcodecs": (3, lambda s: s["codecs"].append({"name": "numcodecs.pickle"}), "the codec"),
    "twice": (3, lambda s: s["codecs"].append({"name": "zstd"}), "2 codecs that pack"),
    "objects": (2, lambda s: s.update(dtype="|O"), "Python objects"),
    "text": (2, lambda s: s.update(dtype="<U3"), "text"),
    "group": (3, lambda s: s.update(node_type="group"), "a zarr group"),
    "axes": (3, lambda s: s.update(shape=[50]), "in chunks of"),
    "negative": (3, lambda s: s.update(shape=[-50, 40]), "in chunks of"),
    "huge": (2, lambda s: s.update(chunks=[10**9, 10**9]), "which need"),
    "many": (2, lambda s: s.update(chunks=[1, 1], shape=[10**6, 10**6]), "at most 1000000"),
    "claims": (2, lambda s: s.update(chunks=[8, 40]), "that claims 5120 bytes"),
    "empty": (3, lambda s: s.clear(), "damaged metadata"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_could_run_code_or_fill_the_memory_is_refused(name, tmp_path, monkeypatch):
    version, change, says = BAD[name]
    changed(tmp_path / "M.zarr", version, change)
    monkeypatch.setattr(zarr, "open_array", pytest.fail)  # zarr must not see it
    with pytest.raises(FileError, match=says):
        read_matrix(tmp_path / "M.zarr")


def test_bad_folders(tmp_path):
    (tmp_path / "no.zarr").mkdir()
    with pytest.raises(FileError, match="without zarr's metadata"):
        read_matrix(tmp_path / "no.zarr")
    (tmp_path / "file.zarr").write_text("x")
    with pytest.raises(FileError):
        read_matrix(tmp_path / "file.zarr")
    folder(tmp_path / "nan.zarr", np.where(np.eye(*SHAPE) > 0, np.nan, 0.0))
    with pytest.raises(FileError, match="NaN at row 1, column 1"):
        read_matrix(tmp_path / "nan.zarr")
    folder(tmp_path / "cut.zarr")
    chunk = next(p for p in (tmp_path / "cut.zarr" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[:5])
    with pytest.raises(FileError, match="a chunk '0' that claims None bytes"):
        read_matrix(tmp_path / "cut.zarr")

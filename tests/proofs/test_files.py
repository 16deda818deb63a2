"""Proof files: written whole, read without trust."""

import io
import json
import zipfile

import numpy as np
import pytest
from proofs._cases import simple

import weakprox as wp
from weakprox.errors import ProofError
from weakprox.passes.compiling import COMPILED_FROM
from weakprox.proofs import file as proof_file
from weakprox.proofs.pieces import ENTRIES, piece


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("proofs") / "proof.npz"
    wp.minimize(simple()).proof.save(path)
    return path


def members(path):
    with np.load(path, allow_pickle=False) as found:
        arrays = dict(found)
    return json.loads(arrays.pop("meta").tobytes()), arrays


def rewritten(path, meta, arrays):
    np.savez(path, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)


def test_numpy_reads_it_without_pickles(good):
    meta, arrays = members(good)
    assert meta["terms"]["spectral"] == {"kind": "ball", "tau": 30.0}
    assert set(arrays) == {"X_U", "X_s", "X_Vt", "y0"}
    assert arrays["y0"].dtype == np.int16


def test_a_file_says_what_the_proof_says(good):
    proof, again = wp.minimize(simple()).proof, wp.Proof.load(good)
    assert again.claims == proof.claims
    assert again.digest == proof.digest
    assert repr(again) == repr(proof)
    assert again.value - again.lower_bound == again.gap
    for name, array in proof.arrays.items():
        assert np.array_equal(again.arrays[name], array)


def test_the_same_proof_is_the_same_bytes(good, tmp_path):
    wp.minimize(simple()).proof.save(tmp_path / "other.npz")
    assert (tmp_path / "other.npz").read_bytes() == good.read_bytes()


def test_every_truncation_is_refused(good, tmp_path):
    whole = good.read_bytes()
    path = tmp_path / "part.npz"
    for size in [*range(0, 200, 7), *range(200, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ProofError):
            wp.Proof.load(path)


def test_changed_bytes_are_refused_or_change_nothing(good, tmp_path):
    """Checksums cover the members; bytes between them are headers of the archive."""
    whole, path = good.read_bytes(), tmp_path / "changed.npz"
    rng = np.random.default_rng(0)
    proof, loaded = wp.Proof.load(good), 0
    for position in rng.integers(0, len(whole), 300):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(changed)
        try:
            found = wp.Proof.load(path)
        except ProofError:
            continue
        loaded += 1
        assert found.claims == proof.claims
        assert all(
            np.array_equal(found.arrays[name], proof.arrays[name]) for name in proof.arrays
        )
    assert loaded < 60  # dates and attributes of members, say


def test_missing_and_unknown_members(good, tmp_path):
    meta, arrays = members(good)
    path = tmp_path / "other.npz"
    for name in arrays:
        rewritten(path, meta, {k: v for k, v in arrays.items() if k != name})
        with pytest.raises(ProofError):
            wp.verify(path, simple())
    rewritten(path, meta, {**arrays, "extra": np.zeros(2)})
    with pytest.raises(ProofError, match="extra"):
        wp.Proof.load(path)
    np.savez(path, **arrays)
    with pytest.raises(ProofError, match="description"):
        wp.Proof.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"claims": None},
        {"claims": {"value": 1.0}},
        {"terms": []},
        {"terms": {}},
        {"digest": 3},
        {"weakprox_proof": 1},
        {"terms": {"shape": [24, 18.5]}},
        {"terms": {"shape": [24, -18]}},
        {"terms": {"penalty": [{"kind": "box", "above": -1.0}]}},
        {"terms": {"penalty": [{"kind": "cube"}]}},
        {"terms": {"spectral": {"kind": "ball", "tau": 0.0}}},
        {"terms": {"spectral": None}},
        {"terms": {"loss": {"kind": 4}}},
        {"claims": {"certified": "yes"}},
        {"claims": {"eps": "1"}},
        {"claims": {"strong_convexity": -1.0}},
        {"claims": {"value": 10**400}},
        {
            "terms": {
                "penalty": [
                    {"kind": "box", "above": 1.0, "below": 1.0, "curvature": 0.0, "lam": 9.0}
                ]
            }
        },
        {"terms": {"penalty": [{"kind": "groups", "lam": 1.0, "axis": 1.0}]}},
        {"terms": {"penalty": [{"kind": "groups", "lam": 1.0, "axis": 2}]}},
        {"terms": {"spectral": {"kind": "ball", "tau": 30.0, "lam": 1.0}}},
        {"terms": {"loss": {"kind": "Denoising", "weights": True}}},
        {"terms": {"loss": {"kind": "Completion", "reduction": "sum", "mean": 1.0}}},
    ],
)
def test_descriptions_that_make_no_sense(change, good, tmp_path):
    meta, arrays = members(good)
    for name, value in change.items():
        both = isinstance(value, dict) and isinstance(meta.get(name), dict) and value
        meta[name] = {**meta[name], **value} if both and len(value) == 1 else value
    if change == {"claims": {"value": 1.0}}:
        meta["claims"] = {"value": 1.0}
    rewritten(tmp_path / "bad.npz", meta, arrays)
    with pytest.raises(ProofError):
        wp.Proof.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("text", [b"", b"[", b"NaN", b'"text"', b"[" * 100_000, b"\xff\xfe"])
def test_descriptions_that_are_no_json(text, good, tmp_path):
    _, arrays = members(good)
    np.savez(tmp_path / "bad.npz", meta=np.frombuffer(text or b" ", np.uint8), **arrays)
    with pytest.raises(ProofError):
        wp.Proof.load(tmp_path / "bad.npz")


def test_numbers_that_are_none(good, tmp_path):
    meta, arrays = members(good)
    path = tmp_path / "bad.npz"
    for value in (np.nan, np.inf):
        other = np.array(arrays["X_s"])
        other[0] = value
        rewritten(path, meta, {**arrays, "X_s": other})
        with pytest.raises(ProofError, match="NaN or infinite"):
            wp.Proof.load(path)
    text = json.dumps({**meta, "claims": {**meta["claims"], "value": float("inf")}})
    np.savez(path, meta=np.frombuffer(text.encode(), np.uint8), **arrays)
    with pytest.raises(ProofError):
        wp.Proof.load(path)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("X_U", np.zeros((23, 2))),
        ("X_s", np.zeros((1, 2))),
        ("X_U", np.zeros((24, 2), complex)),
        ("y0", np.zeros((24, 17), np.int16)),
        ("y0", np.zeros((24, 18), np.uint8)),
        ("y0", np.zeros((24, 18), "U1")),
        ("X0", np.zeros((3, 3))),
    ],
)
def test_arrays_that_do_not_fit(name, other, good, tmp_path):
    meta, arrays = members(good)
    rewritten(tmp_path / "bad.npz", meta, {**arrays, name: other})
    with pytest.raises(ProofError):
        wp.verify(tmp_path / "bad.npz", simple())


def test_pickled_objects_are_never_loaded(good, tmp_path):
    meta, arrays = members(good)
    path = tmp_path / "bad.npz"
    rewritten(path, meta, arrays)
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("X0.npy", buffer.getvalue())
    with pytest.raises(ProofError):
        wp.Proof.load(path)


def test_a_header_that_claims_more_than_there_is(good, tmp_path):
    meta, arrays = members(good)
    path = tmp_path / "bad.npz"
    rewritten(path, meta, {k: v for k, v in arrays.items() if k != "y0"})
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<i2", "fortran_order": False, "shape": (1 << 30, 1 << 10)}
    )
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("y0.npy", buffer.getvalue())
    with pytest.raises(ProofError):
        wp.Proof.load(path)


def test_no_such_file_and_other_files(tmp_path):
    with pytest.raises(ProofError, match="no such file"):
        wp.Proof.load(tmp_path / "none.npz")
    np.save(tmp_path / "M.npy", np.zeros((2, 2)))
    with pytest.raises(ProofError):
        wp.Proof.load(tmp_path / "M.npy")
    with pytest.raises(ProofError):
        wp.Proof.load(tmp_path)


def test_large_members_are_mapped_not_read(good, monkeypatch):
    monkeypatch.setattr(proof_file, "MAPPED", 1)
    proof = wp.Proof.load(good)
    assert isinstance(proof.arrays["y0"], np.memmap)
    assert wp.verify(proof, simple())


def test_a_failed_write_leaves_the_last_file(good, tmp_path, monkeypatch):
    path = tmp_path / "proof.npz"
    path.write_bytes(good.read_bytes())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(proof_file.npy, "write_array_header_1_0", full)
    with pytest.raises(OSError, match="No space"):
        wp.Proof.load(good).save(path)
    assert path.read_bytes() == good.read_bytes()
    assert [entry.name for entry in tmp_path.iterdir()] == ["proof.npz"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 5, ENTRIES + 3, 2 * COMPILED_FROM])
def test_checksum_is_the_documented_sum(dtype, size):
    values = np.random.default_rng(size).standard_normal(size).astype(dtype)
    words = values.view(f"u{values.itemsize}").astype(np.uint64)
    expected = int((words * np.arange(1, 2 * size, 2, dtype=np.uint64)).sum())
    assert piece("b", values).checksum() == expected
    values[size // 2] = np.nextafter(values[size // 2], dtype(np.inf))
    assert piece("b", values).checksum() != expected


def test_checksum_does_not_depend_on_the_parts(monkeypatch):
    M = np.random.default_rng(0).standard_normal((300, 70))
    whole = piece("M", M).checksum()
    monkeypatch.setattr("weakprox.proofs.pieces.BYTES", 70 * 8 * 7)
    assert piece("M", M).checksum() == whole
    assert piece("M", np.asfortranarray(M)).checksum() == whole


@pytest.mark.parametrize("name", ["X_U", "X_s"])
def test_numbers_that_overflow_are_rejected(name, good, tmp_path):
    meta, arrays = members(good)
    other = np.array(arrays[name])
    other.flat[0] = 1e308
    rewritten(tmp_path / "bad.npz", meta, {**arrays, name: other})
    assert not wp.verify(tmp_path / "bad.npz", simple())

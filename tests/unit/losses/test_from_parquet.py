"""Completion from long tables in Parquet files: the answers of arrays, in memory or not."""

import datetime
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

import weakprox as wp
from weakprox.losses import Completion, Huber, long_files
from weakprox.passes.blocks import BlockPattern
from weakprox.solvers.factored_proximal import Steps
from weakprox.spectral import NuclearBall, NuclearNorm
from weakprox.storage.table import FileError

SHAPE = (40, 30)


@pytest.fixture(autouse=True)
def blocks_of_vectors(monkeypatch):
    """Arrays, which only observations in memory may become, would take other steps."""
    monkeypatch.setattr(Steps, "_as_array", lambda self, block: False)


def observations(kind="squared", shape=SHAPE, share=0.5, seed=0):
    """Rows, columns, values and weights of a matrix of rank two, in any order."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < share
    mask[3] = False
    rows, cols = np.nonzero(mask)
    order = rng.permutation(len(rows))
    rows, cols = rows[order], cols[order]
    factors = rng.standard_normal((shape[0], 2)), rng.standard_normal((2, shape[1]))
    values = (factors[0] @ factors[1])[rows, cols] + 0.5 * rng.standard_normal(len(rows))
    if kind == "logistic":
        values = np.where(values > 0, 2.0, -1.0)  # recoded as 1 and 0
    elif kind == "poisson":
        values = rng.poisson(np.exp(np.clip(values, -2, 1.5))).astype(float)
    return rows, cols, values, rng.uniform(0.5, 2.0, len(rows))


def written(path, *columns, **options):
    names = ("person", "film", "rating", "weight")
    table = dict(zip(names, columns, strict=False))
    pq.write_table(pa.table(table), path, row_group_size=100, **options)
    return path


def read(path, **options):
    return Completion.from_parquet(path, "person", "film", "rating", **options)


@pytest.fixture
def in_blocks(monkeypatch):
    """No observations fit in memory, and blocks have few of them."""
    monkeypatch.setattr(long_files, "IN_MEMORY", 1 << 60)
    monkeypatch.setattr(long_files, "BLOCK", 150)


SETTINGS = [
    ("squared", {}),
    ("squared", {"intercepts": "both", "scaling": "counts"}),
    ("squared", {"intercepts": "rows", "reduction": "mean"}),
    ("huber", {"intercepts": "both", "intercept_ridge": 0.7}),
    ("logistic", {"intercepts": "columns"}),
    ("poisson", {"intercepts": "both"}),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "options"), SETTINGS)
def test_the_answer_of_arrays(kind, options, weighted, tmp_path, in_blocks):
    rows, cols, values, weights = observations(kind)
    path = written(tmp_path / "long.parquet", rows, cols, values, weights)
    options = {"loss": Huber(0.5) if kind == "huber" else kind, **options}
    there = read(path, shape=SHAPE, weight="weight" if weighted else None, **options)
    given = weights if weighted else None
    here = Completion(rows, cols, values, SHAPE, weights=given, **options)
    assert isinstance(there.observed().pattern, BlockPattern)
    assert len(there.observed().pattern.blocks.edges) > 3
    assert repr(there) == repr(here)
    for name in ("smoothness", "term_smoothness", "strong_convexity", "size", "n_terms"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-12)
    lam = 1.0 if options.get("reduction") != "mean" else 1.0 / len(rows)
    tol = 1e-3
    for h in (NuclearNorm(lam), NuclearBall(20.0)):
        problems = (wp.Problem(x, None, h) for x in (here, there))
        one, two = (wp.minimize(p, "factored-proximal", tol=tol) for p in problems)
        assert one.certified
        assert two.certified
        assert two.solver == "FactoredProximal"
        # free intercepts are factorised here, and fitted by iterations there
        assert two.value == pytest.approx(one.value, rel=1e-6)
        assert two.certificate.lower_bound == pytest.approx(
            one.certificate.lower_bound, rel=1e-4
        )
        assert two.counts.svds == one.counts.svds
    some = rows[:9], cols[:9]
    mine, theirs = (x.predict(two.low_rank, *some) for x in (there, here))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_what_fits_is_read_into_memory(tmp_path):
    rows, cols, values, weights = observations()
    path = written(tmp_path / "long.parquet", rows, cols, values, weights)
    there = read(path, shape=SHAPE, weight="weight", intercepts="both")
    here = Completion(rows, cols, values, SHAPE, weights=weights, intercepts="both")
    assert not isinstance(there.observed().pattern, BlockPattern)
    problems = [wp.Problem(loss, None, NuclearNorm(1.0)) for loss in (here, there)]
    one, two = (wp.minimize(problem) for problem in problems)
    assert one.value == two.value


def test_memory_decides(tmp_path, monkeypatch):
    """As many bytes as the process holds, and some: no room for a run in memory."""
    rows, cols, values, _ = observations(shape=(400, 300))
    path = written(tmp_path / "long.parquet", rows, cols, values)
    monkeypatch.setattr("weakprox.resources.memory.resident", lambda: 100 << 20)
    for most, blocked in (("112 MiB", False), ("101 MiB", True)):
        loss = read(path, shape=(400, 300), max_memory=most)
        assert isinstance(loss.observed().pattern, BlockPattern) is blocked


@pytest.mark.parametrize("blocked", [False, True])
def test_ids_are_kept(blocked, tmp_path, request):
    if blocked:
        request.getfixturevalue("in_blocks")
    rows, cols, values, _ = observations()
    day = datetime.date(2020, 1, 1)
    people = pa.array([f"p{i:03d}" for i in rows]).dictionary_encode()
    days = pa.array([day + datetime.timedelta(days=7 * int(j)) for j in cols])
    path = written(tmp_path / "long.parquet", people, days, values)
    loss = read(path)
    known = np.unique(rows)  # row 3 is empty, so it has no id
    assert list(loss.row_ids) == [f"p{i:03d}" for i in known]
    assert loss.column_ids[1] - loss.column_ids[0] == datetime.timedelta(days=7)
    assert loss.shape == (len(known), 30)
    other = Completion(np.searchsorted(known, rows), cols, values, loss.shape)
    for name in ("row_counts", "column_counts", "columns"):
        mine, theirs = (getattr(x.observed().pattern, name) for x in (loss, other))
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(np.asarray(loss.observed().values), other.observed().values)


@pytest.mark.usefixtures("in_blocks")
def test_several_files_and_float32(tmp_path):
    rows, cols, values, _ = observations()
    half = len(rows) // 2
    for name, part in (("a", slice(None, half)), ("b", slice(half, None))):
        path = tmp_path / f"{name}.parquet"
        written(path, rows[part], cols[part], values[part].astype(np.float32))
    whole = read(tmp_path, shape=SHAPE, folder=tmp_path)
    listed = read([tmp_path / "a.parquet", str(path)], shape=SHAPE)
    results = [
        wp.minimize(wp.Problem(loss, None, NuclearNorm(1.0)), tol=1e-5)
        for loss in (whole, listed, Completion(rows, cols, values.astype(np.float32), SHAPE))
    ]
    assert all(result.certified for result in results)
    assert results[0].low_rank.U.dtype == np.float32
    assert results[0].value == results[1].value == pytest.approx(results[2].value, rel=1e-6)
    assert {path.suffix for path in tmp_path.iterdir()} == {".parquet"}  # nothing is left


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("intercepts", ["none", pytest.param("both", marks=pytest.mark.long)])
def test_resumed_runs_end_at_the_same_bits(intercepts, tmp_path):
    rows, cols, values, _ = observations()
    path = written(tmp_path / "long.parquet", rows, cols, values)

    def problem():
        loss = read(path, shape=SHAPE, loss=Huber(0.5), intercepts=intercepts)
        return wp.Problem(loss, None, NuclearNorm(1.0))

    whole = wp.minimize(problem(), tol=1e-2)
    kept = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 0.0}
    stated = problem()
    part = wp.minimize(stated, max_svds=4, tol=1e-2, **kept)
    assert part.status is wp.Status.MAX_SVDS
    for again in (
        wp.minimize(stated, tol=1e-2, resume=part),
        wp.minimize(problem(), tol=1e-2, resume=True, **kept),
    ):
        np.testing.assert_array_equal(again.X, whole.X)
        assert again.certificate == whole.certificate
    other = written(tmp_path / "other.parquet", rows, cols, values + 1e-3)
    loss = read(other, shape=SHAPE, loss=Huber(0.5), intercepts=intercepts)
    kept["checkpoint"].unlink()
    part = wp.minimize(stated, max_svds=4, tol=1e-2, **kept)
    with pytest.raises(wp.InputError, match="other data"):
        wp.minimize(wp.Problem(loss, None, NuclearNorm(1.0)), tol=1e-2, resume=True, **kept)


@pytest.mark.usefixtures("in_blocks")
def test_proofs(tmp_path):
    rows, cols, values, _ = observations()
    path = written(tmp_path / "long.parquet", rows, cols, values)
    loss = read(path, shape=SHAPE, intercepts="both")
    problem = wp.Problem(loss, None, NuclearNorm(1.0))
    result = wp.minimize(problem, tol=1e-3)
    assert wp.verify(result.proof, problem)
    here = Completion(rows, cols, values, SHAPE, intercepts="both")
    assert wp.verify(result.proof, wp.Problem(here, None, NuclearNorm(1.0)))


@pytest.mark.usefixtures("in_blocks")
def test_other_terms_gather_the_observations(tmp_path, monkeypatch):
    rows, cols, values, weights = observations()
    path = written(tmp_path / "long.parquet", rows, cols, values, weights)
    loss = read(path, shape=SHAPE, weight="weight", scaling="counts")
    here = Completion(rows, cols, values, SHAPE, weights=weights, scaling="counts")
    penalty = wp.penalties.ElasticNet(0.1, 0.1)
    one, two = (
        wp.minimize(wp.Problem(x, penalty, NuclearBall(20.0)), tol=1e-6) for x in (here, loss)
    )
    assert two.solver == "DavisYin"
    assert two.value == one.value
    monkeypatch.setattr("weakprox.losses.completion.room", lambda: 1000)
    refused(lambda: wp.Problem(loss, penalty, NuclearBall(20.0)), "values", "no penalty")
    refused(lambda: loss.entries(np.zeros(SHAPE)), "X", "LowRank")
    refused(lambda: loss.part(np.ones(len(rows), bool)), "kept", "in memory")


@pytest.mark.usefixtures("in_blocks")
def test_data_of_extreme_size_are_solved_in_another_unit(tmp_path):
    rows, cols, values, _ = observations()
    path = written(tmp_path / "long.parquet", rows, cols, 1e90 * values)
    problem = wp.Problem(read(path, shape=SHAPE), None, NuclearNorm(1e90))
    plain = wp.Problem(Completion(rows, cols, values, SHAPE), None, NuclearNorm(1.0))
    large, usual = wp.minimize(problem, tol=1e-5), wp.minimize(plain, tol=1e-5)
    assert large.certified
    assert large.value / 1e180 == pytest.approx(usual.value, rel=1e-5)


@pytest.mark.usefixtures("in_blocks")
def test_a_symmetric_spectral_term_gathers_the_observations(tmp_path):
    rows, cols, values, _ = observations(shape=(12, 12))
    path = written(tmp_path / "long.parquet", rows, cols, values)
    h = wp.spectral.TracePSD(5.0)
    losses = read(path, shape=(12, 12)), Completion(rows, cols, values, (12, 12))
    one, two = (wp.minimize(wp.Problem(loss, None, h), tol=1e-3) for loss in losses)
    assert one.value == two.value


@pytest.mark.usefixtures("in_blocks")
def test_the_plan_states_memory_and_files(tmp_path):
    rows, cols, values, _ = observations(shape=(400, 300))
    path = written(tmp_path / "long.parquet", rows, cols, values)
    loss = read(path, shape=(400, 300))
    here = Completion(rows, cols, values, (400, 300))
    there, inside = (wp.plan(wp.Problem(x, None, NuclearNorm(1.0))) for x in (loss, here))
    assert there.chosen == "FactoredProximal"
    mine, theirs = (plan["FactoredProximal"] for plan in (there, inside))
    assert mine.peak < theirs.peak - 50 * len(rows)
    assert mine.disk * there.array == pytest.approx((12 + 8 * 13) * len(rows))
    assert theirs.disk == 0.0


CHILD = """
import json, sys
import numpy as np, weakprox as wp
from weakprox.losses import Completion
from weakprox.resources.memory import peak
from weakprox.storage.long import LongFiles
path, room = sys.argv[1], int(sys.argv[2])
h = wp.spectral.NuclearNorm(200.0)
small = Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2), intercepts="both")
wp.minimize(wp.Problem(small, None, h), progress=False)  # libraries, and what is compiled
table = LongFiles.of(path, ("person", "film"), ("rating",))
assert sum(len(batch["film"]) for batch in table.batches({})) == table.count
budget = peak() + room
names = {"row": "person", "col": "film", "value": "rating", "shape": (1500, 1000)}
loss = Completion.from_parquet(path, max_memory=budget, **names)
problem = wp.Problem(loss, None, h)
found = wp.minimize(problem, max_memory=budget, tol=1e-2, progress=False)
print(json.dumps([peak() - budget, found.value, found.certificate.lower_bound, repr(loss)]))
"""


def test_memory_stays_below_the_size_of_the_observations(tmp_path):
    """14 MB of observations, whose run would take 120 MB in memory, within 14 MB."""
    rng, n, room = np.random.default_rng(0), 600_000, 14_000_000
    rows, cols = rng.integers(0, 1500, n), rng.integers(0, 1000, n)
    factors = rng.standard_normal((1500, 2)), rng.standard_normal((1000, 2))
    values = np.einsum("ij,ij->i", factors[0][rows], factors[1][cols])
    values += rng.standard_normal(n)
    names = ("person", "film", "rating")
    pq.write_table(
        pa.table(dict(zip(names, (rows, cols, values), strict=True))),
        tmp_path / "long.parquet",
        row_group_size=50_000,
    )
    command = [sys.executable, "-c", CHILD, str(tmp_path / "long.parquet"), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    beyond, value, bound, told = json.loads(done.stdout)
    assert beyond <= 0
    here = Completion(rows, cols, values, (1500, 1000))
    assert told == repr(here)
    result = wp.minimize(wp.Problem(here, None, NuclearNorm(200.0)), tol=1e-2)
    assert result.certified
    assert value == pytest.approx(result.value, rel=1e-10)
    assert bound == pytest.approx(result.certificate.lower_bound, rel=1e-5)


# bad input


def test_bad_tables(tmp_path):
    rows, cols, values, weights = observations()
    good = written(tmp_path / "good.parquet", rows, cols, values, weights)

    def call(**changes):
        asked = {"row": "person", "col": "film", "value": "rating", **changes}
        return lambda: Completion.from_parquet(asked.pop("source", good), **asked)

    def table(name, *columns):
        return written(tmp_path / f"{name}.parquet", *columns)

    nan = np.where(np.arange(len(rows)) == 200, np.nan, values)
    empty = pa.array([None, *cols[1:].tolist()])
    text = pa.array([str(x) for x in rows])
    cases = [
        ({"row": "user"}, "no column 'user'"),
        ({"value": "person", "source": table("text", text, cols, values)}, "string in column"),
        ({"source": tmp_path / "none.parquet"}, "no such file"),
        ({"source": table("rows", rows[:0], cols[:0], values[:0])}, "no rows"),
        ({"source": table("floats", rows * 1.0, cols, values)}, "double in column 'person'"),
        ({"source": table("null", rows, empty, values)}, "an empty cell in column 'film'"),
        ({"source": tmp_path / "text.parquet", "shape": SHAPE}, "integers from 0"),
        ({"source": [good, tmp_path / "text.parquet"]}, "int64, as in good.parquet"),
    ]
    for changes, words in cases:
        with pytest.raises(FileError, match=words):
            call(**changes)()
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(good.read_bytes()[:-40])
    with pytest.raises(FileError, match="damaged"):
        call(source=damaged)()
    (tmp_path / "nothing").mkdir()
    refused(call(source=tmp_path / "nothing"), "source", "a Parquet file")
    refused(call(row=3), "row", "the name of a column")
    refused(call(weights=weights), "weights", "the name of a column")
    refused(call(folder=tmp_path / "nowhere"), "folder", "an existing folder")
    refused(call(shape=(5, 30)), "row", "0 to 4")
    refused(call(shape=(40, 5)), "col", "0 to 4")
    refused(call(max_memory="much"), "max_memory")
    negative = table("negative", rows - 1, cols, values)
    refused(call(source=negative, shape=SHAPE), "row", "-1")
    refused(call(source=table("nan", rows, cols, nan)), "value", "NaN")
    for bad in (0.0, np.nan):
        changed = np.where(np.arange(len(rows)) == 200, bad, weights)
        source = table(f"weights{bad}", rows, cols, values, changed)
        refused(call(source=source, weight="weight"), "weight", "positive")
    with pytest.raises(TypeError, match="nonsense"):
        call(nonsense=3)()


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize(("kind", "words"), [("logistic", "two classes"), ("poisson", ">= 0")])
def test_values_that_a_loss_refuses(kind, words, tmp_path):
    rows, cols, values, _ = observations()
    path = written(tmp_path / "long.parquet", rows, cols, values)
    refused(lambda: read(path, loss=kind), "values", words)


@pytest.mark.usefixtures("in_blocks")
def test_one_class_and_one_observation(tmp_path):
    path = written(tmp_path / "one.parquet", [0], [0], [2.0])
    loss = read(path, loss="logistic")
    assert loss.shape == (1, 1)
    assert np.asarray(loss.observed().values).tolist() == [1.0]
    refused(lambda: read(written(path, [0], [0], [1e300])), "value", "overflow")

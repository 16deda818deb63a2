"""Observed entries on workers: the method in factors, and the answers of arrays."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from refusals import refused

import weakprox as wp
from weakprox.distributed import engine, observations, terms
from weakprox.errors import InputError
from weakprox.losses import Completion, Huber
from weakprox.passes.blocks import BlockPattern
from weakprox.solvers.factored_proximal import Steps
from weakprox.spectral import NuclearBall, NuclearNorm

SHAPE = (40, 30)
RNG = np.random.default_rng(2)
ROWS, COLS = (RNG.permutation(x) for x in np.nonzero(RNG.random(SHAPE) < 0.6))
N = len(ROWS)
TRUTH = RNG.standard_normal((40, 2)) @ RNG.standard_normal((2, 30))
VALUES = TRUTH[ROWS, COLS] + 0.5 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
DATA = {
    "squared": VALUES,
    "huber": VALUES,
    "logistic": np.where(VALUES > 0, 2.0, -1.0),
    "poisson": RNG.poisson(np.exp(np.clip(VALUES, -2, 1.5))).astype(float),
}


@pytest.fixture(autouse=True)
def blocks_of_vectors(monkeypatch):
    """Arrays, which only observations in memory may become, would take other steps."""
    monkeypatch.setattr(Steps, "_as_array", lambda self, block: False)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(terms, "CHUNK", 250)
    monkeypatch.setattr(observations, "BLOCK", 250)


def far(x, chunks=250):
    return da.from_array(x, chunks=chunks)


def pair(kind="squared", weights=None, **options):
    """The same loss of arrays and of dask arrays."""
    options = {"loss": Huber(0.5) if kind == "huber" else kind, **options}
    here = Completion(ROWS, COLS, DATA[kind], SHAPE, weights=weights, **options)
    weights = None if weights is None else far(weights, 200)
    there = Completion(
        far(ROWS), far(COLS, 300), far(DATA[kind]), SHAPE, weights=weights, **options
    )
    return here, there


def same(one, two):
    assert one.certified
    assert two.certified
    assert two.solver == "FactoredProximal"
    assert two.value == pytest.approx(one.value, rel=1e-6)
    bounds = [result.certificate.lower_bound for result in (one, two)]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-4)
    assert two.counts.svds == one.counts.svds


SETTINGS = [
    pytest.param("squared", {}, marks=pytest.mark.long),
    pytest.param(
        "squared", {"intercepts": "both", "scaling": "counts"}, marks=pytest.mark.long
    ),
    ("squared", {"weights": WEIGHTS, "reduction": "mean"}),
    ("huber", {"intercepts": "rows", "weights": WEIGHTS}),
    ("logistic", {"intercepts": "columns"}),
    pytest.param("poisson", {}, marks=pytest.mark.long),
    pytest.param(
        "huber", {"intercepts": "rows", "intercept_ridge": 0.5}, marks=pytest.mark.long
    ),
]


@pytest.mark.usefixtures("one_by_one")
@pytest.mark.parametrize(("kind", "options"), SETTINGS)
def test_the_answer_of_arrays(kind, options):
    here, there = pair(kind, **options)
    data = there.observed()
    assert isinstance(data.pattern, BlockPattern)
    assert len(data.pattern.blocks.edges) > 3
    for name in ("smoothness", "term_smoothness", "strong_convexity", "size", "n_terms"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-12)
    lam = 1.0 / N if options.get("reduction") == "mean" else 1.0
    tol = 0.2  # each of the hundreds of passes over few numbers costs dask's time
    h = NuclearBall(20.0) if kind == "huber" else NuclearNorm(lam)
    one, two = (wp.minimize(wp.Problem(x, None, h), tol=tol) for x in (here, there))
    same(one, two)
    mine, theirs = (x.predict(two.low_rank, ROWS[:9], COLS[:9]) for x in (there, here))
    np.testing.assert_allclose(mine, theirs, rtol=1e-9)


@pytest.mark.usefixtures("one_by_one")
def test_columns_of_a_frame():
    frame = dd.from_pandas(
        pd.DataFrame({"u": ROWS, "i": COLS, "y": VALUES, "w": WEIGHTS}), npartitions=3
    )
    there = Completion(frame["u"], frame["i"], frame["y"], SHAPE, weights=frame["w"])
    here = Completion(ROWS, COLS, VALUES, SHAPE, weights=WEIGHTS)
    h = NuclearNorm(1.0)
    same(*(wp.minimize(wp.Problem(x, None, h), tol=0.2) for x in (here, there)))


@pytest.mark.usefixtures("one_by_one")
def test_a_pass_is_one_graph(monkeypatch):
    """And no array of as many numbers as there are observations comes back."""
    data = pair("huber", intercepts="both")[1].observed()
    fetched, real = [], engine._results

    def watched(tasks):
        fetched.append(real(tasks))
        return fetched[-1]

    monkeypatch.setattr(engine, "_results", watched)
    x = data.sampled(np.ones((40, 2)), np.ones((30, 2)))
    assert fetched == []  # it stays there
    effects = data.zero()
    q = data.dual(x, effects)
    data.transpose_times(q, np.ones((40, 2)))
    assert len(fetched) == 1
    data.value(x, effects)
    data.pattern.margins(q)
    assert len(fetched) == 3
    results = [one for found in fetched for one in found]
    parts = [x for one in results for x in (one if isinstance(one, tuple) else (one,))]
    assert max(np.size(x) for x in parts) < N / 4


@pytest.mark.usefixtures("one_by_one")
def test_resumed_runs_end_at_the_same_bits(tmp_path):
    def problem():
        return wp.Problem(pair("huber")[1], None, NuclearNorm(1.0))

    whole = wp.minimize(problem(), tol=0.1)
    kept = {"checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 0.0}
    part = wp.minimize(problem(), max_svds=3, tol=0.1, **kept)
    assert part.status is wp.Status.MAX_SVDS
    again = wp.minimize(problem(), tol=0.1, resume=True, **kept)
    np.testing.assert_array_equal(again.X, whole.X)
    assert again.certificate == whole.certificate


@pytest.mark.usefixtures("one_by_one")
def test_other_terms(monkeypatch):
    """A plain squared loss is summed on the workers, any other gathered if it fits."""
    penalty, h = wp.penalties.ElasticNet(0.1, 0.1), NuclearBall(20.0)
    for kind, options in (("squared", {}), ("huber", {"weights": WEIGHTS})):
        here, there = pair(kind, **options)
        one, two = (wp.minimize(wp.Problem(x, penalty, h), tol=1e-6) for x in (here, there))
        assert two.solver == "DavisYin"
        assert two.value == pytest.approx(one.value, rel=1e-8)
    monkeypatch.setattr("weakprox.losses.completion.room", lambda: 1000)
    refused(lambda: wp.Problem(there, penalty, h), "values", "no penalty")


@pytest.mark.usefixtures("one_by_one")
def test_nothing_of_the_size_of_x():
    """A shape of 7.3 TiB as an array."""
    shape, n = (2_000_000, 500_000), 1000
    rows, cols = RNG.integers(0, shape[0], n), RNG.integers(0, shape[1], n)
    loss = Completion(far(rows, 300), cols, RNG.standard_normal(n), shape)
    assert loss.strong_convexity == 0.0
    assert wp.plan(wp.Problem(loss, None, NuclearNorm(1.0))).chosen == "FactoredProximal"


@pytest.mark.usefixtures("one_by_one")
def test_proofs():
    for options in ({}, {"intercepts": "rows"}):
        here, there = (wp.Problem(x, None, NuclearNorm(2.0)) for x in pair(**options))
        result = wp.minimize(there, tol=0.1)
        assert wp.verify(result.proof, there)
        assert wp.verify(result.proof, here)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": far(WEIGHTS) - 3.0}, "positive"),
        ({"weights": far(WEIGHTS)[:5]}, f"{N}"),
        ({"loss": "logistic"}, "two classes"),
        ({"loss": "poisson"}, ">= 0"),
        ({"scaling": (np.ones(3), np.ones(30))}, "40 positive"),
    ],
)
@pytest.mark.usefixtures("one_by_one")
def test_bad_data(change, words):
    with pytest.raises(InputError, match=words):
        Completion(ROWS, COLS, far(VALUES), SHAPE, **change)

"""Result, Status, Counts, Trace and Certificate by themselves."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from registry import DOUBLE, numbers

from weakprox import Certificate, InputError, LowRank, Result, Status
from weakprox.result import COLUMNS, Counts, Trace

NOTHING = Certificate.nothing(10.0)


def lowrank(backend=DOUBLE[0]):
    U, s, Vt = np.linalg.svd(numbers(5, 4), full_matrices=False)
    return LowRank(*(backend.array(x) for x in (U[:, :2], s[:2], Vt[:2])))


def make(status=Status.CERTIFIED, *, backend=DOUBLE[0], **changes):
    fields = {
        "low_rank": lowrank(backend),
        "value": 10.0,
        "violation": 0.0,
        "status": status,
        "eps": 0.5,
        "certificate": Certificate(10.0, 9.8, "exact"),
        "counts": Counts(samples=5, gradients=7, svds=3, rank_one_svds=9),
        "trace": Trace(),
        "parameters": None,
        "solver": "SVRGCG",
        "seconds": 1.5,
        "seed": 0,
        "sampled": False,
        "checkpoint": None,
        "iterate_value": 10.0,
    }
    return Result(**{**fields, **changes})


def test_every_status_has_a_label_and_advice():
    labels = [status.label for status in Status]
    assert len(set(labels)) == len(labels)
    for status in Status:
        assert len(status.advice) > 15
        assert status.advice.rstrip().endswith(".")
    reached = {Status.CERTIFIED, Status.CONFIDENT, Status.EXPECTED}
    assert {s for s in Status if s.reached} == reached


@pytest.mark.parametrize("status", list(Status), ids=lambda s: s.name)
def test_repr_shouts_unless_the_target_was_met(status):
    text = repr(make(status, certificate=NOTHING))
    assert ("** TARGET NOT CONFIRMED **" in text) == (not status.reached)
    assert "**" not in repr(make(status))  # a proof settles it, whatever ended the run
    assert status.label in text
    assert status.advice in text


def test_repr_shouts_when_the_gap_is_too_wide():
    text = repr(make(Status.EXPECTED, certificate=Certificate(10.0, 8.0, "exact")))
    assert "** NOT PROVED to be within 0.5 **" in text
    assert "**" not in repr(make(Status.EXPECTED))


def test_repr_is_a_summary():
    text = repr(make())
    for part in ("5 x 4", "10", "rank       2", "5 samples", "3 SVDs (9 rank-one)", "1.50 s"):
        assert part in text
    proof = Certificate(10.0, 9.8, "sampled", 0.15, 0.95)
    sampled = repr(make(Status.CONFIDENT, sampled=True, certificate=proof))
    assert "about 10" in sampled
    assert "0.2 at 95 % confidence, 0.15 of it by sampling" in sampled
    assert "**" not in sampled
    assert "nothing proved" in repr(make(Status.MAX_SVDS, certificate=NOTHING))
    assert len(text.splitlines()) <= 10


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_views_of_the_answer(backend):
    result = make(backend=backend)
    U, s, Vt = result.factors
    assert float(abs((U * s) @ Vt - result.X).max()) <= 1e-12
    assert result.X is result.X
    assert backend.owns(result.X)
    assert result.rank == 2


@pytest.mark.parametrize("backend", DOUBLE, ids=lambda b: b.name)
def test_nonzeros(backend):
    U, Vt = np.eye(4)[:, :2], np.eye(3)[:2]
    X = LowRank(*(backend.array(x) for x in (U, np.array([2.0, 1e-3]), Vt)))
    result = make(low_rank=X)
    assert result.nonzeros() == 1
    assert result.nonzeros(tol=1e-4) == 2
    assert result.nonzeros(tol=0.0) == 2
    zero = make(low_rank=LowRank.zero((4, 3), backend.array(np.zeros((4, 3)))))
    assert zero.nonzeros() == 0


def test_certified_means_the_gap_is_within_eps():
    assert make().certified
    assert make().gap == pytest.approx(0.2)
    assert not make(eps=0.1).certified
    assert make(certificate=NOTHING).gap == np.inf
    assert not make(certificate=NOTHING).certified


def test_results_are_frozen():
    with pytest.raises(FrozenInstanceError):
        make().value = 3.0


def test_certificate_text():
    exact, likely = Certificate(3.0, 2.5, "exact"), Certificate(3.0, 2.5, "high-probability")
    assert exact.gap == 0.5
    assert "2.5" in str(exact)
    assert "within 0.5" in str(exact)
    assert "1e-10" in str(likely)
    assert Certificate(3.0, 3.0 + 1e-12, "exact").gap == 0.0  # never negative
    sampled = str(Certificate(3.0, 2.5, "sampled", 0.4, 0.9))
    assert "within 0.5 of the optimum at 90 % confidence; 80 % of that is sampling" in sampled
    assert str(Certificate(3.0, 3.0, "sampled", 0.0, 0.95)).startswith("The answer is within 0")
    assert "Nothing is proved" in str(NOTHING)


def test_a_certificate_that_proves_nothing():
    for sampled in (False, True):
        nothing = Certificate.nothing(2.0, sampled=sampled)
        assert nothing.gap == np.inf
        assert not nothing.proves
    assert Certificate(3.0, 2.5, "exact").proves
    assert Certificate(3.0, 2.5, "exact").confidence == 1.0


def row(**changes):
    return {**dict.fromkeys(COLUMNS, 0.0), **changes}


def test_trace_columns():
    rows = [row(epoch=1, step=1, value=5.0), row(epoch=1, step=0, value=4.0)]
    trace = Trace([tuple(one.values()) for one in rows])
    assert len(trace) == 2
    assert trace["value"].tolist() == [5.0, 4.0]
    assert trace["value"].dtype == np.float64
    assert trace.epochs()["value"].tolist() == [4.0]
    assert list(trace.to_dict()) == list(COLUMNS)
    with pytest.raises(InputError, match=r"nonsense.*value_low_rank"):
        trace["nonsense"]


def test_counts_copy():
    counts = Counts(samples=3)
    copy = counts.copy()
    counts.samples += 1
    assert (copy.samples, counts.samples) == (3, 4)


def test_results_can_be_pickled():
    again = pickle.loads(pickle.dumps(make()))
    assert np.array_equal(again.X, make().X)
    assert again.status is Status.CERTIFIED

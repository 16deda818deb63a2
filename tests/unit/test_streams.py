"""Streams: any iterable, little memory, back-pressure, resuming, and items that are bad."""

import gc
import threading
import time
import tracemalloc

import numpy as np
import pytest
import torch

import weakprox as wp
from weakprox.errors import InputError, SamplerError
from weakprox.streams import Stream

SHAPE = (4, 3)


def matrices(count=40, seed=0):
    """A source that can be opened again."""

    def source():
        rng = np.random.default_rng(seed)
        for _ in range(count):
            yield rng.standard_normal(SHAPE)

    return source


ALL = np.array(list(matrices()()))


def threads():
    return sum(thread.name == "weakprox-stream" for thread in threading.enumerate())


def wait_for(condition):
    until = time.monotonic() + 300.0
    while not condition() and time.monotonic() < until:
        time.sleep(0.001)
    assert condition()


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("size", [None, 1, 7])
def test_samples_come_in_order_however_they_are_cut(prefetch, size):
    def source():
        if size is None:
            yield from ALL
        else:
            yield from (ALL[i : i + size] for i in range(0, len(ALL), size))

    with Stream(source, prefetch=prefetch) as stream:
        np.testing.assert_array_equal(stream(None, 11), ALL[:11])
        np.testing.assert_array_equal(stream(None, 1), ALL[11:12])
        assert stream.tell() == 12
        np.testing.assert_array_equal(np.concatenate(list(stream)), ALL[12:])
        assert stream.tell() == len(ALL)
    assert [len(x) for x in Stream(source, batch=16)] == [16, 16, 8]


def test_pairs():
    b = np.arange(40.0)
    singles = Stream(zip(ALL, b, strict=True))
    A, y = singles(None, 5)
    np.testing.assert_array_equal(A, ALL[:5])
    np.testing.assert_array_equal(y, b[:5])
    batches = Stream([(ALL[:30], b[:30]), (ALL[30:], b[30:])])
    np.testing.assert_array_equal(batches(None, 35)[1], b[:35])


def test_tensors_stay_tensors():
    found = Stream(torch.asarray(x) for x in ALL)(None, 3)
    assert torch.equal(found, torch.asarray(ALL[:3]))


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("source", [matrices(), list(ALL)], ids=["callable", "list"])
def test_a_source_that_can_be_reopened_is_resumed_anywhere(source, prefetch):
    whole = Stream(source, prefetch=prefetch)
    first, at = whole(None, 9), whole.tell()
    rest = whole(None, 20)
    other = Stream(source, prefetch=prefetch)
    other.seek(at)
    np.testing.assert_array_equal(other(None, 20), rest)
    other.seek(0)
    np.testing.assert_array_equal(other(None, 9), first)
    other.seek(39)
    np.testing.assert_array_equal(other(None, 1), ALL[39:])


def test_an_iterator_goes_forward_only():
    stream = Stream(iter(ALL))
    stream.seek(5)
    np.testing.assert_array_equal(stream(None, 1), ALL[5:6])
    with pytest.raises(SamplerError, match=r"back to 2.*opened again"):
        stream.seek(2)
    with pytest.raises(InputError, match="repeat"):
        Stream(iter(ALL), repeat=True)


def test_the_end_is_an_error_unless_it_begins_again():
    for prefetch in (0, 2):
        stream = Stream(matrices(), prefetch=prefetch)
        stream(None, 40)
        for _ in range(2):
            with pytest.raises(SamplerError, match=r"its end after 40 samples.*repeat=True"):
                stream(None, 1)
    stream = Stream(matrices(), repeat=True)
    stream(None, 35)
    np.testing.assert_array_equal(stream(None, 10), np.concatenate([ALL[35:], ALL[:5]]))
    assert stream.tell() == 45
    stream.seek(81)
    np.testing.assert_array_equal(stream(None, 1), ALL[1:2])
    with pytest.raises(SamplerError, match="its end after 0 samples"):
        Stream(list, repeat=True)(None, 1)


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_the_source_is_never_far_ahead(prefetch):
    made = [0]

    def source():
        for x in ALL:
            made[0] += 1
            yield x

    with Stream(source, prefetch=prefetch) as stream:
        for used in range(1, 9):
            stream(None, 1)
            if prefetch:
                wait_for(lambda used=used: made[0] == used + prefetch)
            time.sleep(0.005)
            assert made[0] <= used + prefetch


def test_threads_end_with_their_streams():
    gc.collect()
    wait_for(lambda: threads() == 0)  # those of other tests
    before = 0
    stream = Stream(matrices(10**6), prefetch=2)
    stream(None, 1)
    assert threads() == before + 1
    stream.close()
    wait_for(lambda: threads() == before)
    with pytest.raises(SamplerError, match="a closed stream"):
        stream(None, 1)
    stream = Stream(matrices(10**6), prefetch=2)
    stream(None, 1)
    del stream
    gc.collect()
    wait_for(lambda: threads() == before)
    list(Stream(matrices(5), prefetch=2))
    wait_for(lambda: threads() == before)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_of_the_source_are_passed_on(prefetch):
    def source():
        yield ALL[0]
        yield ALL[1]
        raise OSError("the disk is gone")

    stream = Stream(source, prefetch=prefetch)
    stream(None, 2)
    with pytest.raises(SamplerError, match="OSError at item 2: the disk is gone") as caught:
        stream(None, 1)
    assert isinstance(caught.value.__cause__, OSError)

    def closed():
        raise RuntimeError("cannot be opened")

    with pytest.raises(SamplerError, match="RuntimeError at item 0: cannot be opened"):
        Stream(closed, prefetch=prefetch)(None, 1)


def test_a_source_that_stalls_is_not_waited_for_forever():
    go, made = threading.Event(), threading.Event()

    def source():
        yield ALL[0]
        go.wait(300.0)
        made.set()
        yield ALL[1]

    stream = Stream(source, prefetch=1, timeout=1.0)  # enough for the first, beside other work
    stream(None, 1)
    with pytest.raises(SamplerError, match=r"no item 1 within 1 s"):
        stream(None, 1)
    go.set()
    assert made.wait(300.0)
    np.testing.assert_array_equal(stream(None, 1), ALL[1:2])  # and nothing is lost
    stream.close()


NAN = np.where(np.eye(*SHAPE) > 0, np.nan, 0.0)
BAD = {
    "shape": (np.zeros((4, 4)), r"matrices of shape \(4, 4\)"),
    "axes": (np.zeros(4), r"shape \(4,\)"),
    "empty": (np.zeros((0, 4, 3)), "no axis empty"),
    "nan": (NAN, "NaN or infinite"),
    "inf": (np.full(SHAPE, np.inf), "NaN or infinite"),
    "text": ("x", "str"),
    "none": (None, "NoneType"),
    "complex": (np.zeros(SHAPE, complex), "dtype complex128"),
    "dtype": (np.zeros(SHAPE, np.float32), "ndarray of float32"),
    "pair": ((np.zeros(SHAPE), 1.0), "a pair"),
    "triple": ((1, 2, 3), "a tuple of 3"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_bad_items_are_named_by_their_place(name, prefetch):
    item, says = BAD[name]
    stream = Stream([ALL[0], ALL[1:3], item], prefetch=prefetch)
    stream(None, 3)
    with pytest.raises(SamplerError, match=f"item 2 of the stream: .*{says}"):
        stream(None, 1)


def test_bad_numbers_of_pairs():
    for y, says in ((np.nan, "NaN"), (np.zeros(2), "y of shape"), ("x", "y of type str")):
        with pytest.raises(SamplerError, match=f"item 0 of the stream: .*{says}"):
            Stream([(ALL[0], y)])(None, 1)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"source": 3}, "source"),
        ({"source": "text"}, "source"),
        ({"batch": 0}, "batch"),
        ({"prefetch": -1}, "prefetch"),
        ({"prefetch": True}, "prefetch"),
        ({"timeout": 1.0}, "timeout"),
        ({"timeout": 0.0, "prefetch": 1}, "timeout"),
    ],
)
def test_settings_that_cannot_be(options, name):
    with pytest.raises(InputError, match=name):
        Stream(**({"source": matrices()} | options))


@pytest.mark.parametrize("prefetch", [0, 4])
def test_ten_thousand_samples_take_the_memory_of_a_few(prefetch):
    """Peak at the tenth part of the samples and at the end: the same."""
    side = 16

    def source():
        rng = np.random.default_rng(0)
        for _ in range(10_000):
            yield rng.standard_normal((side, side))

    tracemalloc.start()
    try:
        peaks = []
        with Stream(source, prefetch=prefetch) as stream:
            for _ in range(10):
                for _ in range(10):
                    stream(None, 100)
                peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    assert stream.tell() == 10_000
    assert peaks[-1] <= peaks[0] + 100 * side * side * 8  # of 10,000; threads differ a little
    assert peaks[-1] < 400 * side * side * 8


def test_one_pass_makes_a_finite_sum_like_that_of_the_array():
    whole = wp.losses.Denoising(samples=ALL)
    for samples in (matrices()(), Stream(matrices(), batch=7, prefetch=2)):
        loss = wp.losses.Denoising(samples=samples)
        assert (loss.is_finite_sum, loss.n_terms, loss.shape) == (True, 40, SHAPE)
        assert loss.sigma == pytest.approx(whole.sigma, rel=1e-12)
        np.testing.assert_allclose(loss.everything().mean, ALL.mean(0), atol=1e-14)
        assert repr(loss) == repr(whole)
        drawn = loss.draw(np.random.default_rng(0), 5)
        np.testing.assert_array_equal(drawn.mean, loss.everything().mean)
    problem = wp.Problem(loss, wp.penalties.L1(0.05), wp.spectral.NuclearBall(0.5))
    other = wp.Problem(whole, wp.penalties.L1(0.05), wp.spectral.NuclearBall(0.5))
    found, wanted = (wp.minimize(p, progress=False) for p in (problem, other))
    assert found.certified
    assert found.value == pytest.approx(wanted.value, rel=1e-9)


def test_samples_that_are_no_stream_of_matrices():
    with pytest.raises(InputError, match="an empty stream"):
        wp.losses.Denoising(samples=iter(()))
    with pytest.raises(InputError, match="a stream of pairs"):
        wp.losses.Denoising(samples=iter([(ALL[0], 1.0)]))
    with pytest.raises(SamplerError, match="item 1 of the stream: got NaN"):
        wp.losses.Denoising(samples=iter([ALL[0], NAN]))


def test_a_stream_is_a_sampler():
    M = np.outer(np.arange(1.0, 5.0), [1.0, 0.0, 2.0])

    def source():
        rng = np.random.default_rng(3)
        while True:
            yield M + 0.1 * rng.standard_normal((16, *SHAPE))

    with Stream(source, prefetch=2) as stream:
        loss = wp.losses.Denoising(sampler=stream, shape=SHAPE)
        problem = wp.Problem(loss, wp.penalties.L1(0.1), wp.spectral.NuclearBall(8.0))
        found = wp.minimize(problem, tol=0.05, progress=False)
        assert found.status.reached
        assert stream.tell() > 256
    short = wp.losses.Denoising(sampler=Stream(matrices(30)), shape=SHAPE)
    problem = wp.Problem(short, None, wp.spectral.NuclearBall(1.0))
    with pytest.raises(SamplerError, match=r"^stream: got its end after 30"):
        wp.minimize(problem, tol=0.1)


def test_pairs_are_a_sampler_of_measurements():
    truth = np.outer([1.0, 2.0, 0.0, 1.0], [1.0, 0.0, 1.0])

    def source():
        rng = np.random.default_rng(4)
        while True:
            A = rng.standard_normal(SHAPE)
            yield A, float((A * truth).sum())

    loss = wp.losses.Sensing(
        sampler=Stream(source), shape=SHAPE, smoothness=1.0, strong_convexity=1.0, sigma=4.0
    )
    problem = wp.Problem(loss, None, wp.spectral.NuclearBall(10.0))
    found = wp.minimize(problem, tol=None, eps=0.05, max_samples=20_000, progress=False)
    assert np.linalg.norm(found.X - truth) < 0.5

"""The overview figure draws every kind of result, and refuses what does not fit."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from registry import NUMPY, SHAPE, TORCH, denoising_sampler, numbers

import weakprox as wp
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.report import overview
from weakprox.spectral import NuclearBall, TracePSD

M = numbers(*SHAPE)
SYM = numbers(6, 6) + numbers(6, 6).T


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def solve(problem, **options):
    return wp.minimize(problem, wp.SVRGCG(2), **{"eps": 1.0, **options})


def results(backend):
    ball = NuclearBall(2.0)
    loss = Denoising(backend.array(M))
    yield "plain", solve(wp.Problem(loss, L1(0.2), ball))
    sampled = wp.Problem(denoising_sampler(backend), L1(0.2), ball)
    yield "sampled", solve(sampled, max_svds=60)
    if backend is not NUMPY:
        return
    yield "many looks", solve(wp.Problem(loss, L1(0.2), ball), eps=1e-4, max_svds=200)
    yield "no looks", solve(wp.Problem(loss, L1(0.2), ball), eps=1e-9, max_svds=0)
    yield "zero", solve(wp.Problem(loss, L1(100.0), ball), eps=0.1)


@pytest.mark.parametrize(("backend", "with_data"), [(NUMPY, True), (TORCH, False)])
def test_every_kind_of_result(backend, with_data, tmp_path):
    for name, result in results(backend):
        figure = overview(result, backend.array(M) if with_data else None)
        titles = [ax.get_title() for ax in figure.axes]
        assert f"the answer, rank {result.rank}" in titles
        assert ("the data" in titles) == with_data
        assert "history of the run" in titles
        assert result.status.label in figure.get_suptitle()
        path = tmp_path / f"{name}.png"
        figure.savefig(path, dpi=20)
        assert path.stat().st_size > 0


def test_labels_mark_blocks():
    result = solve(wp.Problem(Denoising(SYM), L1(0.2), TracePSD(4.0)))
    figure = overview(result, SYM, labels=["a", "a", "a", "b", "b", "c"])
    answer = next(ax for ax in figure.axes if ax.get_title().startswith("the answer"))
    assert [text.get_text() for text in answer.get_yticklabels()] == ["a", "b", "c"]
    assert answer.get_yticks() == pytest.approx([1.0, 3.5, 5.0])
    assert len(answer.lines) == 4  # two borders, across and down


def test_missing_entries_in_the_data_are_left_out():
    result = solve(wp.Problem(Denoising(M), L1(0.2), NuclearBall(2.0)))
    overview(result, np.where(np.abs(M) > 0.5, M, np.nan)).savefig("/dev/null", format="png")


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"result": 3}, "result"),
        ({"data": M.T}, "data"),
        ({"data": "text"}, "data"),
        ({"labels": ["a"]}, "labels"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, argument):
    result = solve(wp.Problem(Denoising(NUMPY.array(M)), L1(0.2), NuclearBall(2.0)))
    with pytest.raises(wp.InputError) as caught:
        overview(**{"result": result, **arguments})
    assert caught.value.argument == argument

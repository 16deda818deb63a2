"""Spellings of earlier versions warn, and are the classes that replaced them."""

import copy
import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
from registry import numbers

import weakprox as wp
from weakprox.experiments.ablation import Arm
from weakprox.losses import Denoising
from weakprox.penalties import L1
from weakprox.solvers import AdaptiveSVRGCG
from weakprox.spectral import NuclearBall

PROBLEM = wp.Problem(Denoising(numbers(8, 6, seed=3)), L1(0.1), NuclearBall(3.0))


def solved(solver, **options):
    return wp.minimize(PROBLEM, solver, eps=0.05, seed=2, progress=False, **options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"constants": "practical"}, AdaptiveSVRGCG(3)),
        ({"constants": "practical", "k_t": 4}, AdaptiveSVRGCG(3, k_t=4)),
        ({"oracle": "exact"}, Arm(3, oracle="exact")),
        ({"oracle": "weak"}, Arm(3)),
        ({"variance_reduction": False}, Arm(3, variance_reduction=False)),
        (
            {"constants": "paper", "oracle": "exact", "variance_reduction": False},
            Arm(3, "paper", oracle="exact", variance_reduction=False),
        ),
    ],
    ids=str,
)
def test_an_old_spelling_is_its_new_class(old, new):
    with pytest.warns(DeprecationWarning, match=type(new).__name__):
        solver = wp.SVRGCG(3, **old)
    assert solver == new
    assert repr(solver) == repr(new)
    found, wanted = solved(solver), solved(new)
    assert np.array_equal(found.X, wanted.X)
    assert found.counts == wanted.counts
    assert found.solver == wanted.solver == type(new).__name__


def test_a_checkpoint_of_one_spelling_resumes_with_the_other(tmp_path):
    with pytest.warns(DeprecationWarning, match="AdaptiveSVRGCG"):
        old = wp.SVRGCG(rank="estimate", constants="practical")
    whole = solved(AdaptiveSVRGCG("estimate"))
    part = solved(old, max_svds=3, checkpoint=tmp_path / "run")
    assert part.status is wp.Status.MAX_SVDS
    rest = solved(AdaptiveSVRGCG("estimate"), checkpoint=tmp_path / "run", resume=True)
    assert np.array_equal(rest.X, whole.X)
    assert rest.value == whole.value


def test_an_arm_of_the_practical_variant_is_refused():
    with pytest.warns(DeprecationWarning, match="Arm"):
        solver = wp.SVRGCG(3, constants="practical", oracle="exact")
    with pytest.raises(wp.InputError, match="'repaired' or 'paper'"):
        solved(solver)


def test_objects_are_copied_as_before():
    with pytest.warns(DeprecationWarning, match="Arm"):
        old = wp.SVRGCG(3, variance_reduction=False)
    for solver in (wp.SVRGCG(3), old):
        for other in (pickle.loads(pickle.dumps(solver)), copy.deepcopy(solver)):
            assert other == solver
        assert replace(solver, rank=5).rank == 5
        assert type(replace(solver, rank=5)) is type(solver)
    assert list(inspect.signature(wp.SVRGCG).parameters)[:3] == ["rank", "constants", "mu"]


def test_the_papers_own_settings_do_not_warn():
    assert type(wp.SVRGCG(3, "paper")) is wp.SVRGCG
    assert type(wp.SVRGCG("estimate")) is wp.SVRGCG

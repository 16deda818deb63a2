"""Bad problems, solvers and arguments of minimize: typed errors before any work."""

import numpy as np
import pytest
import torch
from registry import NUMPY, SHAPE, TORCH, numbers

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising
from weakprox.penalties import L1, ElasticNet, MaxAffine
from weakprox.spectral import NuclearBall, TracePSD

M = numbers(*SHAPE)
SYM = numbers(5, 5) + numbers(5, 5).T
LOSS, BALL = Denoising(M), NuclearBall(2.0)
NAN, INF = np.nan, np.inf


class Watched(NuclearBall):
    """A ball that notices work."""

    calls = 0

    def weak_prox(self, A, **options):
        type(self).calls += 1
        return super().weak_prox(A, **options)


WATCHED = Watched(2.0)
PROBLEM = wp.Problem(LOSS, L1(0.1), WATCHED)


def refused(call, argument, *words, kind=wp.InputError):
    before = Watched.calls
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.argument == argument
    assert "; wanted " in str(caught.value)
    for word in words:
        assert word in str(caught.value)
    assert Watched.calls == before  # before any work


def minimise(problem=PROBLEM, solver=None, **options):
    solver = wp.SVRGCG(2) if solver is None else solver
    return wp.minimize(problem, solver, **{"eps": 0.5, **options})


@pytest.mark.parametrize(
    ("terms", "argument", "word"),
    [
        ((None, None, BALL), "loss", "Denoising(M)"),
        ((Denoising, None, BALL), "loss", "Denoising(...)"),
        ((M, None, BALL), "loss", "Denoising(M)"),
        ((BALL, None, LOSS), "loss", "the order loss, penalty, spectral"),
        (("M.csv", None, BALL), "loss", "an object with"),
        ((LOSS, L1, BALL), "penalty", "L1(...)"),
        ((LOSS, 2.0, BALL), "penalty", "L1(2.0)"),
        ((LOSS, BALL, BALL), "penalty", "the order loss, penalty, spectral"),
        ((LOSS, "l1", BALL), "penalty", "an object with"),
        ((LOSS, None, None), "spectral", "NuclearBall(1.0)"),
        ((LOSS, None, NuclearBall), "spectral", "NuclearBall(...)"),
        ((LOSS, None, 3.0), "spectral", "NuclearBall(3.0)"),
        ((LOSS, None, L1(1.0)), "spectral", "the order loss, penalty, spectral"),
        ((LOSS, None, "ball"), "spectral", "an object with"),
    ],
)
def test_wrong_objects_in_a_problem(terms, argument, word):
    refused(lambda: wp.Problem(*terms), argument, word)


def test_terms_that_do_not_fit():
    shape_error = {"kind": wp.ShapeError}
    refused(lambda: wp.Problem(LOSS, None, TracePSD(1.0)), "spectral", "square", **shape_error)
    refused(lambda: wp.Problem(Denoising(M[:5]), None, TracePSD(1.0)), "M", "symmetric")
    pieces = MaxAffine(np.ones((2, 5, 7)))
    refused(lambda: wp.Problem(LOSS, pieces, BALL), "penalty", "(5, 7)", **shape_error)
    refused(lambda: wp.Problem(LOSS, L1(1.0) + pieces, BALL), "penalty", **shape_error)


def test_terms_of_different_namespaces():
    pieces = np.ones((2, *SHAPE))
    mixed = [
        (Denoising(TORCH.array(M)), MaxAffine(pieces)),
        (LOSS, MaxAffine(TORCH.array(pieces))),
    ]
    for loss, penalty in mixed:
        refused(lambda a=loss, b=penalty: wp.Problem(a, b, BALL), "penalty", "like the loss's")


def test_no_strong_convexity():
    problem = wp.Problem(Completion([0], [0], [1.0], SHAPE), L1(1.0), BALL)
    weak = wp.Problem(Completion([0], [0], [1.0], SHAPE), ElasticNet(1.0, 0.0), BALL)
    for call in (
        lambda: wp.minimize(problem, wp.SVRGCG(2), eps=1.0),
        lambda: wp.theory.parameters(problem, 1.0),
        lambda: wp.minimize(weak, wp.SVRGCG(2), eps=1.0),
    ):
        refused(call, "problem", "ElasticNet", "lam2", kind=wp.ConvexityError)


@pytest.mark.parametrize("bad", [None, M, "problem", LOSS, wp.Problem])
def test_wrong_problems(bad):
    refused(lambda: wp.minimize(bad, wp.SVRGCG(2), eps=1.0), "problem", "weakprox.Problem")
    refused(lambda: wp.theory.parameters(bad, 1.0), "problem", "weakprox.Problem")


@pytest.mark.parametrize(
    "bad", [NuclearBall, wp.Problem, 3, BALL, []], ids=["term", "class", "int", "h", "list"]
)
def test_wrong_solvers(bad):
    refused(lambda: minimise(solver=bad), "solver", "SVRGCG(rank=10)")


@pytest.mark.parametrize("bad", ["", "svrg", "davis yin", "none"])
def test_wrong_names_of_solvers(bad):
    refused(lambda: minimise(solver=bad), "solver", "one of auto, admm, fista, hcgm")


@pytest.mark.parametrize(
    "bad", [0, -1, 2.0, True, None, "auto", np.array([1, 2]), NAN, [2]], ids=repr
)
def test_ranks(bad):
    refused(lambda: minimise(solver=wp.SVRGCG(bad)), "rank", "an integer >= 1, or 'estimate'")


@pytest.mark.parametrize("bad", [0, -1.0, NAN, INF, "a", "1", None, True, 1j, [1.0]], ids=repr)
def test_eps(bad):
    if bad is not None:  # as if it were not given
        refused(lambda: minimise(eps=bad), "eps")
    refused(lambda: wp.theory.parameters(PROBLEM, bad), "eps")


NUMBERS = [-1.0, NAN, INF, "a", [1.0], True]


@pytest.mark.parametrize("name", ["mu", "C0", "sigma", "delta", "delta2"])
@pytest.mark.parametrize("bad", NUMBERS, ids=repr)
def test_solver_numbers(name, bad):
    refused(lambda: minimise(solver=wp.SVRGCG(2, **{name: bad})), name)
    refused(lambda: wp.theory.parameters(PROBLEM, 1.0, **{name: bad}), name)


@pytest.mark.parametrize("name", ["eta", "k_s", "inner", "epochs"])
@pytest.mark.parametrize("bad", [*NUMBERS, 0], ids=repr)
def test_solver_schedules(name, bad):
    refused(lambda: minimise(solver=wp.SVRGCG(2, **{name: bad})), name)


def test_other_settings():
    refused(lambda: minimise(solver=wp.SVRGCG(2, eta=1.5)), "eta", "(0, 1]")
    refused(lambda: minimise(solver=wp.SVRGCG(2, epochs=1.5)), "epochs")
    refused(lambda: minimise(solver=wp.SVRGCG(2, epochs=lambda s: 2)), "epochs")
    refused(lambda: minimise(solver=wp.SVRGCG(2, answer="best")), "answer", "low_rank")
    refused(lambda: minimise(solver=wp.SVRGCG(2, constants="mine")), "constants", "repaired")
    refused(lambda: minimise(solver=wp.SVRGCG(2, delta2=0.4)), "delta2", "7/16")


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("seed", -1),
        ("seed", 1.5),
        ("seed", "a"),
        ("seed", True),
        ("seed", np.random.RandomState(0)),
        ("max_seconds", -1),
        ("max_seconds", "a"),
        ("max_seconds", NAN),
        ("max_samples", 1.5),
        ("max_samples", -1),
        ("max_svds", -1),
        ("max_svds", "a"),
        ("callback", 3),
        ("progress", "yes"),
        ("progress", None),
        ("look_every", 0),
        ("look_every", 1.5),
        ("evaluation_samples", 1),
        ("resume", 3),
        ("resume", "text"),
        ("resume", PROBLEM),
    ],
)
def test_options(name, bad):
    refused(lambda: minimise(**{name: bad}), name)


STARTS = {
    "outside the ball": M,
    "nan": M * NAN,
    "inf": M * INF,
    "transposed": M.T * 0.01,
    "empty": np.zeros((0, 0)),
    "complex": np.zeros(SHAPE, dtype=complex),
    "strings": np.full(SHAPE, "a"),
    "objects": np.zeros(SHAPE, dtype=object),
    "torch": torch.zeros(SHAPE, dtype=torch.float64),
    "text": "text",
    "list": [[0.0]],
}


@pytest.mark.parametrize("name", STARTS)
def test_starts(name):
    refused(lambda: minimise(start=STARTS[name]), "start")


def test_starts_in_another_namespace():
    problem = wp.Problem(Denoising(TORCH.array(M)), None, BALL)
    refused(lambda: minimise(problem, start=np.zeros(SHAPE)), "start", "Tensor")


def test_starts_outside_the_cone():
    problem = wp.Problem(Denoising(SYM), None, TracePSD(3.0))
    refused(lambda: minimise(problem, start=-np.eye(5)), "start", "outside")
    refused(lambda: minimise(problem, start=0.01 * numbers(5, 5)), "start", "outside")
    refused(lambda: minimise(problem, start=np.eye(5)), "start", "outside")
    assert minimise(problem, start=0.5 * np.eye(5)).violation <= 1e-9


def test_starts_on_the_boundary_are_fine():
    edge = BALL.random_point(np.random.default_rng(0), SHAPE, 3, M).dense()
    assert np.isfinite(minimise(start=edge).value)
    refused(lambda: minimise(start=edge * (1 + 1e-7)), "start", "outside")
    single = wp.Problem(Denoising(M.astype(np.float32)), None, BALL)
    assert np.isfinite(minimise(single, start=edge.astype(np.float32)).value)


def test_constants_that_contradict_each_other():
    def build(**constants):
        half = {"value": lambda X: 0.5 * float(np.sum(X * X)), "grad": lambda X: X * 1.0}
        loss = Custom(SHAPE, **half, **constants)
        return wp.Problem(loss, None, BALL)

    steep = build(strong_convexity=5.0, smoothness=1.0)
    refused(lambda: minimise(steep), "smoothness", "strong_convexity = 5")
    flat = build(strong_convexity=1.0, smoothness=0.0)
    refused(lambda: minimise(flat), "smoothness")


def test_missing_arguments_are_named_by_python():
    for call, name in (
        (lambda: wp.Problem(LOSS), "spectral"),
        (lambda: NuclearBall(), "tau"),
        (lambda: L1(), "lam"),
    ):
        with pytest.raises(TypeError, match=name):
            call()


def test_a_relative_accuracy_needs_a_value_that_is_not_zero():
    """Methods that plan their work need the size of f, and zero has none."""
    zero = wp.Problem(Denoising(0.0 * M), None, BALL)
    for solver in (wp.SVRGCG(2), wp.solvers.FISTA()):
        refused(lambda solver=solver: wp.minimize(zero, solver, tol=1e-3), "tol", "eps instead")
    assert wp.minimize(zero, progress=False).status is wp.Status.CERTIFIED


def test_no_penalty_is_no_error():
    assert wp.Problem(Denoising(NUMPY.array(M)), None, BALL).penalty.value(M) == 0.0

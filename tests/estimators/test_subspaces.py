"""SubspaceClustering: scikit-learn's rules, the model, the graph, and what it finds."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakprox import InputError, Status, SubspaceClustering, minimize
from weakprox.checks import check_gradient
from weakprox.estimators import _base as base
from weakprox.estimators import _stability, subspaces
from weakprox.estimators._affinities import Coefficients, Neighbors, Ranked
from weakprox.estimators._stability import (
    Embedded,
    assigned,
    clustered,
    eigengap,
    eigenpairs,
    normalized_cut,
    rand_index,
    stability,
)
from weakprox.estimators.subspaces import (
    Prepared,
    SelfExpression,
    low_rank_solution,
    self_expression,
)
from weakprox.linalg.lowrank import LowRank
from weakprox.plots import MatrixDisplay
from weakprox.selection.search import Deadline


def union(count, dim, ambient, each, noise, seed=0):
    """Samples of random subspaces, and which subspace each is of."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((ambient, dim)))[0] for _ in range(count)]
    X = np.vstack([rng.standard_normal((each, dim)) @ Q.T for Q in bases])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X += noise * rng.standard_normal(X.shape) / np.sqrt(ambient)
    return X, np.repeat(np.arange(count), each)


def accuracy(truth, labels):
    found = confusion_matrix(truth, labels)
    return found[linear_sum_assignment(-found)].sum() / len(truth)


X, Y = union(3, 3, 30, 30, 0.2)
Z = Prepared.of(X).Z


@pytest.fixture(scope="module")
def fitted():
    return SubspaceClustering(random_state=0).fit(X)


@pytest.mark.filterwarnings("ignore:SubspaceClustering. no number of clusters:UserWarning")
@parametrize_with_checks([SubspaceClustering(2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:SubspaceClustering. no number of clusters:UserWarning")
@parametrize_with_checks([SubspaceClustering(), SubspaceClustering(zero_diagonal=True)])
def test_scikit_learn_checks_of_the_search(estimator, check):
    check(estimator)


@pytest.mark.parametrize("zero_diagonal", [False, True])
def test_the_model_is_the_one_stated(zero_diagonal):
    cp = pytest.importorskip("cvxpy")
    A, _ = union(2, 2, 8, 7, 0.1)
    settings = {"nuclear": 0.05, "lam": 0.02, "ridge": 0.1, "zero_diagonal": zero_diagonal}
    model = SubspaceClustering(2, tol=1e-6, **settings, random_state=0).fit(A)
    data = Prepared.of(A).Z.T
    C = cp.Variable((len(A), len(A)))
    objective = 0.5 * cp.sum_squares(data - data @ C) + 0.05 * cp.sum_squares(C)
    objective += 0.05 * cp.normNuc(C) + 0.02 * cp.sum(cp.abs(C))
    limits = [cp.diag(C) == 0] if zero_diagonal else []
    task = cp.Problem(cp.Minimize(objective), limits)
    task.solve(solver=cp.CLARABEL)
    size = np.abs(C.value).max()
    np.testing.assert_allclose(model.coefficients_, C.value, atol=5e-3 * size)
    assert model.result_.value == pytest.approx(task.value, rel=1e-4)
    assert model.certificate_.gap <= 1e-6 * model.result_.value
    assert model.certificate_.lower_bound <= task.value * (1 + 1e-6)


def test_without_l1_the_answer_has_a_closed_form():
    model = SubspaceClustering(
        3, nuclear=0.05, lam=0.0, ridge=0.1, tol=1e-6, random_state=0
    ).fit(X)
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    expected = (U * (np.maximum(s**2 - 0.05, 0) / (s**2 + 0.1))) @ U.T
    np.testing.assert_allclose(model.coefficients_, expected, atol=1e-3 * expected.max())


def test_loss_and_penalty_keep_their_word():
    loss = SelfExpression(Z[:20])
    check_gradient(loss)
    C = np.random.default_rng(0).standard_normal((20, 20))
    value, slope = loss.origin
    gradient = loss.grad(C, loss.everything())
    expected = value + 0.5 * (np.vdot(C, gradient) + np.vdot(C, slope))
    assert loss.value(C, loss.everything()) == pytest.approx(expected)
    for lam in (0.0, 0.3):
        penalty = self_expression(Z[:20], 0.5, lam, 0.2, zero_diagonal=True).penalty
        off = np.abs(C).sum() - np.abs(np.diag(C)).sum()
        steep = 0.5 + np.sum(Z[:20] ** 2, axis=1).max()
        expected = lam * off + steep * np.abs(np.diag(C)).sum() + 0.1 * np.sum(C**2)
        assert penalty.value(C) == pytest.approx(expected)


def test_samples_are_prepared_as_documented():
    data = Prepared.of(7.0 * X + 0.0)
    np.testing.assert_allclose(data.Z @ data.Z.T, Z @ Z.T, atol=1e-12)  # lengths do not matter
    assert np.linalg.norm(data.Z, 2) == pytest.approx(1.0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    largest = np.linalg.norm(centred, 2)
    own = data.Z[:, :-1]
    np.testing.assert_allclose(own @ own.T, centred @ centred.T / largest**2, atol=1e-12)
    assert np.ptp(data.Z[:, -1]) == 0.0
    far = Prepared.of(X + 100.0)  # a long mean is cut to the leading direction
    assert np.linalg.norm(far.Z[:, -1]) == pytest.approx(1.0)


def test_noise_sets_the_weights():
    quiet, loud = (
        Prepared.of(union(3, 3, 60, 60, noise)[0]).weights((180, 60)) for noise in (0.05, 0.2)
    )
    assert quiet[0] < loud[0]
    assert quiet[1] < loud[1]
    rng = np.random.default_rng(0)
    noise = Prepared(rng.standard_normal((180, 60)) * 1e-3, 1e-3)
    largest = np.linalg.norm(noise.Z, 2) ** 2
    assert noise.weights((180, 60))[0] == pytest.approx(max(largest, 1e-3), rel=0.3)


def test_subspaces_are_found_and_counted(fitted):
    assert fitted.n_clusters_ == 3
    assert accuracy(Y, fitted.labels_) == 1.0
    assert fitted.result_.status is Status.CERTIFIED
    W = fitted.affinity_matrix_
    np.testing.assert_allclose(W, W.T)
    assert (W >= 0).all()
    assert not np.diag(W).any()
    same = Y[:, None] == Y
    assert W[same].sum() > 5 * W[~same].sum()


@pytest.mark.parametrize(("count", "dim", "ambient", "each"), [(8, 4, 25, 25), (5, 4, 50, 20)])
def test_it_beats_k_means(count, dim, ambient, each):
    A, truth = union(count, dim, ambient, each, 0.2, seed=1)
    ours = accuracy(truth, SubspaceClustering(count, random_state=0).fit_predict(A))
    simple = accuracy(truth, KMeans(count, n_init=5, random_state=0).fit_predict(A))
    assert ours > 0.95
    assert simple < 0.6


def test_both_terms_together_beat_either_alone():
    """Wang, Xu & Leng: l1 keeps subspaces apart, the nuclear norm keeps them connected."""
    total, found = 0.03, []
    for seed in range(3):
        A, truth = union(6, 4, 20, 16, 0.1, seed)
        same = (truth[:, None] == truth) & ~np.eye(len(truth), dtype=bool)
        apart = truth[:, None] != truth
        for nuclear, lam in ((total, 0.0), (total / 2, total / 2), (1e-3 * total, total)):
            model = SubspaceClustering(
                6, nuclear=nuclear, lam=lam, ridge=1e-3, zero_diagonal=True, random_state=0
            ).fit(A)
            sizes = np.abs(model.coefficients_)
            inside = np.sort(sizes[same])
            ranks = np.arange(1, len(inside) + 1)
            gini = 2 * np.sum(ranks * inside) / (len(inside) * inside.sum()) - 1
            violation = sizes[apart].sum() / inside.sum()
            found.append([violation, gini, 1 - accuracy(truth, model.labels_)])
    low_rank, both, sparse = np.array(found).reshape(3, 3, 3).mean(axis=0)
    assert sparse[0] < both[0] < 0.2 * low_rank[0]
    assert low_rank[1] < both[1] < sparse[1] - 0.1
    assert both[2] < min(low_rank[2], sparse[2])


def test_a_sample_need_not_explain_itself():
    settings = {"nuclear": 1e-3, "lam": 0.01}
    own = SubspaceClustering(3, **settings, random_state=0).fit(X)
    none = SubspaceClustering(3, zero_diagonal=True, **settings, random_state=0).fit(X)
    left = np.abs(np.diag(none.coefficients_)).max()
    assert left < 0.05 * np.abs(none.coefficients_).max()
    assert np.diag(own.coefficients_).min() > 5 * left
    assert accuracy(Y, none.labels_) == 1.0


def test_lengths_and_rotations_do_not_matter(fitted):
    rng = np.random.default_rng(0)
    turned = X @ np.linalg.qr(rng.standard_normal((30, 30)))[0]
    turned *= rng.uniform(0.1, 10.0, (len(X), 1))
    model = SubspaceClustering(3, random_state=0).fit(turned)
    assert accuracy(fitted.labels_, model.labels_) == 1.0


def test_affine_subspaces_far_from_the_origin():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20)) for _ in range(2)]
    A = np.vstack([part + 3 * rng.standard_normal(20) for part in parts]) + 20.0
    labels = SubspaceClustering(2, random_state=0).fit_predict(A)
    assert accuracy(np.repeat([0, 1], 30), labels) == 1.0


def test_graphs():
    A = np.array([[9.0, 2.0, 1.0], [3.0, 9.0, 6.0], [1.0, 4.0, 9.0]])
    ranked = Ranked.of(lambda some: A[some].copy(), 3, 2)
    np.testing.assert_array_equal(ranked.nearest, [[1, 2], [2, 0], [1, 0]])
    expected = [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    np.testing.assert_allclose(ranked.among(np.arange(3), 1).toarray(), expected)
    expected = [[0, 1, 0.5], [0.5, 0, 1], [0.25, 1, 0]]
    np.testing.assert_allclose(ranked.among(np.arange(3), 2).toarray(), expected)
    np.testing.assert_allclose(ranked.among([0, 2], 1).toarray(), [[0, 1], [1, 0]])
    blocks = csr_array(np.kron(np.eye(4), np.ones((6, 6))))
    assert eigengap(blocks, range(2, 10)) == 4
    U = np.linalg.qr(np.kron(np.eye(3), np.ones((5, 1))))[0]
    graph = Coefficients.of(LowRank(U, np.ones(3), U.T), 8.0, None)
    W = graph.affinity(np.arange(15), graph.kept(15, 3)).toarray()
    same = np.kron(np.eye(3), np.ones((5, 5))).astype(bool)
    assert W[~same].max() < 1e-9
    np.testing.assert_allclose(W[same & ~np.eye(15, dtype=bool)], 1.3)


def test_less_accuracy_and_time_are_said_so():
    hurried = {"tol": 1e-9, "max_seconds": 0.0, "random_state": 0}
    model = SubspaceClustering(3, graph="coefficients", **hurried)
    with pytest.warns(ConvergenceWarning, match="nothing is proved"):
        model.fit(X)
    assert model.result_.status is Status.MAX_SECONDS
    assert not model.result_.certified
    quick = SubspaceClustering(3, **hurried).fit(X)  # cluster neighbours, solve nothing
    assert (quick.graph_, len(set(quick.labels_))) == ("neighbors", 3)
    assert np.isnan(quick.stability_)
    fine = SubspaceClustering(3, tol=1e-5, random_state=0).fit(X)
    assert fine.certificate_.gap <= 1e-5 * fine.result_.value
    problem = self_expression(Z, fine.nuclear_, fine.lam_, 0.1, zero_diagonal=False)
    again = minimize(problem, tol=1e-5, progress=False)
    assert fine.result_.value == pytest.approx(again.value)


@pytest.mark.parametrize("count", [1, 6])
def test_trivial_numbers_of_clusters(count):
    labels = SubspaceClustering(count, random_state=0).fit_predict(X[:6])
    assert len(set(labels)) == count


@pytest.mark.parametrize(
    "A",
    [X[:2], X[:3, :1], np.ones((5, 3)), np.zeros((5, 3)), 1e8 * X[:9], 1e-8 * X[:9]],
    ids=["two samples", "one feature", "all equal", "all zero", "large", "small"],
)
def test_tiny_and_constant_data_have_an_answer(A):
    model = SubspaceClustering(random_state=0).fit(A)
    assert model.labels_.shape == (len(A),)
    assert np.isfinite(model.coefficients_).all()
    near = SubspaceClustering(random_state=0, graph="neighbors").fit(A)
    assert near.labels_.shape == (len(A),)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_labels(frame, fitted):
    names = [f"f{i}" for i in range(X.shape[1])]
    model = SubspaceClustering(3, random_state=0).fit(frame(dict(zip(names, X.T, strict=True))))
    assert list(model.feature_names_in_) == names
    np.testing.assert_array_equal(model.labels_, fitted.labels_)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 2.0}, "n_clusters"),
        ({"n_clusters": "many"}, "n_clusters"),
        ({"n_clusters": 91}, "n_clusters"),
        ({"nuclear": 0.0}, "nuclear"),
        ({"nuclear": "big"}, "nuclear"),
        ({"lam": -1.0}, "lam"),
        ({"ridge": 0.0}, "ridge"),
        ({"power": 0.0}, "power"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"n_neighbors": "many"}, "n_neighbors"),
        ({"zero_diagonal": "no"}, "zero_diagonal"),
        ({"graph": "knn"}, "graph"),
    ],
)
def test_bad_settings_are_named(settings, name):
    with pytest.raises(InputError, match=name):
        SubspaceClustering(**settings, random_state=0).fit(X)


def test_copies(fitted):
    stored = pickle.dumps(fitted)
    assert len(stored) < 20 * fitted.coefficients_.nbytes  # no checkpoint of the solver in it
    np.testing.assert_array_equal(pickle.loads(stored).labels_, fitted.labels_)
    assert clone(fitted).get_params() == fitted.get_params()
    again = clone(fitted).fit(X)
    np.testing.assert_array_equal(again.affinity_matrix_, fitted.affinity_matrix_)
    assert str(fitted.certificate_) in fitted._repr_html_()


def test_small_clusters_keep_few_neighbours():
    """With 20 of them, most neighbours would belong to other clusters."""
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((8, 2)) @ rng.standard_normal((2, 12)) for _ in range(12)]
    data = np.vstack(sets) + 0.1 * rng.standard_normal((96, 12))
    truth = np.repeat(np.arange(12), 8)
    few = SubspaceClustering(12, random_state=0).fit(data)
    many = SubspaceClustering(12, n_neighbors=20, random_state=0).fit(data)
    assert (few.n_neighbors_, many.n_neighbors_) == (8, 20)
    right = adjusted_rand_score(truth, few.labels_)
    assert right > adjusted_rand_score(truth, many.labels_) + 0.05
    assert SubspaceClustering(3, random_state=0).fit(X).n_neighbors_ == 20


def test_numbers_of_clusters_share_few_graphs(monkeypatch):
    kept, plain = [], Coefficients.affinity

    def affinity(graph, members, count):
        kept.append(count)
        return plain(graph, members, count)

    monkeypatch.setattr(Coefficients, "affinity", affinity)
    Z = Prepared.of(np.random.default_rng(0).standard_normal((160, 20))).Z
    C = low_rank_solution(Z, 1e-3, 0.1)
    for n_neighbors, wanted in (("auto", {20, 15, 12, 10, 8}), (13, {13}), (30, {30})):
        kept.clear()
        graph = Coefficients.of(C, 8.0, n_neighbors)
        assert all(k <= graph.kept(160, 2) for k in wanted)
        Embedded.of(graph, range(2, 21), np.arange(160))
        assert len(kept) == len(set(kept))
        assert set(kept) == wanted


@pytest.mark.parametrize("copies", [1, 30])  # a small graph, and a large sparse one
def test_labels_of_an_embedding(copies):
    sizes = np.array([5, 9, 3, 7]) * copies
    truth = np.repeat(np.arange(4), sizes)
    same = truth[:, None] == truth
    near = np.abs(np.arange(len(truth))[:, None] - np.arange(len(truth))) <= 4
    W = csr_array((same & near & ~np.eye(len(truth), dtype=bool)).astype(float))
    values, V = eigenpairs(W, 5)
    assert values[3] < 1e-6 < values[4]
    np.testing.assert_allclose(values[4], np.linalg.eigvalsh(normalised(W))[4], rtol=1e-3)
    assert adjusted_rand_score(truth, assigned(V[:, :4])) == 1.0
    assert adjusted_rand_score(truth, clustered(W, 4, 0)) == 1.0
    assert normalized_cut(W, truth) == pytest.approx(0.0)


def normalised(W):
    """The normalised Laplacian of a graph."""
    scale = 1.0 / np.sqrt(W.sum(axis=0))
    return np.eye(W.shape[0]) - scale[:, None] * W.toarray() * scale


def test_the_cut_is_the_mean_share_that_leads_out():
    W = csr_array(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    assert normalized_cut(W, np.array([0, 0, 1])) == pytest.approx((1 / 5 + 1) / 2)
    assert normalized_cut(W, np.array([0, 0, 0])) == pytest.approx(0.0)


def test_the_agreement_is_the_adjusted_rand_index():
    rng = np.random.default_rng(0)
    for k, m in ((1, 1), (1, 4), (3, 3), (5, 2)):
        a, b = rng.integers(0, k, 40), rng.integers(0, m, 40)
        assert rand_index(a, b) == pytest.approx(adjusted_rand_score(a, b))
        assert rand_index(a, a) == 1.0


def test_neighbours_are_those_of_the_rows():
    points = np.array([[0.0], [1.0], [3.0], [7.0]])
    graph = Neighbors.of(points)
    expected = [[0, 1, 1, 0], [1, 0, 1, 0.5], [1, 1, 0, 0.5], [0, 0.5, 0.5, 0]]
    np.testing.assert_allclose(graph.affinity(np.arange(4), 2).toarray(), expected)
    expected = [[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]]
    np.testing.assert_allclose(graph.affinity([0, 1, 3], 1).toarray(), expected)
    kept = [graph.kept(size, 3) for size in (2, 3, 6, 15, 60)]
    assert kept == [1, 2, 2, 5, 10]


@pytest.mark.parametrize(
    ("count", "dim", "ambient", "each", "noise"), [(5, 4, 50, 20, 0.2), (8, 4, 25, 25, 0.2)]
)
@pytest.mark.usefixtures("thorough")
def test_the_number_of_clusters_is_the_stable_one(count, dim, ambient, each, noise):
    A, truth = union(count, dim, ambient, each, noise, seed=1)
    model = SubspaceClustering(random_state=0).fit(A)
    assert (model.n_clusters_, model.graph_) == (count, "coefficients")
    assert model.stability_ > 0.95
    assert accuracy(truth, model.labels_) > 0.95


def test_a_number_is_asked_for_if_none_is_stable():
    noise = np.random.default_rng(0).standard_normal((60, 40))
    with pytest.warns(UserWarning, match="give n_clusters"):
        model = SubspaceClustering(random_state=0).fit(noise)
    assert model.stability_ < 0.9
    assert len(set(model.labels_)) == model.n_clusters_


def test_neighbours_are_clustered_where_samples_form_no_subspaces():
    """Three clouds of wines in 13 dimensions."""
    A, truth = load_wine(return_X_y=True)
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    model = SubspaceClustering(3, random_state=0).fit(A)
    assert (model.graph_, model.metric_, model.n_neighbors_) == ("neighbors", "euclidean", 10)
    assert accuracy(truth, model.labels_) > 0.95
    plain = SubspaceClustering(3, graph="coefficients", random_state=0).fit(A)
    assert (plain.graph_, plain.metric_) == ("coefficients", None)
    assert accuracy(truth, plain.labels_) < 0.8
    assert model.stability_ > 0.9 > 0.8 > plain.stability_
    same = SubspaceClustering(3, graph="neighbors", random_state=0).fit(A)
    np.testing.assert_array_equal(same.affinity_matrix_, model.affinity_matrix_)


def test_a_fit_without_coefficients_says_so():
    A, _ = make_blobs(60, 5, centers=3, random_state=0)
    model = SubspaceClustering(3, random_state=0)
    with pytest.raises(NotFittedError):
        _ = model.coefficients_
    model.fit(X)
    assert hasattr(model, "certificate_")
    model.fit(A)  # nothing of the first fit is left
    for name in ("result_", "coefficients_", "certificate_"):
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="graph='coefficients'"):
        _ = model.certificate_
    assert "SubspaceClustering" in model._repr_html_()
    assert MatrixDisplay.from_estimator(model).matrix.shape == (60, 60)
    given = SubspaceClustering(3, lam=0.01, random_state=0).fit(A)  # weights that are given
    assert given.graph_ == "neighbors"
    assert given.result_.certified


def test_nothing_is_solved_where_neighbours_are_cut_cheaply(monkeypatch):
    def called(*_, **__):
        raise AssertionError

    monkeypatch.setattr(subspaces, "self_expression", called)
    A, truth = make_blobs(90, 5, centers=3, random_state=0)
    for count in (3, "auto"):
        labels = SubspaceClustering(count, random_state=0).fit_predict(A)
        assert adjusted_rand_score(truth, labels) == 1.0


def test_directions_are_compared_where_distances_are_not_stable():
    """Rays from the origin in a plane: at any distance, so neighbours are on other rays."""
    rng = np.random.default_rng(0)
    angle = np.repeat(np.linspace(0.0, 1.5, 5), 40) + 0.02 * rng.standard_normal(200)
    length = np.exp(rng.uniform(-3.0, 1.0, 200))
    rays = length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    model = SubspaceClustering(5, graph="neighbors", random_state=0).fit(rays)
    assert model.metric_ == "cosine"
    assert accuracy(np.repeat(np.arange(5), 40), model.labels_) == 1.0


def test_the_solution_without_the_l1_norm(monkeypatch):
    """Left out with many samples, whose number is lowered here."""
    monkeypatch.setattr(subspaces, "LARGE", 50)
    for count in (3, "auto"):
        model = SubspaceClustering(count, tol=1e-6, random_state=0).fit(X)
        assert (model.lam_, model.graph_, model.n_clusters_) == (0.0, "coefficients", 3)
        assert accuracy(Y, model.labels_) == 1.0
        C = low_rank_solution(Z, model.nuclear_, 0.1).dense()
        np.testing.assert_allclose(model.coefficients_, C, atol=1e-3 * C.max())
        problem = self_expression(Z, model.nuclear_, 0.0, 0.1, zero_diagonal=False)
        whole = minimize(problem, tol=1e-6, progress=False)
        assert model.result_.value == pytest.approx(whole.value, rel=1e-5)
        assert model.certificate_.lower_bound <= problem.value(C) * (1 + 1e-12)


@pytest.mark.parametrize("count", [48, 59])
def test_nearly_as_many_clusters_as_samples(count):
    """A subsample has 48 of the samples, in which so many clusters cannot be found again."""
    A, _ = union(3, 2, 15, 20, 0.05, seed=1)
    model = SubspaceClustering(count, random_state=0).fit(A)
    assert model.n_clusters_ == count
    assert np.isnan(model.stability_)


def test_making_the_loss_computes_no_values(monkeypatch):
    """A check of the gradient would take a fifth of the time of a fit."""

    def called(*_):
        raise AssertionError

    monkeypatch.setattr(SelfExpression, "_residual", called)
    SelfExpression(Z[:20])


def test_no_graph_is_decomposed_after_the_deadline():
    """The missing graph would be an error."""
    assert stability(None, 60, [2, 3], 0, Deadline.after(0.0)) is None


def test_no_subsample_is_decomposed_if_there_is_time_for_few(monkeypatch):
    """The whole graph takes a second by this clock, and two seconds are left."""
    made, embed = [], Embedded.of
    monkeypatch.setattr(Embedded, "of", lambda *args: made.append(args) or embed(*args))
    monkeypatch.setattr(_stability.time, "monotonic", lambda: float(len(made)))
    assert stability(Neighbors.of(X), len(X), [2, 3], 0, Deadline(3.0)) is None
    assert len(made) == 1


@pytest.mark.parametrize("count", [None, 3])
def test_no_other_graph_is_tried_after_the_search(monkeypatch, count):
    def called(*_):
        raise AssertionError

    monkeypatch.setattr(subspaces, "low_rank_solution", called)
    model = SubspaceClustering(count or "auto", max_seconds=0.0, random_state=0)
    assert model.fit(X).graph_ == "neighbors"


def test_the_problem_leaves_time_for_its_clusters(monkeypatch):
    limits, solve = [], base.minimize

    def spy(*args, **settings):
        limits.append(settings["max_seconds"])
        return solve(*args, **settings)

    monkeypatch.setattr(base, "minimize", spy)
    SubspaceClustering(3, graph="coefficients", max_seconds=100.0, random_state=0).fit(X)
    assert 50.0 < limits[0] <= 75.0


def test_the_numbers_of_clusters_compared_are_a_table():
    A, _ = union(3, 2, 15, 20, 0.05, seed=1)
    model = SubspaceClustering(random_state=0).fit(A)
    found = model.cv_results_
    best = int(np.argmax(found["mean_test_score"]))
    assert found["param_n_clusters"][best] == model.n_clusters_ == 3
    assert found["rank_test_score"][best] == 1
    assert "split1_test_score" in found
    assert SubspaceClustering(1, random_state=0).fit(A).cv_results_ == {}


@pytest.mark.parametrize(("count", "columns", "spread"), [(2, 4, 1.0), (5, 8, 1.5)])
def test_the_number_of_round_clouds_is_found(count, columns, spread):
    """By nearest neighbours: the coefficients of such data are less stable."""
    X, truth = make_blobs(
        40 * count,
        columns,
        centers=count,
        cluster_std=spread,
        random_state=count + columns,
        center_box=(-4, 4),
    )
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = SubspaceClustering(random_state=0).fit(X)
    assert (model.n_clusters_, model.graph_) == (count, "neighbors")
    assert adjusted_rand_score(truth, model.labels_) > 0.9


def test_copies_of_rows_do_not_raise_the_number_of_clusters():
    X, truth = make_blobs(60, 5, centers=3, random_state=0)
    model = SubspaceClustering(random_state=0).fit(np.repeat(X, 2, axis=0))
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(np.repeat(truth, 2), model.labels_) == 1.0


def test_messages_of_a_model_that_solved_nothing():
    """It is fitted, but there is no result to draw."""
    clouds, _ = make_blobs(60, 5, centers=3, random_state=0)
    model = SubspaceClustering(3, random_state=0).fit(clouds)
    assert model.graph_ == "neighbors"
    with pytest.raises(AttributeError, match=r"no attribute 'other_'$"):
        model.other_  # noqa: B018
    with pytest.raises(AttributeError, match="graph="):
        model.plot()


def test_entries_whose_squares_overflow_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(InputError, match="X: got entries up to"):
        SubspaceClustering(2, random_state=0).fit(1e300 * X)


def ellipses(seed):
    """Three elongated clouds that lie close to each other."""
    rng = np.random.default_rng(seed)
    truth = np.arange(240) // 80
    turns = [np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(3)]
    off = rng.standard_normal((240, 4)) * [3.0, 1.0, 0.3, 0.3]
    X = np.stack([row @ turns[k] for row, k in zip(off, truth, strict=True)])
    return X + 1.2 * rng.standard_normal((3, 4))[truth], truth


def test_elliptic_clouds_are_clustered_by_a_mixture():
    found = []
    for seed in range(3):
        X, truth = ellipses(seed)
        model, graph = (
            SubspaceClustering(3, graph=kind, random_state=0).fit(X)
            for kind in ("auto", "neighbors")
        )
        assert (model.mixture_, graph.mixture_) == ("full", None)
        found.append([adjusted_rand_score(truth, one.labels_) for one in (model, graph)])
    ours, plain = np.mean(found, axis=0)
    assert ours > 0.8
    assert ours > plain + 0.2


def test_clusters_of_another_shape_keep_the_labels_of_the_graph():
    X, _ = make_moons(200, noise=0.08, random_state=0)
    model, graph = (
        SubspaceClustering(2, graph=kind, random_state=0).fit(X)
        for kind in ("auto", "neighbors")
    )
    assert model.mixture_ is None
    np.testing.assert_array_equal(model.labels_, graph.labels_)


def test_clusters_of_coefficients_are_no_clouds():
    """Subspaces through one point: a mixture of few samples would confuse them."""
    rng = np.random.default_rng(0)
    planes = [rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)) for _ in range(3)]
    X = np.vstack(planes) + 0.05 * rng.standard_normal((120, 30))
    model = SubspaceClustering(3, random_state=0).fit(X)
    assert (model.graph_, model.mixture_) == ("coefficients", None)
    assert adjusted_rand_score(np.arange(120) // 40, model.labels_) == 1.0

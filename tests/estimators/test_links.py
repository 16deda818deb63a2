"""Link prediction: the problem it solves, what it scores, and what it refuses."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakprox import InputError, LinkPredictor, ShapeError
from weakprox.estimators import _graphs as graphs
from weakprox.estimators import links
from weakprox.estimators._graphs import Degrees, placements, read_graph
from weakprox.linalg import LowRankPlusSparse

PAIRS = "predict_proba takes pairs of nodes, shape (k, 2), not rows of the adjacency matrix"


@parametrize_with_checks(
    [LinkPredictor(random_state=0)],
    expected_failed_checks=lambda _: {
        "check_estimators_dtypes": PAIRS,
        "check_estimator_sparse_array": PAIRS,
        "check_estimator_sparse_matrix": PAIRS,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def groups_of(sizes):
    """Which pairs are in a group together."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    truth = group[:, None] == group
    np.fill_diagonal(truth, False)
    return truth


def flipped(truth, share, seed):
    """The graph with a share of all pairs flipped."""
    flips = np.triu(np.random.default_rng(seed).random(truth.shape) < share, 1)
    return (truth ^ (flips | flips.T)).astype(float)


def drawn(chance, seed):
    """An undirected graph with the given chances of edges."""
    A = np.triu(np.random.default_rng(seed).random(chance.shape) < chance, 1)
    return (A | A.T).astype(float)


def all_pairs(size):
    return np.stack(np.triu_indices(size, 1), axis=1)


@pytest.fixture(scope="module")
def blocks():
    truth = groups_of([12, 15, 18, 15])
    return truth, flipped(truth, 0.15, 0)


@pytest.fixture(scope="module")
def fitted(blocks):
    return LinkPredictor(random_state=0).fit(blocks[1])


def test_solves_the_problem_it_states():
    A = drawn(np.full((8, 8), 0.4), 1)
    lam, tau = 0.02, 1.2
    model = LinkPredictor(lam=lam, tau=tau, tol=1e-6, random_state=0).fit(A)
    raised = A + 0.25 * A.mean()
    root = np.sqrt(raised.sum(axis=0))
    N = raised / np.outer(root, root)
    X = cp.Variable(A.shape)
    value = 0.5 * cp.sum_squares(X - N) + lam * cp.sum(cp.abs(X))
    best = cp.Problem(cp.Minimize(value), [cp.normNuc(X) <= tau]).solve(solver="CLARABEL")
    assert model.result_.value == pytest.approx(best, rel=1e-4)
    assert np.abs(model.result_.X - X.value).max() < 1e-2
    assert model.certificate_.lower_bound <= best * (1 + 1e-6)
    assert model.result_.certified


def test_without_the_price_of_entries_singular_values_are_cut(blocks):
    model = LinkPredictor(lam=0.0, tau=3.0, tol=1e-8, random_state=0).fit(blocks[1])
    graph, _ = read_graph(blocks[1], "auto")
    s = np.linalg.svd(Degrees.of(graph, 0.25).normalised(graph), compute_uv=False)
    assert s[0] == pytest.approx(1.0)
    cut = s[model.result_.rank - 1] - model.result_.low_rank.s[-1]
    assert np.maximum(s - cut, 0.0).sum() == pytest.approx(3.0, rel=1e-6)
    assert model.result_.low_rank.s == pytest.approx(s[: model.result_.rank] - cut, abs=1e-6)


@pytest.mark.long
def test_both_terms_together_do_no_worse_than_either():
    scores = {"sparse": [], "low rank": [], "both": []}
    pairs = all_pairs(100)
    for seed in range(3):
        truth = groups_of([20, 30, 15, 35])
        A = flipped(truth, 0.25, seed)
        for name, settings in zip(scores, [{"tau": None}, {"lam": 0.0}, {}], strict=True):
            found = LinkPredictor(**settings, random_state=0).fit(A).score_pairs(pairs)
            scores[name].append(roc_auc_score(truth[tuple(pairs.T)], found))
    means = {name: np.mean(found) for name, found in scores.items()}
    assert means["both"] >= max(means["sparse"], means["low rank"])
    assert means["both"] > 0.95


def sparse_groups(size, groups, inside, outside, seed=0):
    """A graph too large to be decomposed in full."""
    group = np.arange(size) % groups
    return csr_array(drawn(np.where(group[:, None] == group, inside, outside), seed))


@pytest.fixture
def nothing_dense(monkeypatch):
    def refuse(*args, **named):
        raise AssertionError("made dense")

    for name in ("__getitem__", "dense", "__array__"):
        monkeypatch.setattr(LowRankPlusSparse, name, refuse)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(csr_array, name, refuse)


def test_a_larger_graph_never_becomes_dense(monkeypatch, nothing_dense):
    A = sparse_groups(400, 8, 0.3, 0.02)
    monkeypatch.setattr(links, "DENSE", 400)
    monkeypatch.setattr(links, "SHOWN", 400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = LinkPredictor(random_state=0).fit(A)
    assert model.result_.solver == "Thresholding"
    assert model.result_.certified
    pairs = all_pairs(400)
    same = pairs[:, 0] % 8 == pairs[:, 1] % 8
    scores = model.score_pairs(pairs)
    assert placements(scores[same], scores[~same]).mean() > 0.95
    assert model.predict_proba(pairs[:5]).shape == (5, 2)
    assert np.mean(model.recommend(3, n=5)[0] % 8 == 3) >= 0.8
    with pytest.raises(InputError, match=r"denoised_: .* 400 x 400"):
        _ = model.denoised_


@pytest.mark.parametrize("directed", [False, True])
def test_leading_triplets_are_those_of_the_whole_matrix(directed, monkeypatch):
    A = sparse_groups(300, 6, 0.3, 0.02)
    A = csr_array(np.triu(A.toarray())[:, ::-1]) if directed else A
    settings = {"lam": 0.0, "tau": 1.5, "tol": 1e-8, "random_state": 0}
    few = LinkPredictor(**settings).fit(A)
    monkeypatch.setattr(links, "SMALL", 300)
    whole = LinkPredictor(**settings).fit(A)
    assert few.kind_ == ("directed" if directed else "undirected")
    assert few.result_.low_rank.s == pytest.approx(whole.result_.low_rank.s, abs=1e-6)
    assert pytest.approx(whole.result_.X, abs=1e-4) == few.result_.X


def test_a_graph_that_is_too_large_for_an_l1_norm_says_so(blocks, monkeypatch):
    assert LinkPredictor(random_state=0).fit(blocks[1]).lam_ > 0.0
    monkeypatch.setattr(links, "DENSE", 3599)
    with pytest.warns(UserWarning, match="60 x 60"):
        model = LinkPredictor(random_state=0).fit(blocks[1])
    assert model.lam_ == 0.0


def test_no_l1_norm_is_tried_without_a_promise(monkeypatch):
    monkeypatch.setattr(links, "CLEAR", np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = LinkPredictor(random_state=0).fit(sparse_groups(100, 4, 0.3, 0.05))
    assert not model.cv_results_["zeroed"].any()
    assert model.lam_ == 0.0


def test_the_table_has_the_weights_of_candidates(blocks):
    A = blocks[1]
    table = LinkPredictor(random_state=0).fit(A).cv_results_
    l1 = table["zeroed"] > 0.0
    assert l1.any()
    assert np.array_equal(table["param_lam"] > 0.0, l1)
    soft = ~l1 & ~table["refit"]
    assert (np.argsort(table["nuclear"][soft]) == np.argsort(-table["param_tau"][soft])).all()
    given = LinkPredictor(0.01, 3.0, cv=2, random_state=0).fit(A).cv_results_
    assert {(one["lam"], one["tau"]) for one in given["params"]} == {(0.01, 3.0), (0.0, 3.0)}


def ring(size, each=6, rewired=0.1, seed=0):
    """A small world, whose singular values decrease slowly."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(size), each)
    cols = (rows + np.tile(np.arange(1, each + 1), size)) % size
    moved = rng.random(rows.size) < rewired
    cols[moved] = rng.integers(0, size, int(moved.sum()))
    A = coo_array((np.ones(rows.size), (rows, cols)), shape=(size, size)).toarray()
    np.fill_diagonal(A, 0.0)
    return csr_array(((A + A.T) > 0).astype(float))


def square(size, seed=0):
    """Points of a square that are joined if they are near."""
    points = np.random.default_rng(seed).random((size, 2))
    away = np.linalg.norm(points[:, None] - points, axis=2)
    return csr_array(((away < np.sqrt(12 / (np.pi * size))) & (away > 0)).astype(float))


GRAPHS = {
    "groups": lambda: sparse_groups(900, 12, 0.1, 0.005),
    "small world": lambda: ring(900),
    "square": lambda: square(900),
    "directed": lambda: csr_array(np.triu(sparse_groups(900, 12, 0.1, 0.005).toarray())),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_every_kind_of_graph_takes_few_products(name, monkeypatch):
    """No decomposition begins anew, and the number of vectors multiplied is limited."""
    A, columns = GRAPHS[name](), {"times": 0, "transpose_times": 0}
    plain = {method: getattr(LowRankPlusSparse, method) for method in columns}

    def count(method):
        def multiplied(N, Q):
            columns[method] += 1 if Q.ndim == 1 else Q.shape[1]
            return plain[method](N, Q)

        return multiplied

    def refuse(*args, **named):
        raise AssertionError("decomposed from nothing")

    for method in columns:
        monkeypatch.setattr(LowRankPlusSparse, method, count(method))
    monkeypatch.setattr("weakprox.solvers.thresholding.thin_svd", refuse)
    monkeypatch.setattr(links, "DENSE", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = LinkPredictor(random_state=0).fit(A)
    assert model.result_.certified
    assert model.result_.counts.svds <= 4
    assert sum(columns.values()) < 8000


@pytest.mark.filterwarnings("ignore:The last of")
def test_a_flat_spectrum_takes_refit_values_and_keeps_its_accuracy():
    A = square(900)
    rng = np.random.default_rng(1)
    edges = np.argwhere(np.triu(A.toarray()))
    hidden = edges[rng.permutation(len(edges))[: len(edges) // 10]]
    left = A.toarray()
    left[tuple(hidden.T)] = left[tuple(hidden[:, ::-1].T)] = 0.0
    others = np.argwhere(np.triu(A.toarray() == 0, 1))[::20]
    model = LinkPredictor(lam=0.0, random_state=0).fit(left)
    best = int(np.argmin(model.cv_results_["rank_test_score"]))
    assert model.cv_results_["refit"].any()
    assert 16 < model.result_.rank <= links.MOST // 2
    found = [model.score_pairs(pairs) for pairs in (hidden, others)]
    assert placements(*found).mean() > 0.98
    assert placements(*found).mean() > model.cv_results_["mean_test_score"][best] - 0.01
    assert model.predict_proba(hidden[:3]).shape == (3, 2)


@pytest.mark.filterwarnings("ignore:The last of")
def test_refit_values_are_those_of_the_graph():
    A = square(900)
    model = LinkPredictor(lam=0.0, random_state=0).fit(A)
    N = Degrees.of(read_graph(A, "auto")[0], 0.25).normalised(read_graph(A, "auto")[0])
    X = model.result_.low_rank
    refit = np.einsum("ir,ir->r", X.U, N.times(X.Vt.T))
    assert model._clean.s == pytest.approx(refit)
    assert np.all(model._clean.s > X.s)


def test_small_graphs_are_not_refit(fitted):
    assert not fitted.cv_results_["refit"].any()


def test_says_that_no_more_triplets_are_computed(monkeypatch):
    monkeypatch.setattr(links, "MOST", links.FIRST)
    monkeypatch.setattr(links, "FULL", 0)
    with pytest.warns(UserWarning, match="no more are computed"):
        model = LinkPredictor(lam=0.0, random_state=0).fit(ring(900))
    assert model.result_.certified  # at a larger weight of the nuclear norm
    assert model.result_.rank < links.FIRST


def test_many_equal_groups_are_all_found():
    """Their singular values are nearly equal, and more than a Krylov space finds."""
    whole = groups_of([6] * 100)
    edges, others = np.argwhere(np.triu(whole)), np.argwhere(np.triu(~whole, 1))[::20]
    hidden = edges[np.random.default_rng(0).permutation(len(edges))[: len(edges) // 10]]
    left = whole.astype(float)
    left[tuple(hidden.T)] = left[tuple(hidden[:, ::-1].T)] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no more triplets are computed
        model = LinkPredictor(lam=0.0, random_state=0).fit(left)
    assert model.result_.rank >= 95
    found = [model.score_pairs(pairs) for pairs in (hidden, others)]
    assert placements(*found).mean() > 0.99


def test_one_dense_copy_of_a_large_graph_at_a_time(monkeypatch):
    made, plain = [], LowRankPlusSparse.dense

    def dense(N):
        assert all(one() is None for one in made)
        found = plain(N)
        made.append(weakref.ref(found))
        return found

    A = sparse_groups(300, 30, 0.3, 0.01)
    monkeypatch.setattr(links, "DENSE", 1)
    monkeypatch.setattr(LowRankPlusSparse, "dense", dense)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        LinkPredictor(lam=1e-3, random_state=0).fit(A)
    assert len(made) > 2


def test_hides_a_limited_number_of_edges(monkeypatch):
    graph, _ = read_graph(ring(300), "auto")
    assert links.rounds(graph, 0)[0].hidden == round(0.1 * graph.count)
    monkeypatch.setattr(links, "MOST_HIDDEN", 40)
    parts = links.rounds(graph, 0)
    assert [part.hidden for part in parts] == [40] * links.ROUNDS
    assert all(part.graph.count == graph.count - 40 for part in parts)
    hidden = parts[0].pairs[:40]
    assert graph.A[tuple(hidden.T)].all()
    assert not parts[0].graph.A[tuple(hidden.T)].any()
    assert not graph.A[tuple(parts[0].pairs[40:].T)].any()


def test_a_large_graph_is_warned_of_the_l1_norm_only_if_it_is_worth_it(monkeypatch):
    monkeypatch.setattr(links, "DENSE", 1)
    A = sparse_groups(400, 8, 0.3, 0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.filterwarnings("error", message="An l1 norm")
        LinkPredictor(random_state=0).fit(A)
        LinkPredictor(random_state=0).fit(ring(400))
    monkeypatch.setattr(links, "WORTH", -1.0)
    monkeypatch.setattr(links, "CLEAR", -100.0)
    with pytest.warns(UserWarning, match="An l1 norm"):
        LinkPredictor(random_state=0).fit(A)


def test_the_space_of_the_search_is_freed():
    graph, _ = read_graph(ring(300), "auto")
    data = links.Decomposed(graph, 0.25, None, None, 0)
    space = weakref.ref(data._leading.space)
    gc.disable()
    try:
        del data
        assert space() is None
    finally:
        gc.enable()


def test_finds_hidden_edges_better_than_common_neighbours():
    chance = np.where(groups_of([25, 25, 30, 40]), 0.25, 0.02)
    ours, simple = [], []
    for seed in range(3):
        A = drawn(chance, seed)
        rng = np.random.default_rng(seed)
        edges = np.argwhere(np.triu(A))
        hidden = edges[rng.permutation(len(edges))[: len(edges) // 5]]
        left = A.copy()
        left[tuple(hidden.T)] = left[tuple(hidden[:, ::-1].T)] = 0.0
        others = np.argwhere(np.triu(A == 0, 1))
        pairs = np.vstack([hidden, others])
        label = np.repeat([1, 0], [len(hidden), len(others)])
        ours.append(
            roc_auc_score(label, LinkPredictor(random_state=0).fit(left).score_pairs(pairs))
        )
        simple.append(roc_auc_score(label, (left @ left)[tuple(pairs.T)]))
    assert np.mean(ours) > np.mean(simple) + 0.02


@pytest.mark.usefixtures("thorough")
def test_probabilities_are_calibrated():
    chance = np.where(groups_of([40, 60, 50]), 0.3, 0.03)
    A, fresh = drawn(chance, 0), drawn(chance, 1)  # two graphs of the same making
    model = LinkPredictor(random_state=0).fit(A)
    pairs = all_pairs(150)
    proba = model.predict_proba(pairs)
    assert proba.shape == (len(pairs), 2)
    assert proba.sum(axis=1) == pytest.approx(1.0)
    edge = proba[:, 1]
    assert np.all(np.diff(edge[np.argsort(model.score_pairs(pairs))]) >= 0)
    unseen = A[tuple(pairs.T)] == 0
    told, found = edge[unseen], fresh[tuple(pairs.T)][unseen]
    assert told.mean() == pytest.approx(found.mean(), rel=0.15)
    likely = told > np.quantile(told, 0.8)
    assert told[likely].mean() == pytest.approx(found[likely].mean(), rel=0.2)


def test_no_probabilities_where_every_pair_is_an_edge():
    model = LinkPredictor(random_state=0)
    with pytest.raises(NotFittedError):
        model.predict_proba([[0, 1]])
    model.fit(np.ones((9, 9)))
    assert model.calibration_ is None
    assert not hasattr(model, "predict_proba")
    assert model.score_pairs([[0, 1]]).shape == (1,)


def test_scores_of_an_undirected_graph_are_symmetric(fitted):
    pairs = all_pairs(60)
    assert fitted.kind_ == "undirected"
    assert np.array_equal(fitted.score_pairs(pairs), fitted.score_pairs(pairs[:, ::-1]))
    assert np.all(fitted.score_pairs(pairs) > 0)


def test_denoised_graph_is_nearer_to_the_truth(blocks, fitted):
    truth, A = blocks
    clean = fitted.denoised_
    assert clean.shape == A.shape
    assert clean.data.min() > 0
    assert np.allclose(clean.toarray(), clean.toarray().T)
    assert not clean.diagonal().any()
    assert np.sum((clean - truth) ** 2) < 0.3 * np.sum((A - truth) ** 2)


def test_recommends_what_is_not_joined_yet(blocks, fitted):
    truth, A = blocks
    columns, scores = fitted.recommend(3, n=5)
    assert columns.shape == scores.shape == (5,)
    assert np.all(np.diff(scores) <= 0)
    assert not A[3, columns].any()
    assert 3 not in columns
    missing = np.nonzero(truth[3] & (A[3] == 0))[0]
    assert 0 < missing.size < 5
    assert set(columns[: missing.size]) == set(missing)
    assert fitted.recommend(3, n=1000)[0].size == int((A[3] == 0).sum()) - 1


def test_bipartite_and_directed_graphs():
    rng = np.random.default_rng(0)
    likes = rng.random((50, 3)) < 0.4
    about = rng.random((30, 3)) < 0.4
    chance = 0.05 + 0.5 * ((likes.astype(float) @ about.T) > 0)
    A = (rng.random(chance.shape) < chance).astype(float)
    model = LinkPredictor(random_state=0).fit(csr_array(A))
    assert model.kind_ == "bipartite"
    every = np.argwhere(np.ones(A.shape, dtype=bool))
    fresh = (rng.random(chance.shape) < chance).ravel()
    reach = roc_auc_score(fresh, chance.ravel())
    assert roc_auc_score(fresh, model.score_pairs(every)) > reach - 0.06
    square = A[:30]
    directed = LinkPredictor(random_state=0).fit(square)
    assert directed.kind_ == "directed"
    assert not directed.adjacency_.diagonal().any()
    bipartite = LinkPredictor(kind="bipartite", random_state=0).fit(square)
    assert bipartite.adjacency_.diagonal().sum() == np.trace(square)


def links_with_replies(share, seed=0):
    """A directed graph of four groups, in which a share of the links is returned."""
    rng = np.random.default_rng(seed)
    group = np.arange(120) // 30
    A = rng.random((120, 120)) < np.where(group[:, None] == group, 0.12, 0.02)
    A |= (rng.random(A.shape) < share) & A.T
    np.fill_diagonal(A, val=False)
    return A.astype(float)


def hidden_links(A, seed=0):
    """A graph without a fifth of its links, and those followed by pairs without one."""
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(A)
    chosen = rng.permutation(rows.size)[: rows.size // 5]
    left = A.copy()
    left[rows[chosen], cols[chosen]] = 0.0
    others = np.argwhere((A == 0.0) & ~np.eye(len(A), dtype=bool))
    pairs = np.vstack([np.stack([rows[chosen], cols[chosen]], axis=1), others])
    return left, pairs, np.arange(len(pairs)) < chosen.size


def test_reverse_links_count_where_they_rank_hidden_edges_better():
    left, pairs, truth = hidden_links(links_with_replies(0.5))
    model = LinkPredictor(random_state=0).fit(left)
    assert model.kind_ == "directed"
    assert model.reverse_weight_ > 0.0
    scores, weight = model.score_pairs(pairs), model.reverse_weight_
    model.reverse_weight_ = 0.0
    plain = model.score_pairs(pairs)
    np.testing.assert_allclose(scores - plain, weight * left[pairs[:, 1], pairs[:, 0]])
    assert roc_auc_score(truth, scores) > roc_auc_score(truth, plain) + 0.1


def test_reverse_links_do_not_count_without_a_gain(fitted):
    model = LinkPredictor(random_state=0).fit(links_with_replies(0.0))
    assert model.reverse_weight_ == 0.0
    assert fitted.reverse_weight_ == 0.0  # undirected


def events(A, spread, seed=0):
    """Numbers of events on the edges of an undirected graph, with a heavy tail."""
    sizes = np.random.default_rng(seed).standard_normal(A.shape)
    counts = np.triu(A * np.ceil(np.exp(spread * sizes)), 1)
    return counts + counts.T


def test_repeated_events_count_by_logarithms_where_that_ranks_better():
    A = drawn(0.02 + 0.4 * groups_of([30, 30, 30, 30]), 0)
    counts = events(A, 2.5)
    assert counts.max() > 100.0
    left, pairs, truth = hidden_links(np.triu(counts))
    model = LinkPredictor(random_state=0).fit(left + left.T)
    assert model.log_counts_
    assert model.adjacency_.max() == left.max()
    upper = pairs[:, 0] < pairs[:, 1]
    pairs, truth = pairs[upper], truth[upper]
    logs = LinkPredictor(random_state=0).fit(np.log1p(left + left.T))
    assert not logs.log_counts_
    np.testing.assert_allclose(model.score_pairs(pairs), logs.score_pairs(pairs), rtol=1e-6)
    given = {"lam": 0.0, "tau": logs.tau_}
    plain = LinkPredictor(**given, random_state=0).fit(left + left.T)
    assert not plain.log_counts_
    scores = [roc_auc_score(truth, each.score_pairs(pairs)) for each in (model, plain)]
    assert scores[0] > scores[1] + 0.05


def test_other_weights_are_taken_as_they_are(blocks, fitted):
    assert not fitted.log_counts_
    doubled = LinkPredictor(random_state=0).fit(2.0 * blocks[1])
    assert not doubled.log_counts_  # all weights are the same


def test_weights_count_up_to_their_unit(blocks):
    weights = blocks[1] * np.random.default_rng(0).uniform(1, 3, blocks[1].shape)
    weights = weights + weights.T
    model = LinkPredictor(random_state=0).fit(weights)
    larger = LinkPredictor(random_state=0).fit(1e3 * weights)
    pairs = all_pairs(60)
    assert np.allclose(larger.result_.X, model.result_.X, atol=1e-6)
    assert larger.score_pairs(pairs) == pytest.approx(1e3 * model.score_pairs(pairs), rel=1e-4)


def test_every_form_of_the_graph_gives_the_same(blocks, fitted):
    A, pairs = blocks[1], all_pairs(60)
    names = [f"node {i}" for i in range(len(A))]
    frames = {
        "sparse array": csr_array(A),
        "other format": coo_array(A),
        "pandas": pd.DataFrame(A, columns=names),
        "polars": pl.DataFrame(A, schema=names),
        "bool": A.astype(bool),
    }
    for form, data in frames.items():
        model = LinkPredictor(random_state=0).fit(data)
        assert model.score_pairs(pairs) == pytest.approx(fitted.score_pairs(pairs)), form
        if form in ("pandas", "polars"):
            assert list(model.feature_names_in_) == names
    assert model.n_features_in_ == 60


def test_repeats_clones_and_pickles(blocks, fitted):
    pairs = all_pairs(60)
    again = clone(fitted).fit(blocks[1])
    assert np.array_equal(again.score_pairs(pairs), fitted.score_pairs(pairs))
    kept = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(kept.predict_proba(pairs), fitted.predict_proba(pairs))
    given = LinkPredictor(lam=fitted.lam_, tau=fitted.tau_, random_state=0).fit(blocks[1])
    assert np.allclose(given.result_.X, fitted.result_.X, atol=1e-9)


def test_shows_its_certificate(fitted):
    assert fitted.certificate_.proves
    assert fitted.result_.certified
    assert "optimum lies between" in fitted._repr_html_()


def test_a_price_that_leaves_nothing_falls_back_on_degrees(blocks):
    model = LinkPredictor(lam=1e3, random_state=0).fit(blocks[1])
    degrees = blocks[1].sum(axis=0)
    scores = model.score_pairs(
        [[0, int(np.argmax(degrees[1:])) + 1], [0, int(np.argmin(degrees[1:])) + 1]]
    )
    assert model.denoised_.nnz == 0
    assert scores[0] > scores[1] > 0


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"lam": -1.0}, "lam"),
        ({"lam": "none"}, "lam"),
        ({"tau": 0.0}, "tau"),
        ({"tau": np.nan}, "tau"),
        ({"smoothing": 0.0}, "smoothing"),
        ({"kind": "tree"}, "kind"),
    ],
)
def test_refuses_settings(settings, argument):
    with pytest.raises(InputError, match=argument):
        LinkPredictor(**settings, random_state=0).fit(np.eye(4)[::-1])


def test_refuses_graphs():
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        LinkPredictor(random_state=0).fit(-np.ones((4, 4)))
    with pytest.raises(InputError, match="no edge"):
        LinkPredictor(random_state=0).fit(np.eye(4))
    with pytest.raises(InputError, match="not symmetric"):
        LinkPredictor(kind="undirected", random_state=0).fit(np.triu(np.ones((4, 4))))
    with pytest.raises(ShapeError, match="square"):
        LinkPredictor(kind="directed", random_state=0).fit(np.ones((4, 3)))
    with pytest.raises(ValueError, match="NaN"):
        LinkPredictor(random_state=0).fit(np.full((4, 4), np.nan))


def test_refuses_pairs(fitted):
    with pytest.raises(ShapeError, match=r"\(k, 2\)"):
        fitted.score_pairs([0, 1])
    with pytest.raises(InputError, match="integers"):
        fitted.score_pairs([[0.5, 1.0]])
    with pytest.raises(InputError, match="60 x 60"):
        fitted.score_pairs([[0, 60]])
    for node in (-1, 60, True, [1, 2]):
        with pytest.raises(InputError, match="node"):
            fitted.recommend(node)


# --------------------------------------------------------------------------- events


def changing(seed=0, nodes=100, count=3000):
    """Events within groups that are drawn anew halfway, as pairs, times and the last groups."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0.0, 100.0, count))
    groups = [rng.permutation(nodes) % 4 for _ in range(2)]
    first = rng.integers(0, nodes, count)
    second = rng.integers(0, nodes, count)
    for k in range(count):
        group = groups[int(times[k] > 50.0)]
        if rng.random() < 0.9:
            second[k] = rng.choice(np.flatnonzero(group == group[first[k]]))
    apart = first != second
    return np.stack([first, second], axis=1)[apart], times[apart], groups[1]


def test_events_count_by_their_age():
    pairs = [[0, 1], [0, 1], [1, 2], [2, 0]]
    times = [0.0, 10.0, 5.0, 10.0]
    model = LinkPredictor(0.0, None, half_life=5.0, random_state=0)
    model.fit(pairs, times=times)
    wanted = np.zeros((3, 3))
    wanted[0, 1], wanted[1, 2], wanted[2, 0] = 1.25, 0.5, 1.0
    assert model.kind_ == "directed"
    assert model.half_life_ == 5.0
    np.testing.assert_allclose(model.adjacency_.toarray(), wanted)
    both = clone(model).set_params(kind="undirected").fit(pairs, times=times)
    np.testing.assert_allclose(both.adjacency_.toarray(), wanted + wanted.T)
    wide = clone(model).set_params(half_life=None).fit(pairs, times=times, shape=(3, 5))
    assert wide.kind_ == "bipartite"
    assert wide.half_life_ == np.inf
    assert wide.adjacency_.toarray()[0, 1] == 2.0
    assert wide.adjacency_.shape == (3, 5)


def test_events_are_the_graph_of_their_counts_without_a_half_life():
    pairs, times, _ = changing()
    A = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(100, 100)).toarray()
    events = LinkPredictor(half_life=None, random_state=0).fit(pairs, times=times)
    graph = LinkPredictor(random_state=0).fit(A)
    assert graph.half_life_ == np.inf
    assert events.log_counts_ == graph.log_counts_
    np.testing.assert_allclose(events.score_pairs(pairs[:50]), graph.score_pairs(pairs[:50]))


def test_old_events_are_forgotten_if_that_ranks_later_ones_better():
    pairs, times, group = changing()
    rng = np.random.default_rng(9)
    ranked = rng.integers(0, 100, (2000, 2))
    ranked = ranked[ranked[:, 0] != ranked[:, 1]]
    truth = group[ranked[:, 0]] == group[ranked[:, 1]]
    chosen = LinkPredictor(random_state=0).fit(pairs, times=times)
    alike = LinkPredictor(half_life=None, random_state=0).fit(pairs, times=times)
    assert chosen.half_life_ < 60.0
    scores = [roc_auc_score(truth, m.score_pairs(ranked)) for m in (chosen, alike)]
    assert scores[0] > scores[1] + 0.02


def test_events_of_one_kind_all_the_time_count_alike():
    pairs, times, _ = changing()
    shuffled = np.random.default_rng(5).permutation(times)
    model = LinkPredictor(random_state=0).fit(pairs, times=shuffled)
    assert model.half_life_ == np.inf
    same_time = LinkPredictor(random_state=0).fit(pairs, times=np.zeros(len(pairs)))
    assert same_time.half_life_ == np.inf


def test_no_time_for_half_lives():
    pairs, times, _ = changing(count=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinkPredictor(max_seconds=0.0, random_state=0).fit(pairs, times=times)
    assert model.half_life_ == np.inf


@pytest.mark.parametrize(
    ("X", "settings", "given", "error", "name"),
    [
        ([[0, 1, 2]], {}, {"times": [0.0]}, ShapeError, "X"),
        ([[0.5, 1]], {}, {"times": [0.0]}, InputError, "X"),
        ([[0, -1]], {}, {"times": [0.0]}, InputError, "pairs"),
        ([[0, 1]], {}, {"times": [0.0, 1.0]}, ShapeError, "times"),
        ([[0, 1]], {}, {"times": [np.nan]}, InputError, "times"),
        ([[0, 1]], {}, {"times": ["monday"]}, InputError, "times"),
        (
            [[0, 1]],
            {"kind": "directed"},
            {"times": [0.0], "shape": (2, 3)},
            ShapeError,
            "shape",
        ),
        ([[0, 5]], {}, {"times": [0.0], "shape": (2, 2)}, InputError, "pairs"),
        ([[0, 1]], {"half_life": -1.0}, {"times": [0.0]}, InputError, "half_life"),
        ([[0.0, 1.0], [1.0, 0.0]], {}, {"shape": (2, 2)}, InputError, "shape"),
    ],
)
def test_events_that_cannot_be_read_are_refused(X, settings, given, error, name):
    with pytest.raises(error, match=name):
        LinkPredictor(**settings).fit(X, **given)


def test_counts_of_two_columns_may_be_a_bipartite_graph():
    counts = np.array([[3, 0], [0, 2], [1, 1], [0, 4]])
    model = LinkPredictor(kind="bipartite", random_state=0).fit(counts)
    assert model.adjacency_.shape == counts.shape
    with pytest.raises(InputError, match="pairs of integers"):
        LinkPredictor().fit(counts)


def test_frames_name_their_nodes_in_one_order():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((12, 12)) < 0.5, 1)
    names = [f"n{i}" for i in range(12)]
    frame = pd.DataFrame((A | A.T).astype(float), index=names, columns=names)
    LinkPredictor(random_state=0).fit(frame)
    with pytest.raises(InputError, match="another order"):
        LinkPredictor(random_state=0).fit(frame.iloc[::-1])
    LinkPredictor(kind="bipartite", random_state=0).fit(frame.iloc[::-1])


def in_space(seed, n=250):
    """Points in a plane that are joined to near ones, an array without some of the edges."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    A = np.triu(apart < np.sqrt(2.0 / n), 1).astype(float)
    edges = np.argwhere(A)
    hidden = edges[rng.permutation(len(edges))[: len(edges) // 10]]
    free = np.argwhere(np.triu(A == 0.0, 1))
    others = free[rng.permutation(len(free))[:2000]]
    A[tuple(hidden.T)] = 0.0
    return A + A.T, hidden, others


def without_simple_scores(A, monkeypatch):
    """A model whose scores are those of the low-rank matrix alone."""
    monkeypatch.setattr(links, "_with_simple", lambda _, known: (links.Simple(), known))
    plain = LinkPredictor(random_state=0).fit(A)
    assert (plain.walk_weight_, plain.neighbor_weight_) == (0.0, 0.0)
    return plain


def small_graph(seed):
    """A ring of nodes joined to the next two, or to others, without a fifth of the edges."""
    rng = np.random.default_rng(seed)
    ends = np.concatenate([np.arange(80) + 1, np.arange(80) + 2])
    ends = np.where(rng.random(160) < 0.1, rng.integers(80, size=160), ends) % 80
    A = np.zeros((80, 80))
    A[np.tile(np.arange(80), 2), ends] = 1.0
    A = np.triu(np.maximum(A, A.T), 1)
    edges = rng.permutation(np.argwhere(A))
    hidden, others = edges[: len(edges) // 5], np.argwhere(np.triu(A == 0.0, 1))
    A[tuple(hidden.T)] = 0.0
    return A + A.T, hidden, others


@pytest.mark.usefixtures("thorough")
def test_simple_scores_rank_pairs_of_small_graphs(monkeypatch):
    """Few edges do not suffice to choose a rank; the model then ranks pairs by walks alone."""
    graphs_, found = [small_graph(seed) for seed in range(2)], []
    for A, hidden, others in graphs_:
        assert A.sum() / 2 < 150
        model = LinkPredictor(random_state=0).fit(A)
        found.append(placed(model, hidden, others))
        weights = model.walk_weight_, model.neighbor_weight_
        assert min(weights) == 0.0 < max(weights)
        if np.isinf(model.walk_weight_):
            ends, (rows, cols) = graphs.walks(csr_array(A), 0.85), others.T
            order = np.argsort(model.score_pairs(others))
            assert np.all(np.diff(ends[rows, cols][order]) > -1e-3 * ends[rows, cols].max())
    plain = [placed(without_simple_scores(A, monkeypatch), *pairs) for A, *pairs in graphs_]
    assert np.mean(found) > np.mean(plain) + 0.02


def placed(model, hidden, others):
    """The AUC of a model."""
    pairs = model.score_pairs(hidden), model.score_pairs(others)
    return float(graphs.placements(*pairs).mean())


def test_common_neighbors_are_divided_by_degrees():
    A = np.zeros((5, 5))
    A[[0, 0, 1, 1, 2], [2, 3, 2, 3, 3]] = 1.0
    found = graphs.common_neighbors(csr_array(A + A.T))
    assert found[0, 1] == pytest.approx(1 / 3 + 1 / 3)  # 2 and 3 have three neighbours each
    assert found[0, 4] == found[4, 4] == 0.0


@pytest.mark.usefixtures("thorough")
@pytest.mark.parametrize("seed", [0, 1])
def test_walks_rank_links_between_points_in_a_plane(seed, monkeypatch):
    A, hidden, others = in_space(seed)

    def auc(model):
        good, bad = model.score_pairs(hidden), model.score_pairs(others)
        return np.mean(good[:, None] > bad)

    model = LinkPredictor(random_state=0).fit(A)
    assert max(model.walk_weight_, model.neighbor_weight_) > 0.0
    pairs = others[:50]
    assert model.score_pairs(pairs) == pytest.approx(model.score_pairs(pairs[:, ::-1]))
    assert model.predict_proba(hidden)[:, 1].mean() > model.predict_proba(others)[:, 1].mean()
    assert LinkPredictor(0.0, random_state=0).fit(A).walk_weight_ == 0.0
    ours = auc(model)
    assert 1.0 - ours < 0.8 * (1.0 - auc(without_simple_scores(A, monkeypatch)))


def test_walks_end_as_those_of_pagerank():
    A, _, _ = in_space(0, n=20)
    A[3] = A[:, 3] = 0.0  # a node without edges
    found, start = graphs.walks(csr_array(A), 0.85), np.eye(20)
    steps = A / np.maximum(A.sum(axis=1, keepdims=True), 1.0)
    ends = start
    for _ in range(200):
        ends = 0.15 * start + 0.85 * ends @ steps
    assert found == pytest.approx(ends + ends.T)

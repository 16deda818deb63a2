"""Choice of a model for a noisy matrix: copies of counts, and the simplest of two folds."""

import numpy as np
import pytest

from weakprox.selection import denoise
from weakprox.selection._held_out import HeldOut
from weakprox.selection.denoise import (
    BOTH,
    SOFT,
    Candidate,
    NoisyMatrix,
    Tried,
    _closed_forms,
)
from weakprox.selection.noise import noise_level


@pytest.mark.parametrize("psd", [False, True])
def test_copies_of_counts_are_counts_whose_mean_is_the_matrix(psd):
    counts = np.random.default_rng(0).poisson(4.0, (6, 6)).astype(float)
    M = np.triu(counts) + np.triu(counts, 1).T if psd else counts
    copies = NoisyMatrix(M, counts=True, psd=psd).copies(0.0, 3)
    np.testing.assert_allclose(copies.means.mean(axis=0), M)
    assert (copies.means >= 0.0).all()
    symmetric = [np.array_equal(copy, copy.T) for copy in copies.means]
    assert symmetric == [psd] * 3


def test_two_folds_are_enough_for_a_standard_error():
    """The simpler model is worse by less than the standard error of the difference."""
    points = [Candidate(BOTH, 0, 0.1, 1.0), Candidate(SOFT, 0, 0.2, 2.0)]
    errors = np.array([[1.0, 1.1], [3.0, 2.95]])[:, :, None]  # with answers of length zero
    held_out = HeldOut(np.zeros_like(errors), errors, np.zeros(2), entries=1)
    choice = Tried(False, points, [held_out]).choice()
    assert (choice.kind, choice.lam, choice.tau) == ("sparse", 0.2, 2.0)
    one = Tried(False, points, [held_out.first(1)]).choice()
    assert one.kind == "both"


@pytest.mark.parametrize(
    ("folds", "less", "undecided"), [(5, 0.1, [0, 1]), (5, 2.0, []), (4, 0.1, [])]
)
def test_candidates_are_undecided_within_three_standard_errors(folds, less, undecided):
    """The third is far behind; a set of copies that time cut short decides nothing."""
    points = [Candidate(BOTH, i, 0.1, 1.0 + i) for i in range(3)]
    scatter = np.array([0.2, -0.2, 0.1, -0.1, 0.0])[:folds]
    errors = np.stack([3.0 + scatter, 3.0 + less - scatter, 9.0 + scatter], axis=1)[:, :, None]
    held_out = HeldOut(np.zeros_like(errors), errors, np.zeros(folds), entries=1)
    assert Tried(False, points, [held_out]).undecided() == undecided


class Two:
    """Two copies, the first of them louder by half."""

    means = np.random.default_rng(0).standard_normal((2, 4, 3))

    def __len__(self):
        return 2

    def without(self, k):
        return self.means[1 - k]

    def louder(self, k):
        return 1.5 - 0.5 * k


def test_simple_models_are_compared_by_their_closed_forms():
    """Soft thresholding, and its refit, which keeps the entries above the weight."""
    found = _closed_forms(Two(), [Candidate(SOFT, 0, 0.4, 9.0)])
    for k, lam in enumerate((0.6, 0.4)):
        A, Z = Two().without(k), Two.means[k]
        X = A - np.clip(A, -lam, lam)
        R = np.where(X != 0.0, A, 0.0)
        wanted = [float((a * b).sum()) for a, b in ((X, Z), (X, X), (R, Z), (R, R), (R, X))]
        parts = [found.along, found.squares, *found.refits]
        assert [float(part[k, 0, 0]) for part in parts] == pytest.approx(wanted)


@pytest.mark.parametrize("psd", [False, True])
def test_parts_of_large_matrices_have_about_as_many_entries_as_wanted(psd, monkeypatch):
    monkeypatch.setattr(denoise, "SAMPLE", 100)
    M = np.arange(1600.0).reshape(40, 40)
    part = denoise._part(M, psd, 0)
    assert part.shape == (10, 10)
    rows, columns = part[:, 0] // 40, part[0] % 40
    np.testing.assert_array_equal(part, M[np.ix_(rows.astype(int), columns.astype(int))])
    assert (rows.tolist() == columns.tolist()) == psd
    assert denoise._part(M[:6, :5], psd=False, seed=0).shape == (6, 5)


def test_a_part_is_used_if_copies_and_the_search_do_not_fit_into_memory(monkeypatch):
    M, parts = np.random.default_rng(0).standard_normal((9, 8)), []
    needed = (denoise.COPIES + denoise.SEARCH_ARRAYS) * M.nbytes
    monkeypatch.setattr(denoise, "_part", lambda M, psd, seed: parts.append(M.shape) or M)
    for room, used in ((needed, 0), (needed - 1, 1)):
        monkeypatch.setattr(denoise, "room", lambda room=room: room)
        denoise.choose_weights(M, None, None, max_seconds=None)
        assert len(parts) == used


def test_the_residual_of_a_fit_corrects_a_noise_level_that_mistakes_signal_for_noise():
    """The values fall slowly, so the first estimate takes the smaller half for noise."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((n, 30)))[0] for n in (40, 30))
    M = (U * (60 * 0.8 ** np.arange(30))) @ V.T + 0.1 * rng.standard_normal((40, 30))
    first = noise_level(M)
    assert first > 0.4
    assert 0.1 < NoisyMatrix(M).noise() < 0.7 * first
    assert NoisyMatrix(M).noise(0.0) == 0.0

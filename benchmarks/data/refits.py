"""Whether refits of singular values help models that predict: chosen by folds, judged by tests.

    python benchmarks/data/refits.py               # all models
    python benchmarks/data/refits.py completion    # some of them: trace, reduced_rank,
                                                   # completion, imputation, covariance, robust,
                                                   # panels, classes

`TraceRegression` and `RobustPCA` have `debias="auto"`. For the others, this tries what it
would do: a path of weights of the nuclear norm, the best of which is chosen by the folds of the
model with and without a share of the refit, and refitted to all training data. Data: planted
coefficients and the value of scikit-learn's digits (trace); the sets of
`benchmarks/regression.py` (reduced rank); votes, and films with many ratings (completion);
standardised tables of which 30 % are missing (imputation, by completion too), or which have
outliers (robust); planted panels and the states of Proposition 99 (panels); planted classes and
pairs of digits (classes). Completion, reduced rank and covariances have planted data, too. The
factors of a covariance are refitted to the sample covariance of twice as many samples as
variables.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import traces
import votes
from common import load
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold

import weakprox as wp
from weakprox.estimators._simple_covariances import Parts, Sample
from weakprox.estimators.covariance import common_problem, folds
from weakprox.linalg import LowRank
from weakprox.selection._observed_path import held_out_entries, path_point
from weakprox.selection.debias import WORTH, Unseen, refit_to, relaxed
from weakprox.selection.search import Deadline, clearly_positive

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import panel
import regression

SPLITS, WEIGHTS = 5, 2.0 ** -np.arange(1, 10)
FEW, MANY = 150, 750  # digits to train and to test
MISSING = 0.3
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of a refit of factors
SOME, CALLS = 60, 6  # ratings of a film that counts; every sixth roll call
Errors = tuple[str, list[float], list[float]]


def gained(name: str, before: list[float], after: list[float]) -> None:
    """Print mean errors and the mean gain."""
    gain = np.subtract(before, after)
    error = gain.std(ddof=1) / np.sqrt(gain.size)
    told = (
        f"{np.mean(before):8.4f} {np.mean(after):8.4f}  gain {gain.mean():+.4f} ± {error:.4f}"
    )
    print(f"{name:28} {told}", flush=True)


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Images and the number they show."""
    bunch = load_digits()
    order = np.random.default_rng(seed).permutation(len(bunch.target))[: FEW + MANY]
    X, y = bunch.images[order] / 16.0, bunch.target[order].astype(float)
    return X[:FEW], y[:FEW], X[FEW:], y[FEW:]


def trace() -> Iterator[Errors]:
    """Mean squared errors of TraceRegression without and with debias."""
    cases: dict[str, Callable[[int], tuple[np.ndarray, ...]]] = {
        "planted, 80 matrices": lambda s: (*traces.planted(s, 80), *traces.planted(1000, 1000)),
        "planted, 200 matrices": lambda s: (
            *traces.planted(s, 200),
            *traces.planted(1000, 1000),
        ),
        "digits, 150 images": digits,
    }
    for name, make in cases.items():
        found: list[list[float]] = [[], []]
        for seed in range(SPLITS):
            A, b, B, truth = make(seed)
            for errors, debias in zip(found, (False, "auto"), strict=True):
                model = wp.TraceRegression(debias=debias, random_state=seed).fit(A, b)
                errors.append(float(np.mean((model.predict(B) - truth) ** 2)))
        yield name, *found


def fitted(X: np.ndarray, Y: np.ndarray, share: float) -> tuple[Callable, Callable]:
    """Predictions of a fit at a share of the weight where it is 0, and of its refit."""
    loss = wp.losses.Regression(X, Y, intercept=True)
    top = float(np.linalg.norm(loss.origin[1], 2))
    problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(share * top))
    low = wp.minimize(problem, tol=1e-3, proof=False, progress=False).low_rank.trimmed()
    each = loss.centred(low.U)
    values = np.einsum("nk,nk->k", each, (Y - loss.response_means) @ low.Vt.T)
    values = np.maximum(values, 0.0) / np.maximum(np.einsum("nk,nk->k", each, each), 1e-300)

    def at(s: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        B = (low.U * s) @ low.Vt
        return lambda Z: loss.response_means + (Z - loss.feature_means) @ B

    return at(low.s), at(np.where(low.s > 0.0, values, 0.0))


def planted_responses() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Responses with coefficients of rank 2."""
    rng = np.random.default_rng(0)
    for n, p, q, noise in ((100, 20, 10, 3.0), (200, 40, 20, 5.0)):
        X = rng.standard_normal((n, p))
        B = rng.standard_normal((p, 2)) @ rng.standard_normal((2, q))
        yield f"planted, {p} x {q}", X, X @ B + noise * rng.standard_normal((n, q))


def reduced_rank() -> Iterator[Errors]:
    """Mean squared errors in variances, without and with a share of the refit."""
    for name, X, Y in (*regression.data(), *planted_responses()):
        before, after = [], []
        for kept, left in KFold(SPLITS, shuffle=True, random_state=0).split(X):
            scale, mean = X[kept].std(axis=0), Y[kept].mean(axis=0)
            Z, V = X / scale, (Y - mean) / Y[kept].std(axis=0)
            sums = np.zeros((len(WEIGHTS), 3))
            for some, rest in KFold(SPLITS).split(kept):
                for k, weight in enumerate(WEIGHTS):
                    both = fitted(Z[kept[some]], V[kept[some]], weight)
                    guesses = [guess(Z[kept[rest]]) for guess in both]
                    sums[k] += Unseen.of(*guesses, V[kept[rest]])
            w = relaxed(sums[:, 1], sums[:, 2])
            best = int(np.argmin(sums[:, 0]))
            moved = int(np.argmin(sums[:, 0] - 2 * w * sums[:, 1] + w**2 * sums[:, 2]))
            for errors, k, part in ((before, best, 0.0), (after, moved, w[moved])):
                one, two = (guess(Z[left]) for guess in fitted(Z[kept], V[kept], WEIGHTS[k]))
                errors.append(float(np.mean((one + part * (two - one) - V[left]) ** 2)))
        yield name, before, after


def observations() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Names, rows, columns and values."""
    table, seen = (x[:, ::CALLS] for x in votes.votes())
    rows, cols = np.nonzero(seen)
    yield "votes", rows, cols, table[rows, cols].astype(float)
    data = load("movie_tweetings_100k")
    many = np.bincount(data["item"])[data["item"]] >= SOME
    rated = (data["user"][many], data["item"][many], data["rating"][many].astype(float))
    yield "films with many ratings", *rated
    for name, decay in (("equal", 0.0), ("decaying", 1.0)):
        rng = np.random.default_rng(0)
        U = rng.standard_normal((150, 4))
        V = rng.standard_normal((100, 4)) * 3.0 * 2.0 ** (-decay * np.arange(4))
        X = U @ V.T + rng.standard_normal((150, 100))
        rows, cols = np.nonzero(rng.random(X.shape) < 0.4)
        yield f"planted, {name} factors", rows, cols, X[rows, cols]


def completed(train: tuple, lam: float) -> tuple[Callable, Callable]:
    """Predictions of a completion and of its refit."""
    model = wp.MatrixCompletion(
        lam, intercept_ridge=2.0, scaling="none", debias=False, tol=1e-3
    )
    model.fit(*train)
    at = {name: k for k, name in enumerate(model.row_ids_)}
    across = {name: k for k, name in enumerate(model.column_ids_)}
    U, V = model.user_factors_, model.item_factors_
    size = np.linalg.norm(U, axis=0) * np.linalg.norm(V, axis=0)
    low = LowRank(U, np.ones(len(size)), V.T)

    def each(rows: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What intercepts predict, and every pair of factors."""
        i = np.array([at.get(name, -1) for name in rows])
        j = np.array([across.get(name, -1) for name in cols])
        left, right = low.U[i] * (i >= 0)[:, None], low.Vt.T[j] * (j >= 0)[:, None]
        base = model.intercept_ + model.row_intercepts_[i] * (i >= 0)
        return base + model.column_intercepts_[j] * (j >= 0), left * right

    base, parts = each(*train[:2])
    values = refit_to(parts, train[2] - base) if size.size else size

    def guess(s: np.ndarray) -> Callable[[tuple], np.ndarray]:
        def found(pairs: tuple) -> np.ndarray:
            start, more = each(*pairs)
            return start + more @ s

        return found

    return guess(np.ones(len(size))), guess(values)


def tables() -> Iterator[tuple[str, np.ndarray]]:
    """Standardised tables of the bundled data."""
    rng = np.random.default_rng(0)
    digits, tissue = load("mfeat_digits"), load("tissue_expression")["X"]
    some = rng.permutation(len(digits["fou"]))[:200]
    for name, X in (
        ("Fourier coefficients", digits["fou"][some][:, rng.permutation(76)[:20]]),
        ("Karhunen-Loeve coefficients", digits["kar"][some][:, :30]),
        ("30 genes", tissue[:, rng.permutation(500)[:30]]),
    ):
        yield name, (X - X.mean(axis=0)) / X.std(axis=0)


def factor_samples() -> Iterator[tuple[str, np.ndarray]]:
    """Those tables, and samples of planted factors beside noise."""
    yield from tables()
    rng = np.random.default_rng(0)
    for count, d, size in ((2, 25, 1.0), (4, 30, 3.0)):
        common = size * rng.standard_normal((300, count)) @ rng.standard_normal((count, d))
        yield f"planted, {count} factors", common + rng.standard_normal((300, d))


def entries() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Observed entries of tables: names, rows, columns and values."""
    for name, X in tables():
        rows, cols = np.nonzero(np.random.default_rng(1).random(X.shape) > MISSING)
        yield name, rows, cols, X[rows, cols].astype(float)


def imputation() -> Iterator[Errors]:
    """As `completion`, for tables."""
    return completion(entries())


def factor_estimates(sample: Sample, share: float) -> list[Parts]:
    """Factors and diagonal at a share of the trace, moved towards their refit by `SHARES`."""
    S = sample.S
    problem = common_problem(S, 0.0, share * float(np.trace(S)), diagonal=True)
    low = wp.minimize(problem, tol=1e-2, proof=False, progress=False).low_rank
    best, found = np.maximum(np.einsum("ij,ij->j", low.U, S @ low.U), low.s), []
    for w in SHARES:
        A = np.sqrt((1.0 - w) * low.s + w * best)[:, None] * low.U.T
        rest = sample.variances - np.sum(A * A, axis=0)
        found.append(Parts(A, np.maximum(rest, sample.least_own)))
    return found


def covariance() -> Iterator[Errors]:
    """Gaussian log-losses of other samples; also those of `SparseLowRankCovariance`.

    It compares the factors with other kinds of estimates.
    """
    traces_of = np.arange(0.2, 1.0, 0.1)
    for name, X in factor_samples():
        before, after, automatic = [], [], []
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(len(X))
            few = 2 * X.shape[1]
            A, B = X[order[:few]], X[order[few:]]
            A, B = A - A.mean(axis=0), B - A.mean(axis=0)
            parts = folds(A, 5, centred=False, standardized=True, seed=seed)
            losses = np.mean(
                [
                    [
                        [one.log_loss(fold.unseen) for one in factor_estimates(fold.kept, t)]
                        for t in traces_of
                    ]
                    for fold in parts
                ],
                axis=0,
            )
            scale = A.std(axis=0)
            whole, unseen = Sample(A / scale, few - 1), B / scale
            for errors, shares in ((before, losses[:, :1]), (after, losses)):
                i, j = np.unravel_index(np.argmin(shares), shares.shape)
                estimate = factor_estimates(whole, traces_of[i])[j]
                errors.append(estimate.log_loss(unseen))
            S = wp.SparseLowRankCovariance(random_state=seed).fit(A).covariance_
            S = S / np.outer(scale, scale)
            squares = np.einsum("ij,ji->i", unseen, np.linalg.solve(S, unseen.T))
            automatic.append(float(np.linalg.slogdet(S)[1] + squares.mean()))
        yield name, before, after
        yield f"{name}: from the refit to the model", after, automatic


def completion(data: Iterator[tuple] | None = None) -> Iterator[Errors]:
    """Root mean squared errors: with the best factor, as `debias=True`, and with refits."""
    for name, *columns in observations() if data is None else data:
        before, after = [], []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(columns[2]))
            tenth = len(order) // 10
            test, held, rest = order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]
            of = lambda part, columns=columns: tuple(x[part] for x in columns)  # noqa: E731
            plain = wp.MatrixCompletion(intercept_ridge=2.0, scaling="none", random_state=0)
            first = plain.fit(*of(order[tenth:]))
            before.append(_rmse(first.predict(np.stack(of(test)[:2], axis=1)), of(test)[2]))
            best = (np.inf, 0.0, 0.0)
            for lam in first.lam_ * 2.0 ** np.arange(-1, 3):
                guesses = [
                    guess(of(held)) for guess in _with_pairs(completed(of(rest), 0.9 * lam))
                ]
                error, towards, length = Unseen.of(*guesses, of(held)[2])
                w = float(relaxed(np.array([towards]), np.array([length]))[0])
                best = min(best, (error - 2 * w * towards + w * w * length, lam, w))
            both = _with_pairs(completed(of(order[tenth:]), best[1]))
            one, two = (guess(of(test)) for guess in both)
            after.append(_rmse(one + best[2] * (two - one), of(test)[2]))
        yield name, before, after


def outliers() -> Iterator[tuple[str, Callable[[int], tuple[np.ndarray, ...]]]]:
    """Names, and data with outliers and hidden cells, with the values without outliers."""

    def planted(rank: int, size: float, share: float) -> Callable[[int], tuple]:
        def made(seed: int) -> tuple[np.ndarray, ...]:
            rng = np.random.default_rng(seed)
            L = rng.standard_normal((200, rank)) @ rng.standard_normal((rank, 60))
            return spoilt(size * L / np.sqrt(rank), share, rng, noise=1.0)

        return made

    for share in (0.05, 0.2):
        yield f"planted, rank 3, {100 * share:g} % outliers", planted(3, 3.0, share)
    yield "planted, rank 3, weak signal", planted(3, 0.5, 0.05)
    yield "planted, rank 8", planted(8, 3.0, 0.05)
    for name, X in tables():

        def real(seed: int, X: np.ndarray = X) -> tuple[np.ndarray, ...]:
            return spoilt(X, 0.05, np.random.default_rng(seed), noise=0.0)

        yield name, real


def spoilt(
    L: np.ndarray, share: float, rng: np.random.Generator, *, noise: float
) -> tuple[np.ndarray, ...]:
    """Data with noise, outliers and a tenth of the cells hidden; L, and where to compare."""
    hit = rng.random(L.shape) < share
    Z = L + noise * rng.standard_normal(L.shape) + 10.0 * hit * rng.standard_normal(L.shape)
    hidden = rng.random(L.shape) < 0.1
    return np.where(hidden, np.nan, Z), L, hidden


def robust() -> Iterator[Errors]:
    """Mean absolute errors of RobustPCA on hidden cells without and with debias."""
    for lam in ("auto", "cv"):
        for name, made in outliers():
            found: list[list[float]] = [[], []]
            for seed in range(SPLITS):
                Z, L, hidden = made(seed)
                for errors, debias in zip(found, (False, "auto"), strict=True):
                    model = wp.RobustPCA(lam, debias=debias, random_state=seed).fit(Z)
                    errors.append(float(np.mean(np.abs(model.low_rank_ - L)[hidden])))
            yield f"{lam}, {name}", *found


def refitted(loss: wp.losses.Completion, L: LowRank, steps: int = 60) -> LowRank:
    """L with the nonnegative values of least squares, given the best effects."""
    data, values, ahead, pace = loss.observed(), L.s, L.s, 1.0
    for _ in range(steps):
        x = data.sampled(L.U * ahead, L.Vt.T)
        q = data.dual(x, data.fitted(x))
        pull = np.einsum("ij,ij->j", L.U, data.times(q, L.Vt.T))
        last, values = values, np.where(L.s > 0.0, np.maximum(ahead + pull, 0.0), 0.0)
        if np.abs(values - last).max() <= 1e-4 * values.max():
            break
        pace = 1.0 if (ahead - values) @ (values - last) > 0.0 else pace
        before, pace = pace, 0.5 + np.sqrt(0.25 + pace * pace)
        ahead = values + (before - 1.0) / pace * (values - last)
    return LowRank(L.U, values, L.Vt)


def without_treatment(Y: np.ndarray, gone: np.ndarray, seed: int) -> list[np.ndarray]:
    """Outcomes of these cells by `MatrixCompletionPanel`, and with a share of the refit.

    Weights and shares are chosen by its folds of untreated cells.
    """
    rows, columns = np.nonzero(~gone)
    cells = np.nonzero(gone)
    loss = wp.losses.Completion(rows, columns, Y[~gone], Y.shape, intercepts="both")
    lams = wp.selection.observed_path(loss, cv=5, seed=seed).lams

    def at(part: wp.losses.Completion, L: LowRank, *where: np.ndarray) -> np.ndarray:
        return np.asarray(part.observed().predicted(L, part.effects(L), *where))

    sums = np.zeros((5, len(lams), 3))
    for k, fold in enumerate(held_out_entries(loss, 5, seed)):
        kept, start = fold.kept(), None
        how: dict = {"tol": 1e-3, "rank": None, "seed": 0, "deadline": Deadline()}
        for j, lam in enumerate(lams):
            start = path_point(fold.problem(kept, lam), start, **how)[0]
            both = start, refitted(kept, start.trimmed())
            guesses = [at(kept, L, fold.rows, fold.columns) for L in both]
            sums[k, j] = Unseen.of(*guesses, fold.values)
    w = relaxed(sums[..., 1].sum(axis=0), sums[..., 2].sum(axis=0))
    moved = sums[..., 0] - 2 * w * sums[..., 1] + w**2 * sums[..., 2]
    plain, best = (int(np.argmin(x.mean(axis=0))) for x in (sums[..., 0], moved))
    clear = clearly_positive(sums[:, plain, 0] - moved[:, best], WORTH)
    found = []
    for j, share in ((plain, 0.0), (best, w[best]) if clear else (plain, 0.0)):
        problem = wp.Problem(loss, None, wp.spectral.NuclearNorm(lams[j]))
        L = wp.minimize(problem, tol=1e-6, progress=False).low_rank.trimmed()
        values = (1.0 - share) * L.s + share * refitted(loss, L).s
        found.append(at(loss, LowRank(L.U, values, L.Vt), *cells))
    return found


def panels() -> Iterator[Errors]:
    """Root mean squared errors of outcomes of treated cells, with noise of size 0.5.

    Treated cells are at random places, the last ones of some units (as in panels), or the
    years from 1988 on of eight states that are not treated.
    """
    for kind in ("random", "staggered", "states"):
        found: list[list[float]] = [[], []]
        for seed in range(SPLITS):
            if kind == "states":
                data = wp.datasets.load_prop99_smoking()
                Y = data["packs"][~np.asarray(data["treated"], dtype=bool).any(axis=1)]
                gone = np.zeros(Y.shape, dtype=bool)
                gone[np.random.default_rng(seed).permutation(len(Y))[:8], 18:] = True
            else:
                Y, gone = panel.panel((100, 40), 0.5, kind, 0.3, seed)
            for errors, guess in zip(found, without_treatment(Y, gone, seed), strict=True):
                errors.append(float(np.sqrt(np.mean((guess - Y[gone]) ** 2))))
        yield {"states": "smoking in 38 states"}.get(kind, f"planted, {kind}"), *found


def classes() -> Iterator[Errors]:
    """Log-losses of TraceClassifier, and with the share of a refit that is best in hindsight.

    The refit keeps the squares of the problem, without which separable classes have none.
    """
    for name, splits in (("planted", traces.planted_classes), ("digits", traces.images)):
        losses = []
        for seed in range(SPLITS):
            for A, y, B, z in splits(seed):
                A, B = (np.reshape(x, (len(x), *x.shape[-2:])) for x in (A, B))
                losses.append(_log_losses(A, np.asarray(y), B, np.asarray(z), seed))
        best = int(np.argmin(np.mean(losses, axis=0)))
        yield (
            f"{name}, share {SHARES[best]:g}",
            *([float(x) for x in np.array(losses)[:, k]] for k in (0, best)),
        )


def _log_losses(
    A: np.ndarray, y: np.ndarray, B: np.ndarray, z: np.ndarray, seed: int
) -> list[float]:
    """Log-losses of test data for each share of the refit."""
    model = wp.TraceClassifier(random_state=seed).fit(A, y)
    L = model.result_.low_rank.trimmed()
    parts, answers = np.einsum("nij,ik,kj->nk", A, L.U, L.Vt), y == model.classes_[1]

    def value(p: np.ndarray) -> tuple[float, np.ndarray]:
        x = parts @ p[:-1] + p[-1]
        slope = 1.0 / (1.0 + np.exp(-x)) - answers
        found = np.mean(np.logaddexp(0.0, x) - answers * x) + model.lam2_ * p[:-1] @ p[:-1]
        into = parts.T @ slope / len(x) + 2.0 * model.lam2_ * p[:-1]
        return found, np.append(into, slope.mean())

    limits = [(0.0, None)] * L.rank + [(None, None)]
    p = minimize(value, np.append(L.s, model.intercept_), jac=True, bounds=limits).x
    both = []
    for coef, c in ((model.coef_, model.intercept_), ((L.U * p[:-1]) @ L.Vt, p[-1])):
        both.append(np.tensordot(B, coef, 2) + c)
    unseen = z == model.classes_[1]
    mixed = [both[0] + w * (both[1] - both[0]) for w in SHARES]
    return [float(np.mean(np.logaddexp(0.0, x) - unseen * x)) for x in mixed]


def _with_pairs(both: tuple[Callable, Callable]) -> list[Callable]:
    """Functions of rows, columns and values instead of rows and columns."""
    return [lambda part, guess=guess: guess(part[:2]) for guess in both]


def _rmse(found: np.ndarray, truth: np.ndarray) -> float:
    inside = np.clip(found, truth.min(), truth.max())
    return float(np.sqrt(np.mean((inside - truth) ** 2)))


MODELS = {
    "trace": trace,
    "reduced_rank": reduced_rank,
    "completion": completion,
    "imputation": imputation,
    "covariance": covariance,
    "robust": robust,
    "panels": panels,
    "classes": classes,
}


def main() -> None:
    """Print errors without and with refits, and the gains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    warnings.simplefilter("ignore")
    for model in parser.parse_args().models:
        for name, before, after in MODELS[model]():
            gained(f"{model}: {name}", before, after)


if __name__ == "__main__":
    main()

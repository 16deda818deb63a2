"""Random problems of every kind, solved by random methods: no certificate may be wrong.

`instance(seed)` draws a problem with its value and its distance from the set in plain
NumPy; `check(seed)` solves it several times and lists everything that is not true. From
the root of the repository, `python tests/soak/certificates.py 0 2000` checks these seeds.
Losses known through samples only are left out: what is proved about those holds at a
confidence, which `tests/contracts/test_sample_average.py` counts.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse

import weakprox as wp
from weakprox.losses import Completion, Custom, Denoising, Sensing
from weakprox.penalties import L1, ElasticNet, GroupL2, MaxAffine, Zero
from weakprox.solvers import FISTA, DavisYin, Extragradient, LeanSplitting
from weakprox.solvers.dual_ascent import DualAscent
from weakprox.spectral import Exact, NuclearBall, NuclearNorm, TracePSD

Matrix = np.ndarray
Value = Callable[[Matrix], Any]
WIDE = np.longdouble  # what values are summed in here
LIMIT = 400  # decompositions of the long run; ten times as many in a soak


@dataclass
class Instance:
    """A problem in the library's words and in NumPy's."""

    name: str
    problem: wp.Problem
    parts: list[Value]  # G, the parts of R, and h where it is finite
    excess: Value  # relative distance from the set
    dtype: Any
    best: float = np.inf  # lowest value of a feasible point that any run has found
    scale: float = 1.0  # sizes of the terms that were added up there: their rounding
    found: list[str] = field(default_factory=list)  # violations

    @property
    def eps(self) -> float:
        return float(np.finfo(self.dtype).eps)

    def value(self, X: Matrix) -> tuple[float, float]:
        """f(X) and the sum of the sizes of its terms, summed in more than float64."""
        terms = [part(X.astype(WIDE)) for part in self.parts]
        return float(sum(terms)), float(sum(abs(term) for term in terms))

    def cancelled(self, X: Matrix) -> float:
        """Size of what is left of two large numbers in a loss that fits its data well."""
        fit, first = self.parts[0](X.astype(WIDE)), self.parts[0](0.0 * X.astype(WIDE))
        return float(np.sqrt(fit * first) + self.eps * first)

    def rounding(self) -> float:
        """Differences of values that mean nothing: 1e-12 of the terms' sizes in float64."""
        return 4096 * self.eps * self.scale


# ---------------------------------------------------------------------- data


def matrix(rng: np.random.Generator, shape: tuple[int, int], symmetric: bool) -> Matrix:
    """Of size about one, often degenerate: zeros, ties, rank one, constant, sparse."""
    m, d = shape
    kind = rng.integers(0, 10)
    M = rng.standard_normal(shape)
    if kind == 0:
        M = np.zeros(shape)
    elif kind == 1:
        M = np.eye(m, d)
    elif kind == 2:
        M = np.ones(shape)
    elif kind == 3:
        M = np.outer(rng.standard_normal(m), rng.standard_normal(d))
    elif kind == 4:
        M = np.where(rng.random(shape) < 0.2, np.sign(M), 0.0)
    elif kind == 5:
        r = int(rng.integers(1, min(m, d) + 1))
        M = rng.standard_normal((m, r)) @ rng.standard_normal((r, d)) + 0.1 * M
    elif kind == 6:
        M[: m // 2] = 0.0
    elif kind == 7:
        U, _, Vt = np.linalg.svd(M, full_matrices=False)
        M = (U * 10.0 ** -np.arange(0, 8, 8 / min(m, d))[: min(m, d)]) @ Vt
    return (M + M.T) / 2 if symmetric else M


@dataclass
class Part:
    """A term for the library, and its value."""

    ours: Any
    value: Value
    name: str


def loss(rng: np.random.Generator, M: Matrix, size: float, symmetric: bool, dtype: Any) -> Part:
    """G around size * M: the optimum of G alone is of that size."""
    C = (size * M).astype(dtype)
    kind = str(rng.choice(["matrix", "samples", "dense", "rank-one", "sparse", "sum", "mean",
                           "holes", "custom", "terms"]))  # fmt: skip
    if kind == "matrix":
        return Part(Denoising(C), lambda X: ((X - C) ** 2).sum() / 2, kind)
    if kind == "samples":
        N = rng.standard_normal((3, *M.shape))
        N = (N + N.transpose(0, 2, 1)) / 2 if symmetric else N
        S = (size * (M + 0.3 * N)).astype(dtype)
        mean = S.mean(axis=0)
        return Part(Denoising(samples=S), lambda X: ((X - mean) ** 2).sum() / 2, kind)
    if kind in ("dense", "rank-one", "sparse"):
        return _sensing(rng, M, size, dtype, kind)
    if kind in ("sum", "mean", "holes"):
        return _completion(rng, M, size, dtype, kind)
    weights = rng.uniform(0.2, 2.0, M.shape).astype(dtype)
    if kind == "custom":
        ours = Custom(
            M.shape,
            value=lambda X: 0.5 * float((weights * (X - C) ** 2).astype(float).sum()),
            grad=lambda X: weights * (X - C),
            strong_convexity=float(weights.min()),
            smoothness=float(weights.max()),
            like=C,
        )
        return Part(ours, lambda X: (weights * (X - C) ** 2).sum() / 2, kind)
    shift = (size * (M + rng.standard_normal((4, *M.shape)))).astype(dtype)
    factor = np.array([0.5, 1.0, 1.5, 2.0], dtype=dtype)

    def value(X: Matrix, i: Matrix) -> float:
        each = factor[i].astype(float) / 2 * ((X - shift[i]).astype(float) ** 2).sum((1, 2))
        return float(each.mean())

    def grad(X: Matrix, i: Matrix) -> Matrix:
        return (factor[i][:, None, None] * (X - shift[i])).mean(axis=0)

    ours = Custom(
        M.shape,
        value=value,
        grad=grad,
        n_terms=4,
        strong_convexity=1.25,
        smoothness=1.25,
        term_smoothness=2.0,
        like=C,
    )

    def mean(X: Matrix) -> Any:
        return (factor / 2 * ((X - shift) ** 2).sum((1, 2))).mean()

    return Part(ours, mean, kind)


def _sensing(rng: np.random.Generator, M: Matrix, size: float, dtype: Any, kind: str) -> Part:
    m, d = M.shape
    n = int(rng.choice([m * d // 2 + 1, m * d, 2 * m * d]))
    left, right = rng.standard_normal((n, m)), rng.standard_normal((n, d))
    A = np.einsum("ni,nj->nij", left, right) if kind == "rank-one" else None
    if A is None:
        A = rng.standard_normal((n, m, d))
        A = np.where(np.abs(A) > 1.0, A, 0.0) if kind == "sparse" else A
    A = A.astype(dtype)
    b = (size * ((A * M).sum((1, 2)) + 0.1 * rng.standard_normal(n))).astype(dtype)
    given: Any = A
    if kind == "rank-one":
        given = (left.astype(dtype), right.astype(dtype))
        A = np.einsum("ni,nj->nij", *(x.astype(WIDE) for x in given))
    elif kind == "sparse":
        given = scipy.sparse.csr_array(A.reshape(n, -1))
    flat, ours = A.reshape(n, -1), Sensing(given, b, shape=M.shape)
    return Part(ours, lambda X: ((flat @ X.ravel() - b) ** 2).mean() / 2, kind)


def _completion(
    rng: np.random.Generator, M: Matrix, size: float, dtype: Any, kind: str
) -> Part:
    share = float(rng.choice([0.4, 0.8, 1.0]))
    rows, cols = np.nonzero(rng.random(M.shape) < share)
    if rows.size == 0:
        rows, cols = np.array([0]), np.array([0])
    noisy = M[rows, cols] + 0.1 * rng.standard_normal(rows.size)
    values = (size * noisy).astype(dtype)
    if kind == "holes":
        holes = np.full(M.shape, np.nan, dtype=dtype)
        holes[rows, cols] = values
        ours = Completion.from_dense(holes)
    else:
        ours = Completion(rows, cols, values, M.shape, reduction=kind)
    n = rows.size if kind == "mean" else 1
    return Part(ours, lambda X: ((X[rows, cols] - values) ** 2).sum() / (2 * n), kind)


def penalty(rng: np.random.Generator, shape: tuple[int, int], size: float, dtype: Any) -> Part:
    """R with weights that matter at points of this size, mostly."""
    kind = str(rng.choice(["none", "l1", "net", "rows", "columns", "max", "sum", "multiple",
                           "max-sum", "zero-weight"]))  # fmt: skip
    lam = float(size * 10.0 ** rng.uniform(-2, 0.5))
    if kind == "none":
        return Part(Zero(), lambda X: 0.0, kind)
    if kind == "zero-weight":
        return Part(L1(0.0), lambda X: 0.0, kind)
    if kind == "l1":
        return Part(L1(lam), lambda X: lam * np.abs(X).sum(), kind)
    if kind == "net":
        curve = float(10.0 ** rng.uniform(-2, 1))

        def net(X: Matrix) -> Any:
            return lam * np.abs(X).sum() + curve * (X**2).sum()

        return Part(ElasticNet(lam, curve), net, kind)
    if kind in ("rows", "columns"):
        axis = 1 if kind == "rows" else 0
        group = GroupL2(lam, kind)
        return Part(group, lambda X: lam * np.sqrt((X**2).sum(axis)).sum(), kind)
    if kind == "max":
        return _max_affine(rng, shape, size, dtype)
    if kind == "multiple":
        part = penalty(rng, shape, size, dtype)
        factor = float(rng.uniform(0.1, 3.0))
        return Part(factor * part.ours, lambda X: factor * part.value(X), f"k*{part.name}")
    if kind == "max-sum":
        parts = [_max_affine(rng, shape, size, dtype), penalty(rng, shape, size, dtype)]
    else:
        parts = [penalty(rng, shape, size, dtype) for _ in range(2)]
    first, second = parts
    return Part(
        first.ours + second.ours,
        lambda X: first.value(X) + second.value(X),
        f"({first.name}+{second.name})",
    )


def _max_affine(
    rng: np.random.Generator, shape: tuple[int, int], size: float, dtype: Any
) -> Part:
    n = int(rng.choice([1, 2, 5, 12]))
    A = size * 10.0 ** rng.uniform(-1, 1) * rng.standard_normal((n, *shape))
    b = size**2 * rng.standard_normal(n)
    how = rng.integers(0, 5)
    if how == 0:
        A[: n // 2 + 1], b[: n // 2 + 1] = A[0], b[0]  # the same piece more than once
    elif how == 1:
        A[-1], b[-1] = 0.0, 0.0
    A, b = A.astype(dtype), b.astype(dtype)
    flat = A.reshape(n, -1)
    return Part(MaxAffine(A, b), lambda X: (flat @ X.ravel() - b).max(), f"max{n}")


def nuclear_norm(X: Matrix) -> float:
    return float(np.linalg.norm(X.astype(float), "nuc"))


def spectral(rng: np.random.Generator, C: Matrix, symmetric: bool, kind: str) -> Part:
    """h, binding or not; `value` is the relative distance from the set (h for the norm)."""
    nuclear = float(np.linalg.norm(C, "nuc")) or 1.0
    size = float(nuclear * rng.choice([0.01, 0.3, 0.9, 1.0, 2.0, 100.0]))
    if kind == "norm":
        lam = float(size / min(C.shape) / 3)
        return Part(NuclearNorm(lam), lambda X: lam * nuclear_norm(X), kind)
    if kind == "ball":
        return Part(NuclearBall(size), lambda X: nuclear_norm(X) / size - 1.0, kind)
    if kind == "psd":

        def excess(X: Matrix) -> float:
            least = float(np.linalg.eigvalsh((X + X.T) / 2)[0])
            return max(
                float(np.trace(X)) / size - 1.0, -least / size, np.abs(X - X.T).max() / size
            )

        return Part(TracePSD(size), excess, kind)
    limit = float((np.abs(C).max() or 1.0) * rng.choice([0.1, 0.7, 2.0]))
    ours = Exact(
        prox=lambda A, weight: A.clip(-limit, limit),
        value_of=lambda X: 0.0 if float(abs(X).max()) <= limit * (1 + 1e-9) else np.inf,
        conjugate_of=lambda U: limit * float(abs(U).sum()),
    )
    return Part(ours, lambda X: float(np.abs(X).max()) / limit - 1.0, kind)


def instance(seed: int) -> Instance:
    """A random problem."""
    rng = np.random.default_rng([seed, 2019])
    kind = str(rng.choice(["ball", "ball", "psd", "norm", "exact"]))
    symmetric = kind == "psd"
    m, d = (int(x) for x in rng.integers(2, 31, 2) // rng.choice([1, 1, 3]))
    m, d = max(m, 2), max(d, 2)
    shape = (m, m) if symmetric else (m, d)
    single = kind != "exact" and rng.random() < 0.1  # that box is exact to 1e-9
    dtype = np.float32 if single else np.float64
    size = float(10.0 ** rng.uniform(-6, 6)) if not single else 10.0 ** rng.uniform(-3, 3)
    M = matrix(rng, shape, symmetric)
    G, R = loss(rng, M, size, symmetric, dtype), penalty(rng, shape, size, dtype)
    if not G.ours.strong_convexity + R.ours.curvature > 0.0:
        curve, before = float(10.0 ** rng.uniform(-2, 0)), R
        R = Part(
            before.ours + ElasticNet(0.0, curve),
            lambda X: before.value(X) + curve * (X**2).sum(),
            f"({before.name}+ridge)",
        )
    h = spectral(rng, size * M, symmetric, kind)
    parts = [G.value, R.value, *([h.value] if kind == "norm" else [])]
    excess = (lambda X: 0.0) if kind == "norm" else h.value
    name = f"{G.name} {R.name} {h.name} {shape[0]}x{shape[1]} {size:.0e} {dtype.__name__}"
    return Instance(name, wp.Problem(G.ours, R.ours, h.ours), parts, excess, dtype)


# -------------------------------------------------------------------- checks


def solvers(rng: np.random.Generator, case: Instance) -> list[tuple[Any, dict[str, Any]]]:
    """Random methods for it, with the accuracy and the limits to ask for."""
    problem = case.problem
    most = min(problem.shape)
    cap = int(rng.integers(1, most + 1))
    size = abs(case.best) or case.scale or 1.0
    deterministic: list[Any] = [None, DavisYin(), DavisYin(rank=cap)]
    if DualAscent.applies(problem):
        deterministic += [DualAscent(rank=cap), DavisYin()]
    first = deterministic[int(rng.integers(0, len(deterministic)))]
    limit = 150 if problem.penalty.separable else 40
    options = {"tol": float(10.0 ** rng.uniform(-10, -2)), "max_svds": limit}
    if first is None and rng.random() < 0.3:
        options["rank"] = cap
    others = [
        (wp.SVRGCG(rank=cap, constants="practical"), 25),
        (Extragradient(), 60),
        (FISTA(), 25),
    ]
    other, limit = others[int(rng.integers(0, len(others)))]
    eps = float(size * 10.0 ** rng.uniform(-6, -1))
    chosen: list[Any] = [(first, options), (other, {"eps": eps, "max_svds": limit})]
    if LeanSplitting.applies(problem):
        lean = {"tol": float(10.0 ** rng.uniform(-8, -1)), "max_svds": int(rng.integers(1, 60))}
        chosen.append((LeanSplitting(rank=cap if rng.random() < 0.3 else None), lean))
    return chosen


def verify(case: Instance, result: wp.Result, label: str, options: dict[str, Any]) -> None:
    """Everything a result says about itself that can be computed again."""

    def need(true: bool, what: str) -> None:
        if not true:
            case.found.append(f"{label}: {what}")

    X = np.asarray(result.X)
    value, scale = case.value(X)
    excess, single = case.excess(X.astype(float)), case.dtype is np.float32
    need(np.isfinite(value), f"value {value}")
    need(excess <= (1e-4 if single else 1e-8), f"outside the set by {excess:.1e}")
    off, blur = abs(result.value - value), scale + case.cancelled(X)
    need(off <= 256 * case.eps * blur, f"value {result.value!r} is {value!r}")
    allowed = abs(options["tol"] * result.value) if "tol" in options else options["eps"]
    need(abs(result.eps - allowed) <= 1e-12 * allowed, f"eps {result.eps} is {allowed}")
    lower = result.certificate.lower_bound
    need(lower <= result.value, f"bound {lower!r} > value {value!r}")
    need((result.gap <= result.eps) == (result.status is wp.Status.CERTIFIED),
         f"{result.status.name} with gap {result.gap:.3e}, eps {result.eps:.3e}")  # fmt: skip
    cap = options.get("rank")
    need(cap is None or result.rank <= cap, f"rank {result.rank} > {cap}")
    if value < case.best:
        case.best, case.scale = value, scale


def check(seed: int, limit: int = LIMIT) -> list[str]:
    """What is not true about runs on this seed's instance."""
    case = instance(seed)
    rng = np.random.default_rng([seed, 419])
    done: list[tuple[str, wp.Result]] = []

    def run(solver: Any, options: dict[str, Any]) -> None:
        label = f"{'default' if solver is None else solver} {options}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                result = wp.minimize(case.problem, solver, progress=False, **options)
        except Exception as failure:  # whatever it is, it is a finding
            case.found.append(f"{label}: raised {failure!r}")
            return
        cap = options.get("rank", getattr(solver, "rank", None))
        if isinstance(case.problem.spectral, Exact):
            cap = None  # which says that it ignores ranks
        verify(case, result, label, {**options, "rank": cap})
        done.append((label, result))

    if not case.problem.penalty.separable:
        limit //= 10  # proximal maps of sums and maxima are iterations themselves
    run(None, {"tol": 1e-6 if case.dtype is np.float32 else 1e-9, "max_svds": limit})
    for solver, options in solvers(rng, case):
        run(solver, options)
    for label, result in done:
        lower, slack = result.certificate.lower_bound, case.rounding()
        if lower > case.best + slack:
            over = (lower - case.best) / case.scale
            case.found.append(f"{label}: bound {over:.1e} above the best value {case.best!r}")
        if result.status.reached and result.value > case.best + result.eps + slack:
            case.found.append(
                f"{label}: {result.status.name} but {result.value - case.best:.3e} off"
            )
    return [f"seed {seed} ({case.name}) {text}" for text in case.found]


def main(first: int, last: int) -> int:
    """Check these seeds, print what is wrong, and return how many were."""
    begun, wrong = time.perf_counter(), 0
    for seed in range(first, last):
        found = check(seed, 10 * LIMIT)
        wrong += bool(found)
        for text in found:
            print(text, flush=True)
        if (seed + 1 - first) % 100 == 0:
            seconds = time.perf_counter() - begun
            print(f"{seed + 1 - first} seeds, {wrong} wrong, {seconds:.0f} s", flush=True)
    print(f"{last - first} random problems, {wrong} with a statement that is not true")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*(int(text) for text in sys.argv[1:3] or ("0", "2000"))) else 0)

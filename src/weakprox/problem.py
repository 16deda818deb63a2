"""The problem min G(X) + R(X) + h(X), composed of three terms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weakprox import protocols
from weakprox.arguments import by_name, refuse_foreign
from weakprox.display import card
from weakprox.errors import ConvexityError, InputError, ShapeError
from weakprox.hints import check_terms, shown_kind
from weakprox.linalg import arrays, decompositions
from weakprox.linalg.arrays import Array, eps_of, inner, namespace, norm, wide
from weakprox.linalg.lowrank import LowRank, dense, squared_norm
from weakprox.linalg.operators import products
from weakprox.linalg.tiled import Factored
from weakprox.losses.cells import Cells
from weakprox.losses.observed import Observed
from weakprox.passes import SeparableForm, Step, ValueForm, beside, passes_for
from weakprox.penalties import Zero
from weakprox.penalties.base import Smoothed
from weakprox.penalties.fixed import Constrained, without_constraints
from weakprox.protocols import Batch, Loss, Penalty, SpectralTerm
from weakprox.resources.memory import budget

SMALL_TARGET = 128  # size up to which a sparse target is made dense, which is faster


@dataclass(frozen=True)
class Constants:
    """Constants of a problem that the theory uses.

    alpha: strong convexity of G + R. beta_G: smoothness of G. beta_term: smoothness of
    the worst sampled term. theta, gamma, K: smoothability of R.
    """

    alpha: float
    beta_G: float
    beta_term: float
    theta: float
    gamma: float
    K: float


class Problem:
    """min over X of G(X) + R(X) + h(X).

    Parameters
    ----------
    loss : Loss
        G, from `weakprox.losses` or your own.
    penalty : Penalty or None
        R, from `weakprox.penalties` or your own; None for no penalty.
    spectral : SpectralTerm
        h, from `weakprox.spectral` or your own.
    """

    constrained: Constrained | None = None  # the penalty given, if it has constraints

    @by_name("where penalty may be None: Problem(loss, None, spectral)")
    def __init__(self, loss: Loss, penalty: Penalty | None, spectral: SpectralTerm) -> None:
        check_terms(loss, penalty, spectral)
        self.loss: Loss = loss
        self.penalty: Penalty = Zero() if penalty is None else penalty
        self.spectral: SpectralTerm = spectral
        self._with_slopes: list[Problem] = []
        self.reread()
        if self.elsewhere:
            self._gather_if_better()
        self.shape: tuple[int, int] = loss.shape
        self.penalty.check(self.shape)
        if self.of_penalty.form is None:  # a form is finite everywhere
            known = (self.of_loss, self.of_spectral.form)
            self.constrained = without_constraints(self.penalty, self.loss, *known)
            if self.constrained is not None:
                self.penalty = self.constrained.with_slopes(self.constrained.steepest)
                self.reread()  # bounds with a slope have a form
        self._check_kind()
        spectral.check(self.shape)
        check = self.of_loss.check_constants
        if check is not None:
            check(symmetric=spectral.symmetric)
        target = self.of_loss.target
        if spectral.symmetric and target is not None and not _is_symmetric(target):
            given = f"a matrix that is not symmetric, with {type(spectral).__name__}"
            raise InputError("M", given, "a symmetric matrix, such as (M + M.T) / 2")

    def reread(self) -> None:
        """Read what the terms declare; custom terms may have changed."""
        self.of_loss = protocols.loss_capabilities(self.loss)
        self.of_penalty = protocols.penalty_capabilities(self.penalty)
        self.of_spectral = protocols.spectral_capabilities(self.spectral)
        # M is on workers or an operator, so that X need not fit in this process
        self.elsewhere: bool = self.of_loss.gathered is not None
        self.infimum: float | None = None  # a lower bound on G + R, if one is known
        if self.of_loss.infimum is not None and self.of_penalty.infimum is not None:
            self.infimum = float(self.of_loss.infimum + self.of_penalty.infimum)
        self.penalised: bool = self.of_penalty.parts != ()
        form, values = self.of_penalty.form, self.of_spectral.form
        # G may be computed from factors of X alone, h being a function of singular values
        plain = values is not None and not values.symmetric
        factors = self.of_loss.own and plain and not self.penalised
        offered, stored = self.of_loss.observed, self.of_loss.cells
        self.observed: Observed | None = None if not factors or offered is None else offered()
        self.cells: Cells | None = None if not factors or stored is None else stored()
        # C, if f is |X - C|^2/2 + h, h a function of values, and C sparse, perhaps plus a
        # low-rank matrix; small ones are left to other methods, which make them dense
        target, self.sparse_target = self.of_loss.target, None
        if factors and isinstance(target, Factored) and min(target.shape) > SMALL_TARGET:
            self.sparse_target = target
        # R and h for passes over tiles: G is a squared distance, and R has a proximal map
        centred = self.of_loss.own and self.of_loss.centre is not None
        self._form = None
        if centred and form is not None and -math.inf < form.low <= form.high < math.inf:
            shifted = form.low or form.high or form.bounds is not None
            kinds = form.rows, form.columns, shifted
            one = sum(map(bool, kinds)) < 2 and not (shifted and form.weights)
            self._form = form if one else None
        if self._form is None or values is None:
            values = None
        elif values.symmetric != self.spectral.symmetric:
            values = None  # a contradictory declaration, which would prove nothing
        self._beside: dict[str, Any] | None = None  # not read yet
        self.values_form: ValueForm | None = values  # h as a function of singular values
        # whether the target of steps need not be symmetric although X is
        self.mirrored = False
        if self._form is not None and values is not None and values.symmetric:
            self.mirrored = not _is_invariant(self._form, self.loss.shape)

    def __getstate__(self) -> dict[str, Any]:
        """Keep the terms alone: what they declare may hold functions that cannot be pickled."""
        kept = ("loss", "penalty", "spectral", "shape", "constrained")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._with_slopes = []
        self.reread()

    def altered(self, **terms: Any) -> Problem:
        """The same problem with other terms, which are known to fit."""
        other = Problem.__new__(Problem)
        constrained = None if "penalty" in terms else self.constrained
        other.__setstate__({**self.__getstate__(), "constrained": constrained, **terms})
        return other

    def with_slopes(self) -> list[Problem]:
        """The problems that a run may solve: with slopes in place of constraints on entries.

        They exist as long as this one, so that a result's proof finds the one it is about.
        """
        if self.constrained is None:
            return [self]
        if not self._with_slopes:
            known = self.constrained
            self._with_slopes = [
                self.altered(penalty=known.with_slopes(slopes)) for slopes in known.slopes()
            ]
        return self._with_slopes

    def centre(self) -> Array:
        """The centre C, if G is a squared distance to it."""
        centre = self.of_loss.centre
        assert centre is not None
        return centre(self.loss.everything())

    def _gathered(self) -> Loss:
        gathered = self.of_loss.gathered
        assert gathered is not None
        found: Loss = gathered()
        return found

    def _gather_if_better(self) -> None:
        """Gather remote data into this process if the terms need that.

        Blocks of rows, read in turn or on workers, are enough for a ball. With a nuclear
        norm, proofs for values close to its weight need decompositions of whole matrices,
        so the data are gathered if they fit. Without a penalty, the solution is computed in
        factors if products with M need none of its dense entries, or if G depends on observed
        entries only.
        """
        if self.sparse_target is not None or self.observed is not None:
            return
        parts, form = self._form, self.values_form
        enough = False
        if parts is not None and form is not None:
            enough = not (form.symmetric or parts.columns)
            if enough and not form.lam:
                return
        try:
            self.loss = self._gathered()
            self.reread()
        except InputError:
            if not enough:
                raise

    def _check_kind(self) -> None:
        """Check that the arrays of the penalty can be combined with those of the loss."""
        form = self.of_penalty.form
        if form is not None and (form.weights or form.bounds is not None):
            return  # they are converted
        rows = 1 if self.penalty.rowwise else self.shape[0]  # one is enough if all are alike
        X = arrays.zeros((rows, self.shape[1]), self.loss.reference)
        try:
            met = self.penalty.pull(self.penalty.ascend(None, X, 1.0))
            given = f"arrays that lead to {type(met).__name__}"
            fits = namespace(met) is namespace(X)
        except (TypeError, RuntimeError, Warning) as failure:
            given, fits = str(failure), False
        if not fits:
            wanted = f"arrays like the loss's, {type(X).__name__} of {X.dtype}"
            raise InputError("penalty", given, wanted) from None

    def _repr_html_(self) -> str:
        """A table of the terms for notebooks."""
        m, d = self.shape
        penalty = "none" if self.of_penalty.parts == () else repr(self.penalty)
        rows = [("G, the loss", repr(self.loss)), ("R, the penalty", penalty)]
        rows.append(("h, the spectral term", repr(self.spectral)))
        note = "wp.minimize(problem) solves it; wp.plan(problem) shows the memory beforehand."
        return card(f"Minimise G(X) + R(X) + h(X) over matrices of {m} x {d}", rows, [note])

    def __repr__(self) -> str:
        return f"Problem({self.loss!r}, {self.penalty!r}, {self.spectral!r})"

    def strong_convexity(self, *, needed: bool = True) -> float:
        """Strong convexity of G + R; raise if it is 0 but `needed`."""
        alpha = self.loss.strong_convexity + self.penalty.curvature
        if needed and not alpha > 0.0:
            raise ConvexityError(
                "problem",
                f"G + R that is not strongly convex ({self.loss!r} + {self.penalty!r})",
                "a strongly convex part: add penalties.ElasticNet(0.0, lam2) with "
                "lam2 > 0 to the penalty, or state the loss's strong_convexity",
            )
        if not self.loss.smoothness >= (1 - 1e-6) * self.loss.strong_convexity:
            given = f"{self.loss.smoothness:g}"
            wanted = f"at least strong_convexity = {self.loss.strong_convexity:g}"
            raise InputError("smoothness", given, wanted)
        return alpha

    def restated(self, strong_convexity: float) -> Problem:
        """The same problem with this strong convexity of G instead of the declared one."""
        return self.altered(loss=Restated(self.loss, strong_convexity))

    def in_unit(self, unit: float) -> Problem:
        """Return the problem whose solution, times the unit, solves this one."""
        if unit == 1.0:
            return self
        offers: Any = (self.of_loss, self.of_penalty, self.of_spectral)
        return Problem(*(term.in_unit(unit) for term in offers))

    def smoothed(self, mu: float) -> Smoothed:
        """Return the Beck-Teboulle smoothing of the penalty on matrices of this shape.

        Its `smoothness`, `bias`, `value(X)` and `grad(X)` are those of R_mu, with
        R - bias <= R_mu <= R. It is a dual point: a solver's `dual` may return it.
        """
        return Smoothed.of(self.penalty, mu, self.shape)

    def radius(self, value: float) -> float:
        """Bound on the nuclear norm of every minimiser, given a value that f attains.

        It is finite if h grows like the nuclear norm and G + R has a known lower bound.
        """
        growth = self.of_spectral.growth
        if not growth or self.infimum is None:
            return math.inf
        return max(0.0, value - self.infimum) / growth

    def check_finite_sum(self, solver: str, instead: str) -> None:
        """Raise unless full gradients are available; the message names another solver."""
        if not self.loss.is_finite_sum:
            wanted = f"a finite sum: {solver} takes full gradients; for a sampler use {instead}"
            raise InputError("loss", repr(self.loss), wanted)

    def check_provable(self) -> None:
        """Raise `ConvexityError` if no lower bound on f can be computed.

        A bound exists if G + R is strongly convex, if h confines X to a bounded set, if the
        conjugate of h is known, or if h is the nuclear norm and G + R is bounded below.
        """
        offers = self.of_spectral
        if self.strong_convexity(needed=False) > 0.0 or offers.diameter is not None:
            return
        if offers.growth:
            if self.infimum is not None:
                return
            low = "loss" if self.of_loss.infimum is None else "penalty"
            why = f"the {low} has no known lower bound (`infimum`)"
            wanted = f"{low}.infimum, "
        elif offers.has_conjugate:
            return
        else:
            why = "the spectral term has no conjugate"
            wanted = "spectral.Exact(..., conjugate_of=...), "
        raise ConvexityError(
            "problem",
            f"G + R that is not strongly convex ({self.loss!r} + {self.penalty!r}), and {why}, "
            "so that no lower bound on f can be proved",
            wanted + "a bounded set such as NuclearBall, or a strongly convex part such as "
            "penalties.ElasticNet(0.0, lam2) with lam2 > 0",
        )

    def constants(self, *, strongly_convex: bool = True) -> Constants:
        """alpha, beta and the smoothing constants; raise if alpha is 0 but must not be."""
        alpha = self.strong_convexity(needed=strongly_convex)
        loss, smooth = self.loss, self.penalty.smoothability(self.shape)
        betas = loss.smoothness, loss.term_smoothness
        return Constants(alpha, *betas, smooth.theta, smooth.gamma, smooth.K)

    def value(
        self, X: Array | LowRank, batch: Batch | None = None, *, scratch: Array | None = None
    ) -> float:
        """f(X); a batch is needed if G is only known through samples.

        X is an array or, which is faster, a matrix in factors such as `result.low_rank`.
        `scratch`, an m x d array, is overwritten if given and avoids an allocation.
        """
        if not isinstance(X, LowRank):
            X = self._decomposed(X)
        point = X if self.by_passes else dense(X, scratch)
        return self.smooth_value(point, batch) + self.spectral.value(X)

    def _decomposed(self, X: Any) -> LowRank:
        """A given array as factors, since spectral terms read singular values."""
        wanted = f"an array of shape {self.shape} with finite numbers, or result.low_rank"
        refuse_foreign("X", X)
        if hasattr(X, "to_numpy"):  # a frame
            X = X.to_numpy()
        if not arrays.is_array(X) or not arrays.is_real(X):
            raise InputError("X", shown_kind(X), wanted)
        if tuple(X.shape) != self.shape:
            raise ShapeError("X", tuple(X.shape), wanted)
        if not arrays.all_finite(X):
            raise InputError("X", "NaN or infinite entries", wanted)
        return LowRank(*decompositions.svd(arrays.like(X, self.loss.reference)))

    def factored(self, X: Array, rng: np.random.Generator, rank: int | None = None) -> LowRank:
        """A feasible X as factors, of full rank by default; zero needs no decomposition."""
        if arrays.sqnorm(X) == 0.0:
            return LowRank.zero(self.shape, X)
        return self.spectral.compress(X, min(self.shape) if rank is None else rank, rng)

    @property
    def by_passes(self) -> bool:
        """True if f is computed from factors of X, so that X itself is never stored."""
        parts = (self.observed, self.cells, self.sparse_target)
        if any(part is not None for part in parts):
            return True
        if self._form is None or not self.loss.is_finite_sum:
            return False
        return self.elsewhere or budget() is not None or not arrays.on_cpu(self.loss.reference)

    def gathered(self) -> Problem:
        """The same problem with all data in this process, if they fit."""
        if not self.elsewhere:
            return self
        return Problem(self._gathered(), self.penalty, self.spectral)

    def entrywise(self, gamma: float = 1.0) -> Step | None:
        """Constants of a splitting step by passes over tiles; None if not applicable.

        It applies if G is a squared distance and R has a form with a proximal map.
        """
        form = self._form
        if form is None:
            return None
        slopes = form.above, form.below, form.rows, form.columns, form.low, form.high
        step = Step(gamma, self.loss.smoothness, self.penalty.curvature, *slopes)
        if not form.weights and form.bounds is None:
            return step
        if self._beside is None:
            self._beside = beside.of_form(form, arrays.contiguous(self.centre()), passes_for)
        return step._replace(**self._beside)

    @property
    def beside_bytes(self) -> int:
        """Bytes of the array that passes make of weights or bounds; 0 if they need none."""
        form, reference = self._form, self.loss.reference
        if form is None or self.elsewhere or arrays.in_file(reference):
            return 0
        whole = int(math.prod(self.shape) * reference.dtype.itemsize)
        if form.bounds is not None:  # one row may stand for all
            rows = max(end.shape[0] for end in form.bounds)
            return 2 * whole if rows > 1 else 2 * whole // self.shape[0]
        if not form.weights:
            return 0
        weights = form.weights[0][1]
        wide = weights.dtype.itemsize > reference.dtype.itemsize
        moved = arrays.in_file(weights) or not arrays.is_numpy(reference)
        fits = weights.shape == self.shape and not (wide or moved)
        return 0 if len(form.weights) == 1 and fits else whole

    def smooth_value(self, X: Array | LowRank, batch: Batch | None = None) -> float:
        """G(X) + R(X)."""
        if isinstance(X, LowRank):
            if self.observed is not None:
                return self.observed.valued(X)
            if self.cells is not None:
                return self.cells.value(X)
            if self.sparse_target is not None:
                return distance_parts(self.sparse_target, X)[0]
            step = self.entrywise() if self.by_passes else None
            if step is not None:
                C = arrays.contiguous(self.centre())
                return passes_for(C).look(C, None, X, step).value(step)
            X = X.dense()
        return sum(self.smooth_values(X, batch))

    def smooth_values(self, X: Array, batch: Batch | None = None) -> tuple[float, float]:
        """G(X) and R(X)."""
        if batch is None:
            if not self.loss.is_finite_sum:
                raise InputError("batch", None, "samples: this loss has no finite sum")
            batch = self.loss.everything()
        values = self.loss.value(X, batch), self.penalty.value(X)
        if math.isnan(sum(values)):
            given = f"NaN as the value of {self.loss!r} + {self.penalty!r}"
            raise InputError("problem", given, "terms with finite values")
        return values


class Restated:
    """A loss with another strong convexity; all other members are forwarded."""

    def __init__(self, loss: Loss, strong_convexity: float) -> None:
        self._loss = loss
        self.strong_convexity = strong_convexity

    @property
    def capabilities(self) -> protocols.LossCapabilities:
        one = protocols.loss_capabilities(self._loss)
        compute = one.in_float64

        def in_float64() -> Restated | None:
            found = compute and compute()
            return None if found is None else Restated(found, self.strong_convexity)

        return replace(one, in_float64=compute and in_float64)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_loss":
            raise AttributeError(name)  # while being copied, the loss is not set yet
        return getattr(self._loss, name)

    def __repr__(self) -> str:
        return repr(self._loss)


def distance_parts(C: Factored, X: LowRank) -> tuple[float, float]:
    """|X - C|^2/2 in float64 from the parts of C and the factors of X, and its rounding."""
    U, s, Vt = wide(X.U), wide(X.s), wide(X.Vt)
    whole, square = C.sqnorm, squared_norm(U, s, Vt.T)
    across = inner(U * s, products(C).times(Vt.T))
    unit = (64.0 + math.sqrt(sum(C.shape))) * eps_of(s)
    return 0.5 * max(0.0, whole - 2.0 * across + square), unit * (whole + square)


def _is_invariant(form: SeparableForm, shape: tuple[int, int]) -> bool:
    """Return True if R(X) = R(X') for all X, so that steps keep z symmetric."""
    if form.rows or form.columns:
        return False
    for array in (*(weights for _, weights in form.weights), *(form.bounds or ())):
        if any(mine not in (1, size) for mine, size in zip(array.shape, shape, strict=True)):
            return True  # an error, which is raised elsewhere
        whole = np.broadcast_to(array, shape)
        if not np.array_equal(whole, whole.T):
            return False
    return True


def _is_symmetric(M: Array) -> bool:
    return norm(M - M.T) <= 1e3 * eps_of(M) * norm(M)

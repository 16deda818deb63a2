"""The problem min G(X) + R(X) + h(X): three terms that fit together."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, cast

from weakprox.errors import ConvexityError, InputError
from weakprox.linalg.arrays import Array, contiguous, eps_of, namespace, norm, on_cpu, zeros
from weakprox.linalg.kernels import dense
from weakprox.linalg.lowrank import LowRank
from weakprox.losses.restated import Restated
from weakprox.passes import Step, Sums, passes_for
from weakprox.penalties import Zero
from weakprox.protocols import Batch, Loss, Penalty, SpectralTerm
from weakprox.resources.memory import budget
from weakprox.spectral import NuclearBall

_LOSS = ["shape", "smoothness", "term_smoothness", "strong_convexity", "draw", "value", "grad"]
_PENALTY = [
    "curvature",
    "smoothability",
    "value",
    "pull",
    "dual_value",
    "ascend",
    "rowwise",
    "check",
]
_SPECTRAL = ["value", "violation", "weak_prox", "conjugate", "compress", "check"]


@dataclass(frozen=True)
class Constants:
    """What the theory needs to know of a problem.

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

    def __init__(self, loss: Loss, penalty: Penalty | None, spectral: SpectralTerm) -> None:
        self.loss: Loss = loss
        self.penalty: Penalty = Zero() if penalty is None else penalty
        self.spectral: SpectralTerm = spectral
        _offers("loss", self.loss, _LOSS)
        _offers("penalty", self.penalty, _PENALTY)
        _offers("spectral", self.spectral, _SPECTRAL)
        if self.elsewhere and (self.entrywise() is None or type(spectral) is not NuclearBall):
            self.loss = loss.gathered()  # type: ignore[attr-defined]
        self.shape: tuple[int, int] = loss.shape
        self.penalty.check(self.shape)
        self._check_kind()
        spectral.check(self.shape)
        check = getattr(self.loss, "check_constants", None)
        if check is not None:
            check(symmetric=spectral.symmetric)
        target = getattr(self.loss, "target", None)
        if spectral.symmetric and target is not None and not _is_symmetric(target):
            raise InputError(
                "M",
                f"a matrix that is not symmetric, with {type(spectral).__name__}",
                "a symmetric one, such as (M + M.T) / 2",
            )

    def _check_kind(self) -> None:
        """A penalty that holds arrays must be able to meet those of the loss."""
        rows = 1 if self.penalty.rowwise else self.shape[0]  # one will do if all are alike
        X = zeros((rows, self.shape[1]), self.loss.reference)
        try:
            met = self.penalty.pull(self.penalty.ascend(None, X, 1.0))
            given = f"arrays that lead to {type(met).__name__}"
            fits = namespace(met) is namespace(X)
        except (TypeError, RuntimeError, Warning) as failure:
            given, fits = str(failure), False
        if not fits:
            wanted = f"arrays like the loss's, {type(X).__name__} of {X.dtype}"
            raise InputError("penalty", given, wanted) from None

    def __repr__(self) -> str:
        return f"Problem({self.loss!r}, {self.penalty!r}, {self.spectral!r})"

    def strong_convexity(self, *, needed: bool = True) -> float:
        """That of G + R; raises if it is 0 but must not be."""
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
        """The same problem with another strong convexity of G than the loss declares."""
        other = copy.copy(self)
        other.loss = cast(Loss, Restated(self.loss, strong_convexity))
        return other

    @property
    def infimum(self) -> float | None:
        """A number that G + R is never below, None if none is known."""
        parts = [getattr(term, "infimum", None) for term in (self.loss, self.penalty)]
        return None if parts[0] is None or parts[1] is None else float(parts[0] + parts[1])

    def radius(self, value: float) -> float:
        """Nuclear norm that no minimiser exceeds if f takes this value somewhere.

        Finite where h grows like the nuclear norm and G + R has a known lower bound.
        """
        growth = getattr(self.spectral, "growth", 0.0)
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

        One can where G + R is strongly convex, where h confines X to a bounded set, where
        the conjugate of h is known, and where h is the nuclear norm and G + R is bounded
        below.
        """
        if self.strong_convexity(needed=False) > 0.0 or hasattr(self.spectral, "diameter"):
            return
        if getattr(self.spectral, "growth", 0.0):
            if self.infimum is not None:
                return
            low = "loss" if getattr(self.loss, "infimum", None) is None else "penalty"
            why = f"the {low} has no known lower bound (`infimum`)"
            wanted = f"{low}.infimum, "
        elif getattr(self.spectral, "conjugate_of", True) is not None:
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
        """alpha, beta and the smoothing constants; raises if alpha is 0 but must not be."""
        alpha = self.strong_convexity(needed=strongly_convex)
        smooth = self.penalty.smoothability(self.shape)
        return Constants(
            alpha=alpha,
            beta_G=self.loss.smoothness,
            beta_term=self.loss.term_smoothness,
            theta=smooth.theta,
            gamma=smooth.gamma,
            K=smooth.K,
        )

    def value(
        self, X: LowRank, batch: Batch | None = None, *, scratch: Array | None = None
    ) -> float:
        """f(X); a batch is needed where G is only known through samples.

        `scratch`, an m x d array, is overwritten if given and saves making one.
        """
        point = X if self.by_passes else dense(X, scratch)
        return self.smooth_value(point, batch) + self.spectral.value(X)

    @property
    def by_passes(self) -> bool:
        """Whether f is computed from factors of X, so that X itself is never stored."""
        if self.entrywise() is None or not self.loss.is_finite_sum:
            return False
        return self.elsewhere or budget() is not None or not on_cpu(self.loss.reference)

    @property
    def elsewhere(self) -> bool:
        """Whether M is on workers or an operator, so that X need not fit in this process."""
        return bool(getattr(self.loss, "elsewhere", False))

    def gathered(self) -> Problem:
        """The same with all data in this process, if they fit, for methods that need that."""
        if not self.elsewhere:
            return self
        return Problem(self.loss.gathered(), self.penalty, self.spectral)  # type: ignore[attr-defined]

    def entrywise(self, gamma: float = 1.0) -> Step | None:
        """Constants of a splitting step that works entry by entry; None if there is none.

        That is where G is a squared distance and R the l1 norm or the elastic net.
        """
        # of these very classes: a subclass may have changed what they say
        own = [vars(type(term)) for term in (self.loss, self.penalty)]
        if "centre" not in own[0] or "l1_weight" not in own[1]:
            return None
        lam = self.penalty.l1_weight  # type: ignore[attr-defined]
        return Step(gamma, self.loss.smoothness, self.penalty.curvature, lam)

    def smooth_value(self, X: Array | LowRank, batch: Batch | None = None) -> float:
        """G(X) + R(X)."""
        step = self.entrywise()
        if isinstance(X, LowRank) and step is not None and self.by_passes:
            C = contiguous(self.loss.centre(self.loss.everything()))  # type: ignore[attr-defined]
            sums: Sums = passes_for(C).look(C, None, X, step)
            return sums.value(step)
        return sum(self.smooth_values(X.dense() if isinstance(X, LowRank) else X, batch))

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


def _offers(name: str, term: Any, members: list[str]) -> None:
    """Raise if the term lacks a member (looked up without computing properties)."""
    known = set(dir(type(term))) | set(getattr(term, "__dict__", {}))
    missing = [member for member in members if member not in known]
    if missing or isinstance(term, type):
        what = "a class" if isinstance(term, type) else type(term).__name__
        wanted = f"an object with {', '.join(missing or members)}"
        raise InputError(name, what, wanted)


def _is_symmetric(M: Array) -> bool:
    return norm(M - M.T) <= 1e3 * eps_of(M) * norm(M)

"""The parameters of one run of Algorithm 1 or 2, with what they predict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SNAPSHOT = 32.0  # k_s = SNAPSHOT sigma^2 / (alpha C0) 2^(s - 1), Theorem 1
FRESH = 15.0 / 7.0  # the same for every step without variance reduction, see `k_fresh`


@dataclass(frozen=True)
class Parameters:
    """Everything Algorithm 1 or 2 needs to reach eps in expectation.

    Attributes
    ----------
    eps, mu, delta, delta2 : float
        Accuracy; smoothing (0 if nothing is smoothed); the oracle's delta1 and delta2.
    alpha, beta_G, beta_R, beta, beta_term, sigma, C0 : float
        Constants of the smoothed problem; C0 bounds its initial gap. With the paper's
        constants beta_G is beta_term, the smoothness of the worst sampled term.
    inner : int
        Inner steps per epoch, T - 1.
    eta : float
        Step, alpha / (2 beta); alpha / beta for "practical" runs without inner noise.
    first_batch : float
        Snapshot samples of the first epoch before rounding (0 for a finite sum).
    k_t : int
        Inner samples per step, 0 where samples cancel.
    S : int
        The theorem bounds X_S, so S - 1 epochs are run.
    finite_sum : bool
        Algorithm 2 rather than Algorithm 1.
    constants : {"paper", "repaired", "practical"}
        Which constant set; `bound` is infinite for the last, which no theorem covers.
    """

    eps: float
    mu: float
    delta: float
    delta2: float
    alpha: float
    beta_G: float
    beta_R: float
    beta: float
    beta_term: float
    sigma: float
    C0: float
    inner: int
    eta: float
    first_batch: float
    k_t: int
    S: int
    finite_sum: bool
    constants: str
    n_terms: int = field(default=0, repr=False)
    bias: float = 0.0  # gamma mu, how far the smoothed f lies below f
    pilot: int = 0  # samples spent on estimating sigma and C0

    @property
    def T(self) -> int:
        """The paper's T, inner steps plus one."""
        return self.inner + 1

    @property
    def epochs(self) -> int:
        """Epochs to run."""
        return self.S - 1

    def k_s(self, epoch: int) -> int:
        """Snapshot samples of an epoch (from 1); all terms for a finite sum."""
        if self.finite_sum:
            return self.n_terms
        return max(1, math.ceil(self.first_batch * 2.0 ** (epoch - 1)))

    def k_fresh(self, epoch: int) -> int:
        """Samples of every step of an epoch (from 1) without variance reduction.

        With k fresh samples a step, Lemma 1 has sigma^2/k in place of Lemma 2's variance.
        An epoch then gives h_{s+1} <= h_s/16 + 15/16 sigma^2/(alpha k) and terms in delta,
        since (1 - eta)^(T-1) <= 1/16. With k = 15/7 sigma^2/(alpha C0) 2^(s-1) that is
        half of C0 2^-(s-1), as the theorem states.
        """
        if self.finite_sum:
            return self.n_terms
        share = FRESH / SNAPSHOT
        return max(1, math.ceil(share * self.first_batch * 2.0 ** (epoch - 1)))

    @property
    def contraction(self) -> float:
        """Share of the error that one inner step removes: an epoch leaves an eighth."""
        return min(1.0, math.log(8.0) / self.inner)

    @property
    def predicted_svds(self) -> int:
        """Calls of the weak proximal oracle."""
        return self.epochs * self.inner

    @property
    def predicted_samples(self) -> int:
        """Samples drawn: pilot, snapshots and inner batches."""
        inner = self.epochs * (self.inner - 1) * self.k_t
        if self.finite_sum:
            return 0 if self.k_t >= self.n_terms else inner
        return self.pilot + inner + sum(self.k_s(s) for s in range(1, self.epochs + 1))

    @property
    def predicted_gradients(self) -> int:
        """Gradients of single terms: an inner sample costs two."""
        snapshots = sum(self.k_s(s) for s in range(1, self.epochs + 1))
        if self.finite_sum and self.k_t >= self.n_terms:
            return snapshots + self.epochs * (self.inner - 1) * self.n_terms
        return snapshots + 2 * self.epochs * (self.inner - 1) * self.k_t

    def bound(self, epoch: int) -> float:
        """The theorem's bound on E f(X_s) - f*, s counted from 1."""
        if self.constants == "practical":
            return math.inf
        rate = 5.0 / 12.0 if self.finite_sum else 0.5
        oracle = 8.0 / 7.0 * self.alpha * self.delta + 16.0 / 7.0 * self.delta2
        return self.C0 * rate ** (epoch - 1) + oracle + 23.0 / 7.0 * self.bias

    def __str__(self) -> str:
        kind = "finite sum (Algorithm 2)" if self.finite_sum else "sampled (Algorithm 1)"
        growth = "" if self.finite_sum else " in the first epoch, doubling"
        return "\n".join(
            [
                f"SVRGCG, {kind}, {self.constants} constants, eps = {self.eps:.4g}",
                f"  alpha {self.alpha:.4g}, beta {self.beta:.4g} = G {self.beta_G:.4g} + "
                f"R {self.beta_R:.4g}, worst term {self.beta_term:.4g}, "
                f"sigma {self.sigma:.4g}, C0 {self.C0:.4g}",
                f"  mu {self.mu:.4g}, delta {self.delta:.4g}, eta {self.eta:.4g}",
                f"  {self.epochs} epochs (S = {self.S}) of {self.inner} steps "
                f"(T = {self.T}); k_s = {self.k_s(1)}{growth}; k_t = {self.k_t}",
                f"  predicted: {self.predicted_svds} SVDs, {self.predicted_samples} "
                f"samples, {self.predicted_gradients} gradients",
            ]
        )

"""Samples of a loss that were drawn once and stored: their mean is a finite sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.display import counted
from weakprox.errors import InputError
from weakprox.linalg.arrays import Array, add_scaled, gaussian, norm, sqnorm
from weakprox.protocols import Batch, Loss, LossCapabilities, loss_capabilities

SWEEPS = 16  # sweeps of the power iterations that estimate curvatures
MARGIN = 1.1  # safety factor, since the estimates lie inside the true range
# least share of the expectation's strong convexity, since few samples may have none
LEAST = 0.05

Weighted = tuple[tuple[Batch, float], ...]  # batches with their shares of a mean


class Empirical:
    """The mean over samples of a sampled loss, as a finite sum.

    `batches` are pairs (loss.draw(rng, size), size). If the loss has `merged(batches)`, they
    are reduced to one, so that memory does not grow with the number of samples.

    Smoothness and strong convexity (unless given) are estimated for these samples by a few
    power iterations. The estimates serve for step sizes. Proofs about the expectation use its
    own strong convexity instead.
    """

    is_finite_sum = True
    sigma: float | None = None  # unknown for these samples

    def __init__(
        self,
        loss: Loss,
        batches: Sequence[tuple[Batch, int]],
        *,
        strong_convexity: float | None = None,
    ) -> None:
        if not batches:
            raise InputError("batches", "none", "at least one batch of samples")
        self._loss, self._given = loss, strong_convexity
        self.n_terms = sum(size for _, size in batches)
        self._sizes = [size for _, size in batches]
        self._batches = [batch for batch, _ in batches]
        self.shape, self.reference = loss.shape, loss.reference
        self.samples_cancel = loss.samples_cancel
        self._offers = loss_capabilities(loss)
        if self._offers.merged is not None:
            self._batches, self._sizes = [self._offers.merged(self._batches)], [self.n_terms]

    def __repr__(self) -> str:
        return f"Empirical({counted(self.n_terms, 'sample')} of {self._loss!r})"

    @property
    def capabilities(self) -> LossCapabilities:
        """Capabilities of the loss that the mean of its samples also has."""
        one = self._offers
        if one.merged is None:
            return LossCapabilities(infimum=one.infimum, own=one.own)
        centre, into = one.centre, one.grad_into
        return LossCapabilities(
            centre=centre and (lambda batch: centre(batch[0][0])),
            grad_into=into and (lambda X, batch, out: into(X, batch[0][0], out)),
            infimum=one.infimum,
            own=one.own,
        )

    @property
    def chunk(self) -> int:
        return self._loss.chunk

    def everything(self) -> Weighted:
        """All samples, each once."""
        shares = [size / self.n_terms for size in self._sizes]
        return tuple(zip(self._batches, shares, strict=True))

    def draw(self, rng: np.random.Generator, size: int) -> Weighted:
        """Whole batches, each drawn with probability equal to its share of the samples.

        A batch is at least as informative as one of its samples, so the variance of these
        estimates is at most that of `size` single samples.
        """
        shares = np.array(self._sizes) / self.n_terms
        counts = np.bincount(rng.choice(len(shares), size, p=shares), minlength=len(shares))
        return tuple((self._batches[j], counts[j] / size) for j in np.flatnonzero(counts))

    def value(self, X: Array, batch: Weighted) -> float:
        return sum(share * self._loss.value(X, part) for part, share in batch)

    def grad(self, X: Array, batch: Weighted) -> Array:
        (first, share), *others = batch
        total = self._loss.grad(X, first)
        if others or share != 1.0:
            total = share * total
        for part, weight in others:
            add_scaled(total, weight, self._loss.grad(X, part))
        return total

    def spread(self, X: Array, batch: Weighted) -> float:
        """Variance of one sample's gradient, from the scatter of the batch means."""
        if len(self._batches) == 1:
            return self._loss.spread(X, self._batches[0])
        mean = self.grad(X, self.everything())
        apart = [sqnorm(self._loss.grad(X, part) - mean) for part in self._batches]
        weighted = sum(k * square for k, square in zip(self._sizes, apart, strict=True))
        return weighted / (len(apart) - 1)

    @cached_property
    def smoothness(self) -> float:
        """Largest curvature of the mean over these samples."""
        if self.samples_cancel:
            return self._loss.smoothness  # gradient differences are the same for all samples
        return MARGIN * self._curvature(self.everything())[0]

    @cached_property
    def flattest(self) -> tuple[float, Array]:
        """Approximate smallest curvature of the mean, and a unit direction where it occurs."""
        found, D = self._curvature(self.everything(), below=self.smoothness)
        return self.smoothness - found, D

    @cached_property
    def strong_convexity(self) -> float:
        """The expectation's strong convexity, or less if these samples have less curvature."""
        if self._given is not None:
            return self._given
        known = self._loss.strong_convexity
        if self.samples_cancel or known == 0.0:
            return known
        least = max(self.flattest[0] / MARGIN, LEAST * known)
        return min(known, self.smoothness, least)

    @cached_property
    def term_smoothness(self) -> float:
        """Largest curvature of a batch, since `draw` draws batches."""
        if self.samples_cancel:
            return self._loss.smoothness
        worst = max(self._curvature(((part, 1.0),))[0] for part in self._batches)
        return max(MARGIN * worst, self.smoothness)

    def _curvature(self, batch: Any, *, below: float = 0.0) -> tuple[float, Array]:
        grad = lambda X: self.grad(X, batch)  # noqa: E731
        return curvature(grad, self.shape, self.reference, seed=8, sweeps=SWEEPS, below=below)


def curvature(
    grad: Callable[[Array], Array],
    shape: tuple[int, int],
    reference: Array,
    *,
    seed: int,
    sweeps: int,
    below: float = 0.0,
) -> tuple[float, Array]:
    """Largest curvature, or how far the smallest lies below a bound, and its direction."""
    rng = np.random.default_rng(seed)
    X, D = gaussian(rng, shape, reference), gaussian(rng, shape, reference)
    base, found, direction = grad(X), 0.0, D
    for _ in range(sweeps):  # power iteration on gradient differences at one random point
        size = norm(D)
        if size == 0.0:
            break
        direction = D / size
        bent = grad(X + direction) - base
        D = below * direction - bent if below else bent
        found = max(found, norm(D))
    return found, direction

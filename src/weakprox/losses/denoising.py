"""Squared distance to the mean of noisy matrices (Examples 1 and 2 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weakprox.errors import InputError, ShapeError
from weakprox.linalg.arrays import (
    Array,
    all_finite,
    inner,
    itemsize,
    namespace,
    row_blocks,
    sqnorm,
    zeros,
)
from weakprox.linalg.kernels import add_scaled, subtract
from weakprox.losses.inputs import (
    as_array,
    as_real,
    as_shape,
    call_sampler,
    checked_draw,
    chunk_of,
    constant,
    floating,
)


@dataclass(frozen=True)
class Moments:
    """A batch of matrices, reduced to what the loss needs: never more than one matrix.

    `scatter` is the sum of squared distances of the samples to their mean.
    """

    mean: Array
    size: int
    scatter: float


class Denoising:
    r"""Noisy copies of a matrix, :math:`G(X) = \tfrac12 \|X - \mathbb{E}M\|_F^2`.

    Give exactly one of `M`, `samples` and `sampler`. The value leaves out the constant
    :math:`\tfrac12 \mathbb{E}\|M - \mathbb{E}M\|^2`; from a sampled batch it is unbiased
    (the pair form of the paper's equation for G, in closed form).

    Samples cancel in the variance-reduced gradient, so SVRGCG draws nothing in its inner
    loop, whoever calls it.

    Parameters
    ----------
    M : array of shape (m, d), optional
        The matrix itself (no sampling).
    samples : array or memory map of shape (n, m, d), optional
        A finite sum over noisy matrices; read in chunks, never copied whole.
    sampler : callable, optional
        `sampler(rng, k)` returns k fresh samples, shape (k, m, d).
    shape : (int, int), optional
        Shape of one sample; needed with `sampler`.
    sigma : float, optional
        Standard deviation sqrt(E |M - EM|_F^2) of one sample over all entries (not per
        entry); computed for `M` and `samples`, estimated for `sampler` if not given.
    """

    smoothness = 1.0
    term_smoothness = 1.0
    strong_convexity = 1.0
    samples_cancel = True
    n_terms = 0

    def __init__(
        self,
        M: Array | None = None,
        *,
        samples: Array | None = None,
        sampler: Callable[[np.random.Generator, int], Any] | None = None,
        shape: tuple[int, int] | None = None,
        sigma: float | None = None,
    ) -> None:
        given = [
            name
            for name, value in (("M", M), ("samples", samples), ("sampler", sampler))
            if value is not None
        ]
        if len(given) != 1:
            raise InputError(
                "M, samples, sampler", " and ".join(given) or "none", "exactly one"
            )
        self._sigma = constant("sigma", sigma)
        self.target: Array | None = None
        if M is not None:
            hint = " (for missing entries use losses.Completion)"
            self._terms = self.target = as_real("M", M, 2, nan_hint=hint)
            self.reference = self.target
            self.n_terms = 1
        elif samples is not None:
            self._terms = as_array("samples", samples, 3)
            self.reference = floating(self._terms[0])
            self.n_terms = int(self._terms.shape[0])
        else:
            self._prepare_sampler(sampler, shape)
        self.shape: tuple[int, int] = (
            int(self.reference.shape[0]),
            int(self.reference.shape[1]),
        )
        if shape is not None and as_shape(shape) != self.shape:
            raise ShapeError("shape", tuple(shape), f"{self.shape}, that of the data")

    def _prepare_sampler(self, sampler: Any, shape: tuple[int, int] | None) -> None:
        if not callable(sampler):
            raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
        shape = as_shape(shape, ", with a sampler")
        self._sampler = sampler
        self._terms = None
        # One trial draw from a stream of its own: shows shape, dtype and device early.
        trial = call_sampler(sampler, np.random.default_rng(0), 1)
        self.reference = checked_draw(trial, (1, *shape))[0]

    def __repr__(self) -> str:
        if self._terms is None:
            kind = "sampler"
        else:
            kind = "one matrix" if self.n_terms == 1 else f"{self.n_terms} samples"
        return f"Denoising({kind}, {self.shape[0]} x {self.shape[1]})"

    @property
    def is_finite_sum(self) -> bool:
        """Whether the whole sum can be listed."""
        return self._terms is not None

    @property
    def sigma(self) -> float | None:
        """Gradient noise of one sample, None if not known yet."""
        if self._sigma is None and self._terms is not None:
            batch = self.everything()
            self._sigma = math.sqrt(batch.scatter / batch.size)
        return self._sigma

    @property
    def chunk(self) -> int:
        """A batch is reduced to one matrix while drawn, so any size fits."""
        return 1 << 62

    @cached_property
    def _whole(self) -> Moments:
        if self.target is not None:
            return Moments(self.target, 1, 0.0)
        step = chunk_of(self._sample_bytes)
        return self._reduce(self._terms[i : i + step] for i in range(0, self.n_terms, step))

    @property
    def _sample_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * itemsize(self.reference)

    def everything(self) -> Moments:
        """Mean of all terms."""
        return self._whole

    def draw(self, rng: np.random.Generator, size: int) -> Moments:
        """Independent samples (terms with replacement), reduced as they come."""
        step = chunk_of(self._sample_bytes)
        if self.target is not None:
            return Moments(self.target, size, 0.0)
        sizes = [min(step, size - i) for i in range(0, size, step)]
        if self._terms is not None:
            return self._reduce(
                self._terms[np.sort(rng.integers(0, self.n_terms, k))] for k in sizes
            )
        return self._reduce(
            checked_draw(call_sampler(self._sampler, rng, k), (k, *self.shape)) for k in sizes
        )

    def _reduce(self, chunks: Any) -> Moments:
        """Mean and scatter over chunks, by the stable pairwise update."""
        mean, size, scatter = zeros(self.shape, self.reference), 0, 0.0
        for chunk in chunks:
            block = floating(chunk)
            xp = namespace(block)
            if not all_finite(block):
                raise InputError("samples", "NaN or infinite entries", "finite numbers")
            k = int(block.shape[0])
            local = xp.mean(block, axis=0)
            scatter += sum(sqnorm(block[i] - local) for i in range(k))
            shift = local - mean
            scatter += sqnorm(shift) * size * k / (size + k)
            mean = mean + shift * (k / (size + k))
            size += k
        return Moments(mean, size, scatter)

    def merged(self, batches: Sequence[Moments]) -> Moments:
        """The moments of all the batches' samples together."""
        size = sum(batch.size for batch in batches)
        mean = zeros(self.shape, self.reference)
        for batch in batches:
            add_scaled(mean, batch.size / size, batch.mean)
        between = sum(batch.size * sqnorm(batch.mean - mean) for batch in batches)
        return Moments(mean, size, between + sum(batch.scatter for batch in batches))

    def value(self, X: Array, batch: Moments) -> float:
        """Half the squared distance to the batch mean, less its sampling bias."""
        total = 0.0
        for rows in row_blocks(X):
            R = X[rows] - batch.mean[rows]
            total += inner(R, R)
        if self._terms is None and batch.size > 1:
            total -= batch.scatter / (batch.size * (batch.size - 1))
        return 0.5 * total

    def grad(self, X: Array, batch: Moments) -> Array:
        """X minus the batch mean."""
        return X - batch.mean

    def grad_into(self, X: Array, batch: Moments, out: Array) -> Array:
        """The same, written over `out`."""
        return subtract(X, batch.mean, out)

    def centre(self, batch: Moments) -> Array:
        """The batch mean C: this loss is 1/2 |X - C|^2 and a constant."""
        return batch.mean

    def spread(self, X: Array, batch: Moments) -> float:
        """Sample variance of one matrix, the same at every X."""
        return batch.scatter / max(1, batch.size - 1)

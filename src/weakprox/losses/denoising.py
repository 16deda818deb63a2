"""Squared distance to the mean of noisy matrices (Examples 1 and 2 of the paper)."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from weakprox.distributed import is_dask
from weakprox.distributed.terms import Copies, stand_in
from weakprox.errors import InputError, ShapeError
from weakprox.linalg import arrays
from weakprox.linalg.arrays import Array
from weakprox.linalg.tiled import Tiled, as_tiled
from weakprox.losses import inputs
from weakprox.losses.entry_losses import is_squared
from weakprox.losses.entrywise import Entrywise
from weakprox.losses.moments import Moments
from weakprox.losses.on_device import on_device
from weakprox.protocols import LossCapabilities, LossProx, StatedLoss
from weakprox.resources.memory import room, shown_bytes
from weakprox.streams import Stream, as_stream, is_stream

HINT = " (for missing entries use losses.Completion, MatrixCompletion or SparseLowRankImputer)"
AT_ONCE = 4  # arrays needed to update a mean
KEPT_AS_MEAN = "their mean"  # the data kept from samples that are read only once


class Denoising:
    r"""Noisy copies of a matrix, :math:`G(X) = \tfrac12 \|X - \mathbb{E}M\|_F^2`.

    Give exactly one of `M`, `samples` and `sampler`. The value omits the constant
    :math:`\tfrac12 \mathbb{E}\|M - \mathbb{E}M\|^2`. From a sampled batch it is unbiased
    (the pair form of the paper's equation for G, in closed form).

    Samples cancel in the variance-reduced gradient, so SVRGCG draws none in its inner loop.

    Parameters
    ----------
    M : array, frame or dask array of shape (m, d), optional
        The matrix itself (no sampling). The result keeps the labels of a frame. A dask array
        stays on its workers, and so does X, if the penalty is a sum of `L1`, `SignedL1`,
        `ElasticNet` and `GroupL2` of rows, or none, and h is `NuclearBall` (or `NuclearNorm`,
        if M does not fit). With those terms, M may also be a SciPy sparse matrix, a `LowRank`,
        a `LowRankPlusSparse`, a zarr array or any object with `shape`, `dtype` and
        `rows(slice)`, and never becomes dense. Without a penalty, a large sparse M is solved in
        factors, also with `NuclearNorm`.
    samples : array, memory map or dask array of shape (n, m, d), optional
        A finite sum over noisy matrices, read in chunks and never copied as a whole. A zarr
        array or any iterable of matrices or of batches of them (`weakprox.streams`) also works;
        only the mean and the scatter of an iterable are kept.
    sampler : callable or Stream, optional
        `sampler(rng, k)` returns k fresh samples, shape (k, m, d).
    shape : (int, int), optional
        Shape of one sample; needed with `sampler`.
    sigma : float, optional
        Standard deviation sqrt(E |M - EM|_F^2) of one sample over all entries (not per
        entry); computed for `M` and `samples`, estimated for `sampler` if not given.
    device : str, optional
        A torch device such as "cuda" that computes with an M in host memory or in a file. M
        is copied there if it fits. Otherwise its rows are streamed through the device, with
        the terms that are named above for dask arrays.
    device_memory : int or str, optional
        Largest memory of the device to use, such as "24GB"; most of its free memory by
        default.
    loss : {"squared", "logistic"} or EntryLoss, such as `Huber(k)`
        Loss of one cell, for a dense M. With `Huber`, G + `NuclearNorm` is robust principal
        component analysis. With any loss but "squared", or with weights, G is
        :math:`\sum_{ij} w_{ij} \ell(m_{ij}, x_{ij})`, an object of another class. NaN in M
        marks missing cells, with squared errors and `Huber` (others: `Completion`).
    weights : array that broadcasts to shape (m, d), optional
        The weights :math:`w_{ij} \ge 0`, for a dense M.
    """

    smoothness = 1.0
    term_smoothness = 1.0
    strong_convexity = 1.0
    samples_cancel = True
    n_terms = 0
    chunk = 1 << 62  # a batch is reduced to one matrix while it is drawn, so any size fits
    elsewhere = False  # whether the matrix is on workers, or an operator
    _streamed = False  # whether it is sent to a device in tiles
    _stores: tuple[type, ...] = ()  # classes of such a target in checkpoints

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Return an `Entrywise` if the loss is not the plain squared distance."""
        loss, weights = options.pop("loss", "squared"), options.pop("weights", None)
        named = isinstance(loss, str) and loss == "squared"
        plain = weights is None and (named or is_squared(loss))
        if plain or cls is not Denoising:
            return super().__new__(cls)
        M = args[0] if args else options.pop("M", None)
        given = [name for name, other in options.items() if other is not None]
        if given or M is None:
            wanted = "only a dense M, with `loss` or `weights`"
            raise InputError("M", " and ".join(given) or "None", wanted)
        if is_dask(M) or as_tiled(M) is not None:
            wanted = "an array in memory, with `loss` or `weights`"
            raise InputError("M", type(M).__name__, wanted)
        return Entrywise(M, loss, weights)

    def __init__(
        self,
        M: Array | None = None,
        *,
        samples: Array | None = None,
        sampler: Callable[[np.random.Generator, int], Any] | None = None,
        shape: tuple[int, int] | None = None,
        sigma: float | None = None,
        device: Any = None,
        device_memory: int | str | None = None,
        loss: Any = "squared",
        weights: Any = None,
    ) -> None:
        sources = {"M": M, "samples": samples, "sampler": sampler}
        given = [name for name, source in sources.items() if source is not None]
        if len(given) != 1:
            raise InputError(", ".join(sources), " and ".join(given) or "none", "exactly one")
        self.labels = inputs.labels_of(M)  # of rows and of columns, if M is a frame
        streamed: Any = None
        if device is not None:
            if M is None:
                raise InputError("device", repr(device), f"None, with {given[0]}")
            M, streamed = on_device("M", M, device, device_memory)
        elif device_memory is not None:
            raise InputError("device_memory", repr(device_memory), "None without a device")
        self.is_finite_sum = sampler is None  # whether the whole sum can be listed
        self._sigma = inputs.constant("sigma", sigma)
        self._unit = 1.0  # divisor of the samples
        self._sampler: Any = None
        self._size: float | None = None
        self.target: Array | None = None
        self._terms: Any = None
        if is_dask(M):  # it stays on dask's workers, where X will be stored as well
            from weakprox.distributed.blocked import Blocked

            blocked = Blocked("M", M)
            self._place(blocked, stand_in(blocked), blocked.largest)
        elif streamed is not None:
            largest = streamed.examined()
            if not math.isfinite(largest):
                raise InputError("M", "NaN or infinite entries", f"finite numbers{HINT}")
            self._place(streamed, streamed.reference(), largest)
            self._terms, self._streamed = streamed.host, True
            self._stores = streamed.stores
        elif is_dask(samples):
            self._terms = Copies("samples", samples)
            self.reference = stand_in(self._terms)
            self.n_terms = self._terms.count
        elif (operator := as_tiled(M)) is not None:
            if not operator.check_finite():
                raise InputError("M", "NaN or infinite entries", f"finite numbers{HINT}")
            self._place(operator, stand_in(operator), operator.largest())
        elif is_stream(samples):
            self._pass_over(as_stream(samples))
        elif M is not None:
            self.target, self._size = inputs.as_sized("M", M, 2, nan_hint=HINT)
            self._terms = self.reference = self.target
            self.n_terms = 1
        elif samples is not None:
            self._terms = inputs.as_stack("samples", samples)
            self.reference = inputs.floating(self._terms[0])
            self.n_terms = int(self._terms.shape[0])
        else:
            if not callable(sampler):
                raise InputError("sampler", type(sampler).__name__, "a callable f(rng, k)")
            self._sampler, shape = sampler, inputs.as_shape(shape, ", with a sampler")
            # One trial draw from a separate stream finds shape, dtype and device early.
            trial = inputs.call_sampler(sampler, np.random.default_rng(0), 1)
            self.reference = inputs.checked_draw(trial, (1, *shape))[0]
        m, d = self.reference.shape
        self.shape: tuple[int, int] = (int(m), int(d))
        if shape is not None and inputs.as_shape(shape) != self.shape:
            raise ShapeError("shape", tuple(shape), f"{self.shape}, that of the data")

    @property
    def capabilities(self) -> LossCapabilities:
        """G is a squared distance to the mean of a batch."""
        return LossCapabilities(
            centre=self.centre,
            grad_into=self.grad_into,
            merged=self.merged,
            furthest=self.furthest,
            prox=self.prox if self.is_finite_sum and not self.elsewhere else None,
            infimum=0.0,
            in_float64=self.in_float64,
            in_unit=self.in_unit,
            size=lambda: self.size,
            data=self.data,
            target=self.target,
            stores=self._stores,
            gathered=self.gathered if self.elsewhere else None,
            pending=lambda: self.pending,
            stream=None if self.is_finite_sum else inputs.positioned(self._sampler),
            stated=self._stated,
            labels=self.labels,
        )

    def _stated(self) -> StatedLoss:
        """The loss as proofs state it."""
        if self.target is not None:
            return StatedLoss("Denoising", {}, lambda: {"M": self.target})
        if self._terms is KEPT_AS_MEAN:  # samples that came only once
            return StatedLoss("Denoising", {}, lambda: {"M": self.everything().mean})
        return StatedLoss(
            "Denoising", {"samples": self.n_terms}, lambda: {"samples": self._terms}
        )

    def _place(self, target: Any, reference: Array, largest: float) -> None:
        """Keep a matrix that is not an array here; `reference` is like X, without memory."""
        most = float(arrays.namespace(reference).finfo(reference.dtype).max)
        self._size = inputs.check_size("M", largest, target.shape, most)
        self._terms = self.target = target
        self.reference, self.n_terms, self.elsewhere = reference, 1, True

    def _pass_over(self, stream: Stream) -> None:
        """Read samples that are available only once; keep their mean and scatter."""

        def matrices() -> Iterator[Array]:
            for item in stream:
                if isinstance(item, tuple):
                    raise InputError("samples", "a stream of pairs", "a stream of matrices")
                yield item

        chunks = matrices()
        first = next(chunks, None)
        if first is None:
            raise InputError("samples", "an empty stream", "at least one matrix")
        self.shape, self.reference = tuple(first.shape[1:]), inputs.floating(first)[0]
        self.__dict__["_whole"] = self._reduce(chain([first], chunks))
        self._terms, self.reference = KEPT_AS_MEAN, self._whole.mean
        self.n_terms = self._whole.size

    def gathered(self) -> Denoising:
        """The same loss with the matrix in this process, for terms that need X here."""
        if not self.elsewhere:
            return self
        assert self.target is not None
        size = math.prod(self.shape) * self.reference.dtype.itemsize
        tiled = isinstance(self.target, Tiled)
        if size > room() or self._streamed:
            kind = type(self.target).__name__
            where = "on the device" if self._streamed else "in this process"
            given = f"a {kind} whose {shown_bytes(size)} do not fit {where}"
            wanted = "a penalty without groups of columns and a nuclear norm or ball"
            raise InputError("M", given, wanted)
        whole = self.target.dense() if tiled else self.target.gathered()
        return Denoising(whole, sigma=self._sigma)

    def __repr__(self) -> str:
        kind = "one matrix" if self.n_terms == 1 else f"{self.n_terms} samples"
        kind = "sampler" if self._terms is None else kind
        return f"Denoising({kind}, {self.shape[0]} x {self.shape[1]})"

    @property
    def sigma(self) -> float | None:
        """Gradient noise of one sample, None if not known yet."""
        if self._sigma is None and self._terms is not None:
            batch = self.everything()
            self._sigma = math.sqrt(batch.scatter / batch.size)
        return self._sigma

    @property
    def size(self) -> float:
        """Size of the largest entry of the mean, or of one sample if the mean is unknown."""
        if self._size is None:
            known = self._terms is not None
            self._size = arrays.largest(self.everything().mean if known else self.reference)
        return self._size

    def in_unit(self, unit: float) -> Denoising:
        """The same loss divided by unit^2, as a function of X divided by the unit."""
        other = copy.copy(self)
        other._unit, other._size = self._unit * unit, self.size / unit
        other._sigma = None if self._sigma is None else self._sigma / unit
        other.reference = self.reference / unit
        if self.target is not None:
            other.target = other._terms = self.target / unit
            other.reference = self.reference if self.elsewhere else other.target
        if "_whole" in self.__dict__ and self.target is None:
            mean, scatter = self._whole.mean / unit, self._whole.scatter / unit**2
            reach = self._whole.reach / unit
            other.__dict__["_whole"] = Moments(mean, self._whole.size, scatter, reach)
        else:
            other.__dict__.pop("_whole", None)
        return other

    def in_float64(self) -> Denoising:
        """The same loss computed in float64; of samples, only the mean is kept."""
        other, whole = copy.copy(self), self.everything()
        other.reference, other._terms = arrays.wide(whole.mean), KEPT_AS_MEAN
        if self.target is not None:
            other.target = other._terms = other.reference
        other.__dict__["_whole"] = replace(whole, mean=other.reference)
        return other

    @cached_property
    def _whole(self) -> Moments:
        if self.target is not None:
            return Moments(self.target, 1, 0.0)
        if isinstance(self._terms, Copies):
            return Moments(*self._terms.moments(self._unit))
        step = inputs.chunk_of(self._sample_bytes)
        parts = (slice(i, i + step) for i in range(0, self.n_terms, step))
        return self._reduce(inputs.chunks_of(self._terms, parts))

    @property
    def pending(self) -> tuple[int, int]:
        """Bytes still needed for the mean of samples: permanently, and while computing it."""
        if self.target is not None or "_whole" in self.__dict__ or self._terms is None:
            return 0, 0
        one = self._sample_bytes
        return one, AT_ONCE * one + one * min(self.n_terms, inputs.chunk_of(one))

    @property
    def _sample_bytes(self) -> int:
        return int(self.shape[0] * self.shape[1] * self.reference.dtype.itemsize)

    def data(self) -> tuple[Any, ...]:
        """Arrays that identify this loss, for checkpoints."""
        return (self._terms,)

    def everything(self) -> Moments:
        """Mean of all terms."""
        return self._whole

    def draw(self, rng: np.random.Generator, size: int) -> Moments:
        """Independent samples (terms with replacement), reduced while they are drawn."""
        step = inputs.chunk_of(self._sample_bytes)
        if self.target is not None or self._terms is KEPT_AS_MEAN:
            return Moments(self.everything().mean, size, 0.0)
        sizes = [min(step, size - i) for i in range(0, size, step)]
        if isinstance(self._terms, Copies):
            drawn = [rng.integers(0, self.n_terms, k) for k in sizes]
            return Moments(*self._terms.moments(self._unit, np.concatenate(drawn)))
        if self._terms is not None:
            parts = (np.sort(rng.integers(0, self.n_terms, k)) for k in sizes)
            return self._reduce(inputs.chunks_of(self._terms, parts))
        return self._reduce(
            inputs.checked_draw(inputs.call_sampler(self._sampler, rng, k), (k, *self.shape))
            for k in sizes
        )

    def _reduce(self, chunks: Any) -> Moments:
        return Moments.of(chunks, arrays.zeros(self.shape, self.reference), self._unit)

    def merged(self, batches: Sequence[Moments]) -> Moments:
        """Moments of the samples of all batches together."""
        return Moments.together(batches, arrays.zeros(self.shape, self.reference))

    def value(self, X: Array, batch: Moments) -> float:
        """Half the squared distance to the batch mean, minus its sampling bias."""
        total = 0.0
        for rows in arrays.row_blocks(X, batch.mean):
            R = X[rows] - batch.mean[rows]
            total += arrays.inner(R, R)
        if self._terms is None and batch.size > 1:
            total -= batch.scatter / (batch.size * (batch.size - 1))
        return 0.5 * total

    def grad(self, X: Array, batch: Moments) -> Array:
        """X minus the batch mean."""
        return X - batch.mean

    def grad_into(self, X: Array, batch: Moments, out: Array) -> Array:
        """The gradient, written over `out`."""
        return arrays.subtract(X, batch.mean, out)

    def centre(self, batch: Moments) -> Array:
        """The batch mean C: this loss is 1/2 |X - C|^2 plus a constant."""
        return batch.mean

    def prox(self) -> LossProx:
        """Return the proximal map, a mean of its argument and of C."""
        C = self.everything().mean
        return lambda A, weight: (C + weight * A) * (1.0 / (1.0 + weight))

    def furthest(self, X: Array, batch: Moments, gradient: Array) -> float:
        """Largest distance of one sample's gradient at X to `gradient`, or a bound on it."""
        return batch.reach + arrays.norm(X - batch.mean - gradient)

    def spread(self, X: Array, batch: Moments) -> float:
        """Sample variance of one matrix, which is the same at every X."""
        return batch.scatter / max(1, batch.size - 1)


# `__new__` takes any arguments, since subclasses have others.
_signature = inspect.signature(Denoising.__init__)
_named = [*_signature.parameters.values()][1:]
type.__setattr__(Denoising, "__signature__", _signature.replace(parameters=_named))

"""Streams of samples from any iterable, to be used as data or as a sampler."""

from weakprox.streams.stream import Stream

__all__ = ["Stream"]

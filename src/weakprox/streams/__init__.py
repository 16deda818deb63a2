"""Samples that come one after the other, from any iterable: as data or as a sampler."""

from weakprox.streams.stream import Stream

__all__ = ["Stream"]

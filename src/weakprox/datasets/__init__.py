"""Real data sets that the examples use, bundled with the package: nothing is downloaded.

`SOURCES.md` beside the files states the origin and the licence of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "load_ibd_microbiome",
    "load_japan_quakes",
    "load_mfeat_digits",
    "load_movie_tweetings",
    "load_prop99_smoking",
    "load_street_video",
    "load_tissue_expression",
    "load_un_votes",
    "load_us_airports",
]


def __getattr__(name: str) -> Any:
    """Raise an error that lists the data sets."""
    said = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(
        said if name.startswith("_") else f"{said}; it has {', '.join(__all__)}"
    )


class Dataset(Mapping[str, Any]):
    """Arrays by name, as `data["X"]` or `data.X`."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self._name, self._arrays = name, arrays

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._arrays:
            raise AttributeError(f"{self!r} has no array {name!r}")
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._arrays]

    def __repr__(self) -> str:
        shapes = (
            f"{key} {'x'.join(map(str, x.shape))}" for key, x in vars(self)["_arrays"].items()
        )
        return f"Dataset({vars(self)['_name']}: {', '.join(shapes)})"


def folder() -> Path:
    """The folder of the files: in the package, or `examples/data` in a checkout."""
    packed = Path(str(files("weakprox.datasets"))) / "data"
    return packed if packed.is_dir() else Path(__file__).resolve().parents[3] / "examples/data"


def _load(name: str) -> Dataset:
    with np.load(folder() / f"{name}.npz", allow_pickle=False) as file:
        return Dataset(name, {key: file[key] for key in file.files})


def load_ibd_microbiome() -> Dataset:
    """Counts of gut microbes in samples of people with and without Crohn's disease.

    Arrays `taxon`, `sample` and `count` list the entries that are not zero of a table of
    `shape` taxa and samples; `crohns` and `subject` describe the samples.
    """
    return _load("ibd_microbiome")


def load_japan_quakes() -> Dataset:
    """Earthquakes near Japan: `time_days`, `lon`, `lat`, `mag` and grid `cell` of each."""
    return _load("japan_quakes_usgs")


def load_mfeat_digits() -> Dataset:
    """Handwritten digits: pixels `pix`, features `fou` and `kar`, and the `label`."""
    return _load("mfeat_digits")


def load_movie_tweetings() -> Dataset:
    """Ratings of films from tweets: `user`, `item`, `rating` from 0 to 10, and `day`."""
    return _load("movie_tweetings_100k")


def load_prop99_smoking() -> Dataset:
    """Cigarette sales of US states by year: `packs` per head, `treated`, `state`, `year`."""
    return _load("prop99_smoking")


def load_street_video() -> Dataset:
    """A street seen by a fixed camera: `frames` of 96 x 128 grey pixels from 0 to 255."""
    return _load("street_video")


def load_tissue_expression() -> Dataset:
    """Expression `X` of 500 genes in 189 samples of 7 human tissues, `label` by sample."""
    return _load("tissue_expression")


def load_un_votes() -> Dataset:
    """Votes of 200 countries in the United Nations: `vote`, and whether it is `observed`."""
    return _load("un_votes")


def load_us_airports() -> Dataset:
    """Flights between airports of the United States in 2010: `src`, `dst`, `passengers`."""
    return _load("us_airports_2010")

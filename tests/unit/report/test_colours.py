"""Colours of lines are far apart, in light and in dark."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

from weakprox.plots._panels import COLOURS

CSS = (files("weakprox.report") / "assets" / "page.css").read_text(encoding="utf-8")
APART = 26.0  # in CIELAB, where 2 can just be told apart side by side


def sets():
    """The seven colours of each theme in the order of the file: light, chosen dark, dark."""
    found = re.findall(r"--s(\d): (#[0-9a-f]{6})", CSS)
    assert [int(number) for number, _ in found] == [*range(7)] * 3
    colours = [colour for _, colour in found]
    return colours[:7], colours[7:14], colours[14:]


def cielab(colour):
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(
        channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
    )
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ linear / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_themes_agree():
    light, chosen, dark = sets()
    assert tuple(light) == COLOURS
    assert chosen == dark


@pytest.mark.parametrize("theme", [0, 2], ids=["light", "dark"])
def test_any_two_colours_are_far_apart(theme):
    pairs = combinations(map(cielab, sets()[theme]), 2)
    assert min(np.linalg.norm(a - b) for a, b in pairs) > APART

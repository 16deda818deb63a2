"""Pictures of the reports on a desk and on a phone, in light and dark colours.

`WEAKPROX_SCREENSHOTS=pictures pytest tests/browser/test_screenshots.py` keeps them to look at.
"""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import weakprox as wp
from weakprox.experiments import ablation, figures, run, table1, table2
from weakprox.experiments.table1 import orderings
from weakprox.report import write_report
from weakprox.report.reproduction import write_reproduction

plt = pytest.importorskip("matplotlib.pyplot")

WIDTHS = (1400, 390)
BACKGROUND = {False: (255, 255, 255), True: (18, 22, 28)}
LOOK = """
const frame = document.documentElement;
probe.height = frame.scrollHeight;
probe.width = [frame.scrollWidth, innerWidth];
probe.cut = all("h1, h2, h3, h4, figcaption, caption, .caption, .note, .notice, dd, dt, .text")
  .filter((node) => {
    const box = node.getBoundingClientRect();
    return box.right > innerWidth + 1 || box.left < 0;
  }).map((node) => `${node.tagName} ${node.textContent.slice(0, 60)}`);
"""


def estimate(folder):
    rng = np.random.default_rng(0)
    rows = [f"gene {i + 1}" for i in range(40)]
    columns = [f"sample {j + 1}" for j in range(28)]
    signal = np.zeros((40, 28))
    for first, size in ((0, 3.0), (14, 2.2), (27, 1.6)):
        left, right = np.zeros(40), np.zeros(28)
        left[first : first + 11] = rng.uniform(0.5, 1.5, 11)
        right[first // 2 : first // 2 + 8] = rng.choice([-1.0, 1.0], 8)
        signal += size * np.outer(left, right)
    M = signal + 0.5 * rng.standard_normal((40, 28))
    problem = wp.Problem(
        wp.losses.Denoising(M), wp.penalties.L1(0.3), wp.spectral.NuclearBall(70.0)
    )
    return write_report(
        folder / "estimate.html",
        wp.minimize(problem),
        problem=problem,
        data=M,
        rows=rows,
        columns=columns,
        scale=1.1,
        settings={
            "file": "expression.csv",
            "shape": [40, 28],
            "dtype": "float64",
            "row_labels": True,
            "column_labels": True,
            "lam": 0.3,
            "tau": 70.0,
            "chosen": {"lam": "held-out data", "tau": "held-out data"},
            "noise": 0.5,
            "psd": False,
        },
    )


def reproduction(folder):
    """All parts, small; Figure 1 and Table 1 with verdicts as a full run has them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, setup in list(figures.SETUPS.items()):
            made = replace(setup, d=20, quick_runs={0.01: 1}, quick_cap={0.01: 60})
            patch.setitem(figures.SETUPS, name, made)
        patch.setattr(ablation, "D", 20)
        patch.setattr(table1, "N", 20)
        patch.setattr(table1, "QUICK_DRAWS", 3)
        patch.setattr(table2, "QUICK_CAP", 20)
        patch.setattr(table2, "QUICK_ACCURACIES", (0.08, 0.04, 0.02))
        names = ["table1", "figure1", "table2", "ablation"]
        found = run(names, quick=True, processes=1, progress=False)
    found = json.loads(json.dumps(found))
    rivals = {"SCG": True, "SCGS": False, "SCGS convex": None}
    names = ("samples", "rank_one_svds", "seconds")
    found["figure1"]["claim"] = {name: dict(rivals) for name in names}
    held = orderings(found["table1"]["rows"])
    found["table1"]["orderings"] = {**held, "vector_noise": held}
    return write_reproduction(folder, found)


@pytest.fixture(scope="module")
def page(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp(request.param.__name__))


LAPTOP, PHONE = WIDTHS
FIRST = {(estimate, LAPTOP, False), (estimate, PHONE, True)}  # show most of what others do
ALL = [
    pytest.param(
        *case,
        id=f"{case[0].__name__}-{case[1]}-{'dark' if case[2] else 'light'}",
        marks=[pytest.mark.long] * (case not in FIRST),
    )
    for case in product((estimate, reproduction), WIDTHS, (False, True))
]


@pytest.mark.parametrize(("page", "width", "dark"), ALL, indirect=["page"])
def test_pictures(page, width, dark, visit, photograph):
    seen = visit(page, LOOK, f"--window-size={width},900", phone=width < 500)
    assert seen["errors"] == []
    assert seen["width"][0] <= seen["width"][1]
    assert seen["cut"] == []
    path = photograph(page, page.stem, width, seen["height"], dark=dark)
    picture = np.round(255 * plt.imread(path)[:, :width, :3]).astype(int)
    assert picture.shape[1] == width
    assert tuple(picture[2, 2]) == BACKGROUND[dark]
    assert len(np.unique(picture[::5, ::5].reshape(-1, 3), axis=0)) > 100

"""What a decay of old events gains in the prediction of new links.

    python benchmarks/data/temporal_links.py               # all periods
    python benchmarks/data/temporal_links.py --periods 1   # the last one only

Earthquakes: an event joins the cells of two consecutive earthquakes around Japan (M >= 4.5).
Films: an event joins a user and a film that the user rated; users and films with few ratings
are left out. A model is fitted to all events before a period of a tenth of them. It ranks the
pairs whose first event lies in the period among pairs without any event up to its end.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from common import Tally, load
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from weakprox import LinkPredictor

MAGNITUDE, RATINGS, OTHERS = 4.5, 20, 10_000
STARTS = (0.5, 0.6, 0.7, 0.8, 0.9)  # of the periods, as shares of the events
LENGTH = 0.1
Events = tuple[np.ndarray, np.ndarray, str]


def quakes() -> Events:
    """Cells of consecutive earthquakes."""
    data = load("japan_quakes_usgs")
    kept = (data["mag"] >= MAGNITUDE) & (data["cell"] >= 0)
    cell, time = data["cell"][kept].astype(np.int64), data["time_days"][kept]
    moved = cell[:-1] != cell[1:]
    return np.stack([cell[:-1], cell[1:]], axis=1)[moved], time[1:][moved], "directed"


def films() -> Events:
    """Users and the films they rated."""
    data = load("movie_tweetings_100k")
    pairs, day = np.stack([data["user"], data["item"]], axis=1), data["day"].astype(float)
    while True:
        counts = [np.bincount(ends)[ends] for ends in pairs.T]
        kept = np.minimum(*counts) >= RATINGS
        if kept.all():
            break
        pairs, day = pairs[kept], day[kept]
    ends = [np.unique(column, return_inverse=True)[1] for column in pairs.T]
    return np.stack(ends, axis=1), day, "bipartite"


def periods(events: Events, starts: tuple[float, ...], tally: Tally) -> None:
    """Areas under the ROC curve, one for each period and setting."""
    pairs, time, kind = events
    shape = tuple(int(n) for n in pairs.max(axis=0) + 1)
    shape = shape if kind == "bipartite" else (max(shape), max(shape))

    def counts(part: np.ndarray) -> np.ndarray:
        ends = tuple(pairs[part].T)
        return csr_array((np.ones(part.sum()), ends), shape=shape).toarray()

    for start in starts:
        first, last = np.quantile(time, [start, min(1.0, start + LENGTH)])
        early, late = time < first, (time >= first) & (time <= last)
        free = counts(early) == 0.0
        if kind == "directed":
            np.fill_diagonal(free, False)
        now = counts(late) > 0.0
        new, others = np.argwhere(free & now), np.argwhere(free & ~now)
        others = np.random.default_rng(0).permutation(others)[:OTHERS]
        ranked = np.vstack([new, others])
        truth = np.arange(len(ranked)) < len(new)

        def auc(model: LinkPredictor, ranked=ranked, truth=truth) -> float:
            return float(roc_auc_score(truth, model.score_pairs(ranked)))

        def fitted(half_life: object, early=early) -> Callable[[], LinkPredictor]:
            model = LinkPredictor(kind=kind, half_life=half_life, random_state=0)
            return lambda: model.fit(pairs[early], times=time[early], shape=shape)

        tally.add("no decay", fitted(None), auc)
        tally.add("half-life chosen (default)", fitted("auto"), auc)
        span = float(time[early].max() - time[early].min())
        tally.add("half-life 1/8 of the span", fitted(span / 8), auc)


def main() -> None:
    """Print the mean area under the ROC curve of each setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--periods", type=int, default=len(STARTS))
    args = parser.parse_args()
    for name, make in (("earthquakes", quakes), ("films", films)):
        tally, events = Tally(), make()
        periods(events, STARTS[-args.periods :], tally)
        print(f"{name}: {len(events[1])} events")
        before = np.array(tally.scores["no decay"])
        for method, scores in tally.scores.items():
            gain = np.array(scores) - before
            error = gain.std(ddof=1) / math.sqrt(gain.size) if gain.size > 1 else math.nan
            seconds = np.median(tally.seconds[method])
            told = f"{np.mean(scores):.4f}, gain {gain.mean():+.4f} ± {error:.4f}"
            print(f"  {method:28} {told}  {seconds:5.2f} s   {np.round(scores, 3)}")


if __name__ == "__main__":
    main()

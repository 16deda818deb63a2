"""The paper's Example 1: M = Y Y' + N(0, 1) with sparse Y, tau a share of tr(Y Y')."""

from benchmark_utils.peers import e1
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Random matrices; with factor 0.9 the optimum has rank r, with 1 it is not low-rank."""

    name = "simulated"
    requirements = ("numpy",)
    parameters = {"d": [300], "r": [10], "factor": [0.9, 1.0]}  # noqa: RUF012
    test_parameters = {"d": [40], "r": [2], "factor": [0.9]}  # noqa: RUF012

    def get_data(self):
        """As the races in `benchmarks/peers` draw them; repetitions are fresh draws."""
        drawn = e1(self.d, self.r, self.factor, self.get_seed(use_repetition=True))
        return {"M": drawn.M, "tau": drawn.tau, "lam": drawn.lam}

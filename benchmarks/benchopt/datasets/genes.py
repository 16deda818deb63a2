"""Correlations of 500 genes over 189 tissue samples, measured."""

import numpy as np
from benchmark_utils.peers import DATA
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """The matrix of `make demo`; tau is a share of its trace, which is its nuclear norm."""

    name = "genes"
    requirements = ("numpy",)
    parameters = {"factor": [0.4], "lam": [0.2], "genes": [500]}  # noqa: RUF012
    test_parameters = {"genes": [40]}  # noqa: RUF012

    def get_data(self):
        """The first `genes` of them."""
        with np.load(DATA / "tissue_expression.npz", allow_pickle=False) as file:
            M = np.corrcoef(file["X"][:, : self.genes].astype(float).T)
        return {"M": M, "tau": self.factor * float(np.trace(M)), "lam": self.lam}

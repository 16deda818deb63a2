"""Low-rank and sparse approximation of the correlations of 500 genes (run by `make demo`)."""

import os
import sys
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")  # a file is written, no window is opened
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # one thread is faster for small matrices

import numpy as np

import weakprox as wp
from weakprox.report import overview

LAM = 0.3  # weight of the l1 norm; larger values give more zeros
TAU = 40.0  # bound on the trace; the trace of the correlation matrix is 500
ZERO = 0.01  # entries below this share of the largest count as zero
PICTURE = "demo.png"


def correlations():
    """Return the genes' correlation matrix, and for each gene its tissue of highest mean."""
    data = wp.datasets.load_tissue_expression()
    X, tissue, names = data.X.astype(float), data.label, data.label_name
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    means = np.array([Z[tissue == k].mean(axis=0) for k in range(len(names))])
    home = means.argmax(axis=0)
    order = np.lexsort((-means.max(axis=0), home))  # by tissue, most typical genes first
    Z = Z[:, order]
    return Z.T @ Z / len(Z), [str(names[k]) for k in home[order]]


def share_of_zeros(X):
    """Return the share of entries of size at most ZERO times the largest."""
    return float(np.mean(np.abs(X) <= ZERO * np.abs(X).max()))


class Lines:
    """Print a line of progress occasionally, for logs without a progress bar."""

    def __init__(self):
        self.next = 1

    def __call__(self, look):
        if look.counts.svds >= self.next:
            self.next = 2 * look.counts.svds
            print(f"  after {look.counts.svds:4d} thin SVDs: f = {look.value:.2f}", flush=True)


def main():
    C, tissues = correlations()
    start = 0.5 * float(np.sum(C * C))  # f at zero, the starting point
    eps = 1e-4 * start
    print(
        "This demo takes the correlations of 500 genes, measured in 7 human tissues, and\n"
        "looks for a sparse matrix of low rank near them. It stops when its value is\n"
        f"proved to be within {eps:.3g} (0.01 % of the value at the start) of the optimum."
    )

    problem = wp.Problem(
        wp.losses.Denoising(C), wp.penalties.L1(LAM), wp.spectral.TracePSD(TAU)
    )
    terminal = sys.stderr.isatty()
    print(f"\nSolving {problem}", flush=True)
    result = wp.minimize(
        problem,
        eps=eps,
        progress=terminal,
        callback=None if terminal else Lines(),
    )

    print(f"\nvalue     {result.value:.2f}, from {start:.2f} at the start")
    print(f"rank      {result.rank} of {C.shape[0]}")
    print(
        f"sparsity  {share_of_zeros(result.X):.1%} zeros, against {share_of_zeros(C):.1%} in "
        f"the data (zero: at most {ZERO:.0%} of the largest entry)"
    )
    print(f"gap       {result.gap:.3g}, requested {eps:.3g}: {result.status.label}")
    print(f"          {result.certificate}")
    print(f"work      {result.counts.svds} thin SVDs, {result.seconds:.1f} s")

    figure = overview(result, data=C, labels=tissues)
    figure.savefig(PICTURE, dpi=110)
    print(f"picture   {Path(PICTURE).resolve()}")


if __name__ == "__main__":
    main()

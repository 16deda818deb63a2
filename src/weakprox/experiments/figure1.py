"""Figure 1 of the paper: rank(Y) = 1."""

from weakprox.experiments.figures import experiment

EXPERIMENT = experiment("figure1", "Figure 1: the methods, rank(Y) = 1")

"""Figure 2 of the paper: rank(Y) = 10."""

from weakprox.experiments.figures import experiment

EXPERIMENT = experiment("figure2", "Figure 2: the methods, rank(Y) = 10")

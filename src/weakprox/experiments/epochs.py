"""Not in the paper: its methods at accuracies that take SVRGCG three epochs or more."""

from weakprox.experiments.figures import experiment

EXPERIMENT = experiment("epochs", "Beyond the paper: accuracies that take several epochs")

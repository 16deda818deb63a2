"""The tables and figures of the paper: `run(["table1"])` returns their numbers."""

from weakprox.experiments.base import Experiment, Interrupted, JobError, stream
from weakprox.experiments.harness import ALL, run

__all__ = ["ALL", "Experiment", "Interrupted", "JobError", "run", "stream"]

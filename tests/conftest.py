"""Settings shared by all tests: everything random is fixed."""

import hypothesis
import pytest
import torch
from registry import SEED, generator

torch.set_num_threads(1)  # the matrices are tiny: threads would only wait for each other

hypothesis.settings.register_profile(
    "fixed", derandomize=SEED == 0, deadline=None, database=None, max_examples=80
)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def rng():
    return generator(20190416)

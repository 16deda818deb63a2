"""Settings shared by all tests: everything random is fixed."""

import hypothesis
import numpy as np
import pytest
import torch

torch.set_num_threads(1)  # the matrices are tiny: threads would only wait for each other

hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, max_examples=80
)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def rng():
    return np.random.default_rng(20190416)

"""One thread, fixed seeds, and a hypothesis profile that neither times out nor changes from run to run."""

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ncmi", deadline=None, derandomize=True, max_examples=25, database=None)
settings.load_profile("ncmi")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)

"""Fixtures of this suite and the GPU's: each conftest imports them."""

import pytest

from support import torch_generator


@pytest.fixture
def generator():
    return torch_generator()

"""Fixtures of this suite and the GPU's: each conftest imports them."""

import pytest

import coda_cpp as coda
from support import torch_generator


@pytest.fixture
def generator():
    return torch_generator()


class Products:
    """Notes the program of each product the core runs."""

    def __init__(self, monkeypatch):
        self.seen, run = [], coda._core.gemm

        def noted(a, b, segments, *rest):
            self.seen.append(segments[0][0].name)
            return run(a, b, segments, *rest)

        monkeypatch.setattr(coda._core, "gemm", noted)

    def of(self, work):
        """The programs of the products that `work` runs, by name."""
        before = len(self.seen)
        work()
        return self.seen[before:]


@pytest.fixture
def products(monkeypatch):
    return Products(monkeypatch)

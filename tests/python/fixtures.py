"""Fixtures of this suite and the GPU's: each conftest imports them."""

import pytest

import coda_cpp as coda
from coda_cpp._torch.launch import Launch
from support import torch_generator


@pytest.fixture
def generator():
    return torch_generator()


class Products:
    """Notes the program of each product the core runs."""

    def __init__(self, monkeypatch):
        self.seen, gemm, run = [], coda._core.gemm, Launch.run

        def noted_gemm(a, b, segments, *rest):
            self.seen.append(segments[0][0].name)
            return gemm(a, b, segments, *rest)

        def noted_run(launch, *tensors):
            self.seen.append(launch.parts[0].name)
            return run(launch, *tensors)

        monkeypatch.setattr(coda._core, "gemm", noted_gemm)
        monkeypatch.setattr(Launch, "run", noted_run)

    def of(self, work):
        """The programs of the products that `work` runs, by name."""
        before = len(self.seen)
        work()
        return self.seen[before:]


@pytest.fixture
def products(monkeypatch):
    return Products(monkeypatch)

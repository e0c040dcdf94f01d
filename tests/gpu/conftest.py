"""The GPU suite: everything here needs a Hopper GPU and torch with CUDA. `make gpu` runs it.

CODA_GPU_SHARD=2/4 runs the third quarter of the tests: most of their time is the compiler's, which several processes share
out better than one.
"""

import os
import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "python"))  # what both suites share
sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))  # what captures graphs

from fixtures import generator  # noqa: E402, F401


def pytest_collection_modifyitems(items):
    missing = None
    if not torch.cuda.is_available():
        missing = "no GPU: torch.cuda.is_available() is False"
    elif torch.cuda.get_device_capability() != (9, 0):
        missing = f"{torch.cuda.get_device_name()} is no Hopper GPU"
    for item in items:
        item.add_marker(pytest.mark.gpu)
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))
    shard, of = map(int, os.environ.get("CODA_GPU_SHARD", "0/1").split("/"))
    items[:] = items[shard::of]


def pytest_runtest_logreport(report):
    if report.failed and "CODA_GPU_SHARD" in os.environ:
        print(report.longreprtext, flush=True)  # at once: a shard may be stopped by the clock


@pytest.fixture(autouse=True)
def no_device_fault():
    """A kernel's fault shows at the next synchronisation: make that the test that caused it."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()

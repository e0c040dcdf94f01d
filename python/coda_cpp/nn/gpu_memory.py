"""coda's memory on a GPU from torch's caching allocator: one pool for both, counted by torch.cuda's statistics and known
to its CUDA graphs. A pool of coda's own beside it would give back and take again what a training step needs."""

import functools

import torch

from .. import _core


@functools.cache
def use_torch_memory():
    """Once a process; the segments call it before they first work on a GPU."""
    _core.use_gpu_memory(torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete)

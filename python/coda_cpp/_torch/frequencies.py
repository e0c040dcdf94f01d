"""The frequencies of a rotary embedding that is given by its base."""

from __future__ import annotations

import functools

import torch

from . import route
from .constants import settled


def frequencies(base: float, width: int, device: torch.device) -> torch.Tensor:
    """base^(-2p/width), (width/2,) f32, each made in double and rounded once: a program's own arithmetic, all of it in f32,
    would be eight times as far off. It is kept and shared: not to be written."""
    if torch.compiler.is_dynamo_compiling():
        # torch.compile does not know whether a constant requires grad: what is detached does not.
        return _constant(base.hex(), settled(width), device).detach()
    return _kept_or_made(base, width, device)


@torch.compiler.assume_constant_result
def _constant(base: str, width: int, device: torch.device) -> torch.Tensor:
    """For a graph: the kept tensor is a constant of it, on the device already. base: as hex, which a compiler cannot leave
    open."""
    return _kept_or_made(float.fromhex(base), width, device)


def _kept_or_made(base: float, width: int, device: torch.device) -> torch.Tensor:
    """What a mode makes of a tensor, such as a fake one, is the mode's alone and is not kept."""
    return _made(base, width, device) if route.has_modes() else _kept(base, width, device)


@functools.cache  # without bound: one that is dropped could still be read by another stream
def _kept(base: float, width: int, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # a tensor of inference mode could not be saved for a backward later
        return _made(base, width, device)


def _made(base: float, width: int, device: torch.device) -> torch.Tensor:
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / -width
    return torch.pow(base, exponents).to(torch.float32).to(device)

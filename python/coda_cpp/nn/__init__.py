"""Modules of a decoder for torch: parameters under transformers' names, work in coda's fused blocks. docs/patch.md"""

from ..host import require_torch

require_torch("coda_cpp.nn")

from .modules import GatedMLP, LlamaLayer, LlamaModel, LMHeadLoss, QKVRope, RMSNormLinear

__all__ = ["GatedMLP", "LMHeadLoss", "LlamaLayer", "LlamaModel", "QKVRope", "RMSNormLinear"]

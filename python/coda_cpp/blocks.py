"""Transformer blocks, forward. T tokens, d width, f MLP width, V vocabulary; weights are (out, in), as a checkpoint's."""

from ._core import (LayerWeights, Loss, NormedStream, RmsNorm, Rope, causal_attention, enter_norm, gated_mlp,
                    lm_head_loss, norm_linear, qkv_rope, residual_norm, transformer_layer)

__all__ = ["LayerWeights", "Loss", "NormedStream", "RmsNorm", "Rope", "causal_attention", "enter_norm", "gated_mlp",
           "lm_head_loss", "norm_linear", "qkv_rope", "residual_norm", "transformer_layer"]

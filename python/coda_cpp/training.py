"""Transformer blocks for training: forwards that keep what a backward needs, and backwards. docs/training.md has the
way through a layer. Gradients by parameters are added to the tensors a call is given in `into`; what is left out is
frozen, and no product is run for it."""

from ._core import (Fresh, GatedMlp, SavedAttention, SavedLayer, SavedQkv, SavedStream, StreamGradient,
                    add_weight_gradient, causal_attention_backward, causal_attention_saved, gated_mlp_backward,
                    gated_mlp_saved, linear_backward, lm_head_loss_backward, norm_linear_backward, qkv_rope_backward,
                    qkv_rope_saved, saved_stream, stream_backward, transformer_layer_backward, transformer_layer_saved)

__all__ = ["Fresh", "GatedMlp", "SavedAttention", "SavedLayer", "SavedQkv", "SavedStream", "StreamGradient",
           "add_weight_gradient", "causal_attention_backward", "causal_attention_saved", "gated_mlp_backward",
           "gated_mlp_saved", "linear_backward", "lm_head_loss_backward", "norm_linear_backward", "qkv_rope_backward",
           "qkv_rope_saved", "saved_stream", "stream_backward", "transformer_layer_backward", "transformer_layer_saved"]

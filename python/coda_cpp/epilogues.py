"""The library of named programs; docs/epilogues.md tells the mathematics and where the roundings fall."""

from ._core import ClampedSwiglu
from ._core import epilogue_bias as bias
from ._core import epilogue_gated as gated
from ._core import epilogue_identity as identity
from ._core import epilogue_library as library
from ._core import epilogue_lse as lse
from ._core import epilogue_qk_norm_rope as qk_norm_rope
from ._core import epilogue_residual as residual
from ._core import epilogue_residual_rms as residual_rms
from ._core import epilogue_rms as rms
from ._core import epilogue_rms_entry as rms_entry
from ._core import epilogue_rms_gated as rms_gated
from ._core import epilogue_rms_lse as rms_lse
from ._core import epilogue_rms_rope as rms_rope
from ._core import epilogue_rope as rope
from ._core import epilogue_scale as scale
from ._core import epilogue_sigmoid as sigmoid

__all__ = ["ClampedSwiglu", "bias", "gated", "identity", "library", "lse", "qk_norm_rope", "residual", "residual_rms",
           "rms", "rms_entry", "rms_gated", "rms_lse", "rms_rope", "rope", "scale", "sigmoid"]

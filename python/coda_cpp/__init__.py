"""coda: Transformer layers as matrix products with a program on each output tile.

    import coda_cpp as coda

    @coda.epilogue
    def bias_gelu(acc, bias: coda.Row):
        return coda.gelu(acc + bias)

    y = coda.gemm(x, weight.T, bias_gelu, bias=bias)
"""

from typing import TYPE_CHECKING

# errors first: the extension module raises its classes.
from . import errors
from ._core import (Builder, Cotangent, DType, Gradient, LlamaConfig, LlamaModel, Operand, Pairing, Program, Value,
                    __version__, abs, activation_names, add, backend_names, bf16, clamp, clamped_swiglu, cos, div,
                    equal, erf, exp, exp2, f16, f32, f64, gate_names, geglu, geglu_tanh, gelu, gelu_tanh, glu, greater,
                    greater_equal, halves, i32, i64, interleaved, join, less, less_equal, log, max, min, mul, neg,
                    not_equal, num_threads, parse_program, quick_gelu, rcp, reduce_col, reduce_row, reglu, relu,
                    relu_squared, round_to, rsqrt, select, select_col, set_num_threads, sigmoid, silu, sin, span_sum,
                    split, sqrt, square, sub, swiglu, tanh)
from . import blocks, epilogues, training
from .differentiate import Backward, differentiate, with_saved
from .epilogue import (Col, Epilogue, Output, Partials, Row, Scalar, Tile, col_index, constant, epilogue, output,
                       row_index)
from .errors import Error
from .gemm import (Factor, Plan, Segment, Timing, candidates, concat, concat_k, elementwise, gemm, pair, prepare, segment,
                   tune, tuning)


if TYPE_CHECKING:
    from . import functional, nn
    from .checking import check
    from .patching import patch, unpatch


def __getattr__(name: str) -> object:
    """What imports torch, imported when it is first asked for."""
    import importlib

    if name in ("functional", "nn"):
        return importlib.import_module(f".{name}", __name__)
    if name in ("patch", "unpatch"):
        return getattr(importlib.import_module(".patching", __name__), name)
    if name == "check":
        return importlib.import_module(".checking", __name__).check
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

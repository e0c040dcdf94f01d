"""
The C++ core of coda_cpp: programs, the epilogue library, differentiate, gemm, blocks and the LLaMA model.
"""

from collections.abc import Sequence
import enum
from typing import overload


class DType(enum.Enum):
    """Element type of a tensor."""

    f64 = 0

    f32 = 1

    bf16 = 2

    f16 = 3

    i32 = 4

    i64 = 5

f64: DType = DType.f64

f32: DType = DType.f32

bf16: DType = DType.bf16

f16: DType = DType.f16

i32: DType = DType.i32

i64: DType = DType.i64

class Pairing:
    """
    How columns pair up inside the first `width` columns of every `head` columns.
    """

    @property
    def head(self) -> int:
        """Period in columns; divides N."""

    @property
    def width(self) -> int:
        """Paired columns at the start of each head."""

    def __eq__(self, other: Pairing) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

def halves(head: int, width: int = 0) -> Pairing:
    """
    Column c pairs with c + width/2 (Hugging Face LLaMA's order); width 0: the whole head.
    """

def interleaved(head: int, width: int = 0) -> Pairing:
    """Column 2c pairs with 2c + 1 (GPT-J's order); width 0: the whole head."""

class PartialsSpec:
    """
    How an operand holds a reduction: one f32 entry for every `width` columns (axis 'row') or rows (axis 'col') of the output.
    """

    @property
    def op(self) -> str:
        """'sum', 'max' or 'lse'."""

    @property
    def axis(self) -> str:
        """'row' or 'col'."""

    @property
    def width(self) -> int:
        """Columns or rows an entry covers; 0 on an input: any."""

class Operand:
    """A tensor a program reads or writes, bound by name when it runs."""

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> str:
        """'in', 'out' or 'accumulate'."""

    @property
    def shape(self) -> str:
        """'tile', 'row', 'col' or 'scalar'."""

    @property
    def pairing(self) -> Pairing | None:
        """The pairing of a half-width operand."""

    @property
    def period(self) -> int:
        """Column c reads entry c % period; 0: one entry a column."""

    @property
    def dtype(self) -> DType | None:
        """The declared dtype; None: whatever is bound."""

    @property
    def partials(self) -> PartialsSpec | None: ...

    def __repr__(self) -> str: ...

class Value:
    """
    A value of a program under construction; usable only with values of its Builder.
    """

    @overload
    def __add__(self, other: Value) -> Value: ...

    @overload
    def __add__(self, other: float) -> Value: ...

    def __radd__(self, other: float) -> Value: ...

    @overload
    def __sub__(self, other: Value) -> Value: ...

    @overload
    def __sub__(self, other: float) -> Value: ...

    def __rsub__(self, other: float) -> Value: ...

    @overload
    def __mul__(self, other: Value) -> Value: ...

    @overload
    def __mul__(self, other: float) -> Value: ...

    def __rmul__(self, other: float) -> Value: ...

    @overload
    def __truediv__(self, other: Value) -> Value: ...

    @overload
    def __truediv__(self, other: float) -> Value: ...

    def __rtruediv__(self, other: float) -> Value: ...

    @overload
    def __eq__(self, other: Value) -> Value: ...

    @overload
    def __eq__(self, other: float) -> Value: ...

    @overload
    def __ne__(self, other: Value) -> Value: ...

    @overload
    def __ne__(self, other: float) -> Value: ...

    @overload
    def __lt__(self, other: Value) -> Value: ...

    @overload
    def __lt__(self, other: float) -> Value: ...

    @overload
    def __le__(self, other: Value) -> Value: ...

    @overload
    def __le__(self, other: float) -> Value: ...

    @overload
    def __gt__(self, other: Value) -> Value: ...

    @overload
    def __gt__(self, other: float) -> Value: ...

    @overload
    def __ge__(self, other: Value) -> Value: ...

    @overload
    def __ge__(self, other: float) -> Value: ...

    def __neg__(self) -> Value: ...

    def __pos__(self) -> Value: ...

    def __abs__(self) -> Value: ...

    def __pow__(self, exponent: float) -> Value: ...

    def __bool__(self) -> bool: ...

    def __float__(self) -> float: ...

    @property
    def shape(self) -> str:
        """'tile', 'row', 'col' or 'scalar'."""

    @property
    def id(self) -> int:
        """Position of the value's node in the program."""

    def named(self, name: str) -> Value:
        """
        Gives the value a name that text keeps. Raises ValueError unless it is an identifier other than v0, v1, ...
        """

    def __repr__(self) -> str: ...

    __hash__: None = None

    __array_ufunc__: None = None

class Program:
    """
    What happens to the accumulator of one matrix product; immutable. Equal programs have equal text.
    """

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str:
        """The program as text, which parse() reads back exactly."""

    @property
    def operands(self) -> list[Operand]: ...

    @property
    def accumulators(self) -> int:
        """Accumulators it reads: 0 (elementwise), 1, or 2 (a pair)."""

    @property
    def column_granule(self) -> int:
        """N must be a multiple of this."""

    def simplify(self) -> Program:
        """An equal program with fewer nodes."""

    @staticmethod
    def parse(text: str) -> Program:
        """
        The program with that text. Raises ValueError with line and column when it does not parse.
        """

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __eq__(self, other: Program) -> bool: ...

    def __hash__(self) -> int: ...

    def __getstate__(self) -> str: ...

    def __setstate__(self, arg: str, /) -> None: ...

class Builder:
    """Writes a Program: values in, stores out, build()."""

    def __init__(self, name: str) -> None:
        """Raises ValueError unless `name` is an identifier."""

    def acc(self, which: int = 0) -> Value:
        """Accumulator of the product; 1: of the second matrix of a pair."""

    def constant(self, value: float) -> Value: ...

    def load_tile(self, operand: str, *, period: int = 0, pairing: Pairing | None = None, dtype: object | None = None) -> Value:
        """An (M, N) operand; with `period`, (M, period)."""

    def load_row(self, operand: str, *, period: int = 0, pairing: Pairing | None = None, dtype: object | None = None) -> Value:
        """An (N,) operand, one number a column; with `period`, (period,)."""

    def load_col(self, operand: str, *, dtype: object | None = None) -> Value:
        """An (M,) operand, one number a row."""

    def load_scalar(self, operand: str, *, dtype: object | None = None) -> Value:
        """One number."""

    def load_partials(self, operand: str, op: str = 'sum', axis: str = 'row') -> Value:
        """
        A reduction another program left as partials, finished. Axis 'row' gives a Col, 'col' a Row.
        """

    def row_index(self) -> Value:
        """The row number of each row, a Col."""

    def col_index(self, period: int = 0, pairing: Pairing | None = None) -> Value:
        """The column number of each column, a Row, modulo `period` unless 0."""

    def store(self, operand: str, value: Value, *, dtype: object | None = None, accumulate: bool = False) -> None:
        """
        Writes `value` to the output operand it declares. Raises ValueError for a name already used.
        """

    def build(self) -> Program:
        """The finished program. Raises ValueError when nothing is stored."""

def op_table() -> list[tuple[str, int, list[tuple[float, float]]]]:
    """
    (name, arity, [(low, high) of each argument, for tests]) of each pointwise op of program text.
    """

def parse_program(text: str) -> Program:
    """The same as Program.parse."""

def add(a: Value | float, b: Value | float) -> Value:
    """a + b"""

def sub(a: Value | float, b: Value | float) -> Value:
    """a - b"""

def mul(a: Value | float, b: Value | float) -> Value:
    """a * b"""

def div(a: Value | float, b: Value | float) -> Value:
    """a / b"""

def neg(a: Value) -> Value:
    """-a"""

def abs(a: Value) -> Value:
    """|a|"""

def min(a: Value | float, b: Value | float) -> Value:
    """b < a ? b : a, NaN if either is"""

def max(a: Value | float, b: Value | float) -> Value:
    """a < b ? b : a, NaN if either is"""

def exp(a: Value) -> Value:
    """e^a"""

def exp2(a: Value) -> Value:
    """2^a"""

def log(a: Value) -> Value:
    """ln a"""

def rcp(a: Value) -> Value:
    """1 / a"""

def sqrt(a: Value) -> Value:
    """a^(1/2)"""

def rsqrt(a: Value) -> Value:
    """a^(-1/2)"""

def square(a: Value) -> Value:
    """a * a"""

def sigmoid(a: Value) -> Value:
    """1 / (1 + e^-a)"""

def tanh(a: Value) -> Value:
    """tanh a"""

def erf(a: Value) -> Value:
    """2/sqrt(pi) * integral of e^(-t^2) from 0 to a"""

def sin(a: Value) -> Value:
    """sin a"""

def cos(a: Value) -> Value:
    """cos a"""

def relu(a: Value) -> Value:
    """max(a, 0), NaN if a is"""

def select(a: Value | float, b: Value | float, c: Value | float) -> Value:
    """a != 0 ? b : c"""

def equal(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

def not_equal(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

def less(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

def less_equal(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

def greater(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

def greater_equal(a: Value | float, b: Value | float) -> Value:
    """1 where it holds, else 0; with NaN 0 (not_equal: 1)."""

@overload
def clamp(a: Value, low: float, high: float) -> Value:
    """min(max(a, low), high); NaN stays."""

@overload
def clamp(a: Value | float, low: Value | float, high: Value | float) -> Value: ...

def split(value: Value, pairing: Pairing) -> tuple[Value, Value]:
    """The two members of every pair of columns, each of half the width."""

def join(first: Value, second: Value, rest: Value | None = None) -> Value:
    """
    The inverse of split; `rest` gives the columns that belong to no pair and is required when there are any.
    """

def span_sum(value: Value, head: int) -> Value:
    """Sum over each `head` columns, the same for all of them."""

def reduce_row(value: Value, op: str, width: int) -> Value:
    """
    Partial 'sum', 'max' or 'lse' over each `width` columns of a row, to be stored as (M, ceil(N/width)) f32.
    """

def reduce_col(value: Value, op: str, width: int) -> Value:
    """
    Partial 'sum', 'max' or 'lse' over each `width` rows of a column, to be stored as (ceil(M/width), N) f32.
    """

def round_to(value: Value, dtype: object) -> Value:
    """Rounded to a floating dtype and widened again."""

def select_col(tile: Value, index: Value, ignored: int | None = None) -> Value:
    """
    For each row the entry of `tile` at column `index` (a Col), to be stored; rows with `ignored` get 0.
    """

def silu(x: Value) -> Value:
    """An activation; see docs/epilogues.md for its formula."""

def gelu(x: Value) -> Value:
    """An activation; see docs/epilogues.md for its formula."""

def gelu_tanh(x: Value) -> Value:
    """An activation; see docs/epilogues.md for its formula."""

def quick_gelu(x: Value) -> Value:
    """An activation; see docs/epilogues.md for its formula."""

def relu_squared(x: Value) -> Value:
    """An activation; see docs/epilogues.md for its formula."""

def swiglu(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

def geglu(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

def geglu_tanh(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

def reglu(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

def glu(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

@overload
def clamped_swiglu(gate: Value, up: Value) -> Value:
    """activation(gate) * up."""

@overload
def clamped_swiglu(gate: Value, up: Value, *, alpha: float = 1.702, beta: float = 1.0, limit: float = 7.0) -> Value:
    """
    g = min(gate, limit), u = clamp(up, -limit, limit); g * sigmoid(alpha * g) * (u + beta).
    """

def activation_names() -> list[str]:
    """Names of the activations."""

def gate_names() -> list[str]:
    """Names of the gates."""

def epilogue_identity() -> Program:
    """out = acc"""

def epilogue_bias(activation: str = '') -> Program:
    """out = activation(acc + bias); bias: (N,). No activation: acc + bias."""

def epilogue_scale() -> Program:
    """out = alpha * acc; alpha: a number or [1]."""

def epilogue_residual() -> Program:
    """out = acc + residual; residual: (M, N)."""

def epilogue_sigmoid() -> Program:
    """out = sigmoid(acc)"""

def epilogue_residual_rms(*, weight: str = 'gamma', partial_width: int = 64, bias: bool = False) -> Program:
    """
    x = acc (+ bias) + residual; h = x * gamma; sum_sq = partial sums of x^2 over each `partial_width` columns.
    weight: 'gamma', 'one_plus_gamma' or 'none' (then no h).
    """

def epilogue_rms_entry(*, weight: str = 'gamma', partial_width: int = 64) -> Program:
    """Elementwise start of a chain: x (M, d) gives h = x * gamma and sum_sq."""

def epilogue_rms(*, count: int, eps: float = 1e-06, bias: bool = False) -> Program:
    """
    out = acc * r (+ bias), r = rsqrt(sum_sq / count + eps); sum_sq: the partials residual_rms left.
    """

class ClampedSwiglu:
    """The constants of the clamped swiglu gate."""

    def __init__(self, *, alpha: float = 1.702, beta: float = 1.0, limit: float = 7.0) -> None: ...

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def limit(self) -> float: ...

def epilogue_gated(gate: str = 'swiglu', *, clamped: ClampedSwiglu | None = None, bias: bool = False, save_inputs: bool = False) -> Program:
    """
    out = gate(acc0, acc1) of a pair; with `bias`, operands gate_bias and up_bias; with `save_inputs`, outputs gate and up too.
    """

def epilogue_rms_gated(gate: str = 'swiglu', *, count: int, eps: float = 1e-06, clamped: ClampedSwiglu | None = None, bias: bool = False, save_inputs: bool = False) -> Program:
    """gated with both accumulators multiplied by r first."""

def epilogue_rope(*, head: int, width: int = 0, interleaved: bool = False, angles: str = 'base', base: float = 10000.0, scale: float = 1.0, bias: bool = False) -> Program:
    """
    out = rope(acc (+ bias)). angles 'base': operand positions (M,); 'frequency': also frequencies (width/2,); 'table': cos and sin (M, width/2).
    """

def epilogue_rms_rope(*, count: int, eps: float = 1e-06, head: int, width: int = 0, interleaved: bool = False, angles: str = 'base', base: float = 10000.0, scale: float = 1.0, bias: bool = False) -> Program:
    """out = rope(acc * r (+ bias))."""

def epilogue_qk_norm_rope(*, count: int | None = None, norm_eps: float = 1e-06, weight: str = 'gamma', eps: float = 1e-06, head: int, width: int = 0, interleaved: bool = False, angles: str = 'base', base: float = 10000.0, scale: float = 1.0, bias: bool = False, save_inputs: bool = False) -> Program:
    """
    out = rope(head_norm(z) * gamma), z = acc (* r when `count` is given); gamma has one entry a column of the head.
    """

def epilogue_lse(*, partial_width: int = 64, ignore_index: int = -100, store_logits: bool = False) -> Program:
    """
    lse = partial log-sum-exp over each `partial_width` columns; target = the entry at column targets[row], 0 where it is `ignore_index`.
    """

def epilogue_rms_lse(*, count: int, eps: float = 1e-06, partial_width: int = 64, ignore_index: int = -100, store_logits: bool = False) -> Program:
    """lse of acc * r."""

def epilogue_library() -> dict[str, Program]:
    """Every program at representative options, by name."""

class Cotangent:
    """
    How the cotangent (the gradient of the loss) of an output of the forward program arrives. Several for one output are summed.

    An output stored as partials has the cotangent of the finished reduction: (M,), or (N,) along axis 'col'.
    """

    @staticmethod
    def none(output: str) -> Cotangent:
        """
        Nothing depends on the output: it was stored to be read by the backward, say.
        """

    @staticmethod
    def acc(output: str) -> Cotangent:
        """
        The accumulator of the backward's own product, (M, N): the next layer's data gradient.
        """

    @staticmethod
    def load(output: str, operand: str | None = None) -> Cotangent:
        """
        Input `operand` of the backward, of the output's shape; None: "d_<output>".
        """

    @staticmethod
    def computed(output: str, program: Program) -> Cotangent:
        """
        What `program`, which stores one value and has no accumulator, computes; see Gradient.finish.
        """

    @property
    def output(self) -> str:
        """The output of the forward program."""

    @property
    def source(self) -> str:
        """'none', 'acc', 'load' or 'computed'."""

    @property
    def operand(self) -> str:
        """The input of the backward; '' unless loaded."""

    @property
    def program(self) -> Program | None:
        """What computes it; None unless computed."""

    def __repr__(self) -> str: ...

class Gradient:
    """Where the gradient by one accumulator or operand is found."""

    @property
    def of(self) -> str:
        """The name, as in `wrt`."""

    @property
    def output(self) -> str:
        """
        Output of the backward program; gradients that are one value share it. (M, N) of an accumulator or tile. Of a row, col or scalar that met a tile, f32 partial sums that remain to be summed: (M / partial_width, N) of a row, (M, N / partial_width) of a col or scalar, rounded up; of others, its own shape.
        """

    @property
    def finish(self) -> Program | None:
        """
        Only for an operand of partials: the program without accumulator that makes its gradient, (M,) or (N,), from `output`, a sum without the factors that do not vary along it, and stores "d_<of>". Cotangent.computed takes it for the backward of the program that made the partials.
        """

    @property
    def period(self) -> int:
        """
        Of a row that repeats: entries so many columns apart remain to be summed. 0: none.
        """

    @property
    def sum_rows(self) -> bool:
        """Of a scalar: the finished col remains to be summed over its rows."""

    def __repr__(self) -> str: ...

def differentiate(forward: Program, wrt: Sequence[str], cotangents: Sequence[Cotangent], *, recompute_acc: bool, saved: Sequence[str] | None, remade: Sequence[str], partial_width: int, partial_rows: int = 0) -> tuple[Program, list[Gradient]]:
    """
    The backward program and its gradients; coda_cpp.differentiate is the interface.
    """

def values_to_save(forward: Program, wrt: Sequence[str], cotangents: Sequence[Cotangent]) -> list[str]:
    """
    Values that with_saved must store for differentiate to have all it needs: names, or accumulators.
    """

def with_saved(forward: Program, values: Sequence[str]) -> Program:
    """
    The program that stores `values` too; coda_cpp.with_saved is the interface.
    """

class Factor:
    """Several matrices as one factor: what pair, concat and concat_k make."""

    @property
    def view(self) -> str:
        """'pair', 'concat' or 'concat_k'."""

    def __len__(self) -> int: ...

def pair(first: object | None, second: object | None) -> Factor:
    """Two (K, N) matrices as B, giving two accumulators: gate and up."""

def concat(*args) -> Factor:
    """
    Matrices joined along N as B, or along M as A; each has its own program and operands: q, k and v.
    """

def concat_k(*args) -> Factor:
    """Matrices joined along K, A and B alike: their products are summed."""

def gemm(a: object | None, b: object | None, segments: Sequence[tuple[Program, dict]], backend: str = '') -> list:
    """
    Outputs of each (program, operands) segment, in program order; coda_cpp.gemm is the interface.
    """

def elementwise(program: Program, operands: dict, shape: tuple[int, int] | None = None, backend: str = '') -> list:
    """Outputs in program order; coda_cpp.elementwise is the interface."""

def backend_names(device: str = 'cpu') -> list[str]:
    """
    Names of the backends of this build for tensors on 'cpu' or 'cuda', in order of preference.
    """

class Launch:
    """A kind of call of gemm: its views, its programs and its backend."""

    def __init__(self, a_view: str, b_view: str, programs: Sequence[Program], backend: str = '') -> None: ...

    def run(self, a: Sequence[object], b: Sequence[object], inputs: Sequence[object]) -> list:
        """
        Outputs of all programs, in order, for the matrices of A, those of B, (K, N), and the inputs of all programs.
        """

class Prepared:
    """A call of gemm made ready: what coda_cpp.prepare returns."""

    @property
    def workspace_bytes(self) -> int:
        """
        Scratch memory a run takes, in bytes; 0 where every operand is read as it lies.
        """

    @property
    def schedule(self) -> str | None:
        """
        The schedule it runs with, as text; None for a backend without schedules.
        """

class Tuning:
    """Products tuned at their first run; coda_cpp.tuning is the interface."""

    def __init__(self) -> None: ...

    def begin(self, rounds: int, progress: object | None) -> None: ...

    def end(self) -> None: ...

def prepare(a: object | None, b: object | None, segments: Sequence[tuple[Program, dict]], schedule: str = '', backend: str = '') -> Prepared:
    """A call made ready; coda_cpp.prepare is the interface."""

def candidates(a: object | None, b: object | None, segments: Sequence[tuple[Program, dict]], backend: str = 'cuda') -> list[tuple[str, str]]:
    """
    (schedule, reason) of each candidate; coda_cpp.candidates is the interface.
    """

def tune(a: object | None, b: object | None, segments: Sequence[tuple[Program, dict]], rounds: int, record: bool, progress: object | None) -> list[tuple[str, float, float, str]]:
    """
    (schedule, milliseconds, ratio, reason) of each candidate; coda_cpp.tune is the interface.
    """

class RmsNorm:
    """An RMSNorm: weight (d,), eps, and how the weight enters."""

    def __init__(self, weight: object | None, eps: float = 1e-06, kind: str = 'gamma') -> None:
        """kind: 'gamma', 'one_plus_gamma' or 'none'."""

    @property
    def eps(self) -> float: ...

class NormedStream:
    """
    The residual stream between two blocks: what the delayed norm needs of it.
    """

    @property
    def x(self) -> object:
        """(T, d), the residual stream."""

    @property
    def h(self) -> object:
        """(T, d), x * gamma."""

    @property
    def sum_sq(self) -> object:
        """(T, partials) f32, partial sums of x^2."""

def enter_norm(x: object, norm: RmsNorm) -> NormedStream:
    """
    Start of a chain: x (T, d) gives x, x * gamma and the partial sums of x^2.
    """

def residual_norm(y: object, weight: object, x: object, next: RmsNorm, bias: object | None = None) -> NormedStream:
    """
    y @ weight.T (+ bias) + x, and what the next norm needs. y: (T, k); weight: (d, k); bias: (d,).
    """

def norm_linear(stream: NormedStream, norm: RmsNorm, weight: object, bias: object | None = None) -> object:
    """norm(x) @ weight.T (+ bias): (T, n). weight: (n, d)."""

def gated_mlp(stream: NormedStream, norm: RmsNorm, gate_weight: object, up_weight: object, gate: str = 'swiglu', gate_bias: object | None = None, up_bias: object | None = None) -> object:
    """gate(norm(x) @ gate_weight.T, norm(x) @ up_weight.T): (T, f)."""

def causal_attention(q: object, k: object, v: object, *, heads: int, kv_heads: int, scale: float = 0.0) -> object:
    """
    Causal grouped-query attention. q: (T, heads*head); k, v: (S, kv_heads*head), S >= T. scale 0: 1/sqrt(head).
    """

class Loss:
    """A cross entropy; float(loss) is its value."""

    @property
    def value(self) -> float:
        """
        Mean over counted tokens (NaN when there is none), or sum; 0 for 'none'.
        """

    @property
    def counted(self) -> int:
        """Tokens whose target is not ignore_index."""

    @property
    def per_token(self) -> object:
        """(T,) f32; 0 where ignored."""

    def __float__(self) -> float: ...

    def __repr__(self) -> str: ...

def lm_head_loss(stream: NormedStream, norm: RmsNorm, weight: object, targets: object, reduction: str = 'mean', ignore_index: int = -100) -> Loss:
    """
    Cross entropy of norm(x) @ weight.T with targets (T,); the logits are never stored.
    Raises IndexError for a target outside [0, V) that is not ignore_index.
    """

class Rope:
    """
    A rotary embedding and its angles: positions (T,), and frequencies (width/2,) or base; or cos and sin (T, width/2).
    """

    def __init__(self, head: int, *, width: int = 0, interleaved: bool = False, base: float = 10000.0, scale: float = 1.0, positions: object | None = None, frequencies: object | None = None, cos: object | None = None, sin: object | None = None) -> None: ...

def qkv_rope(stream: NormedStream, norm: RmsNorm, q: object, k: object, v: object, rope: Rope, *, q_bias: object | None = None, k_bias: object | None = None, v_bias: object | None = None, q_norm: RmsNorm | None = None, k_norm: RmsNorm | None = None) -> tuple:
    """
    Rotated q and k, and v, of norm(x): (T, heads*head) and twice (T, kv_heads*head).
    """

class LayerWeights:
    """
    The weights of one decoder layer, each (out, in), under a checkpoint's names.
    """

    def __init__(self, *, input_norm: RmsNorm, q: object, k: object, v: object, o: object, post_norm: RmsNorm, gate: object, up: object, down: object, q_bias: object | None = None, k_bias: object | None = None, v_bias: object | None = None, o_bias: object | None = None, gate_bias: object | None = None, up_bias: object | None = None, down_bias: object | None = None, q_norm: RmsNorm | None = None, k_norm: RmsNorm | None = None) -> None: ...

def transformer_layer(stream: NormedStream, weights: LayerWeights, rope: Rope, next_norm: RmsNorm, *, heads: int, kv_heads: int, gate: str = 'swiglu') -> NormedStream:
    """One decoder layer, ending in what the next norm needs."""

def use_gpu_memory(allocate: object, release: object) -> None:
    """
    From now on memory of GPUs comes from these functions: allocate(bytes, index, stream) gives an address aligned to 256 bytes for work on that CUstream, release(address) takes it back behind what is queued there. Once a process.
    """

class Fresh:
    """
    A tensor given as a main gradient whose content the gradient takes the place of: memory that was never written will do.
    """

    def __init__(self, tensor: object) -> None: ...

    @property
    def tensor(self) -> object: ...

class SavedStream:
    """What a backward keeps of a NormedStream."""

    def __init__(self, x: object, sum_sq: object) -> None:
        """From the tensors of one, which must be contiguous; nothing is copied."""

    @property
    def x(self) -> object:
        """(T, d), the residual stream."""

    @property
    def sum_sq(self) -> object:
        """(T, partials) f32, partial sums of x^2."""

class StreamGradient:
    """
    The gradient of a loss by a NormedStream, from the block that read the stream to the one that made it; stream_backward takes the product with the weights.
    """

    def add_residual(self, d_x: object) -> None:
        """
        Takes along what reaches x past the norm, (T, d), contiguous: the gradient by the next residual sum, in the stream's dtype or f32.
        """

def partial_width(columns: int) -> int:
    """
    Columns that each partial sum of x^2 of a stream covers: at most 64 of them in a row, which a load finishes.
    """

def partial_count(columns: int) -> int:
    """
    How many partial sums of x^2 a stream of that many columns has in a row.
    """

def saved_stream(stream: NormedStream, policy: str = 'fast') -> SavedStream:
    """
    What a backward needs of a stream. policy: 'fast' keeps all partial sums of x^2, 'lean' one number a token.
    """

def stream_backward(gradient: StreamGradient, stream: SavedStream, norm: RmsNorm, *, stream_gradient: str = 'stream', into: object | None = None) -> object:
    """
    The gradient (T, d) by x of a stream, in its dtype: by both terms of residual_norm's sum, or by enter_norm's argument.
    stream_gradient: 'f32' gives a pair, that gradient and the same in f32, which add_residual takes along.
    into: {'norm_weight': (d,), 'bias': (d,)}, tensors the gradients by parameters are added to.
    """

def linear_backward(d_out: object, weight: object) -> object:
    """d_out @ weight, the gradient (T, k) by y of y @ weight.T."""

def add_weight_gradient(d_out: object, y: object, into: object) -> None:
    """
    into (n, k) += d_out.T @ y, the gradient by W of y @ W.T; into may be a Fresh.
    """

def norm_linear_backward(d_out: object, out: object, stream: SavedStream, norm: RmsNorm, weight: object, bias: object | None = None, *, into: object | None = None) -> StreamGradient:
    """
    Backward of norm_linear. d_out, out: (T, n). into: {'weight': (n, d), 'bias': (n,)}.
    """

class GatedMlp:
    """The result of gated_mlp_saved and what its backward needs."""

    def __init__(self, gate: object, up: object, y: object | None = None) -> None:
        """
        From the tensors of one, which must be contiguous; nothing is copied. Without y, a backward makes it again.
        """

    @property
    def y(self) -> object:
        """(T, f), the result."""

    @property
    def gate(self) -> object:
        """(T, f), what the activation was applied to."""

    @property
    def up(self) -> object:
        """(T, f), what it was multiplied by."""

def gated_mlp_saved(stream: NormedStream, norm: RmsNorm, gate_weight: object, up_weight: object, gate: str = 'swiglu', gate_bias: object | None = None, up_bias: object | None = None) -> GatedMlp:
    """gated_mlp that keeps what its backward needs."""

def gated_mlp_backward(d_out: object, down: object, saved: GatedMlp, stream: SavedStream, norm: RmsNorm, gate_weight: object, up_weight: object, gate: str = 'swiglu', gate_bias: object | None = None, up_bias: object | None = None, *, remake_y: bool = False, into: object | None = None) -> tuple:
    """
    Backward of gated_mlp with y @ down.T behind it, of which d_out (T, n) is the gradient: the StreamGradient, and y (T, f), kept or made again.
    into: {'gate', 'up': (f, d), 'gate_bias', 'up_bias': (f,)}. The gradient by down is d_out.T @ y.
    """

class SavedAttention:
    """The result of causal_attention_saved and what its backward needs."""

    @property
    def out(self) -> object:
        """(T, heads*head), the result."""

    @property
    def lse(self) -> object:
        """(T, heads) f32, log-sum-exp of the scaled scores."""

def causal_attention_saved(q: object, k: object, v: object, *, heads: int, kv_heads: int, sequences: int = 1, scale: float = 0.0) -> SavedAttention:
    """
    causal_attention over `sequences` sequences of equal length, one behind the other, that keeps what its backward needs. q: (T, heads*head); k, v: (T, kv_heads*head).
    """

def causal_attention_backward(d_out: object, q: object, k: object, v: object, saved: SavedAttention, *, heads: int, kv_heads: int, sequences: int = 1, scale: float = 0.0) -> tuple:
    """The gradients by q, k and v. d_out: (T, heads*head)."""

def lm_head_loss_backward(stream: NormedStream, norm: RmsNorm, weight: object, targets: object, reduction: str = 'mean', ignore_index: int = -100, *, factor: float = 1.0, chunk_tokens: int = 0, into: object | None = None) -> tuple:
    """
    lm_head_loss and its backward at once, over chunks of tokens: the Loss and the StreamGradient. factor: of the gradients; chunk_tokens: whose logits are in memory at a time, a multiple of 64, 0 for about 64 MB of them; into: {'weight': (V, d)}. Raises ValueError in f16 for a factor whose share of a token is below f16's normal numbers.
    """

class SavedQkv:
    """The results of qkv_rope_saved and what its backward needs."""

    def __init__(self, q: object, k: object, v: object, qz: object | None = None, kz: object | None = None) -> None:
        """From the tensors of one, which must be contiguous; nothing is copied."""

    @property
    def qz(self) -> object:
        """(T, heads*head), q before its own norm; None where it has none."""

    @property
    def kz(self) -> object:
        """(T, kv_heads*head), k before its own norm; None where it has none."""

    @property
    def q(self) -> object:
        """(T, heads*head), rotated."""

    @property
    def k(self) -> object:
        """(T, kv_heads*head), rotated."""

    @property
    def v(self) -> object:
        """(T, kv_heads*head)."""

def qkv_rope_saved(stream: NormedStream, norm: RmsNorm, q: object, k: object, v: object, rope: Rope, *, q_bias: object | None = None, k_bias: object | None = None, v_bias: object | None = None, q_norm: RmsNorm | None = None, k_norm: RmsNorm | None = None) -> SavedQkv:
    """qkv_rope that keeps what its backward needs."""

def qkv_rope_backward(d_q: object, d_k: object, d_v: object, saved: SavedQkv, stream: SavedStream, norm: RmsNorm, q: object, k: object, v: object, rope: Rope, *, q_bias: object | None = None, k_bias: object | None = None, v_bias: object | None = None, q_norm: RmsNorm | None = None, k_norm: RmsNorm | None = None, into: object | None = None) -> StreamGradient:
    """
    Backward of qkv_rope. into: {'q', 'k', 'v': (rows, d), 'q_bias', 'k_bias', 'v_bias': (rows,), 'q_norm', 'k_norm': (head,)}.
    """

class SavedLayer:
    """What transformer_layer_saved keeps."""

    @property
    def bytes(self) -> int:
        """Bytes of what is kept."""

def transformer_layer_saved(stream: NormedStream, weights: LayerWeights, rope: Rope, next_norm: RmsNorm, *, heads: int, kv_heads: int, gate: str = 'swiglu', sequences: int = 1, policy: str = 'fast') -> tuple:
    """
    transformer_layer over `sequences` sequences of equal length, one behind the other, that keeps what its backward needs: the stream and a SavedLayer. policy: 'fast' keeps the MLP's activation, 'lean' makes it again.
    """

def transformer_layer_backward(gradient: StreamGradient, output: SavedStream, saved: SavedLayer, weights: LayerWeights, rope: Rope, next_norm: RmsNorm, *, heads: int, kv_heads: int, gate: str = 'swiglu', sequences: int = 1, stream_gradient: str = 'stream', into: object | None = None) -> StreamGradient:
    """
    From the gradient by a layer's result, kept as `output`, to that by the stream it began with. stream_gradient: 'stream' rounds the gradient by the residual stream to its dtype, 'f32' takes it along in f32. into: tensors by the names of LayerWeights, and 'next_norm' for the norm that reads the result; that of input_norm is added by the backward of what made the stream.
    """

class LlamaConfig:
    """What config.json says of a LLaMA-family model."""

    @staticmethod
    def parse(json: str) -> LlamaConfig:
        """
        Reads the text of a config.json. Raises ValueError naming field and cure, NotImplementedError for a model coda does not run.
        """

    @property
    def vocabulary(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def mlp_width(self) -> int: ...

    @property
    def layers(self) -> int: ...

    @property
    def heads(self) -> int: ...

    @property
    def kv_heads(self) -> int: ...

    @property
    def head(self) -> int: ...

    @property
    def eps(self) -> float: ...

    @property
    def rope_theta(self) -> float: ...

    @property
    def tied_head(self) -> bool: ...

    @property
    def activation(self) -> str: ...

class LlamaModel:
    """A LLaMA-family model. tokens: (T,) i32 or i64, or a list of ints."""

    def __init__(self, config: object, tensors: dict, dtype: object | None = None, share: bool = False, device: object = 'cpu') -> None:
        """
        From a checkpoint's tensors by name. config: a LlamaConfig, the text of a config.json, or its dict; dtype: convert weights to it; share: use the tensors' memory instead of a copy; device: where it runs, 'cpu', 'cuda' or 'cuda:N'.
        """

    @staticmethod
    def load(folder: object, dtype: object | None = None, device: object = 'cpu') -> LlamaModel:
        """
        Reads a folder with config.json and safetensors. Raises OSError and ValueError; nothing is half-loaded.
        """

    @property
    def config(self) -> LlamaConfig: ...

    @property
    def device(self) -> str:
        """Where it runs: 'cpu', 'cuda:0'."""

    def logits(self, tokens: object) -> object:
        """
        (T, V) f32 logits of one sequence, on the model's device. Raises IndexError for a token outside [0, V).
        """

    def loss(self, tokens: object, targets: object, reduction: str = 'mean', ignore_index: int = -100) -> Loss:
        """
        Cross entropy of predicting targets[t] from tokens[0..t]; the logits are never stored. Raises ValueError for a loss that f16 has no number for.
        """

    def observe_layers(self, tokens: object, observer: object) -> None:
        """
        Calls observer(index, hidden) with the (T, d) state: index 0 is the embedding, then after each layer.
        """

    def generate(self, prompt: object, count: int, on_token: object | None = None, *, temperature: float = 0.0, top_p: float = 1.0, seed: int = 0) -> list[int]:
        """
        The next `count` tokens, greedy at temperature 0. Calls on_token(token) for each; it may return False to stop, and what it raises is raised here.
        """

    def parameter_names(self) -> list[str]:
        """
        Names of the model's tensors as the checkpoint has them, a tied head left out: what gradients can be had of.
        """

    def loss_and_gradients(self, tokens: object, targets: object, gradients: object | None = None, *, trainable: Sequence[str] | None = None, dtype: object | None = None, reduction: str = 'mean', ignore_index: int = -100, factor: float = 1.0, policy: str = 'fast', stream_gradient: str = 'stream', chunk_tokens: int = 0) -> tuple:
        """
        The Loss, its per_token flat, and its gradients in a dict by the checkpoint's names.

        tokens, targets: (T,), or (B, T) for B sequences of equal length that do not see each other.
        gradients: a dict of tensors they are added to, each of its parameter's shape, in f32 or in its dtype; what it leaves out is frozen, and no product is run for it. None: new tensors, of all parameters or of those `trainable` names, in `dtype` or in each parameter's.
        reduction: 'mean' over the targets that are not ignore_index, or 'sum'. factor: of the gradients, 1/steps where they are accumulated over steps. policy: 'fast' keeps the MLP's activation, 'lean' makes it again. stream_gradient: 'stream' rounds the gradient by the residual stream to the stream's dtype at each residual sum, 'f32' keeps it in f32 from layer to layer. chunk_tokens: whose logits are in memory at a time, a multiple of 64; 0: about 64 MB of them.

        A model with share=True reads its weights where the caller's optimizer changes them. Two runs give the same bits. On a GPU the model's weights are bf16 or f16, gradients that are made are on it, and the call waits for the losses. Raises ValueError, TypeError and IndexError before anything is written; in f16 ValueError for a stream, and for a factor whose share of a token, that f16 has no numbers for.
        """

def set_num_threads(count: int) -> None:
    """
    Threads a call may use; 0 asks for CODA_NUM_THREADS, else every core the process may run on.
    """

def num_threads() -> int:
    """Threads a call uses."""

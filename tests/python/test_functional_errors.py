"""What coda_cpp.functional and recorded calls of gemm refuse, and its whole text."""

import math

import numpy as np
import pytest
import torch

import coda_cpp as coda
from coda_cpp import functional as CF

X, W, TABLE = torch.ones(3, 8), torch.ones(4, 8), torch.ones(3, 2)
RECORDED, PARAMETER = torch.ones(3, 8, requires_grad=True), torch.ones(4, 8, requires_grad=True)
ADDED = torch.ones(4, 8, requires_grad=True)
ADDED.main_grad = torch.zeros(4, 8)
ROPE = CF.Rope(4, torch.arange(3))
EPS = "expected a finite number, 0 or above: it is added to a mean square"
ANGLES = "expected positions, with or without frequencies, or cos and sin"
CURE = "convert it with torch.from_numpy"


@coda.epilogue
def sums(acc):
    return coda.reduce_row(acc, "sum", 64)


@coda.epilogue
def twice(row: coda.Row):
    return row * 2


def after_an_int_head():
    """Launches are kept by their options, and 4.0 == 4."""
    for head in (4, 4.0):
        CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(head=head))


def apart(out):
    """A loss of each partial for itself."""
    (out * torch.arange(2.0)).sum().backward()


# (exception, exact text, call)
ROWS = [
    (TypeError, "linear: argument 'x' is a ndarray, expected a torch tensor", lambda: CF.linear(np.ones((3, 8)), W)),
    (ValueError, "linear: argument 'x' has shape [], expected (..., K)", lambda: CF.linear(torch.tensor(1.0), W)),
    (ValueError, "linear: argument 'weight' has shape [8, 4], expected (N, 8), as 'x' has shape [3, 8]: a weight is (out, in)",
     lambda: CF.linear(X, W.T)),
    (ValueError, "linear: argument 'weight' has shape [8], expected (N, 8), as 'x' has shape [3, 8]: a weight is (out, in)",
     lambda: CF.linear(X, W[0])),
    (TypeError, "linear: argument 'weight' has dtype torch.bfloat16, expected torch.float32, that of 'x': convert one, or use "
                "torch.autocast", lambda: CF.linear(X, W.bfloat16())),
    (ValueError, "linear: argument 'weight' is on meta, expected cpu, the device of 'x': move it there",
     lambda: CF.linear(X, W.to("meta"))),
    (TypeError, "linear: gemm: A has dtype i64, expected f32, bf16, f16 or f64: convert it", lambda: CF.linear(X.long(), W.long())),
    (ValueError, "linear: gemm: operand 'bias' has shape [5], expected [4] (N): a row vector spans the columns of the output",
     lambda: CF.linear(RECORDED, W, torch.ones(5))),
    (TypeError, "linear: argument 'bias' is a ndarray, expected a torch tensor",
     lambda: CF.linear(X, W, np.ones(4, np.float32))),
    (ValueError, "linear_act: argument 'activation' is 'gelo', expected one of silu, gelu, gelu_tanh, quick_gelu, relu, "
                 "relu_squared, sigmoid", lambda: CF.linear_act(X, W, "gelo")),
    (ValueError, "linear_act: argument 'activation' is empty, expected a name such as 'gelu': without one, use linear",
     lambda: CF.linear_act(X, W, "")),
    (ValueError, "linear_geglu: argument 'approximate' is 'erf', expected 'none' or 'tanh'",
     lambda: CF.linear_geglu(X, W, W, approximate="erf")),
    (ValueError, "linear_swiglu: argument 'gate' has 3 rows, expected those of gate, up stacked",
     lambda: CF.linear_swiglu(X, W[:3])),
    (ValueError, "linear_swiglu: argument 'up_bias' is missing, expected a bias for both or none: pass zeros",
     lambda: CF.linear_swiglu(X, W, W, gate_bias=torch.ones(4))),
    (ValueError, "linear_swiglu: gemm: B part 1 has shape [8, 2], expected 4 columns (N), as part 0 of shape [8, 4]: the two "
                 "matrices of a pair have one shape", lambda: CF.linear_swiglu(RECORDED, W, W[:2])),
    (ValueError, "linear_residual_rmsnorm: argument 'residual' has shape [2, 4], expected leading dimensions [3], those of 'x'",
     lambda: CF.linear_residual_rmsnorm(X, W, torch.ones(2, 4))),
    (ValueError, "linear_residual_rmsnorm: argument 'weight' has shape [], expected (N, 8), as 'x' has shape [3, 8]: a weight "
                 "is (out, in)", lambda: CF.linear_residual_rmsnorm(X, W[0, 0], torch.ones(3, 4))),
    (TypeError, "linear_residual_rmsnorm: argument 'norm_weight' is a ndarray, expected a torch tensor",
     lambda: CF.linear_residual_rmsnorm(X, W, torch.ones(3, 4), np.ones(4, np.float32))),
    (TypeError, "normed_stream: argument 'x' is a ndarray, expected a torch tensor", lambda: CF.normed_stream(X.numpy())),
    (ValueError, "normed_stream: argument 'norm_weight' has shape [7], expected [8], the last dimension of 'x'",
     lambda: CF.normed_stream(X, torch.ones(7))),
    (TypeError, "rmsnorm_linear: argument 'norm_weight' is a float, expected a torch tensor",
     lambda: CF.rmsnorm_linear(X, 1.0, W)),
    (ValueError, "rmsnorm_linear: argument 'x' has shape [3, 0], expected (..., K) with K above 0: a norm is a mean over K",
     lambda: CF.rmsnorm_linear(X[:, :0], None, W[:, :0])),
    (ValueError, "rmsnorm: argument 'x' has shape [0], expected (..., K) with K above 0: a norm is a mean over K",
     lambda: CF.rmsnorm(X[0, :0])),
    (TypeError, f"rmsnorm_linear: argument 'eps' is '1e-6', {EPS}", lambda: CF.rmsnorm_linear(X, None, W, eps="1e-6")),
    (ValueError, f"rmsnorm_swiglu: argument 'eps' is nan, {EPS}", lambda: CF.rmsnorm_swiglu(X, None, W, W, eps=math.nan)),
    (TypeError, f"rmsnorm_qkv_rope: argument 'eps' is None, {EPS}",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=ROPE, eps=None)),
    (ValueError, f"linear_qknorm_rope: argument 'eps' is -1, {EPS}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE, eps=-1)),
    (TypeError, "linear: options are activation=['gelu'], has_bias=False, expected plain numbers and names: one has another type",
     lambda: CF.linear_act(X, W, ["gelu"])),
    (ValueError, "rmsnorm_linear: argument 'norm_weight' has shape [7], expected [8], the last dimension of 'x'",
     lambda: CF.rmsnorm_linear(X, torch.ones(7), W)),
    (ValueError, "rmsnorm_linear: argument 'norm_weight' is given with a NormedStream, expected None: the stream has been "
                 "multiplied by it", lambda: CF.rmsnorm_linear(CF.normed_stream(X), torch.ones(8), W)),
    (ValueError, "rmsnorm: argument 'norm_weight' has shape [7], expected [8], the last dimension of 'x'",
     lambda: CF.rmsnorm(X, torch.ones(7))),
    (ValueError, "rmsnorm: argument 'norm_weight' is given with a NormedStream, expected None: the stream has been multiplied "
                 "by it", lambda: CF.rmsnorm(CF.normed_stream(X), torch.ones(8))),
    (TypeError, "rmsnorm: argument 'x' is a ndarray, expected a torch tensor", lambda: CF.rmsnorm(np.ones((3, 8)))),
    (ValueError, "rmsnorm: argument 'x' has shape [], expected (..., K)", lambda: CF.rmsnorm(torch.tensor(1.0))),
    (TypeError, "rmsnorm: elementwise: operand 'x' has dtype i64, expected f32, bf16, f16 or f64: no tile holds integers",
     lambda: CF.rmsnorm(X.long())),
    (ValueError, f"rmsnorm: argument 'eps' is -1.0, {EPS}", lambda: CF.rmsnorm(X, eps=-1.0)),
    (ValueError, "rmsnorm_qkv_rope: argument 'k' is missing, expected q, k and v, or one stacked weight as 'q' with 'sizes', "
                 "the rows of each", lambda: CF.rmsnorm_qkv_rope(X, None, W, rope=ROPE)),
    (ValueError, "rmsnorm_qkv_rope: argument 'q' has 4 rows, expected those of q, k, v stacked, sizes [1, 2, 3]",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, sizes=(1, 2, 3), rope=ROPE)),
    (ValueError, "rmsnorm_qkv_rope: argument 'q' has 4 rows, expected those of q, k, v stacked, sizes [8, -2, -2]",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, sizes=(8, -2, -2), rope=ROPE)),
    (TypeError, "rmsnorm_qkv_rope: argument 'sizes' is 4, expected a tuple of ints, the rows of q, k, v",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, sizes=4, rope=ROPE)),
    (TypeError, "rmsnorm_qkv_rope: argument 'sizes' is (2.0, 1, 1), expected a tuple of ints, the rows of q, k, v",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, sizes=(2.0, 1, 1), rope=ROPE)),
    (ValueError, "rmsnorm_qkv_rope: argument 'sizes' is given with 'k' or 'v', expected it with a stacked weight alone: leave "
                 "it out", lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, sizes=(4, 4, 4), rope=ROPE)),
    (ValueError, "rmsnorm_qkv_rope: argument 'biases' has 4 entries, expected 3: of q, k and v",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, biases=[torch.ones(4)] * 4, rope=ROPE)),
    (TypeError, "rmsnorm_qkv_rope: argument 'biases' is a Tensor, expected a tuple of tensors, of q, k and v",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=ROPE, biases=torch.ones(3, 4))),
    (TypeError, "rmsnorm_qkv_rope: argument 'bias' is a NoneType, expected a torch tensor",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, biases=[torch.ones(4), None, torch.ones(4)], rope=ROPE)),
    (TypeError, "rmsnorm_qkv_rope: argument 'rope.frequencies' is a ndarray, expected a torch tensor",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=CF.Rope(4, torch.arange(3), frequencies=np.ones(2, np.float32)))),
    (ValueError, f"rmsnorm_qkv_rope: argument 'rope' has no angles, {ANGLES}",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=CF.Rope(4))),
    (ValueError, f"linear_qknorm_rope: argument 'rope' has positions, cos, sin, {ANGLES}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(cos=TABLE, sin=TABLE))),
    (ValueError, f"linear_qknorm_rope: argument 'rope' has positions, frequencies, cos, sin, {ANGLES}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=CF.Rope(4, torch.arange(3), TABLE, TABLE, TABLE[0]))),
    (ValueError, f"linear_qknorm_rope: argument 'rope' has positions, sin, {ANGLES}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(sin=TABLE))),
    (ValueError, f"linear_qknorm_rope: argument 'rope' has cos, {ANGLES}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=CF.Rope(4, cos=TABLE))),
    (ValueError, f"linear_qknorm_rope: argument 'rope' has frequencies, cos, sin, {ANGLES}",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=CF.Rope(4, cos=TABLE, sin=TABLE, frequencies=TABLE[0]))),
    (ValueError, "linear_qknorm_rope: argument 'rope.frequencies' requires grad, expected a tensor outside autograd: no "
                 "gradient by it is derived; pass its detach()",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(frequencies=TABLE[0].clone().requires_grad_()))),
    (TypeError, "linear_qknorm_rope: argument 'rope' has head 4.0, expected an int", after_an_int_head),
    (TypeError, "linear_qknorm_rope: argument 'rope' has width '4', expected an int",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(width="4"))),
    (TypeError, "linear_qknorm_rope: argument 'rope' has scale None, expected a number",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(scale=None))),
    (TypeError, "linear_qknorm_rope: argument 'rope' has base '1e4', expected a finite number above 0, such as 10000",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(base="1e4"))),
    (ValueError, "linear_qknorm_rope: argument 'rope' has base 0, expected a finite number above 0, such as 10000",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(base=0))),
    (ValueError, "linear_qknorm_rope: argument 'rope' has base nan, expected a finite number above 0, such as 10000",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=ROPE._replace(base=math.nan))),
    (TypeError, "rmsnorm_qkv_rope: argument 'rope' is a int, expected a functional.Rope",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=4)),
    (ValueError, "rmsnorm_qkv_rope: argument 'rope.positions' has shape [5], expected one that repeats to [3]",
     lambda: CF.rmsnorm_qkv_rope(X, None, W, W, W, rope=CF.Rope(4, torch.arange(5)))),
    (ValueError, "linear_qknorm_rope: argument 'rope.cos' requires grad, expected a tensor outside autograd: no gradient by it "
                 "is derived; pass its detach()",
     lambda: CF.linear_qknorm_rope(X, W, None, rope=CF.Rope(4, cos=TABLE.clone().requires_grad_(), sin=TABLE))),
    *[(ValueError, f"linear_qknorm_rope: argument 'rope' has head {head} and width {width}, expected a head above 0 and an even "
                   "width within it, 0 for all of an even head: columns rotate in pairs",
       lambda head=head, width=width: CF.linear_qknorm_rope(X, W, None, rope=CF.Rope(head, torch.arange(3), width=width)))
      for head, width in ((3, 0), (0, 0), (-2, 0), (4, -2), (4, 6), (4, 1))],
    (TypeError, "linear_cross_entropy: argument 'targets' has dtype torch.float32, expected torch.int64 or torch.int32",
     lambda: CF.linear_cross_entropy(X, W, torch.ones(3))),
    (TypeError, "linear_cross_entropy: argument 'ignore_index' is a NoneType, expected an int",
     lambda: CF.linear_cross_entropy(X, W, torch.arange(3), ignore_index=None)),
    (ValueError, "linear_cross_entropy: argument 'targets' has shape [4], expected [3], the leading dimensions of 'x'",
     lambda: CF.linear_cross_entropy(X, W, torch.ones(4).long())),
    (IndexError, "linear_cross_entropy: gemm: targets 4 at row 2 is outside [0, 4), expected a column of the output, or -100 "
                 "to ignore the row",
     lambda: CF.linear_cross_entropy(X, W, torch.tensor([0, 1, 4]))),
    (ValueError, "linear_cross_entropy: argument 'weight' has shape [8, 4], expected (N, 8), as 'x' has shape [3, 8]: a weight "
                 "is (out, in)", lambda: CF.linear_cross_entropy(X, W.T, torch.arange(3))),
    (TypeError, "linear_cross_entropy_forward: argument 'weight' is a ndarray, expected a torch tensor",
     lambda: CF.linear_cross_entropy_forward(X, W.numpy(), torch.arange(3))),
    (TypeError, "linear: argument 'weight' is a ndarray, expected a torch tensor", lambda: CF.linear(X, W.numpy(), main_grad=True)),
    (ValueError, "linear_cross_entropy: argument 'reduction' is 'none', expected 'mean' or 'sum': linear_cross_entropy_forward "
                 "gives the loss of each token", lambda: CF.linear_cross_entropy(X, W, torch.arange(3), reduction="none")),
    (ValueError, "linear: argument 'weight' has none as its .main_grad, expected a tensor of shape [4, 8] and torch.float32 or "
                 "the weight's dtype: main_grad=True adds its gradient to it", lambda: CF.linear(X, PARAMETER, main_grad=True)),
    (ValueError, "linear_swiglu: arguments 'gate' and 'up' have one .main_grad, expected one each: a product adds to both at "
                 "once; leave main_grad out where a weight is given twice",
     lambda: CF.linear_swiglu(X, ADDED, ADDED, main_grad=True)),
    (ValueError, "linear_swiglu: argument 'gate' has none as its .main_grad, expected a tensor of shape [4, 8] and "
                 "torch.float32 or the weight's dtype: main_grad=True adds its gradient to it",
     lambda: CF.linear_swiglu(X, PARAMETER, main_grad=True)),
    (ValueError, "linear_swiglu: argument 'gate' has 0 rows, expected those of gate, up stacked",
     lambda: CF.linear_swiglu(X, torch.tensor(1.0))),
    # coda.gemm and elementwise, where autograd records.
    (ValueError, "gemm: output 'out' is given and an input requires grad, expected outputs that gemm makes: autograd does not "
                 "see what is written into a tensor; leave it out, or call under torch.no_grad()",
     lambda: coda.gemm(RECORDED, W.T, out=torch.empty(3, 4))),
    (TypeError, f"gemm: B is a ndarray, expected a torch tensor, as other arguments are, one of which requires grad: "
                f"{CURE}", lambda: coda.gemm(RECORDED, W.T.numpy())),
    (TypeError, f"gemm: operand 'bias' is a ndarray, expected a torch tensor, as the others are: {CURE}",
     lambda: coda.gemm(RECORDED, W.T, "bias", bias=np.ones(4, np.float32))),
    (TypeError, f"gemm: A is a ndarray, expected a torch tensor, as other arguments are, one of which requires grad: "
                f"{CURE}",
     lambda: coda.gemm(X.numpy(), W.T.numpy(), "bias", bias=torch.ones(4, requires_grad=True))),
    (ValueError, "gemm: operand 'bia' of segment 0 is none of program 'bias', expected 'bias', 'out': did you mean 'bias'?",
     lambda: coda.gemm(RECORDED, coda.concat(W.T, W.T), "bias", bia=torch.ones(4))),
    (ValueError, "elementwise: no tile of program 'twice' tells the number of rows and columns, expected one, or shape=(M, N), "
                 "where the call is recorded: pass shape", lambda: coda.elementwise(twice, row=torch.ones(4, requires_grad=True))),
    (ValueError, "elementwise: argument 'shape' is (1, 3, 8), expected (M, N)",
     lambda: coda.elementwise("rms_entry", x=RECORDED, gamma=torch.ones(8), shape=(1, 3, 8))),
    (ValueError, "gemm: operand 'bia' is none of program 'bias', expected 'bias', 'out': did you mean 'bias'?",
     lambda: coda.gemm(RECORDED, W.T, "bias", bia=torch.ones(4))),
    (NotImplementedError, "gemm: program 'sums': output 'out' has a gradient for each of its 2 partials, expected one for their "
                          "sum: use nothing of the output but out.out.sum(-1), once; a logsumexp needs a partial_width that "
                          "leaves one partial", lambda: apart(coda.gemm(RECORDED, torch.ones(8, 128), sums))),
    (NotImplementedError, "differentiate: program 'rope': wrt names 'cos', a tile that repeats every 2 columns: sums over "
                          "columns of a tile's entries are not implemented; leave it out",
     lambda: coda.gemm(X, W.T, coda.epilogues.rope(head=4, angles="table"), cos=TABLE.clone().requires_grad_(), sin=TABLE)),
]


@pytest.mark.parametrize("kind, text, call", ROWS, ids=[f"{text[:50]}{i}" for i, (_, text, _) in enumerate(ROWS)])
def test_text(kind, text, call):
    with pytest.raises(kind) as raised:
        call()
    assert isinstance(raised.value, coda.Error) and str(raised.value) == text

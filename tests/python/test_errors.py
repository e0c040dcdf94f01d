"""Every mistake a Python caller can make and its text: one row each."""

import builtins

import numpy as np
import pytest
import torch

import coda_cpp as coda
from coda_cpp import errors

A, B, BIAS = np.ones((6, 8), np.float32), np.ones((8, 4), np.float32), np.ones(4, np.float32)
SQUARE = np.ones((4, 4), np.float32)
TENSORS = ("expected a dense CPU tensor: a numpy array, a torch tensor, or any object with __dlpack__ or "
           "__array_interface__")


class OnCuda:
    """A tensor of a framework that has a GPU."""

    device = "cuda:1"

    def __dlpack__(self, **options):
        raise AssertionError("never asked")

    def __dlpack_device__(self):
        return (2, 1)


def read_only():
    array = np.empty((6, 4), np.float32)
    array.setflags(write=False)
    return array


def column(acc, shift: coda.Col):
    return acc + shift


COLUMN = coda.epilogue(column)
LSE = coda.epilogues.lse()
BIASED = coda.epilogues.bias()

# (exception, exact text, call)
ROWS = [
    # What is no tensor, or not one of ours.
    (TypeError, f"gemm: A is a list, {TENSORS}", lambda: coda.gemm([[1.0]], B)),
    (TypeError, f"gemm: B is a NoneType, {TENSORS}", lambda: coda.gemm(A, None)),
    (TypeError, f"gemm: B part 1 is a str, {TENSORS}", lambda: coda.gemm(A, coda.pair(B, "up"), "swiglu")),
    (TypeError, f"gemm: operand 'bias' is a list, {TENSORS}", lambda: coda.gemm(A, B, "bias", bias=[1.0])),
    (TypeError, f"gemm: operand 'out' is a numpy.float32, {TENSORS}", lambda: coda.gemm(A, B, out=np.float32(1))),
    (TypeError, f"gemm: A is a torch.Tensor (torch.sparse_coo on cpu), {TENSORS}",
     lambda: coda.gemm(torch.ones(6, 8).to_sparse(), B)),
    (TypeError, f"gemm: A is a torch.Tensor (torch.strided on meta), {TENSORS}",
     lambda: coda.gemm(torch.ones(6, 8, device="meta"), B)),
    (TypeError, f"elementwise: operand 'x' is a dict, {TENSORS}", lambda: coda.elementwise("rms_entry", x={})),
    (NotImplementedError,
     "gemm: A is on cuda:1, expected a CPU tensor or a torch tensor on a GPU: use torch.from_dlpack",
     lambda: coda.gemm(OnCuda(), B)),
    # A launch: the tensors that torch's calls give, by position.
    (ValueError, "Launch: view is 'row', expected one of 'single', 'pair', 'concat', 'concat_k'",
     lambda: coda._core.Launch("row", "single", [])),
    (ValueError, "gemm: operand 'bias' of program 'bias' is missing, expected a tensor for each operand that is no output, in "
                 "the program's order", lambda: coda._core.Launch("single", "single", [BIASED]).run([A], [B], [])),
    (ValueError, "gemm: got 1 tensor more than the programs have operands that are no outputs, expected none: leave them out",
     lambda: coda._core.Launch("single", "single", [BIASED]).run([A], [B], [BIAS, BIAS])),
    # Dtypes.
    (TypeError, "gemm: A has dtype int8, expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert it first",
     lambda: coda.gemm(A.astype(np.int8), B)),
    (TypeError, "gemm: B has dtype torch.complex64, expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert "
                "it first", lambda: coda.gemm(A, torch.ones(8, 4, dtype=torch.complex64))),
    (TypeError, "gemm: A has dtype >f4, expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert it first",
     lambda: coda.gemm(A.astype(">f4"), B)),
    (TypeError, "gemm: A has dtype bool, expected f32, bf16, f16 or f64, or i32 or i64 for indices: convert it first",
     lambda: coda.gemm(A > 0, B)),
    (TypeError, "gemm: A has dtype i32, expected f32, bf16, f16 or f64: convert it",
     lambda: coda.gemm(A.astype(np.int32), B)),
    (TypeError, "gemm: B has dtype f64, expected f32, the dtype of A: convert one of them",
     lambda: coda.gemm(A, B.astype(np.float64))),
    (TypeError, "store: dtype is 'int4', expected one of f64, f32, bf16, f16, i32, i64",
     lambda: coda.Builder("p").store("out", coda.Builder("p").acc(), dtype="int4")),
    # Shapes.
    (ValueError, "gemm: A has shape [8], expected 2 dimensions (M, K): reshape it to a matrix",
     lambda: coda.gemm(A[0], B)),
    (ValueError, "gemm: B has shape [1, 8, 4], expected 2 dimensions (K, N): reshape it to a matrix",
     lambda: coda.gemm(A, B[None])),
    (ValueError, "gemm: operand 'bias' has shape [3], expected [4] (N): a row vector spans the columns of the output",
     lambda: coda.gemm(A, B, "bias", bias=BIAS[:3])),
    (ValueError, "gemm: operand 'bias' has shape [4, 1], expected [4] (N): a row vector spans the columns of the output",
     lambda: coda.gemm(SQUARE, SQUARE, "bias", bias=BIAS[:, None])),
    (ValueError, "gemm: operand 'shift' has shape [1, 4], expected [4] (M): a column vector spans the rows of the output",
     lambda: coda.gemm(SQUARE, SQUARE, COLUMN, shift=BIAS[None])),
    (ValueError, "gemm: operand 'residual' has shape [6, 5], expected [6, 4] (M, N): a tile covers the whole output",
     lambda: coda.gemm(A, B, "residual", residual=np.ones((6, 5), np.float32))),
    (ValueError, "gemm: head 64 of program 'rope' does not divide N = 4, expected a multiple: every head is whole",
     lambda: coda.gemm(A, B, coda.epilogues.rope(head=64), positions=np.arange(6))),
    # Operands.
    (ValueError, "gemm: operand 'bias' is missing, expected a tensor of shape [4] (N): a row vector spans the columns of "
                 "the output", lambda: coda.gemm(A, B, "bias")),
    (ValueError, "gemm: operand 'bais' is none of program 'bias', expected 'bias', 'out': did you mean 'bias'?",
     lambda: coda.gemm(A, B, "bias", bais=BIAS)),
    (ValueError, "gemm: operand 'bias' of segment 1 is missing, expected a tensor of shape [4] (N): a row vector spans the "
                 "columns of the output", lambda: coda.gemm(A, coda.concat(B, B), ["identity", "bias"])),
    (ValueError, "gemm: got 1 segment, expected 2, one for each part of B",
     lambda: coda.gemm(A, coda.concat(B, B), ["identity"])),
    (ValueError, "gemm: program 'swiglu' reads 2 accumulators, but B gives 1: pass pair(first, second) as B",
     lambda: coda.gemm(A, B, "swiglu")),
    (ValueError, "elementwise: program 'identity' reads 1 accumulator, expected none in an elementwise pass: use gemm",
     lambda: coda.elementwise("identity", shape=(2, 2))),
    (ValueError, "elementwise: no operand of program 'rms_entry' tells the number of rows, expected a tile or "
                 "shape=(M, N): pass shape", lambda: coda.elementwise("rms_entry", gamma=BIAS)),
    # Outputs.
    (ValueError, "gemm: operand 'out' is read-only, expected a writable array: it is an output",
     lambda: coda.gemm(A, B, out=read_only())),
    (ValueError, "gemm: operand 'out' requires grad, expected a tensor outside autograd: it is an output, pass "
                 "tensor.detach()", lambda: coda.gemm(A, B, out=torch.empty(6, 4, requires_grad=True))),
    (ValueError, "gemm: operand 'out' of shape [6, 4] has strides [0, 1], expected memory for each element: an output "
                 "cannot be broadcast", lambda: coda.gemm(A, B, out=torch.empty(1, 4).expand(6, 4))),
    (ValueError, "gemm: operand 'out' of shape [2, 3, 4] has strides [4, 8, 1], expected rows that lie evenly in memory: "
                 "it is an output, pass a contiguous one",
     lambda: coda.gemm(A.reshape(2, 3, 8), B, out=np.empty((3, 2, 4), np.float32).transpose(1, 0, 2))),
    (ValueError, "gemm: operand 'out' shares memory with A, expected memory of its own, or the very view of a tile the "
                 "segment reads: write to another tensor", lambda: coda.gemm(SQUARE, B[:4], out=SQUARE)),
    # Indices.
    (IndexError, "gemm: targets 4 at row 2 is outside [0, 4), expected a column of the output, or -100 to ignore the row",
     lambda: coda.gemm(A, B, LSE, targets=np.array([0, 1, 4, 0, 0, 0]))),
    # Names and words.
    (ValueError, "gemm: epilogue 'rms' has options, expected coda_cpp.epilogues.rms(...)",
     lambda: coda.gemm(A, B, "rms")),
    (TypeError, "gemm: argument 'epilogue' is a function, expected a Program, a function decorated with "
                "@coda_cpp.epilogue, or a name such as 'bias_gelu'", lambda: coda.gemm(A, B, column)),
    (ValueError, "rms_entry: weight is 'beta', expected one of 'gamma', 'one_plus_gamma', 'none'",
     lambda: coda.epilogues.rms_entry(weight="beta")),
    (ValueError, "rope: angles is 'turns', expected one of 'base', 'frequency', 'table'",
     lambda: coda.epilogues.rope(head=64, angles="turns")),
    (ValueError, "find_backend: backend 'gpu' is not in this build, expected 'cuda' or 'fast' or 'reference'",
     lambda: coda.gemm(A, B, backend="gpu")),
    (TypeError, "LlamaModel: argument 'config' is a int, expected a LlamaConfig, the text of a config.json, or a dict of "
                "its fields", lambda: coda.LlamaModel(1, {})),
]


@pytest.mark.parametrize("kind, text, call", ROWS, ids=[text[:60] for _, text, _ in ROWS])
def test_text(kind, text, call):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, coda.Error)
    assert type(caught.value) is getattr(errors, kind.__name__)


@pytest.mark.parametrize("name, builtin", [
    ("ValueError", builtins.ValueError), ("TypeError", builtins.TypeError), ("IndexError", builtins.IndexError),
    ("NotImplementedError", builtins.NotImplementedError), ("FileError", builtins.OSError),
    ("InternalError", builtins.RuntimeError)])
def test_kinds_are_builtin_kinds_too(name, builtin):
    kind = getattr(errors, name)
    assert issubclass(kind, coda.Error) and issubclass(kind, builtin)


def test_the_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="^gemm: epilogue 'nope' is not in the library, expected one of bias, bias_gelu, "):
        coda.gemm(A, B, "nope")


def test_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        coda.LlamaModel.load(tmp_path / "nowhere")


def test_text_that_does_not_parse_is_placed():
    with pytest.raises(ValueError, match="line 2"):
        coda.Program.parse("program p {\n  what\n}\n")


def test_nothing_is_written_when_a_call_is_refused():
    out = np.full((6, 4), 77, np.float32)
    with pytest.raises(IndexError):
        coda.gemm(A, B, coda.epilogues.lse(store_logits=True), targets=np.full(6, 9), logits=out)
    with pytest.raises(ValueError):
        coda.gemm(A, B, "bias", bias=BIAS[:2], out=out)
    assert (out == 77).all()


def test_calls_keep_no_reference_to_their_arguments():
    import sys

    array, tensor = A.copy(), torch.ones(8, 4)
    before = sys.getrefcount(array), sys.getrefcount(tensor)
    for _ in range(10):
        coda.gemm(array, tensor)
        with pytest.raises(ValueError):
            coda.gemm(array, tensor, "bias")
    assert (sys.getrefcount(array), sys.getrefcount(tensor)) == before

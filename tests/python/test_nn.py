"""coda_cpp.nn: modules against the same in torch and in fp64, under transformers' names; the custom ops behind them."""

import functools

import pytest
import torch

import coda_cpp as coda
from coda_cpp import nn
from coda_cpp.nn import ops
from module_cases import (D, F, HEAD, HEADS, KV_HEADS, MODULES, Norm, check_loss_in_half_precision, check_module, positions_of,
                          randomise, stock_of, values_and_gradients)
from patched import LENGTH, SEQUENCES, VOCABULARY, draw_batch, make_model

@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_no_worse_than_torch(name, dtype):
    check_module(name, dtype)


def test_parameters_load_from_stock_modules():
    stock = make_model("qwen3", head_dim=HEAD, tie_word_embeddings=False)
    layer, positions = stock.model.layers[0], positions_of(stock, torch.float32)
    x = torch.randn(SEQUENCES, LENGTH, D)
    ours = nn.LlamaLayer(D, F, HEADS, KV_HEADS, qk_norm=True)
    ours.load_state_dict(layer.state_dict())
    torch.testing.assert_close(ours(x, positions), layer(x, position_embeddings=positions, attention_mask=None))
    for module, part in ((nn.GatedMLP(D, F), layer.mlp), (nn.QKVRope(D, HEADS, KV_HEADS, qk_norm=True), layer.self_attn)):
        loaded = module.load_state_dict(part.state_dict(), strict=False)
        assert loaded.missing_keys == ["norm.weight"] and set(loaded.unexpected_keys) <= {"o_proj.weight"}


def test_a_whole_model_has_stocks_names_logits_and_gradients():
    stock, batch = make_model(tie_word_embeddings=True), draw_batch()
    ours = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS, tied=True)
    ours.load_state_dict(stock.state_dict())
    tokens = batch["input_ids"]
    torch.testing.assert_close(ours(tokens), stock(tokens).logits, rtol=1e-5, atol=1e-5)
    loss, expected = ours(tokens[:, :-1], batch["labels"][:, 1:]), stock(**batch).loss
    torch.testing.assert_close(loss, expected)
    loss.backward(), expected.backward()
    theirs = dict(stock.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, theirs[name].grad, rtol=1e-4, atol=1e-5 * theirs[name].grad.abs().max().item())


def test_frequencies_of_a_model_are_rounded_once():
    """Of those in fp64, on the device of the tokens; positions begin anew in each row."""
    model = nn.LlamaModel(VOCABULARY, D, F, 1, HEADS, KV_HEADS, rope_theta=500_000)
    positions, frequencies = model.turns(torch.zeros(2, 3, dtype=torch.int64))
    assert positions.tolist() == [0, 1, 2, 0, 1, 2]
    assert torch.equal(frequencies, (500_000.0 ** (torch.arange(0, HEAD, 2).double() / -HEAD)).float())


def test_a_whole_model_in_one_graph():
    model = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for length in (5, 9):
        tokens = torch.randint(VOCABULARY, (2, length))
        loss, expected = compiled(tokens, tokens), model(tokens, tokens)
        torch.testing.assert_close(loss, expected)
    torch._dynamo.reset()


def test_layers_with_biases_and_checkpoints():
    """A module goes through torch.utils.checkpoint like any other, and no bit changes."""
    layer = randomise(nn.LlamaLayer(D, F, HEADS, KV_HEADS, attention_bias=True, mlp_bias=True, activation="gelu"))
    positions, x = positions_of(make_model(), torch.float32), torch.randn(SEQUENCES, LENGTH, D)
    weight = torch.randn_like(x)
    plain = values_and_gradients(lambda x: layer(x, positions), layer, x, weight)
    again = values_and_gradients(lambda x: torch.utils.checkpoint.checkpoint(layer, x, positions, use_reentrant=False), layer, x,
                                 weight)
    assert all(torch.equal(plain[name], again[name]) for name in plain)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loss_of_the_head(reduction):
    module = randomise(nn.LMHeadLoss(D, VOCABULARY, reduction=reduction))
    x, targets = torch.randn(SEQUENCES, LENGTH, D), torch.randint(VOCABULARY, (SEQUENCES, LENGTH))
    targets[:, ::4] = -100

    def stock(x):
        logits = module.lm_head(Norm(module.norm)(x))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)

    weight = torch.tensor(0.3)
    found = values_and_gradients(lambda x: module(x, targets), module, x, weight)
    for name, expected in values_and_gradients(stock, module, x, weight).items():
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
    with torch.no_grad():
        torch.testing.assert_close(module(x, targets), found["out"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_loss_of_the_head_in_half_precision(dtype):
    check_loss_in_half_precision(dtype)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_few_rows_and_strides(rows):
    """Any leading dimensions; expanded inputs and gradients; an input used twice."""
    module = randomise(nn.RMSNormLinear(D, D))
    stock = stock_of(module, None)
    wide = torch.randn(rows, 2 * D)

    def twice(run):
        return lambda x: run(x) + run(run(x))

    for x, weight in ((wide[:, ::2], torch.randn(rows, 2 * D)[:, ::2]), (wide[:1, :D].expand(rows, D), torch.ones(()).expand(rows, D)),
                      (wide[None, :, D:], torch.randn(D))):
        found = values_and_gradients(twice(module), module, x, weight)
        for name, expected in values_and_gradients(twice(stock), module, x, weight).items():
            torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-4)


def segment_inputs(names, angles="table"):
    shapes = {"o": (D, 64), "gate": (F, D), "up": (F, D), "down": (D, F), "q": (64, D), "k": (32, D), "v": (32, D),
              "q_norm": (HEAD,), "out": (F, D)}
    weights = [(0.2 * torch.randn(shapes.get(name, (D,)))).requires_grad_() for name in names]
    attention = torch.randn(5, 64, requires_grad=True) if "o" in names else None
    turns = {"table": [torch.rand(5, HEAD // 2) for _ in range(2)], "frequency": [torch.arange(5), torch.rand(HEAD // 2)]}[angles]
    return attention, torch.randn(5, D, requires_grad=True), weights, turns if "q" in names else [], ",".join(names), 1e-6, "swiglu", HEAD


@pytest.mark.parametrize("names, policy, angles", [
    (("o", "o_bias", "post_norm", "gate", "up", "down", "down_bias", "next_norm", "q", "k", "v", "q_norm"), "fast", "table"),
    (("next_norm", "q", "k", "v"), "fast", "frequency"), (("o", "post_norm", "gate", "up", "down", "down_bias"), "lean", "table"),
    (("next_norm", "out"), "fast", "table")])
def test_the_segment_is_an_op_of_torch(names, policy, angles):
    inputs = *segment_inputs(names, angles), policy, angles, 1.5
    torch.library.opcheck(ops.segment_op, (*inputs, False))
    attention, x, weights, turns, *words = inputs
    with torch.no_grad():
        found = ops.segment_op(*inputs, False)
    results = len([name for name in ("o", "q", "k", "v", "out") if name in names])
    gradients = [torch.randn_like(result) for result in found[:results]]
    wanted = ",".join((*names, "x", *(("attention",) if attention is not None else ())))
    detached = [None if t is None else t.detach() for t in (attention, x if attention is None else None)]
    torch.library.opcheck(ops.segment_backward_op, (gradients, *detached, found, [w.detach() for w in weights], turns, *words,
                                                    wanted))


def test_results_nobody_uses():
    """A stream whose q, k and v go nowhere, and q alone: the rest has a gradient of zero, not what memory held."""
    names = ("o", "post_norm", "gate", "up", "down", "down_bias", "next_norm", "q", "k", "v", "q_norm")
    attention, x, weights, *rest = segment_inputs(names)
    for used, unused in ((0, {"next_norm", "q", "k", "v", "q_norm"}), (1, {"k", "v"})):
        result = ops.segment_op(attention, x, weights, *rest, "fast", "table", 1.0, False)[used]
        gradients = torch.autograd.grad(result.sum(), [attention, x, *weights])
        assert {name for name, gradient in zip(("attention", "x", *names), gradients) if not gradient.any()} == unused
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_mistakes_name_the_argument():
    refused = lambda call, *arguments, **options: str(pytest.raises((ValueError, TypeError, NotImplementedError), call,
                                                                    *arguments, **options).value)
    names = "silu, gelu, gelu_pytorch_tanh, gelu_new, relu, "
    assert refused(nn.GatedMLP, D, F, "tanh").startswith(f"GatedMLP: activation is 'tanh', expected one of {names}")
    assert refused(nn.RMSNormLinear(D, 8), torch.zeros(2, 63)) == "RMSNormLinear: argument 'x' has shape [2, 63], expected (..., 64)"
    assert refused(nn.RMSNormLinear(D, 8), [1]) == "RMSNormLinear: argument 'x' is a list, expected a torch tensor"
    assert refused(nn.QKVRope(D, HEADS, KV_HEADS), torch.zeros(2, 5, D), (torch.zeros(1, 5, 8),) * 2) == (
        "QKVRope: argument 'positions[0]' has shape [1, 5, 8], expected [1 or 2, 5, 16] (B, L, head)")
    assert refused(nn.QKVRope(D, HEADS, KV_HEADS), torch.zeros(5, D), (torch.zeros(1, 5, 16),) * 2) == (
        "QKVRope: argument 'x' has shape [5, 64], expected (B, L, 64)")
    assert refused(nn.QKVRope(D, HEADS, KV_HEADS), torch.zeros(2, 5, D), torch.arange(5)) == (
        "QKVRope: argument 'positions' is a Tensor, expected cos and sin, two tensors (1 or B, L, head)")
    head, x = nn.LMHeadLoss(D, 50), torch.zeros(5, D)
    assert refused(head, torch.zeros(5, 63), torch.arange(5)) == "LMHeadLoss: argument 'x' has shape [5, 63], expected (..., 64)"
    assert refused(head, x, torch.arange(4)) == (
        "linear_cross_entropy: argument 'targets' has shape [4], expected [5], the leading dimensions of 'x'")
    assert refused(head, x, [0] * 5) == "LMHeadLoss: argument 'targets' is a list, expected a torch tensor"
    assert refused(nn.LMHeadLoss(D, 50, reduction="none"), x, torch.arange(5)) == (
        "linear_cross_entropy: argument 'reduction' is 'none', expected 'mean' or 'sum': linear_cross_entropy_forward gives "
        "the loss of each token")


def other_weight(module, path, **changes):
    """The module with that weight replaced by one of another shape, dtype or device."""
    weight = module.get_parameter(path)
    owner, name = path.rsplit(".", 1)
    changed = torch.zeros(changes.pop("shape", weight.shape), **({"dtype": weight.dtype} | changes))
    setattr(module.get_submodule(owner), name, torch.nn.Parameter(changed))
    return module


def test_weights_that_do_not_fit():
    x, tables = torch.zeros(1, 5, D), (torch.ones(1, 5, HEAD), torch.zeros(1, 5, HEAD))
    linear, mlp = functools.partial(nn.RMSNormLinear, D, 8), functools.partial(nn.GatedMLP, D, F)
    qkv = functools.partial(nn.QKVRope, D, HEADS, KV_HEADS)
    layer = functools.partial(nn.LlamaLayer, D, F, HEADS, KV_HEADS)

    def refused(kind, text, module, *more):
        with pytest.raises(kind) as caught:
            module(x, *more)
        assert type(caught.value).__name__ == kind.__name__ and str(caught.value) == text

    for name, weight, make, path, more in (("RMSNormLinear", "out", linear, "linear.weight", ()),
                                           ("GatedMLP", "down", mlp, "down_proj.weight", ()),
                                           ("QKVRope", "k", qkv, "k_proj.weight", (tables,)),
                                           ("LlamaLayer", "o", layer, "self_attn.o_proj.weight", (tables,))):
        refused(TypeError, f"{name}: argument 'x' is float32 and weight '{weight}' bfloat16, expected one dtype: convert one "
                "of them", other_weight(make(), path, dtype=torch.bfloat16), *more)
        refused(ValueError, f"{name}: argument 'x' is on cpu and weight '{weight}' on meta, expected one device: move one of "
                "them", other_weight(make(), path, device="meta"), *more)
    refused(ValueError, "RMSNormLinear: norm_linear: weight has shape [8, 65], expected [any, 64] (n, d, the width of the stream)",
            other_weight(linear(), "linear.weight", shape=(8, 65)))
    refused(ValueError, f"GatedMLP: residual_norm: weight has shape [64, 8], expected [any, {F}] (d, k, the columns of y)",
            other_weight(mlp(), "down_proj.weight", shape=(64, 8)))
    refused(ValueError, "QKVRope: qkv_rope_saved: q has shape [64, 65], expected [any, 64] (heads·head, d, the width of the "
            "stream)", other_weight(qkv(), "q_proj.weight", shape=(64, 65)), tables)
    refused(ValueError, "LlamaLayer: enter_norm: norm.weight has shape [63], expected [64] (the width that is normalised)",
            other_weight(layer(), "input_layernorm.weight", shape=(63,)), tables)


class Adapted(torch.nn.Linear):
    """A linear layer that does more than its weight says, as LoRA's."""

    def forward(self, x):
        return 2 * super().forward(x)


def put(module, path, part):
    """Puts a part in the place of one inside a module."""
    owner, _, name = path.rpartition(".")
    setattr(module.get_submodule(owner), name, part)


def hook(module, args, out):
    return None


CALLS = {
    "RMSNormLinear": (lambda: nn.RMSNormLinear(D, F), "linear", lambda m, x: m(x)),
    "GatedMLP": (lambda: nn.GatedMLP(D, F), "up_proj", lambda m, x: m(x)),
    "QKVRope": (lambda: nn.QKVRope(D, HEADS, KV_HEADS), "v_proj",
                lambda m, x: m(x, positions_of(make_model(), torch.float32))),
    "LMHeadLoss": (lambda: nn.LMHeadLoss(D, VOCABULARY), "lm_head",
                   lambda m, x: m(x, torch.zeros(x.shape[:-1], dtype=torch.int64))),
    "LlamaLayer": (lambda: nn.LlamaLayer(D, F, HEADS, KV_HEADS), "mlp.down_proj",
                   lambda m, x: m(x, positions_of(make_model(), torch.float32))),
    "LlamaModel": (lambda: nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS), "model.layers.1.self_attn.q_proj",
                   lambda m, x: m(torch.zeros(x.shape[:-1], dtype=torch.int64))),
}


@pytest.mark.parametrize("name", CALLS)
def test_parts_that_would_not_be_called(name):
    """Weights are read in the place of a call: what that leaves out is named, never dropped."""
    make, path, call = CALLS[name]
    x, module = torch.randn(SEQUENCES, LENGTH, D), make()
    part = module.get_submodule(path)
    named = f"{name}: {path}"
    put(module, path, Adapted(part.in_features, part.out_features, bias=False))
    with pytest.raises(coda.errors.NotImplementedError) as caught:
        call(module, x)
    assert str(caught.value) == f"{named} is a {__name__}.Adapted, expected torch.nn.Linear"
    put(module, path, part)
    handle = part.register_forward_hook(hook)
    with pytest.raises(coda.errors.NotImplementedError) as caught:
        call(module, x)
    assert str(caught.value) == f"{named} has a hook, hook, that would not be called"
    handle.remove()
    call(module, x)


def test_hooks_on_what_holds_parts():
    model, tokens = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS), torch.zeros(1, 5, dtype=torch.int64)
    for path in ("model.layers.1", "model.layers.0.mlp"):
        handle = model.get_submodule(path).register_forward_hook(hook)
        with pytest.raises(coda.errors.NotImplementedError) as caught:
            model(tokens)
        assert str(caught.value) == f"LlamaModel: {path} has a hook, hook, that would not be called"
        handle.remove()
    assert model(tokens).shape == (1, 5, VOCABULARY)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)], ids=str)
def test_without_tokens(shape):
    model, tokens = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS), torch.zeros(shape, dtype=torch.int64)
    out = model(tokens)
    assert out.shape == (*shape, VOCABULARY)
    out.sum().backward()
    assert not any(parameter.grad.any() for parameter in model.parameters())
    tables = (torch.ones(1, shape[1], HEAD),) * 2
    assert [t.shape[-1] for t in nn.QKVRope(D, HEADS, KV_HEADS)(torch.ones(*shape, D), tables)] == [D, D // 2, D // 2]


def test_under_autocast():
    """Blocks stay in the dtype of their weights; attention between them follows autocast."""
    model, batch = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS), draw_batch()
    expected = model(batch["input_ids"], batch["labels"])
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(batch["input_ids"], batch["labels"])
    loss.backward()
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=0)
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


@pytest.mark.parametrize("kind, text, call", [
    (ValueError, "QKVRope: argument 'positions[0]' requires grad, expected a tensor outside autograd: no gradient by it is "
                 "derived; pass its detach()",
     lambda: nn.QKVRope(D, HEADS, KV_HEADS)(torch.ones(1, 5, D), (torch.ones(1, 5, HEAD, requires_grad=True),) * 2)),
    (ValueError, "LlamaLayer: got 4 heads of 16 columns and 3 of k and v, expected heads that are a multiple of kv_heads, of "
                 "an even number of columns", lambda: nn.LlamaLayer(64, F, 4, 3)),
    (ValueError, "QKVRope: got 4 heads of 7 columns and 2 of k and v, expected heads that are a multiple of kv_heads, of an "
                 "even number of columns", lambda: nn.QKVRope(64, 4, 2, head=7)),
    (ValueError, "QKVRope: got 0 heads of 64 columns and 0 of k and v, expected heads that are a multiple of kv_heads, of an "
                 "even number of columns", lambda: nn.QKVRope(64, 0, 0)),
    (ValueError, "LlamaModel: layers is 0, expected 1 or more", lambda: nn.LlamaModel(VOCABULARY, D, F, 0, HEADS, KV_HEADS)),
    (ValueError, "LlamaModel: rope_theta is 0, expected a finite number above 0, such as 10000",
     lambda: nn.LlamaModel(VOCABULARY, D, F, 1, HEADS, KV_HEADS, rope_theta=0)),
    (TypeError, "LlamaModel: argument 'tokens' is a list, expected a torch tensor",
     lambda: nn.LlamaModel(VOCABULARY, D, F, 1, HEADS, KV_HEADS)([[0]])),
    (ValueError, "LlamaModel: argument 'tokens' has shape [5], expected (B, L)",
     lambda: nn.LlamaModel(VOCABULARY, D, F, 1, HEADS, KV_HEADS)(torch.zeros(5, dtype=torch.int64))),
    (TypeError, "GatedMLP: eps is None, expected a finite number, 0 or above: it is added to a mean square",
     lambda: nn.GatedMLP(D, F, eps=None)(torch.ones(2, D))),
], ids=lambda value: value[:30] if isinstance(value, str) else "")
def test_refusals_of_shapes_and_options(kind, text, call):
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, coda.Error) and str(caught.value) == text

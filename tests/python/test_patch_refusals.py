"""What patch leaves alone, and the words it says it in."""

import copy
import re
import subprocess
import sys

import pytest
import torch
import transformers

import coda_cpp as coda
from coda_cpp.patching import families
from patched import VOCABULARY, draw_batch, make_model, step

KNOWN = "LlamaModel, MistralModel, Qwen2Model, Qwen3Model"


def skipped(model, **options):
    """What a patch that replaces nothing says; the model must run as before."""
    batch = {"input_ids": torch.randint(1, 50, (2, 7))}
    expected = model.eval()(**batch)[0]
    report = coda.patch(model, **options)
    assert not report and report.replaced == {}
    assert torch.equal(model(**batch)[0], expected)
    return report.skipped


def test_unknown_models():
    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2))
    assert skipped(gpt) == {"GPT2LMHeadModel": f"has no {KNOWN} of transformers inside"}
    with pytest.raises(coda.errors.NotImplementedError) as caught:
        coda.patch(gpt, strict=True)
    assert str(caught.value) == f"patch: nothing is replaced: GPT2LMHeadModel has no {KNOWN} of transformers inside"
    assert str(coda.patch(torch.nn.Linear(2, 2))) == (
        f"replaced: none\nleft stock:\n  Linear  has no {KNOWN} of transformers inside\ncalls left stock: none")


@pytest.mark.parametrize("options, text", [
    ({"attention_dropout": 0.1}, "attention_dropout is 0.1, expected 0: dropout is left to the stock model"),
    ({"hidden_act": "tanh"}, "hidden_act is 'tanh', expected one of silu, gelu, gelu_pytorch_tanh, gelu_new, relu"),
])
def test_configs(options, text):
    assert skipped(make_model(**options)) == {"model": text}


def test_rotary_embeddings_that_change_and_scale():
    factors = [1.0] * (make_model().model.layers[0].self_attn.head_dim // 2)
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64,
            "short_factor": factors, "long_factor": factors}
    reasons = skipped(make_model(rope_parameters=rope))
    assert list(reasons) == ["model.rotary_emb"]
    assert re.fullmatch(r"scales cosines and sines by 1\.1547\d*, expected 1 where frequencies may change from call to call",
                        reasons["model.rotary_emb"])


def test_a_version_of_transformers_that_does_not_fit(monkeypatch):
    model = make_model()
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "4.46.3")  # it replaces itself when it loads a model
    assert skipped(model) == {"model": "transformers 4.46.3, expected 5.x: forwards of others run otherwise; pip install 'transformers==5.*'"}


class Adapter(torch.nn.Linear):
    """A linear layer that does more, as LoRA's does."""


class Packed(torch.Tensor):
    """A weight that is more than its numbers, as quantised and sharded ones are."""


def note(module, args, out):
    return None


def test_parts_that_would_not_be_called():
    model = make_model()
    first, second = model.model.layers
    first.self_attn.q_proj = Adapter(64, 64)
    first.mlp.register_forward_hook(note)
    first.adapter = torch.nn.Identity()
    second.input_layernorm.variance_epsilon = 1e-3
    second.mlp.down_proj.forward = torch.nn.Linear.forward.__get__(second.mlp.down_proj)
    second.post_attention_layernorm = torch.nn.RMSNorm(64)
    assert skipped(model) == {
        "model.layers.0.self_attn.q_proj": f"is a {__name__}.Adapter, expected torch.nn.Linear",
        "model.layers.0.mlp": "has a hook, note, that would not be called",
        "model.layers.0.adapter": "is no part of a LlamaDecoderLayer",
        "model.layers.1.mlp.down_proj": "has a forward of its own, which would not be called",
        "model.layers.1.input_layernorm": "has eps 0.001, expected 1e-06, the config's",
        "model.layers.1.post_attention_layernorm": "is a torch.nn.modules.normalization.RMSNorm, expected LlamaRMSNorm"}


def replace_activations(model):
    for layer in model.model.layers:
        layer.mlp.act_fn = torch.nn.ReLU()


def drop_out(model):
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5


def set_eps(model):
    """As a whole, so that the config is right."""
    model.config.rms_norm_eps = 0.1
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 0.1


@pytest.mark.parametrize("change, reason", [
    (replace_activations, "layers.0.mlp.act_fn is a torch.nn.modules.activation.ReLU, expected SiLUActivation or SiLU"),
    (drop_out, "layers.0.self_attn has attention_dropout 0.5, expected 0: dropout is left to the stock model"),
    (set_eps, None)], ids=["activations", "dropout", "eps"])
def test_what_is_changed_before_or_after_is_seen(change, reason):
    """Either we say why not, or we run what the model is now."""
    batch = draw_batch()
    for is_before in (True, False):
        model = make_model()
        stock = copy.deepcopy(model)
        change(stock)
        if is_before:
            change(model)
        report = coda.patch(model)
        if not is_before:
            change(model)
        losses = []
        for each in (model, stock):
            torch.manual_seed(0)
            losses.append(step(each, batch)[0])
        torch.testing.assert_close(*losses)
        said = [f"{name.removeprefix('model.')} {text}" for name, text in report.skipped.items()]
        assert [*said, *report.calls_left_stock][:1] == [reason][:reason is not None]


def test_hooks_on_all_modules():
    """Profilers have them: those on parts would not be called."""
    model, batch, seen = make_model(), draw_batch(), []
    report = coda.patch(model)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
    reason = "runs under a hook on all modules, which would not be called of parts"
    try:
        model(**batch)
        assert coda.patch(make_model()).skipped == {"model": reason}
    finally:
        handle.remove()
    assert seen.count("LlamaMLP") == 2 and report.calls_left_stock == {f"the model {reason}": 1}


def test_subclasses():
    """They may run otherwise: what is left of them is named."""
    class Own(transformers.LlamaForCausalLM):
        pass

    class OwnBase(transformers.LlamaModel):
        pass

    stock = make_model()
    model = Own(stock.config)
    report = coda.patch(model)
    path = f"{__name__}.test_subclasses.<locals>"
    assert list(report.replaced) == ["model"] and report.skipped == {
        "Own": f"loss: is a {path}.Own, expected LlamaForCausalLM itself: a subclass may run otherwise"}
    stock.model = OwnBase(stock.config)
    assert skipped(stock) == {"model": f"is a {path}.OwnBase, expected LlamaModel itself: a subclass may run otherwise"}


def double(self, x):
    return 2 * x


@pytest.mark.parametrize("name, place, path", [
    ("LlamaMLP", "model.layers.0.mlp", ""), ("LlamaModel", "model", ""), ("LlamaForCausalLM", "LlamaForCausalLM", "loss: ")])
def test_forwards_put_on_classes(monkeypatch, name, place, path):
    """As other libraries put theirs, for all models of a class."""
    import transformers.models.llama.modeling_llama as modeling

    model = make_model()
    monkeypatch.setattr(getattr(modeling, name), "forward", double)
    report = coda.patch(model)
    assert report.skipped[place] == f"{path}is a {name} whose class has another forward, {__name__}.double"
    assert list(report.replaced) == (["model"] if path else [])


def test_forwards_put_on_instances():
    model = make_model()
    model.forward = double.__get__(model)
    report = coda.patch(model)
    assert list(report.replaced) == ["model"]
    assert report.skipped == {"LlamaForCausalLM": "loss: has a forward of its own"}
    model = make_model()
    model.model.forward = double.__get__(model.model)
    assert coda.patch(model).skipped == {"model": "has a forward of its own"}


def test_models_without_layers_and_without_memory():
    assert skipped(make_model(num_hidden_layers=0)) == {"model": "has no layers, expected one or more"}
    model, tokens = make_model(), torch.zeros(1, 4, dtype=torch.int64, device="meta")
    report = coda.patch(model)
    assert model.to("meta")(tokens, labels=tokens).loss.shape == ()
    assert report.calls_left_stock == {"the model weights are on meta, expected cpu or cuda": 1}


def test_weights():
    model = make_model().double()
    assert skipped(model) == {"model": "weights are float64, expected float32, bfloat16 or float16"}
    model.float().model.layers[1].mlp.bfloat16()
    assert coda.patch(model).skipped == {
        "model": "weights are bfloat16 on cpu, float32 on cpu, expected one dtype on one device"}
    model.float().model.embed_tokens.bfloat16()
    assert skipped(model) == {
        "model": "embed_tokens is bfloat16 and the layers float32, expected one dtype: the stream begins there"}
    projection = model.float().model.layers[1].self_attn.o_proj
    projection.weight = torch.nn.Parameter(projection.weight.detach().as_subclass(Packed))
    assert coda.patch(model).skipped == {
        "model": "layers.1.self_attn.o_proj.weight is a Packed, expected a torch.nn.Parameter"}


def test_a_loss_that_stays_stock():
    """The layers are replaced all the same, and the loss of the model is right."""
    batch = draw_batch()
    cases = [(lambda model: setattr(model, "lm_head", torch.nn.Linear(64, VOCABULARY)), {}, "loss: lm_head has a bias"),
             (lambda model: model.lm_head.register_forward_hook(note), {},
              "loss: lm_head has a hook, note, that would not be called"),
             (lambda model: setattr(model, "loss_function", lambda logits, labels, **_: logits.mean()), {},
              "loss: the loss is not transformers' ForCausalLMLoss"),
             (lambda model: None, {"fuse_loss": False}, "loss: fuse_loss is False")]
    for change, options, text in cases:
        model = make_model()
        change(model)
        expected = model(**batch).loss
        report = coda.patch(model, **options)
        assert report.skipped == {"LlamaForCausalLM": text} and list(report.replaced) == ["model"]
        torch.testing.assert_close(model(**batch).loss, expected, rtol=1e-5, atol=1e-5)


def test_calls_that_go_to_the_stock_forward():
    model, batch = make_model(), draw_batch()
    tokens, stock = batch["input_ids"], copy.deepcopy(model)
    report = coda.patch(model)
    states, expected = (each(tokens, output_hidden_states=True).hidden_states for each in (model, stock))
    assert len(states) == 3 and all(torch.equal(ours, theirs) for ours, theirs in zip(states, expected))
    model.set_attn_implementation("eager")
    assert model(tokens, output_attentions=True).attentions[0].shape == (3, 4, 23, 23)
    model.set_attn_implementation("sdpa")
    with torch.autocast("cpu", torch.bfloat16):
        assert model(tokens).logits.dtype == torch.bfloat16
    out = model(**batch, logits_to_keep=0)
    assert out.logits is None
    assert model(**batch, logits_to_keep=tokens.shape[1]).logits.shape[:2] == tokens.shape
    handle = model.model.layers[1].mlp.register_forward_hook(note)
    model(**batch)
    handle.remove()
    assert report.calls_left_stock == {
        "output_hidden_states is asked for": 1, "output_attentions is asked for": 1,
        "autocast is on: load the model in the dtype it computes in": 1,
        "loss: logits_to_keep is given with labels, and counts logits": 1,
        "layers.1.mlp has a hook, note, that would not be called": 1}
    assert "  1  autocast is on: load the model in the dtype it computes in" in str(report)
    assert model(**batch).logits is None


def test_a_hook_on_the_base_model_is_called():
    model, batch = make_model(), draw_batch()
    seen = []
    model.model.register_forward_hook(lambda module, args, out: seen.append(out))
    report = coda.patch(model)
    model(**batch).loss.backward()
    assert len(seen) == 1
    assert [reason.split(",")[0] for reason in report.calls_left_stock] == ["loss: model has a hook"]


def test_patched_twice_and_not_at_all():
    model = make_model()
    refused = lambda kind, call, *arguments, **options: str(pytest.raises(kind, call, *arguments, **options).value)
    assert refused(ValueError, coda.unpatch, model) == (
        "unpatch: LlamaForCausalLM is not patched, expected a model that coda_cpp.patch replaced something of")
    coda.patch(model.model)
    assert refused(ValueError, coda.patch, model) == (
        "patch: model (LlamaModel) is patched already, expected a stock model: coda_cpp.unpatch it first")
    coda.unpatch(model)
    with coda.patch(model) as report:
        assert refused(ValueError, coda.patch, model) == (
            "patch: the model (LlamaForCausalLM) is patched already, expected a stock model: coda_cpp.unpatch it first")
        assert repr(report) == "<Report: 2 replaced, 0 left stock>"
    assert refused(ValueError, coda.patch, model, policy="best") == "patch: policy is 'best', expected one of 'fast', 'lean'"
    assert refused(TypeError, coda.patch, "model") == "patch: argument 'model' is a str, expected a torch.nn.Module"
    assert refused(TypeError, coda.unpatch, None) == "unpatch: argument 'model' is a NoneType, expected a torch.nn.Module"


def test_a_with_undoes_its_own_patch():
    """One that was undone before is not undone again, so that an error inside is seen; and cannot be entered."""
    model = make_model()
    with pytest.raises(KeyError):
        with coda.patch(model) as report:
            coda.unpatch(model)
            raise KeyError
    coda.patch(model)
    with pytest.raises(ValueError) as caught:
        with report:
            pass
    assert str(caught.value) == ("Report: the patch of LlamaForCausalLM was undone, expected one in place: call coda_cpp.patch "
                                 "again")
    assert "forward" in model.__dict__


def test_half_patched_models():
    """What is left of a patch still runs right, and is undone as a whole or not at all."""
    model, batch = make_model(), draw_batch()
    expected = step(model, batch)[0]
    coda.patch(model)
    ours = model.forward
    model.forward = lambda *args, **options: ours(*args, **options)
    torch.testing.assert_close(step(model, batch)[0], expected)
    with pytest.raises(ValueError) as caught:
        coda.unpatch(model)
    assert str(caught.value) == ("unpatch: the forward of LlamaForCausalLM was replaced after patch, expected coda's: undo "
                                 "what came later first")
    del model.forward
    torch.testing.assert_close(step(model, batch)[0], expected)
    coda.unpatch(model)
    model.forward = ours  # without its base
    torch.testing.assert_close(step(model, batch)[0], expected)


def test_long_reports_are_cut():
    model = make_model(num_hidden_layers=5)
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj"):
            getattr(layer.self_attn, name).register_forward_hook(note)
    report = coda.patch(model)
    assert len(report.skipped) == 15 and str(report).splitlines()[-2] == "  … and 3 more"


def test_every_gate_is_one_of_the_library():
    assert set(families.GATES.values()) <= set(coda.gate_names())


def test_the_package_needs_no_torch():
    """Neither to be imported nor for what is no torch's; what needs it says so by its name."""
    program = """
import sys
sys.modules["torch"] = None
import coda_cpp as coda
assert coda.epilogues.bias("gelu")
try:
    coda.patches
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "module 'coda_cpp' has no attribute 'patches'\n", done.stderr

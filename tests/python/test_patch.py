"""coda_cpp.patch: every kind of model against the stock one and fp64, its state, its cache, and its undoing."""

import copy

import pytest
import torch

import coda_cpp as coda
from coda_cpp import fp64
from patched import KINDS, VOCABULARY, draw_batch, exact_step, expect_loss_no_worse, expect_no_worse, make_model, step

DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("policy", ["fast", "lean"])
@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_no_worse_than_stock(kind, dtype, policy):
    model, batch = make_model(kind).to(dtype), draw_batch(padded=policy == "lean")
    (_, exact), (_, stock) = exact_step(model, batch), step(model, batch)
    with coda.patch(model, policy=policy) as report:
        loss, ours = step(model, batch)
    assert set(report.replaced) == {"model", type(model).__name__}
    assert not report.skipped and not report.calls_left_stock
    expect_no_worse(ours, stock, exact, dtype)
    expect_loss_no_worse(loss, model, batch)


def test_a_rotary_embedding_that_is_another_since_the_patch():
    model, batch = make_model(), draw_batch()
    stock = copy.deepcopy(model)
    report = coda.patch(model)

    class Slower(torch.nn.Module):
        def __init__(self, rotary):
            super().__init__()
            self.rotary, self.inv_freq = rotary, rotary.inv_freq

        def forward(self, x, position_ids):
            return self.rotary(x, position_ids // 3)

    for each in (model, stock):
        each.model.rotary_emb = Slower(each.model.rotary_emb)
    torch.testing.assert_close(step(model, batch)[0], step(stock, batch)[0], rtol=1e-5, atol=0)
    assert not report.calls_left_stock


@pytest.mark.parametrize("kind", ["llama", "tied"])
def test_half_precision_under_a_loss_scale(kind):
    model, batch = make_model(kind).half(), draw_batch()
    options = {"num_items_in_batch": 2.0**-6}  # the sum of losses, times 64
    (_, exact), (_, stock) = exact_step(model, batch, **options), step(model, batch, **options)
    report = coda.patch(model)
    assert len(report.replaced) == 2 and not report.skipped
    expect_no_worse(step(model, batch, **options)[1], stock, exact, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "bf16"])
@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_logits_and_their_gradients(kind, dtype):
    """Where logits are wanted, norm and head are the stock ones behind our layers."""
    model, batch = make_model(kind).to(dtype).eval(), draw_batch()
    outputs, gradients = {"stock": model(**batch)}, {"stock": step(model, batch)[1]}
    with fp64.copy_of(model) as exact:
        outputs["exact"], gradients["exact"] = exact(**batch), step(exact, batch)[1]
    coda.patch(model)
    outputs["ours"], gradients["ours"] = model(**batch), step(model, batch)[1]
    expect_no_worse(*({"logits": outputs[name].logits} for name in ("ours", "stock", "exact")), dtype)
    expect_no_worse(*(gradients[name] for name in ("ours", "stock", "exact")), dtype)


@pytest.mark.parametrize("kind", ["llama", "mistral_window", "qwen3"])
def test_generation_with_and_without_cache(kind):
    model = make_model(kind).eval()
    tokens = torch.randint(1, VOCABULARY, (2, 11))
    mask = torch.ones_like(tokens)
    mask[0, :4] = 0
    options = {"attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens, **options)
    report = coda.patch(model)
    assert torch.equal(model.generate(tokens, **options), expected)
    assert torch.equal(model.generate(tokens, use_cache=False, **options), expected)
    assert not report.calls_left_stock
    torch.testing.assert_close(model(tokens, logits_to_keep=1).logits, model(tokens).logits[:, -1:])


def test_a_step_without_cache_and_with_one_are_equal():
    model, batch = make_model(), draw_batch()
    coda.patch(model)
    assert model(**batch, use_cache=True).past_key_values.get_seq_length() == batch["input_ids"].shape[1]
    with_cache, without = step(model, batch, use_cache=True), step(model, batch, use_cache=False)
    assert torch.equal(with_cache[0], without[0])
    assert all(torch.equal(gradient, without[1][name]) for name, gradient in with_cache[1].items())


def test_loss_options():
    """What Trainer and others give the loss: numbers of items, shifted labels, tuples, embeddings."""
    model, batch = make_model(), draw_batch()
    tokens, labels = batch["input_ids"], batch["labels"]
    calls = [{"num_items_in_batch": torch.tensor(40)}, {"num_items_in_batch": 7},
             {"shift_labels": torch.randint(VOCABULARY, tokens.shape)}, {"return_dict": False}]
    results = {}
    for name in ("stock", "ours"):
        if name == "ours":
            coda.patch(model)
        losses = [model(input_ids=tokens, labels=labels, **options) for options in calls]
        assert isinstance(losses[-1], tuple)
        losses = [out[0] if isinstance(out, tuple) else out.loss for out in losses]
        embedded = model.model.embed_tokens(tokens)
        results[name] = [*losses, model(inputs_embeds=embedded, labels=labels).loss]
    for ours, stock in zip(results["ours"], results["stock"]):
        torch.testing.assert_close(ours, stock)
    out = model(**batch)
    assert out.logits is None and "logits" not in out
    ignored = model(input_ids=tokens, labels=torch.full_like(labels, -100)).loss
    assert ignored.isnan()


def test_state_is_untouched_and_comes_back():
    model, batch = make_model("qwen3"), draw_batch()
    before, attributes = copy.deepcopy(model.state_dict()), {name: set(m.__dict__) for name, m in model.named_modules()}
    expected = model(**batch).logits
    report = coda.patch(model)
    patched = model.state_dict()
    assert list(patched) == list(before) and all(torch.equal(patched[name], before[name]) for name in before)
    assert model.load_state_dict(before).missing_keys == []
    step(model, batch)
    model.zero_grad()
    coda.unpatch(model)
    assert {name: set(m.__dict__) for name, m in model.named_modules()} == attributes
    assert "forward" not in model.__dict__ and model.forward.__func__ is type(model).forward
    assert torch.equal(model(**batch).logits, expected)
    assert report.replaced


def test_a_copy_has_forwards_of_its_own():
    model, batch = make_model(), draw_batch()
    report = coda.patch(model)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.model.norm.weight.mul_(2)
    assert other(**batch).loss != model(**batch).loss
    assert other.forward.report is not report
    coda.unpatch(other)
    assert "forward" in model.__dict__ and "forward" not in other.model.__dict__


def test_a_base_model_and_a_classifier():
    """Heads that are no language models' stay stock on patched layers."""
    import transformers

    causal = make_model()
    classifier = transformers.LlamaForSequenceClassification(causal.config).eval()
    classifier.config.pad_token_id = 0
    tokens = torch.randint(1, VOCABULARY, (2, 9))
    for model, read in ((causal.model, lambda out: out.last_hidden_state), (classifier, lambda out: out.logits)):
        expected = read(model(tokens))
        with coda.patch(model) as report:
            torch.testing.assert_close(read(model(tokens)), expected)
        assert len(report.replaced) == 1 and not report.calls_left_stock


def test_weights_are_read_at_each_call():
    """A patched model moves, changes dtype and takes other weights as a stock one does."""
    model, batch = make_model(), draw_batch()
    coda.patch(model)
    other = make_model()
    model.load_state_dict(other.state_dict(), assign=True)
    torch.testing.assert_close(model(**batch).loss, other(**batch).loss)
    assert model.bfloat16().model(batch["input_ids"]).last_hidden_state.dtype == torch.bfloat16

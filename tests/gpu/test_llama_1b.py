"""A model of LLaMA-3.2 1B's shape with random weights against stock transformers on the same GPU: one loss over 2048 tokens."""

import pytest
import torch

import coda_cpp as coda

transformers = pytest.importorskip("transformers")

TOKENS = 2048


@pytest.fixture(scope="module")
def stock():
    torch.manual_seed(20)
    config = transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, max_position_embeddings=131072, tie_word_embeddings=True,
        rope_theta=500000.0)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).bfloat16().eval()
        # bfloat16() has rounded the frequencies too, which a checkpoint's loading leaves alone.
        model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    with torch.no_grad():
        for name, weight in model.named_parameters():  # norms that do something
            if "norm" in name:
                weight.add_(0.2 * torch.randn_like(weight))
    return model


def losses(model, tokens):
    with torch.no_grad():
        logits = model(tokens[None]).logits[0, :-1].float()
    return torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")


def test_perplexity_agrees_with_stock(stock):
    tokens = torch.randint(stock.config.vocab_size, (TOKENS,), device="cuda")
    model = coda.LlamaModel(stock.config.to_json_string(), stock.state_dict(), share=True, device="cuda")
    ours = model.loss(tokens[:-1], tokens[1:], reduction="none").per_token
    rounded = losses(stock, tokens)
    exact = losses(stock.float(), tokens)
    ours = torch.as_tensor(ours).to(exact)
    theirs, mine = (rounded - exact).abs(), (ours - exact).abs()
    print(f"perplexity: exact {exact.mean().exp():.4f}, stock {rounded.mean().exp():.4f}, coda {ours.mean().exp():.4f}")
    assert mine.mean() <= 2 * theirs.mean()
    assert (ours.mean() - exact.mean()).abs() <= 2 * (rounded.mean() - exact.mean()).abs() + 1e-3

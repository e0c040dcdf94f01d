"""A stock transformers model that runs on coda after one line: the report, the same loss, the errors beside stock's."""

import torch
import transformers

import coda_cpp as coda

torch.manual_seed(0)
config = transformers.LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
                                  num_attention_heads=4, num_key_value_heads=2)
model = transformers.LlamaForCausalLM(config).train()
tokens = torch.randint(256, (4, 32))
expected = model(tokens, labels=tokens).loss

print(coda.patch(model))
loss = model(tokens, labels=tokens).loss
loss.backward()
print(f"loss {loss.item():.5f}, stock's {expected.item():.5f}")

coda.unpatch(model)
print(coda.check(model, tokens))

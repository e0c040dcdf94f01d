"""SmolLM2-135M, as `make demo` loads it, patched in one line: the report, and a step's loss beside stock's."""

import torch

import coda_cpp as coda
from coda_cpp.demo import loader, text

loaded = loader.load(None)
model = loaded.model.train()
tokens = loaded.tokenizer(text.text(), return_tensors="pt").input_ids[:, :64]
expected = model(tokens, labels=tokens).loss.item()

print(coda.patch(model))
loss = model(tokens, labels=tokens).loss
loss.backward()
print(f"loss {loss.item():.5f}, stock's {expected:.5f}")
assert all(p.grad.isfinite().all() for p in model.parameters())

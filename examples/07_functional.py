"""Products with their epilogues as PyTorch functions: an MLP block that trains, compiled as a whole."""

import torch

from coda_cpp import functional as CF

torch.manual_seed(0)
draw = lambda *shape: torch.nn.Parameter(torch.randn(shape) / shape[-1] ** 0.5)
norm, next_norm = (torch.nn.Parameter(torch.ones(64)) for _ in range(2))
gate, up, down, mix, head = draw(176, 64), draw(176, 64), draw(64, 176), draw(64, 64), draw(50, 64)


@torch.compile(fullgraph=True, backend="aot_eager")
def loss_of(x, targets):
    hidden = CF.rmsnorm_swiglu(x, norm, gate, up)  # silu(h @ gate.T) * (h @ up.T) of h = rms_norm(x) * norm
    stream = CF.linear_residual_rmsnorm(hidden, down, x, next_norm)  # hidden @ down.T + x, on its way into the next norm
    mixed = CF.rmsnorm_linear(stream, None, mix)  # which costs no pass of its own
    return CF.linear_cross_entropy(mixed, head, targets)  # the logits are never whole in memory


parameters = [norm, next_norm, gate, up, down, mix, head]
optimizer = torch.optim.AdamW(parameters, lr=1e-2)
x, targets = torch.randn(4, 32, 64), torch.randint(50, (4, 32))
losses = []
for step in range(20):
    loss = loss_of(x, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")
assert losses[-1] < losses[0] / 2

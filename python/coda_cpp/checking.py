"""coda_cpp.check: how far a patched model and the stock one are from fp64, layer by layer."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, NamedTuple

from .errors import TypeError
from .host import require_torch

require_torch("coda_cpp.check")

import torch

from . import patching
from .patching import families


class Row(NamedTuple):
    """Errors of one quantity against fp64: ‖value − exact‖ ÷ ‖exact‖. Where that is 0 ÷ 0, the gradient of what nothing
    depends on, the error is 0; of any other value in the place of an exact 0 it is infinite."""

    name: str
    ours: float
    stock: float

    @property
    def ratio(self) -> float:
        if self.ours == self.stock:  # 0 ÷ 0 and ∞ ÷ ∞ among them
            return 1.0
        return self.ours / self.stock if self.stock else math.inf


@dataclasses.dataclass(frozen=True)
class Check:
    """What :func:`check` found. `rows`: hidden states behind each layer, the loss, and gradients by the parameters of each
    part; `report`: of the patched copy. print(check) is a table; rich.print(check) a coloured one."""

    rows: list[Row]
    report: patching.Report

    @property
    def worst(self) -> Row:
        """The row whose error is largest, measured by stock's; NaN is larger than anything."""
        return max(self.rows, key=lambda row: (math.isnan(row.ratio), row.ratio))

    def __str__(self):
        width = max(len(row.name) for row in self.rows)
        lines = [f"{'against fp64':{width}}  {'ours':>8}  {'stock':>8}  ratio"]
        return "\n".join(lines + [f"{row.name:{width}}  {row.ours:8.2e}  {row.stock:8.2e}  {row.ratio:5.2f}" for row in self.rows])

    def __rich__(self):
        from rich.table import Table

        table = Table("against fp64", "ours", "stock", "ratio")
        for row in self.rows:
            style = None if row.ratio <= 2 else "red"
            table.add_row(row.name, f"{row.ours:.2e}", f"{row.stock:.2e}", f"{row.ratio:.2f}", style=style)
        return table


def check(model: Any, batch: Any, *, policy: str = "fast") -> Check:
    """Runs one training step of copies of `model`, patched, stock and in fp64, and compares them.

    model: as patch takes, patched or not; it is not touched. batch: tokens (B, L), or keyword arguments of the model; without
    labels the tokens are their own. Takes memory for three more models, one of them in fp64.

    Raises TypeError for a model that is no torch module and a batch that is neither; NotImplementedError for a model of which
    nothing can be patched.
    """
    patching.require_module(model, "check")
    if isinstance(batch, torch.Tensor):
        batch = {"input_ids": batch}
    if not isinstance(batch, dict) or "input_ids" not in batch:
        raise TypeError(f"check: argument 'batch' is a {type(batch).__name__}, expected a tensor of tokens (B, L) or a dict with "
                        "'input_ids'")
    batch = {"labels": batch["input_ids"], "use_cache": False, **batch}
    stock = copy.deepcopy(model)
    patching.unpatch_if_patched(stock)
    ours, exact = copy.deepcopy(stock), copy.deepcopy(stock).double()
    report = patching.patch(ours, policy=policy, strict=True)
    truth, got, theirs = (_step(each, batch) for each in (exact, ours, stock))
    rows = [Row(name, relative_error(got[name], value), relative_error(theirs[name], value)) for name, value in truth.items()]
    return Check(rows, report)


def _step(model, batch):
    """{name: tensors} of a training step: hidden states, the loss, gradients."""
    base = next(module for module in model.modules() if families.family_of(module, "Model"))
    seen, handles = [], []
    forward = base.__dict__.get("forward")
    if forward is not None:
        forward.observe = seen.append
    else:
        handles = [layer.register_forward_hook(lambda _, __, out: seen.append(out)) for layer in base.layers]
    model.train().zero_grad()
    loss = model(**batch).loss
    loss.backward()
    for handle in handles:
        handle.remove()
    found = {f"hidden, layer {index}": [x.detach().flatten()] for index, x in enumerate(seen)}
    found["loss"] = [loss.detach().reshape(1)]
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found.setdefault(f"gradient, {_part(name)}", []).append(parameter.grad.flatten())
    return found


def _part(name):
    """'layer 3' of a parameter's name, or the module it is of."""
    words = name.split(".")
    return f"layer {words[words.index('layers') + 1]}" if "layers" in words else words[-2]


def relative_error(value, exact):
    """‖value − exact‖ ÷ ‖exact‖ over lists of tensors, as a Row defines it."""
    difference, size = _norm(v.double() - e for v, e in zip(value, exact)), _norm(exact)
    if size == 0:
        return difference * math.inf if difference else 0.0  # of a NaN, NaN
    return difference / size


def _norm(tensors):
    return math.sqrt(sum(float(tensor.square().sum()) for tensor in tensors))

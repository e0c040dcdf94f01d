"""coda_cpp.check: how far a patched model and the stock one are from fp64, layer by layer."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import math
from typing import Any, NamedTuple

from .errors import NotImplementedError, TypeError, ValueError
from .host import require_torch

require_torch("coda_cpp.check")

import torch

from . import fp64, patching
from .patching import families, forwards


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
        lines += [f"{row.name:{width}}  {row.ours:8.2e}  {row.stock:8.2e}  {row.ratio:5.2f}" for row in self.rows]
        return "\n".join(lines)

    def __rich__(self):
        from rich.table import Table

        table = Table("against fp64", "ours", "stock", "ratio")
        for row in self.rows:
            style = None if row.ratio <= 2 else "red"
            table.add_row(row.name, f"{row.ours:.2e}", f"{row.stock:.2e}", f"{row.ratio:.2f}", style=style)
        return table


def check(model: Any, batch: Any, *, policy: str = "fast") -> Check:
    """Runs one training step of copies of `model`, patched, stock and in fp64, and compares them.

    model: as patch takes, patched or not; it is not touched. batch: tokens (B, L) int64 or int32, or keyword arguments of the
    model with them as `input_ids`, as a tokenizer gives them; without `labels` the tokens are their own. Takes memory for
    three more models, one of them in fp64. Grad mode and inference mode of the caller do not matter.

    Raises TypeError for a model that is no torch module and a batch that is neither, ValueError for a step without loss or
    gradient, NotImplementedError where nothing can be patched or the stock forward takes the call.
    """
    patching.require_module(model, "check")
    batch = _keywords(batch)
    with torch.inference_mode(False), torch.enable_grad():
        stock = copy.deepcopy(model)
        patching.unpatch_if_patched(stock)
        ours = copy.deepcopy(stock)
        report = patching.patch(ours, policy=policy, strict=True)
        got = _step(ours, batch)
        for reason in report.calls_left_stock:
            if not reason.startswith("loss: "):
                raise NotImplementedError(f"check: the call is left to the stock forward: {reason}")
        with fp64.copy_of(stock) as exact:
            truth = _step(exact, batch)
        theirs = _step(stock, batch)
    rows = [Row(name, relative_error(got[name], value), relative_error(theirs[name], value)) for name, value in truth.items()]
    return Check(rows, report)


def _keywords(batch):
    """The batch as keyword arguments of a model."""
    if isinstance(batch, torch.Tensor):
        batch = {"input_ids": batch}
    if not isinstance(batch, collections.abc.Mapping) or "input_ids" not in batch:
        raise TypeError(f"check: argument 'batch' is a {type(batch).__name__}, expected a tensor of tokens (B, L) or a dict "
                        "with 'input_ids'")
    tokens = batch["input_ids"]
    if not isinstance(tokens, torch.Tensor) or tokens.dtype not in (torch.int32, torch.int64):
        got = tokens.dtype if isinstance(tokens, torch.Tensor) else f"a {type(tokens).__name__}"
        raise TypeError(f"check: 'input_ids' of argument 'batch' is {got}, expected a tensor of torch.int64 or torch.int32")
    if tokens.dim() != 2 or tokens.numel() == 0:
        raise ValueError(f"check: 'input_ids' of argument 'batch' has shape {list(tokens.shape)}, expected (B, L), both above "
                         "0")
    return {"labels": tokens.long(), "use_cache": False, **batch, "return_dict": True}


def _step(model, batch):
    """{name: tensors} of a training step: hidden states, the loss, gradients."""
    base = next(module for module in model.modules() if families.family_of(module, "Model"))
    seen, handles = [], []
    forward = base.forward
    if isinstance(forward, forwards.BaseForward):
        forward.observe = seen.append
    else:
        handles = [layer.register_forward_hook(lambda _, __, out: seen.append(out)) for layer in base.layers]
    model.train().zero_grad()
    loss = getattr(model(**batch), "loss", None)
    if loss is None or not loss.requires_grad:
        got = "no loss" if loss is None else "a loss without gradient"
        raise ValueError(f"check: {type(model).__name__} gives {got}, expected a training step: pass a model with a loss, "
                         "labels and parameters that require grad")
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

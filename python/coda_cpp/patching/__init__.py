"""Transformers models that run on coda: patch, unpatch and the report. docs/patch.md tells what is replaced."""

from __future__ import annotations

from ..errors import NotImplementedError, TypeError, ValueError
from ..host import require_torch

require_torch("coda_cpp.patch")

import torch

from . import families
from .forwards import BaseForward, CausalForward, Forward
from .main_gradients import MainGradients
from .report import Report

__all__ = ["Report", "patch", "unpatch"]


def patch(model, *, policy="fast", fuse_loss=True, main_grad=False, strict=False):
    """Lets the decoder layers of a transformers model run on coda, in place: LLaMA (SmolLM2), Mistral, Qwen2, Qwen3.

    Only `forward` of the base model and of its causal language model are replaced, on this instance: modules, parameters
    and state_dict stay as they are. policy: 'fast' or 'lean', what layers keep for their backward. fuse_loss: in
    training, the loss of labels is made without logits, and `logits` of the result is None. main_grad: gradients by all
    parameters of the model are added to their `main_grad` (fp32, or their dtype), where they have one, and their `grad` is
    None. strict: raise where nothing is replaced.

    Returns a Report, which undoes the patch when used in a `with`. Raises TypeError for what is no torch module, ValueError
    for a policy that is none and for a model that is patched already, NotImplementedError when strict.
    """
    require_module(model, "patch")
    if policy not in ("fast", "lean"):
        raise ValueError(f"patch: policy is '{policy}', expected one of 'fast', 'lean'")
    patched = _patched(model)
    if patched:
        name, module = patched[0]
        raise ValueError(f"patch: {name or 'the model'} ({type(module).__name__}) is patched already, expected a stock model: "
                         "coda_cpp.unpatch it first")
    report = Report(model, main_gradients=MainGradients() if main_grad else None)
    bases = [(name, module) for name, module in model.named_modules() if families.family_of(module, "Model")]
    for name, module in model.named_modules():
        for ending, what in (("Model", ""), ("ForCausalLM", "loss: ")):
            if reason := families.subclass_obstacle(module, ending):
                report.skipped[name or type(module).__name__] = what + reason
    if not bases and not report.skipped:
        known = ", ".join(f"{family}Model" for family in families.FAMILIES)
        report.skipped[type(model).__name__] = f"has no {known} of transformers inside"
    for name, module in bases:
        _patch_base(name, module, report, policy)
    for name, module in model.named_modules():
        if families.family_of(module, "ForCausalLM"):
            _patch_causal(name, module, report, fuse_loss)
    if strict and not report.replaced:
        name, reason = next(iter(report.skipped.items()))
        raise NotImplementedError(f"patch: nothing is replaced: {name} {reason}")
    return report


def _patch_base(name, module, report, policy):
    version = families.version_obstacle()
    found = {"": version} if version else families.obstacles(module) or families.forward_obstacles(module)
    if found:
        for path, reason in found.items():
            report.skipped[".".join(filter(None, (name, path))) or type(module).__name__] = reason
        return
    count = module.config.num_hidden_layers
    report.put(name or type(module).__name__, module, BaseForward(module, report, policy),
               f"{type(module).__name__}: {count} layers as {count + 1} segments, policy {policy}")


def _patch_causal(name, module, report, fuse_loss):
    if not isinstance(module.model.__dict__.get("forward"), BaseForward):
        return
    place = name or type(module).__name__
    reason = "fuse_loss is False"
    if fuse_loss:
        reason = families.loss_obstacle(module) or families.forward_obstacles(module).get("")
    if reason:
        report.skipped[place] = f"loss: {reason}"
        return
    report.put(place, module, CausalForward(module, report),
               "loss in training: head and cross entropy in chunks, no logits")


def unpatch(model):
    """Undoes patch: the model's classes' own forwards run again. Raises ValueError for a model that is not patched, or
    whose forward was replaced since."""
    require_module(model, "unpatch")
    patched = _patched(model)
    if not patched:
        raise ValueError(f"unpatch: {type(model).__name__} is not patched, expected a model that coda_cpp.patch replaced "
                         "something of")
    reports = {id(owner.forward.report): owner.forward.report for _, owner in patched}.values()
    modules = {id(module): module for report in reports for module in report.modules}.values()
    ours = patched[0][1].forward
    for module in modules:
        if not isinstance(module.__dict__.get("forward", ours), Forward):
            raise ValueError(f"unpatch: the forward of {type(module).__name__} was replaced after patch, expected coda's: undo "
                             "what came later first")
    for module in modules:
        module.__dict__.pop("forward", None)
    for report in reports:
        if report.main_gradients is not None:
            report.main_gradients.remove()


def unpatch_if_patched(model):
    """unpatch, and nothing for a stock model."""
    if _patched(model):
        unpatch(model)


def require_module(model, call):
    """Raises TypeError."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{call}: argument 'model' is a {type(model).__name__}, expected a torch.nn.Module")


def _patched(model):
    return [(name, module) for name, module in model.named_modules() if isinstance(module.__dict__.get("forward"), Forward)]

"""Which models can be patched, and what stands in the way of one that cannot, in words."""

from __future__ import annotations

import torch

from .. import host
from ..nn.modules import GATES

FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")
#: The parts of a decoder layer, and their classes behind the family's name; Linear is torch's.
PARTS = {"": "DecoderLayer", "self_attn": "Attention", "mlp": "MLP", "input_layernorm": "RMSNorm",
         "post_attention_layernorm": "RMSNorm", "self_attn.q_norm": "RMSNorm", "self_attn.k_norm": "RMSNorm",
         **{f"self_attn.{name}_proj": "Linear" for name in "qkvo"},
         **{f"mlp.{name}_proj": "Linear" for name in ("gate", "up", "down")}}
#: Parts that hold no weights and are called, or whose work a segment does.
FREE_PARTS = ("mlp.act_fn",)
CACHES = ("DynamicCache", "StaticCache")
#: Rotations whose frequencies no call changes.
FIXED_ROPES = ("default", "linear", "llama3", "yarn")
#: Where a module has the hooks that its call runs.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
#: Whose hooks record hidden states.
RECORDER = "transformers.utils.output_capturing"


def family_of(module, ending):
    """The family when `module` is of exactly its class <family><ending>, 'Model' or 'ForCausalLM'; else None."""
    cls = type(module)
    for family in FAMILIES:
        if (cls.__module__, cls.__name__) == (f"transformers.models.{family.lower()}.modeling_{family.lower()}", family + ending):
            return family
    return None


def version_obstacle():
    """Why this version of transformers does not fit, or None."""
    import transformers

    fault = host.misfit("transformers", transformers.__version__)
    return fault and f"{fault}: forwards of others run otherwise; {host.VERSIONS['transformers'].cure('transformers')}"


def hook_obstacle(module):
    """Why the module must be called and cannot be read past, or None. Hooks of transformers that record hidden states
    are idle in calls that do not ask for them."""
    kinds = [getattr(module, name) for name in HOOKS]
    foreign = [hook for kind in kinds if kind for hook in kind.values() if getattr(hook, "__module__", None) != RECORDER]
    if foreign:
        return f"has a hook, {getattr(foreign[0], '__qualname__', type(foreign[0]).__name__)}, that would not be called"
    return None


def part_obstacle(module, expected):
    """Why the part cannot be read past, or None."""
    cls = type(module)
    fits = cls is torch.nn.Linear if expected == "Linear" else cls.__name__ == expected
    if not fits:
        return f"is a {cls.__module__}.{cls.__qualname__}, expected {'torch.nn.Linear' if expected == 'Linear' else expected}"
    if "forward" in module.__dict__:
        return "has a forward of its own, which would not be called"
    return hook_obstacle(module)


def config_facts(config):
    """All that obstacles reads of a config."""
    return config.hidden_act, getattr(config, "attention_dropout", 0), config.rms_norm_eps


def config_obstacle(config):
    """Why no model of that config can be patched, or None."""
    activation, dropout, _ = config_facts(config)
    if activation not in GATES:
        return f"hidden_act is '{activation}', expected one of {', '.join(GATES)}"
    if dropout:
        return f"attention_dropout is {dropout}, expected 0: dropout is left to the stock model"
    return None


def tensor_obstacle(model):
    """Why the parameters cannot be multiplied, or None."""
    kinds = set()
    for path, part in parts_of(model.layers, "layers"):
        for name, weight in part._parameters.items():
            if weight is None:
                continue
            if type(weight) is not torch.nn.Parameter:
                return f"{path}.{name} is a {type(weight).__name__}, expected a torch.nn.Parameter"
            kinds.add((weight.dtype, weight.device))
    if len(kinds) > 1:
        return f"weights are {', '.join(sorted(f'{_word(dtype)} on {device}' for dtype, device in kinds))}, expected one " \
               "dtype on one device"
    dtype, device = next(iter(kinds))
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"weights are {_word(dtype)}, expected float32, bfloat16 or float16"
    if device.type not in ("cpu", "cuda"):
        return f"weights are on {device}, expected cpu or cuda"
    if device.type == "cuda" and dtype == torch.float32:
        return "weights are float32 on cuda, expected bfloat16 or float16: tensor cores multiply no others"
    return None


def _word(dtype):
    return str(dtype).removeprefix("torch.")


def parts_of(module, path=""):
    """named_modules(), in less time: it is asked at each call."""
    yield path, module
    for name, part in module._modules.items():
        if part is not None:
            yield from parts_of(part, f"{path}.{name}" if path else name)


def obstacles(model):
    """{name of a module inside, '' for itself: why it stands in the way}; empty when the base model can be patched."""
    family = family_of(model, "Model")
    if family is None:
        return {"": f"is a {type(model).__qualname__}, expected one of {', '.join(f'{name}Model' for name in FAMILIES)}"}
    whole = config_obstacle(model.config) or tensor_obstacle(model)
    if whole:
        return {"": whole}
    found = {}
    for index, layer in enumerate(model.layers):
        for path, part in parts_of(layer):
            if path in FREE_PARTS:
                continue
            kind = PARTS.get(path)
            reason = (f"is no part of a {family}DecoderLayer" if kind is None else
                      part_obstacle(part, kind if kind == "Linear" else family + kind))
            if reason is None and kind == "RMSNorm" and part.variance_epsilon != model.config.rms_norm_eps:
                reason = f"has eps {part.variance_epsilon}, expected {model.config.rms_norm_eps}, the config's"
            if reason:
                found[".".join(filter(None, ("layers", str(index), path)))] = reason
    angles, scale = turns_of(model)
    if angles == "table" and scale != 1.0:
        found["rotary_emb"] = f"scales cosines and sines by {scale}, expected 1 where frequencies may change from call to call"
    return found


def turns_of(model):
    """How the chain is told the rotation (chain.Options.angles), and the factor of cosines and sines."""
    rotary = model.rotary_emb
    is_stock = part_obstacle(rotary, family_of(model, "Model") + "RotaryEmbedding") is None
    is_fixed = is_stock and rotary.rope_type in FIXED_ROPES and 2 * len(rotary.inv_freq) == model.layers[0].self_attn.head_dim
    return "frequency" if is_fixed else "table", float(getattr(rotary, "attention_scaling", 1.0))


def loss_obstacle(model):
    """Why the loss of a <family>ForCausalLM cannot be fused with its head, or None."""
    for path, part in (("lm_head", model.lm_head), ("model.norm", model.model.norm)):
        expected = "Linear" if path == "lm_head" else family_of(model, "ForCausalLM") + "RMSNorm"
        reason = part_obstacle(part, expected)
        if reason:
            return f"{path} {reason}"
    if model.lm_head.bias is not None:
        return "lm_head has a bias"
    if getattr(model.loss_function, "__name__", "") != "ForCausalLMLoss":
        return "the loss is not transformers' ForCausalLMLoss"
    weights = (model.lm_head.weight, model.model.norm.weight, model.model.layers[0].input_layernorm.weight)
    if len({(weight.dtype, weight.device) for weight in weights}) > 1:
        return "lm_head, norm and layers differ in dtype or device"
    return None

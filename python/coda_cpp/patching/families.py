"""Which models can be patched, and what stands in the way of one that cannot, in words."""

from __future__ import annotations

import torch

from .. import host
from ..nn.modules import GATES
from ..nn.parts import has_global_hooks, name_of, part_obstacle, path_of

FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")
#: The parts of a decoder layer, and their classes behind the family's name; Linear is torch's.
PARTS = {"": "DecoderLayer", "self_attn": "Attention", "mlp": "MLP", "input_layernorm": "RMSNorm",
         "post_attention_layernorm": "RMSNorm", "self_attn.q_norm": "RMSNorm", "self_attn.k_norm": "RMSNorm",
         **{f"self_attn.{name}_proj": "Linear" for name in "qkvo"},
         **{f"mlp.{name}_proj": "Linear" for name in ("gate", "up", "down")}}
#: The classes that transformers makes of a config's activations.
ACTIVATIONS = {"silu": ("SiLUActivation", "SiLU"), "gelu": ("GELUActivation",), "gelu_new": ("NewGELUActivation",),
               "gelu_pytorch_tanh": ("GELUTanh", "PytorchGELUTanh"), "relu": ("ReLU",)}
CACHES = ("DynamicCache", "StaticCache")
#: Rotations whose frequencies no call changes.
FIXED_ROPES = ("default", "linear", "llama3", "yarn")


def family_of(module, ending):
    """The family when `module` is of exactly its class <family><ending>, 'Model' or 'ForCausalLM'; else None."""
    return _family_of_class(type(module), ending)


def subclass_obstacle(module, ending):
    """Why the module is none of a family's <family><ending> but of a class derived from it, or None."""
    families = [_family_of_class(cls, ending) for cls in type(module).__mro__]
    if families[0] or not any(families):
        return None
    family = next(filter(None, families))
    return f"is a {path_of(type(module))}, expected {family}{ending} itself: a subclass may run otherwise"


def _family_of_class(cls, ending):
    for family in FAMILIES:
        module = f"transformers.models.{family.lower()}.modeling_{family.lower()}"
        if (cls.__module__, cls.__name__) == (module, family + ending):
            return family
    return None


def version_obstacle():
    """Why this version of transformers does not fit, or None."""
    import transformers

    fault = host.misfit("transformers", transformers.__version__)
    return fault and f"{fault}: forwards of others run otherwise; {host.VERSIONS['transformers'].cure('transformers')}"


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
    """Why the parameters of the layers cannot be multiplied, or None."""
    kinds = set()
    for path, part in parts_of(model.layers, "layers"):
        for name, weight in part._parameters.items():
            if weight is None:
                continue
            if type(weight) is not torch.nn.Parameter:
                return f"{path}.{name} is a {type(weight).__name__}, expected a torch.nn.Parameter"
            kinds.add((weight.dtype, weight.device))
    if not kinds:
        return "has no layers, expected one or more"
    if len(kinds) > 1:
        return f"weights are {', '.join(sorted(f'{name_of(dtype)} on {device}' for dtype, device in kinds))}, expected one " \
               "dtype on one device"
    dtype, device = next(iter(kinds))
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"weights are {name_of(dtype)}, expected float32, bfloat16 or float16"
    stream = stream_dtype(model)
    if stream not in (None, dtype):
        return f"embed_tokens is {name_of(stream)} and the layers {name_of(dtype)}, expected one dtype: the stream begins there"
    if device.type not in ("cpu", "cuda"):
        return f"weights are on {device}, expected cpu or cuda"
    if device.type == "cuda" and dtype == torch.float32:
        return "weights are float32 on cuda, expected bfloat16 or float16: tensor cores multiply no others"
    return None


def stream_dtype(model):
    """The dtype of the embedding, or None without one."""
    return getattr(getattr(getattr(model, "embed_tokens", None), "weight", None), "dtype", None)


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
    if has_global_hooks():
        return {"": "runs under a hook on all modules, which would not be called of parts"}
    found = {}
    for index, layer in enumerate(model.layers):
        for path, part in parts_of(layer):
            reason = _layer_obstacle(family, path, part, model.config)
            if reason:
                found[".".join(filter(None, ("layers", str(index), path)))] = reason
    angles, scale = turns_of(model)
    if angles == "table" and scale != 1.0:
        found["rotary_emb"] = f"scales cosines and sines by {scale}, expected 1 where frequencies may change from call to call"
    return found


def _layer_obstacle(family, path, part, config):
    """Why a part of a layer, or at '' the layer, cannot be read past, or None."""
    if path == "mlp.act_fn":
        return part_obstacle(part, *ACTIVATIONS[config.hidden_act])
    kind = PARTS.get(path)
    if kind is None:
        return f"is no part of a {family}DecoderLayer"
    reason = part_obstacle(part, kind if kind == "Linear" else family + kind)
    if reason is None and kind == "RMSNorm" and part.variance_epsilon != config.rms_norm_eps:
        return f"has eps {part.variance_epsilon}, expected {config.rms_norm_eps}, the config's"
    if reason is None and kind == "Attention" and part.attention_dropout:
        return f"has attention_dropout {part.attention_dropout}, expected 0: dropout is left to the stock model"
    return reason


def forward_obstacles(model):
    """{name of a module inside, '' for itself: what was put in the place of transformers' forward}, on the classes of parts and
    on the model. Looked at when a model is patched: classes are changed before models are made, and later it has ours."""
    found = {"": "has a forward of its own"} if "forward" in model.__dict__ else {}
    for path, part in [("", model), *(parts_of(model.layers, "layers") if hasattr(model, "layers") else ())]:
        forward = type(part).forward
        if forward.__module__.partition(".")[0] not in ("torch", "transformers"):
            found.setdefault(path, f"is a {type(part).__name__} whose class has another forward, {path_of(forward)}")
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

"""Parts of a decoder whose weights are read in the place of a call, and what forbids that."""

from __future__ import annotations

import functools

import torch

from ..errors import NotImplementedError

#: Where a module has the hooks that its call runs.
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
#: Whose hooks record hidden states.
RECORDER = "transformers.utils.output_capturing"


def at_path(module, path):
    """What the module has at a path with dots, or None."""
    return functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), module)


def hook_obstacle(module):
    """Why the module must be called and cannot be read past, or None. Hooks of transformers that record hidden states
    are idle in calls that do not ask for them."""
    kinds = [getattr(module, name) for name in HOOKS]
    foreign = [hook for kind in kinds if kind for hook in kind.values() if getattr(hook, "__module__", None) != RECORDER]
    if foreign:
        return f"has a hook, {getattr(foreign[0], '__qualname__', type(foreign[0]).__name__)}, that would not be called"
    return None


def has_global_hooks():
    """Whether torch calls hooks of all modules."""
    return any([bool(getattr(torch.nn.modules.module, "_global" + kind)) for kind in HOOKS])


def part_obstacle(module, *expected):
    """Why the part cannot be read past, or None. expected: names of classes it may be of; Linear is torch's."""
    cls, is_linear = type(module), expected == ("Linear",)
    if not (cls is torch.nn.Linear if is_linear else cls.__name__ in expected):
        return f"is a {path_of(cls)}, expected {'torch.nn.Linear' if is_linear else ' or '.join(expected)}"
    if "forward" in module.__dict__:
        return "has a forward of its own, which would not be called"
    return hook_obstacle(module)


def path_of(cls):
    """A class with its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def name_of(dtype):
    """A dtype of torch without its module."""
    return str(dtype).removeprefix("torch.")


def require_parts(call, module, paths, within=""):
    """Raises NotImplementedError for a linear layer or norm, the owners of the weights at `paths`, that does more than its
    weights say, such as LoRA's, and for a hook on what holds them. within: where the call has the module, with a dot behind."""
    owners = dict.fromkeys([path.rpartition(".")[0] for path in paths])
    holders = dict.fromkeys([owner.rpartition(".")[0] for owner in owners])
    for path in (*owners, *holders):
        part = at_path(module, path) if path else None
        if part is None:
            continue
        kind = "RMSNorm" if path.endswith("norm") else "Linear"
        reason = hook_obstacle(part) if path in holders else part_obstacle(part, kind)
        if reason:
            raise NotImplementedError(f"{call}: {within}{path} {reason}")

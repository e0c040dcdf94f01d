"""What no product adds to a parameter's `main_grad`, such as an embedding's gradient, is added when PyTorch has made it."""

from __future__ import annotations

import functools
import weakref

import torch

from ..errors import ValueError
from . import families
from .clearance import are_same, children_of, parameters_of


class MainGradients:
    """Hooks on the parameters of a model: behind each accumulation `grad` is added to `main_grad`, where a parameter has one,
    and is None again. A copy has none: the parameters it would speak of are others."""

    def __init__(self):
        self._hooked = {}  # id of a parameter: what tells that it is that one still, and the handle
        self._modules, self._children, self._trained = [], [], []

    def __reduce__(self):
        return MainGradients, ()

    def watch(self, model):
        """Puts a hook on each parameter that is trained and has none. Asked at each call: parameters may be replaced, and
        frozen ones trained, at any time."""
        attributes = list(map(vars, self._modules))
        if not self._modules or self._modules[0] is not model or not are_same(children_of(attributes), self._children):
            self._modules = [module for _, module in families.parts_of(model)]
            attributes = list(map(vars, self._modules))
            self._children = children_of(attributes)
        trained = [parameter for parameter in parameters_of(attributes) if parameter.requires_grad]
        if are_same(trained, self._trained):
            return
        self._trained = trained
        for path, module in families.parts_of(model):
            for name, parameter in module._parameters.items():
                if parameter is not None and parameter.requires_grad and parameter.is_leaf and not self._has(parameter):
                    hook = functools.partial(_add, f"{path}.{name}" if path else name)
                    self._hooked[id(parameter)] = weakref.ref(parameter), parameter.register_post_accumulate_grad_hook(hook)

    def _has(self, parameter):
        known = self._hooked.get(id(parameter))
        return known is not None and known[0]() is parameter

    def remove(self):
        """Takes the hooks off."""
        for _, handle in self._hooked.values():
            handle.remove()
        self._hooked.clear()
        self._trained = []


def _add(name, parameter):
    main, grad = getattr(parameter, "main_grad", None), parameter.grad
    if main is None or grad is None:
        return
    if main.shape != parameter.shape:  # add_ would repeat what fits
        raise ValueError(f"patch: main_grad of {name} has shape {list(main.shape)}, expected {list(parameter.shape)}, that of "
                         "the parameter")
    with torch.no_grad():
        main.add_(grad)
    parameter.grad = None

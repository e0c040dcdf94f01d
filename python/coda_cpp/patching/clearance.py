"""Whether a model is what it was when nothing stood in the way of it. It is asked at each call, of hundreds of modules, so the
loops are those of itertools: a fraction of the time that families.obstacles takes to find words."""

from __future__ import annotations

import itertools
import operator

from ..nn.parts import HOOKS, has_global_hooks
from . import families

_CHILDREN, _PARAMETERS, *_HOOKS = map(operator.itemgetter, ("_modules", "_parameters", *HOOKS))
_EPS, _DROPOUT, _DTYPE, _DEVICE = map(operator.attrgetter, ("variance_epsilon", "attention_dropout", "dtype", "device"))


def children_of(attributes):
    """The direct children of modules, None too. attributes: vars of each."""
    return _values_of(map(_CHILDREN, attributes))


def parameters_of(attributes):
    """The parameters of modules themselves, likewise."""
    return [parameter for parameter in _values_of(map(_PARAMETERS, attributes)) if parameter is not None]


def are_same(ours, theirs):
    """Whether two lists hold the same objects: tensors have an == of their own."""
    return len(ours) == len(theirs) and all(map(operator.is_, ours, theirs))


def _values_of(dicts):
    return list(itertools.chain.from_iterable(map(dict.values, dicts)))


class Clearance:
    """What families.obstacles read of a model that has none. Answers are kept, never what they were made of: all is read
    again."""

    def __init__(self, model):
        self._class = type(model)
        self._modules = [module for _, module in families.parts_of(model.layers)]
        self._norms = [module for module in self._modules if "variance_epsilon" in vars(module)]
        self._attentions = [module for module in self._modules if "attention_dropout" in vars(module)]
        self._objects, self._values = self._read(model)

    def holds(self, model):
        """Whether obstacles would find none."""
        if type(model) is not self._class:  # what is read is that of a class
            return False
        objects, values = self._read(model)
        return values == self._values and are_same(objects, self._objects)

    def _read(self, model):
        """Objects, which are compared by identity, and values."""
        attributes = list(map(vars, self._modules))
        weights = parameters_of(attributes)
        hooks = [_values_of(filter(None, map(kind, attributes))) for kind in _HOOKS]
        names = itertools.chain.from_iterable(map(_CHILDREN, attributes))
        objects = [model.layers, *map(type, self._modules), *names, *children_of(attributes),
                   *itertools.chain.from_iterable(hooks), *map(type, weights)]
        has_forwards = any(map(operator.contains, attributes, itertools.repeat("forward")))
        values = (has_forwards, has_global_hooks(), set(map(_DTYPE, weights)), set(map(_DEVICE, weights)),
                  families.stream_dtype(model), list(map(_EPS, self._norms)), list(map(_DROPOUT, self._attentions)),
                  families.config_facts(model.config), families.turns_of(model))
        return objects, values

"""What makes PyTorch know coda's calls: torch.library ops, autograd, autocast. coda_cpp.functional and coda_cpp.gemm use it.

    constants.py  functions that torch.compile takes as constants; launches.py has those of functional.py
    derived.py    a program with its derived backward, each derived once
    launch.py     calls as the core takes them: several matrices as one factor, a program for each part
    gradients.py  the backward of a call: elementwise passes (part.py), then two plain products (products.py)
    ops.py        the torch.library ops coda::gemm, coda::elementwise, ... with fake and autograd registration
    record.py     the way in: straight to the core, a lean autograd.Function, or the ops (route.py decides)
    entry.py      coda_cpp.gemm and elementwise, where torch watches
    arguments.py  x and the weights of functional.py, checked
    options.py    eps, bases and heads, checked for functional.py and nn
    frequencies.py  those of a rotary embedding given by its base, kept for each device
    loss.py       cross entropy of a linear layer; chunks.py makes it and its gradients, a chunk of logits at a time
"""

from ..host import require_torch

require_torch("coda_cpp.functional")

"""The two products behind a call's backward: the gradients by A and by B, of d, that by the accumulators.

    dA = d Bᵀ      several d (a pair, a concat of B) are one product, joined along K
    dB = Aᵀ d      several d are parts of one output
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Sequence

import torch

from .. import _core, epilogues
from . import route
from .derived import Derived, derived
from .launch import Launch

if TYPE_CHECKING:
    from .gradients import Plan

Matrices = list[torch.Tensor]


class Products:
    """d: of each accumulator, (M, N), None where nothing arrived. into: for each matrix of B, what its gradient is added to,
    or None. a and b are None where they were not kept."""

    def __init__(self, plan: Plan, a: Sequence[torch.Tensor | None], b: Sequence[torch.Tensor | None],
                 d: list[torch.Tensor | None], into: Sequence[torch.Tensor | None]) -> None:
        self.launch = plan.launch
        in_a, in_b = plan.counts
        self.wanted_a, self.wanted_b = plan.mask[:in_a], plan.mask[in_a:in_a + in_b]
        self.a = [m if m is None or m.dim() == 2 else m.flatten(0, -2) for m in a]
        self.b = b
        self.d = d
        self.arrived = [i for i, gradient in enumerate(d) if gradient is not None]
        self.into = into or [None] * in_b

    def by_a(self, shapes: list[torch.Size]) -> list[torch.Tensor | None]:
        """The gradients by the matrices of A, of the shapes they had; no product where none is wanted."""
        found: list[torch.Tensor | None] = [None] * len(self.a)
        if not any(self.wanted_a) or not self.arrived:
            return found
        wanted = [i for i, wants in enumerate(self.wanted_a) if wants]
        if self.launch.a_view == "concat":
            wanted = [i for i in wanted if i in self.arrived]
            made = self._run("concat", [self.d[i] for i in wanted], "single", [self.b[0].t()])
        elif self.launch.a_view == "concat_k":
            made = self._run("single", self.d, "concat", [self.b[i].t() for i in wanted])
        else:
            made = self._run("concat_k", [self.d[i] for i in self.arrived], "concat_k",
                             [self.b[i].t() for i in self.arrived])
        for i, gradient in zip(wanted, made):
            found[i] = gradient.reshape(shapes[i])
        return found

    def by_b(self) -> list[torch.Tensor | None]:
        """The gradients by the matrices of B, (K, N). Frozen ones cost nothing; those with an `into` are added to it by the
        product, and have None."""
        found: list[torch.Tensor | None] = [None] * len(self.b)
        wanted = [i for i, wants in enumerate(self.wanted_b) if wants and self.arrived]
        if len(self.d) > 1 and self.launch.a_view == "single":
            wanted = [i for i in wanted if i in self.arrived]
        kept = [i for i in wanted if self.into[i] is None]
        added = [i for i in wanted if self.into[i] is not None]
        if kept:
            turned = all(self.b[i] is None or self.b[i].stride(0) == 1 for i in kept)
            for i, gradient in zip(kept, self._run(*self._weight_factors(kept, turned))):
                found[i] = gradient.t() if turned else gradient
        if added:
            a_view, left, b_view, right = self._weight_factors(added, True)
            launch = plain(_view(a_view, left), _view(b_view, right), len(added), self.launch.backend, accumulated())
            route.add_products(launch, [self.into[i].t() for i in added], left, right)
        return found

    def _weight_factors(self, wanted: list[int], turned: bool) -> tuple[str, Matrices, str, Matrices]:
        """The factors of dB = Aᵀ d for some matrices of B; turned: of its transpose dᵀ A, in whose order a checkpoint's
        weight, passed as weight.T, lies in memory."""
        if self.launch.a_view == "concat_k":
            left, right = [self.a[i] for i in wanted], self.d
            views = "concat", "single"
        elif self.launch.a_view == "concat":
            left, right = [self.a[i] for i in self.arrived], [self.d[i] for i in self.arrived]
            views = "concat_k", "concat_k"
        else:
            left, right = self.a, [self.d[i if len(self.d) > 1 else 0] for i in wanted]
            views = "single", "concat"
        if turned:
            return views[1], [m.t() for m in right], views[0], left
        return views[0], [m.t() for m in left], views[1], right

    def _run(self, a_view: str, a: Matrices, b_view: str, b: Matrices) -> list[torch.Tensor]:
        parts = max(len(a) if a_view == "concat" else 1, len(b) if b_view == "concat" else 1)
        return route.gemm(plain(_view(a_view, a), _view(b_view, b), parts, self.launch.backend, identity()), a, b)


def _view(view: str, matrices: Matrices) -> str:
    return view if len(matrices) > 1 else "single"


@functools.cache
def plain(a_view: str, b_view: str, parts: int, backend: str, program: Derived) -> Launch:
    """The launch of a product whose parts have one program."""
    return Launch(a_view, b_view, (program,) * parts, backend)


@functools.cache
def identity() -> Derived:
    """out = acc"""
    return derived(epilogues.identity())


@functools.cache
def accumulated() -> Derived:
    """into += acc"""
    builder = _core.Builder("accumulated")
    builder.store("into", builder.acc(), accumulate=True)
    return derived(builder.build())


@functools.cache
def added() -> Derived:
    """out = acc + residual"""
    return derived(epilogues.residual())


@functools.cache
def scaled(dtype: torch.dtype) -> Derived:
    """out = x·alpha in that dtype; a pass without product"""
    builder = _core.Builder("scaled")
    builder.store("out", builder.load_tile("x") * builder.load_scalar("alpha"), dtype=dtype)
    return derived(builder.build())

"""The two products behind a call's backward: the gradients by A and by B, of d, that by the accumulators.

    dA = d Bᵀ      several d (a pair, a concat of B) are one product, joined along K
    dB = Aᵀ d      several d are parts of one output
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Sequence

import torch

from .. import _core, epilogues
from . import route
from .derived import Derived, derived
from .launch import Launch

Matrices = Sequence["torch.Tensor | None"]
Numbers = tuple[int, ...]


class Product(NamedTuple):
    """A launch of a backward. left and right: which matrices of A, B or d are its factors; wanted: whose gradients the parts
    of its output are."""

    launch: Launch
    left: Numbers
    right: Numbers
    wanted: Numbers


class Chosen(NamedTuple):
    """The products of a backward: the gradients by A, those by B, and those by B that are added to main gradients."""

    by_a: Product | None
    by_b: Product | None
    adding: Product | None


class Products:
    """The products behind the backward of a launch for the gradients wanted, each chosen once.

    turned: the call has matrices of B as (N, K), as checkpoints do, and wants their gradients so."""

    def __init__(self, launch: Launch, wanted_a: Sequence[bool], wanted_b: Sequence[bool], turned: bool) -> None:
        self.launch = launch
        self.wanted_a = tuple([i for i, wants in enumerate(wanted_a) if wants])
        self.wanted_b = tuple([i for i, wants in enumerate(wanted_b) if wants])
        self.turned = turned
        self.accumulators = sum([len(part.accumulators) for part in launch.parts])
        self._chosen: dict[tuple[Numbers, Numbers, bool], Chosen] = {}

    def run(self, a: Matrices, b: Matrices, d: Matrices, into: Matrices, found: list[torch.Tensor | None]) -> None:
        """Puts the gradients by the matrices of A, (M, K), and by those of B, in their shapes, into `found`. d: of each
        accumulator, (M, N), None where nothing arrived. into: for each matrix of B, what its gradient is added to by the
        product, or None; or nothing. Matrices that were not kept are None."""
        arrived = tuple([i for i, gradient in enumerate(d) if gradient is not None])
        added = tuple([i for i, target in enumerate(into) if target is not None])
        # A checkpoint's weight, passed as weight.T, lies in memory as its gradient does that is made turned.
        turned = self.turned or all([b[i] is None or b[i].stride(0) == 1 for i in self.wanted_b])
        chosen = self._chosen.get((arrived, added, turned))
        if chosen is None:
            chosen = self._chosen[arrived, added, turned] = self._choose(arrived, added, turned)
        by_a, by_b, adding = chosen
        if by_a is not None:
            right = [b[i] for i in by_a.right] if self.turned else [b[i].t() for i in by_a.right]
            made = route.gemm(by_a.launch, [d[i] for i in by_a.left], right)
            for i, gradient in zip(by_a.wanted, made):
                found[i] = gradient
        if by_b is not None:
            made = route.gemm(by_b.launch, *_factors(by_b, a, d, turned))
            for i, gradient in zip(by_b.wanted, made):
                found[len(a) + i] = gradient.t() if turned and not self.turned else gradient
        if adding is not None:
            targets = [into[i] if self.turned else into[i].t() for i in added]
            route.add_products(adding.launch, targets, *_factors(adding, a, d, True))

    def _choose(self, arrived: Numbers, added: Numbers, turned: bool) -> Chosen:
        """Frozen matrices cost nothing."""
        wanted = self.wanted_b if arrived else ()
        if self.accumulators > 1 and self.launch.a_view == "single":
            wanted = tuple([i for i in wanted if i in arrived])
        kept = tuple([i for i in wanted if i not in added])
        adding = tuple([i for i in wanted if i in added])
        return Chosen(self._choose_by_a(arrived) if self.wanted_a and arrived else None,
                      self._choose_by_b(kept, arrived, turned, identity()) if kept else None,
                      self._choose_by_b(adding, arrived, True, accumulated()) if adding else None)

    def _choose_by_a(self, arrived: Numbers) -> Product | None:
        wanted, view = self.wanted_a, self.launch.a_view
        if view == "concat":
            wanted = tuple([i for i in wanted if i in arrived])
            views, left, right = ("concat", "single"), wanted, (0,)
        elif view == "concat_k":
            views, left, right = ("single", "concat"), (0,), wanted
        else:
            views, left, right = ("concat_k", "concat_k"), arrived, arrived
        return self._product(views, left, right, wanted, identity()) if wanted else None

    def _choose_by_b(self, wanted: Numbers, arrived: Numbers, turned: bool, program: Derived) -> Product:
        """dB = Aᵀ d for some matrices of B, or turned dBᵀ = dᵀ A."""
        if self.launch.a_view == "concat_k":
            views, of_a, of_d = ("concat", "single"), wanted, (0,)
        elif self.launch.a_view == "concat":
            views, of_a, of_d = ("concat_k", "concat_k"), arrived, arrived
        else:
            views, of_a, of_d = ("single", "concat"), (0,), wanted if self.accumulators > 1 else (0,) * len(wanted)
        if turned:
            return self._product(views[::-1], of_d, of_a, wanted, program)
        return self._product(views, of_a, of_d, wanted, program)

    def _product(self, views: tuple[str, str], left: Numbers, right: Numbers, wanted: Numbers, program: Derived) -> Product:
        a_view, b_view = _view(views[0], left), _view(views[1], right)
        parts = max(len(left) if a_view == "concat" else 1, len(right) if b_view == "concat" else 1)
        return Product(plain(a_view, b_view, parts, self.launch.backend, program), left, right, wanted)


def _factors(product: Product, a: Matrices, d: Matrices, turned: bool) -> tuple[Matrices, Matrices]:
    """The factors of a product for gradients by B: Aᵀ and d, or dᵀ and A."""
    left, right = (d, a) if turned else (a, d)
    return [left[i].t() for i in product.left], [right[i] for i in product.right]


def _view(view: str, matrices: Numbers) -> str:
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

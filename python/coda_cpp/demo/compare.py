"""The comparison: stock and coda on the same weights and tokens, both against fp64, and the limits they must keep."""

import math
from dataclasses import dataclass, field

import torch

from . import coda_side, stock
from .device import CPU, Device
from .loader import Loaded
from .paired import Timing, time_rounds
from .stages import Stages, Tick
from .trained import Training

PERPLEXITY_LIMIT = 1e-3  # relative difference of coda's fp32 perplexity from stock's
ERROR_LIMIT = 2.0  # error of a layer ÷ stock's own
REORDERINGS = 3  # runs of stock whose sums are in another order

TORCH_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Errors:
    """Errors against fp64. largest: of any entry. typical: the largest error of a token ÷ the largest value of that
    token, root mean square over the tokens."""

    largest: float
    typical: float


@dataclass(frozen=True)
class LayerRow:
    """The errors of one layer. The largest error sits in one of a few huge entries and is a single draw of chance, so
    stock's is the largest of its own run and of the runs with reordered sums."""

    index: int  # 1 is the first decoder layer
    magnitude: float  # largest value of the hidden state
    stock: Errors
    reordered: float  # largest error of stock's runs with reordered sums
    coda: Errors

    @property
    def largest_ratio(self) -> float:
        return quotient(self.coda.largest, max(self.stock.largest, self.reordered))

    @property
    def typical_ratio(self) -> float:
        return quotient(self.coda.typical, self.stock.typical)

    def failures(self) -> list[str]:
        found = []
        if not self.largest_ratio <= ERROR_LIMIT:
            found.append(
                f"layer {self.index}: coda's largest error is {self.coda.largest:.2e}, {self.largest_ratio:.2f} times "
                f"stock's {max(self.stock.largest, self.reordered):.2e}, more than {ERROR_LIMIT:g}"
            )
        if not self.typical_ratio <= ERROR_LIMIT:
            found.append(
                f"layer {self.index}: coda's typical error is {self.coda.typical:.2e}, {self.typical_ratio:.2f} times "
                f"stock's {self.stock.typical:.2e}, more than {ERROR_LIMIT:g}"
            )
        return found


@dataclass(frozen=True)
class Comparison:
    """Everything measured in one dtype."""

    dtype: str
    perplexity: dict[str, float]  # by "fp64", "stock", "coda"
    loss_error: dict[str, float]  # largest error of a token's loss against fp64, by "stock", "coda"
    layers: list[LayerRow]
    speed: dict[str, Timing]  # by "stock", "coda", "stock again"
    tokens: int

    @property
    def perplexity_difference(self) -> float:
        return abs(self.perplexity["coda"] - self.perplexity["stock"]) / self.perplexity["stock"]

    def tokens_per_second(self, side: str) -> float:
        return self.tokens / self.speed[side].seconds

    def failures(self) -> list[str]:
        """What does not keep its limit, one sentence each. bf16 perplexities differ by rounding alone: shown only."""
        found = []
        if self.dtype == "f32" and not self.perplexity_difference <= PERPLEXITY_LIMIT:
            found.append(
                f"perplexity of coda is {self.perplexity['coda']:.6f}, stock's {self.perplexity['stock']:.6f}: they "
                f"differ by {self.perplexity_difference:.1e}, more than {PERPLEXITY_LIMIT:.0e}"
            )
        return found + [f"{self.dtype} {line}" for row in self.layers for line in row.failures()]


@dataclass(frozen=True)
class Continuation:
    """A prompt and what both sides make of it, greedily."""

    prompt: str
    text: dict[str, str]
    tokens: dict[str, list[int]]
    seconds: dict[str, float]
    dtype: str = "f32"

    @property
    def equal(self) -> bool:
        return self.tokens["coda"] == self.tokens["stock"]


@dataclass
class Result:
    model: str
    config: dict[str, object]
    comparisons: list[Comparison] = field(default_factory=list)
    continuation: Continuation | None = None
    device: Device = CPU
    training: Training | None = None
    untrained: str = ""  # why there is no training though it was asked for

    def failures(self) -> list[str]:
        found = [line for comparison in self.comparisons for line in comparison.failures()]
        return found + (self.training.failures() if self.training else [])


def compare(
    loaded: Loaded, dtype: str, ids: torch.Tensor, rounds: int, stages: Stages, device: Device = CPU
) -> Comparison:
    """Runs both sides on ids[:-1], each token predicting the next. One stage per pass."""
    tokens, targets = ids[:-1].contiguous().to(device.name), ids[1:].contiguous().to(device.name)
    depth = len(loaded.model.model.layers)
    with stages.stage(f"weights into coda, {dtype}"):
        model = stock.on(device, loaded.model if dtype == "f32" else stock.in_bf16(loaded.model))
        ours = coda_side.CodaModel(loaded, dtype, device.name)
    with stages.stage(f"stock in fp64, the truth for {dtype}", depth) as tick:
        truth = stock.exact(model, tokens, targets, lambda index, hidden: tick())
    with stages.stage(f"stock {dtype}, layer by layer", depth) as tick:
        stock_errors = _Watch(truth, tick)
        stock_loss = stock.token_loss(model, tokens, targets, stock_errors)
    with stages.stage(f"stock {dtype}, sums reordered", REORDERINGS * depth) as tick:
        reordered = [_Watch(truth, tick) for _ in range(REORDERINGS)]
        for seed, watch in enumerate(reordered):
            with stock.reordered(model, seed):
                stock.token_loss(model, tokens, targets, watch)
    with stages.stage(f"coda {dtype}, layer by layer", depth) as tick:
        coda_errors = _Watch(truth, tick)
        ours.observe_layers(tokens, coda_errors)
        coda_loss = ours.token_loss(tokens, targets)
    with stages.stage(f"speed {dtype}, paired rounds", rounds) as tick:
        speed = time_rounds(
            {
                "stock": lambda: (stock.token_loss(model, tokens, targets), device.wait()),
                "coda": lambda: (ours.token_loss(tokens, targets), device.wait()),
                "stock again": lambda: (stock.token_loss(model, tokens, targets), device.wait()),
            },
            baseline="stock",
            rounds=rounds,
            on_round=tick,
        )
    losses = {"fp64": truth.token_loss.cpu(), "stock": stock_loss.double().cpu(), "coda": coda_loss.double()}
    return Comparison(
        dtype=dtype,
        perplexity={side: math.exp(loss.mean()) for side, loss in losses.items()},
        loss_error={side: float((losses[side] - losses["fp64"]).abs().max()) for side in ("stock", "coda")},
        layers=layer_rows(truth, stock_errors.seen, [watch.seen for watch in reordered], coda_errors.seen),
        speed=speed,
        tokens=len(tokens),
    )


def errors_of(hidden: torch.Tensor, truth: torch.Tensor) -> Errors:
    """A NaN anywhere gives NaN, which keeps no limit."""
    difference = (hidden.double() - truth).abs()
    of_token = difference.amax(dim=1) / truth.abs().amax(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    return Errors(float(difference.max()), float(of_token.square().mean().sqrt()))


def layer_rows(
    truth: stock.Truth, own: dict[int, Errors], reordered: list[dict[int, Errors]], coda: dict[int, Errors]
) -> list[LayerRow]:
    return [
        LayerRow(
            index=index,
            magnitude=float(hidden.abs().max()),
            stock=own[index],
            reordered=max(errors[index].largest for errors in reordered),
            coda=coda[index],
        )
        for index, hidden in enumerate(truth.hidden, start=1)
    ]


def quotient(mine: float, other: float) -> float:
    """mine ÷ other, where nothing over nothing is 1."""
    if other == 0:
        return 1.0 if mine == 0 else math.inf
    return mine / other


class _Watch:
    """Compares each layer's output with the truth as it comes, so that none has to be kept."""

    def __init__(self, truth: stock.Truth, tick: Tick) -> None:
        self.seen: dict[int, Errors] = {}
        self._truth = truth
        self._tick = tick

    def __call__(self, index: int, hidden: torch.Tensor) -> None:
        if index == 0:  # the embedding is a copy of rows
            return
        self.seen[index] = errors_of(hidden, self._truth.hidden[index - 1])
        self._tick()

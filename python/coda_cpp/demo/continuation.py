"""Both sides continue a paragraph, greedily; coda's text is shown as it comes."""

import time
from collections.abc import Callable

import torch

from . import coda_side, stock, text
from .compare import Continuation
from .device import CPU, Device
from .loader import Loaded
from .stages import Stages

TOKENS = 48


def continue_paragraph(loaded: Loaded, stages: Stages, device: Device = CPU, count: int = TOKENS) -> Continuation:
    """Two stages: coda's continuation, streamed, and stock's; in fp32, on a GPU in bf16."""
    dtype = "bf16" if device.is_gpu else "f32"
    prompt = text.prompt()
    ids = torch.tensor(loaded.tokenizer(prompt).input_ids).to(device.name)
    stop = stop_tokens(loaded)
    tokens: dict[str, list[int]] = {}
    seconds: dict[str, float] = {}

    with stages.stage("coda continues a paragraph", count) as tick:
        ours = coda_side.CodaModel(loaded, dtype, device.name)
        stages.write(prompt)
        stream = Stream(loaded.tokenizer.decode, stages.write)
        start = time.perf_counter()
        tokens["coda"] = ours.generate(ids, count, stop, lambda token: (stream.add(token), tick()))
        seconds["coda"] = time.perf_counter() - start
        stages.end_text()
    with stages.stage("stock continues it", count) as tick:
        model = stock.on(device, stock.in_bf16(loaded.model) if device.is_gpu else loaded.model)
        start = time.perf_counter()
        tokens["stock"] = stock.generate(model, ids, count, stop, lambda token: tick())
        seconds["stock"] = time.perf_counter() - start
    decoded = {side: loaded.tokenizer.decode(made, skip_special_tokens=True) for side, made in tokens.items()}
    return Continuation(prompt, decoded, tokens, seconds, dtype)


def stop_tokens(loaded: Loaded) -> set[int]:
    """The tokens that end a text; a config may name none, one or several."""
    named = loaded.model.config.eos_token_id
    return set(named) if isinstance(named, list) else set() if named is None else {named}


class Stream:
    """Hands on the text of tokens as soon as it is whole: a character may be spread over several tokens."""

    def __init__(self, decode: Callable[[list[int]], str], write: Callable[[str], None]) -> None:
        self._decode = decode
        self._write = write
        self._tokens: list[int] = []
        self._shown = ""

    def add(self, token: int) -> None:
        self._tokens.append(token)
        whole = self._decode(self._tokens)
        if not whole.endswith("\ufffd"):
            self._write(whole[len(self._shown) :])
            self._shown = whole

"""The coda half: the same weights in coda's own LlamaModel, run and trained."""

from collections.abc import Callable

import numpy
import torch

from .errors import DemoError
from .loader import Loaded


def set_threads(count: int) -> None:
    _coda().set_num_threads(count)


class CodaModel:
    """coda_cpp.LlamaModel with tokens and results as torch tensors. `device`: as torch writes it."""

    def __init__(self, loaded: Loaded, dtype: str, device: str = "cpu") -> None:
        llama = _coda().LlamaModel
        if loaded.folder is not None:
            self._model = llama.load(str(loaded.folder), dtype=dtype, device=device)
        else:
            self._model = llama(loaded.config_json(), loaded.tensors(), dtype=dtype, device=device)

    def token_loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Cross entropy of each token, in host memory."""
        per_token = self._model.loss(tokens, targets, reduction="none").per_token
        return torch.from_numpy(numpy.array(per_token, dtype=numpy.float32))

    def observe_layers(self, tokens: torch.Tensor, on_layer: Callable[[int, torch.Tensor], None]) -> None:
        """Calls `on_layer` with a layer's number and its output (T,d); 0 is the embedding."""
        self._model.observe_layers(tokens, lambda index, hidden: on_layer(index, torch.as_tensor(hidden)))

    def generate(self, prompt: torch.Tensor, count: int, stop: set[int], on_token: Callable[[int], None]) -> list[int]:
        """Greedy continuation, token by token, until one of `stop`."""
        made: list[int] = []

        def take(token: int) -> bool:
            made.append(token)
            on_token(token)
            return token not in stop

        self._model.generate(prompt, count, on_token=take)
        return made


def gradients_of(loaded: Loaded, model) -> Callable[[torch.Tensor, torch.Tensor], float]:
    """A function of tokens and targets (B,T) that leaves the gradients in the parameters of `model`, whose memory coda
    reads its weights from, and gives the mean loss."""
    parameters = dict(model.named_parameters())
    weights = {name: parameter.detach() for name, parameter in parameters.items()}
    ours = _coda().LlamaModel(loaded.config_json(), weights, share=True)

    def run(tokens: torch.Tensor, targets: torch.Tensor) -> float:
        model.zero_grad()  # frees the last step's before this one's are made
        loss, gradients = ours.loss_and_gradients(tokens, targets)
        for name, gradient in gradients.items():
            parameters[name].grad = gradient
        return loss.value

    return run


def _coda():
    try:
        import coda_cpp
    except ImportError as error:
        raise DemoError(f"demo: coda's extension module does not load ({error}): run `make build` first") from error
    return coda_cpp

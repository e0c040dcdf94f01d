"""`python -m coda_cpp.demo`: exits with 0 when all limits hold, 1 when one does not, 2 when it cannot run."""

import enum
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from .errors import DemoError

ROUNDS = 5
STEPS = 20


class DType(str, enum.Enum):
    f32 = "f32"
    bf16 = "bf16"
    both = "both"


class Where(str, enum.Enum):
    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


def main(
    model: Annotated[
        Optional[Path], typer.Option(help="A LLaMA folder with safetensors; absent: SmolLM2-135M-Instruct.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of text to predict.")] = 1024,
    threads: Annotated[int, typer.Option(min=0, help="Threads of both sides; 0: every core.")] = 0,
    dtype: Annotated[
        Optional[DType], typer.Option(help="Arithmetic to compare in; absent: f32, and bf16 on a GPU.")
    ] = None,
    device: Annotated[Where, typer.Option(help="Where both sides run; auto: on a GPU that coda can use.")] = Where.auto,
    output: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("report.html"),
    continuation: Annotated[bool, typer.Option("--continue/--no-continue", help="Continue a paragraph.")] = True,
    steps: Annotated[
        int, typer.Option(min=0, help="Training steps of both sides, in fp32 on the CPU; 0: no training.")
    ] = STEPS,
) -> None:
    """Runs a real model on real text, stock transformers and coda side by side, and compares both with fp64."""
    try:
        failed = run(model, tokens, threads, dtype and dtype.value, device.value, output, continuation, steps)
    except DemoError as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
    raise typer.Exit(1 if failed else 0)


def run(
    folder: Path | None,
    count: int,
    threads: int,
    dtype: str | None,
    where: str,
    output: Path,
    continuation: bool,
    steps: int,
) -> list[str]:
    """Loads, compares, shows, writes the page; what failed comes back."""
    from . import device as devices
    from . import loader, machine

    if folder is not None:
        loader.check_folder(folder)
    if not output.absolute().parent.is_dir():
        raise DemoError(f"demo: --output '{output}' is in a folder that does not exist: make it first")
    loader.require_packages()
    device = devices.choose(where)
    dtypes = devices.dtypes_on(device, dtype)
    console = Console()
    console.print(f"both sides run on {device.title}", markup=False, highlight=False)
    threads = threads or machine.cores()
    stage_count = 3 + 6 * len(dtypes) + 2 * continuation + (steps > 0)
    result = _measure(console, folder, count, threads, device, dtypes, continuation, steps, stage_count, output)
    from . import terminal

    terminal.show(console, result)
    console.print(f"report: {output}", markup=False, highlight=False)
    return result.failures()


def _measure(console, folder, count, threads, device, dtypes, continuation, steps, stage_count, output):
    from . import loader, machine, text
    from .stages import Stages

    with Stages(console, stage_count) as stages:
        with stages.stage("load the model"):
            loaded = loader.load(folder)
            import torch  # only now: load() says so when it is missing

            from . import coda_side, compare, report
            from .continuation import continue_paragraph
            from .fine_tune import train

            torch.set_num_threads(threads)
            coda_side.set_threads(threads)
        with stages.stage("read the text"):
            whole = torch.tensor(loaded.tokenizer(text.text()).input_ids)
            ids = _first_tokens(loaded, whole, count)
        result = compare.Result(loaded.name, _shape(loaded.model.config), device=device)
        for name in dtypes:
            result.comparisons.append(compare.compare(loaded, name, ids, ROUNDS, stages, device))
        if continuation:
            result.continuation = continue_paragraph(loaded, stages, device)
        if steps:
            train(result, loaded, whole, steps, stages)
        with stages.stage(f"write {output}"):
            report.write(output, result, {**machine.facts(threads), "both sides run on": device.title})
    return result


def _first_tokens(loaded, ids, count: int):
    """The first count + 1 tokens of the text: count to read, each with the next one to predict."""
    longest = min(loaded.model.config.max_position_embeddings, len(ids) - 1)
    if count > longest:
        raise DemoError(
            f"demo: --tokens is {count}, expected at most {longest}: the model reads "
            f"{loaded.model.config.max_position_embeddings} positions and the text has {len(ids)} tokens"
        )
    return ids[: count + 1]


def _shape(config) -> dict[str, object]:
    return {
        "width": config.hidden_size,
        "layers": config.num_hidden_layers,
        "query heads": config.num_attention_heads,
        "key-value heads": config.num_key_value_heads,
        "MLP": config.intermediate_size,
        "vocabulary": config.vocab_size,
    }


if __name__ == "__main__":
    typer.run(main)

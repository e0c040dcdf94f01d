"""One training step of LLaMA-3 1B (random weights, bf16, AdamW): stock transformers, Liger where it is installed, and the
same model patched in one line. Time of forward and backward, of the step, peak memory, the first step's seconds, and where
the GPU's time goes.

    python bench/gpu_step.py [--kinds eager,liger,coda,coda-lean] [--batch 2] [--length 8192] [--layers 16] [--turns 2] [--tune]
                             [--output FOLDER]

Each kind is built anew in a process of its own: Liger changes classes, and a first step is only one in a fresh process. All
kinds run several turns, every other one in reverse: the GPU is cooler, and so faster, for whoever comes first. The file is
written after each. Kernels kept on disk are used: CODA_CACHE_DIR=$(mktemp -d) makes a first step a cold one.
With --device cpu and small sizes it shows that it runs.
"""

import argparse
import collections
import dataclasses
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import transformers

import coda_cpp
from result_file import RESULTS, write

KINDS = ("eager", "liger", "coda", "coda-lean")
HEAD = 64
KERNELS, KERNEL_NAME = 40, 100  # how many are listed, and letters of a name
FACTS = ("tune", "batch", "length", "layers", "width", "vocabulary", "rounds", "turns")  # options in the file
#: What is in the name of a kernel, and what it is counted as; the first that fits.
CATEGORIES = (("attention", ("flash", "fmha", "cudnn", "attention", "sdpa")), ("optimizer", ("adam", "multi_tensor")),
              ("copy", ("memcpy", "memset")), ("coda", ("coda",)),
              ("product", ("gemm", "nvjet", "cutlass", "xmma", "cublas")))


@dataclasses.dataclass(frozen=True)
class Result:
    """One kind, in one process or, of several, medians, the first of them for the first step. peak_gb: of torch's
    allocator, in GiB, which coda's segments use too."""

    kind: str
    fwd_bwd_ms: float
    step_ms: float
    peak_gb: float
    first_step_s: float
    loss: float
    by_category_ms: dict
    kernels: list
    """The longest of one step: [name, launches, milliseconds]."""


def config_of(options):
    return transformers.LlamaConfig(
        hidden_size=options.width, intermediate_size=4 * options.width, num_hidden_layers=options.layers,
        num_attention_heads=options.width // HEAD, num_key_value_heads=max(options.width // HEAD // 4, 1),
        vocab_size=options.vocabulary, rope_theta=500000.0, max_position_embeddings=options.length, rms_norm_eps=1e-5,
        attn_implementation="sdpa", use_cache=False, tie_word_embeddings=False)


def build(kind, options):
    """The model of a kind, in training mode."""
    torch.manual_seed(0)
    if kind == "liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        apply_liger_kernel_to_llama()
    with torch.device(options.device):
        model = transformers.LlamaForCausalLM._from_config(config_of(options), dtype=torch.bfloat16).train()
    if kind.startswith("coda"):
        print(coda_cpp.patch(model, policy="lean" if kind == "coda-lean" else "fast", strict=True))
    return model


def category(kernel):
    name = kernel.lower()
    return next((found for found, words in CATEGORIES if any(word in name for word in words)), "other")


class Clock:
    """Milliseconds between marks, on the GPU's clock or the host's."""

    def __init__(self, device):
        self.is_gpu, self.marks = device == "cuda", []

    def mark(self):
        if self.is_gpu:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def since_first(self):
        if self.is_gpu:
            torch.cuda.synchronize()
            return [self.marks[0].elapsed_time(mark) for mark in self.marks[1:]]
        return [1e3 * (mark - self.marks[0]) for mark in self.marks[1:]]


class Training:
    """A model, its optimizer and one batch."""

    def __init__(self, kind, options):
        self.options, self.model = options, build(kind, options)
        self.ids = torch.randint(options.vocabulary, (options.batch, options.length), device=options.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)

    def step(self, clock=None):
        clock = clock or Clock(self.options.device)
        clock.mark()
        loss = self.model(input_ids=self.ids, labels=self.ids).loss
        loss.backward()
        clock.mark()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        clock.mark()
        return loss.detach()

    def times(self):
        clock = Clock(self.options.device)
        self.step(clock)
        return clock.since_first()

    def profile(self):
        """{category: milliseconds of one step}, and the longest kernels."""
        gpu = self.options.device == "cuda"
        activity = torch.profiler.ProfilerActivity.CUDA if gpu else torch.profiler.ProfilerActivity.CPU
        with torch.profiler.profile(activities=[activity]) as seen:
            self.step()
            if gpu:
                torch.cuda.synchronize()
        found, kernels = collections.Counter(), []
        for event in seen.key_averages():
            spent = round((event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e3, 3)
            found[category(event.key)] += spent
            kernels.append((event.key[:KERNEL_NAME], event.count, spent))
        longest = sorted(kernels, key=lambda kernel: -kernel[2])[:KERNELS]
        return {name: round(milliseconds, 3) for name, milliseconds in found.most_common()}, longest


def measure(kind, options):
    training = Training(kind, options)
    if options.tune and kind.startswith("coda"):
        with coda_cpp.tuning(rounds=12):
            training.step()
    start = time.perf_counter()
    loss = training.step().item()
    first = time.perf_counter() - start
    for _ in range(options.warmup):
        training.step()
    forward_backward, step = map(statistics.median, zip(*(training.times() for _ in range(options.rounds))))
    peak = torch.cuda.max_memory_allocated() / 2**30 if options.device == "cuda" else 0.0
    return Result(kind, round(forward_backward, 3), round(step, 3), round(peak, 3), round(first, 3), loss, *training.profile())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the result file")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what is run, in this order")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    sizes = {"batch": 2, "length": 8192, "layers": 16, "width": 2048, "vocabulary": 128256, "rounds": 6, "warmup": 2,
             "turns": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tune", action="store_true", help="tune coda's products in a step before the first that counts")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a kind, measured in this process and printed as JSON
    options = parser.parse_args()
    unknown = [kind for kind in options.kinds.split(",") if kind not in KINDS]
    if unknown:
        parser.error(f"--kinds has '{unknown[0]}', expected some of {','.join(KINDS)}")
    return options


def measured_alone(kind):
    """The Result of a process, None where it failed."""
    done = subprocess.run([sys.executable, *sys.argv, "--one", kind], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{kind}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", flush=True)
        return None
    result = json.loads(done.stdout.splitlines()[-1])
    print({name: value for name, value in result.items() if name != "kernels"}, flush=True)
    return result


def merged(turns):
    """One row of a kind's turns."""
    middle = {name: round(statistics.median(turn[name] for turn in turns), 3) for name in ("fwd_bwd_ms", "step_ms")}
    return turns[-1] | {"first_step_s": turns[0]["first_step_s"]} | middle | {"turns_ms": [turn["step_ms"] for turn in turns]}


def main():
    options = arguments()
    if options.one:
        print(json.dumps(dataclasses.asdict(measure(options.one, options))))
        return
    kinds, found = options.kinds.split(","), collections.defaultdict(list)
    facts = {"transformers": transformers.__version__, **{name: getattr(options, name) for name in FACTS}}
    for turn in range(options.turns):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            result = measured_alone(kind)
            if result is not None:
                found[kind].append(result)
                print(write(options.output, "step", [merged(turns) for turns in found.values()], options.device, **facts),
                      flush=True)
    if not found:
        sys.exit("step: no kind ran")


if __name__ == "__main__":
    main()

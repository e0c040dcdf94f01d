"""Tensors that coda makes on a GPU are memory of torch's allocator."""

import threading

import pytest
import torch

import coda_cpp as coda
from coda_cpp import blocks, training
from gpu_common import capture

TOKENS, WIDTH, MLP = 512, 256, 512


def normal(*shape):
    return torch.randn(shape, device="cuda").bfloat16()


class Mlp:
    """A block forward and backward: tensors of coda's own in every step."""

    def __init__(self):
        self.x, self.d = normal(TOKENS, WIDTH), normal(TOKENS, WIDTH)
        self.norm = blocks.RmsNorm(1 + normal(WIDTH) / 8, 1e-5)
        self.gate, self.up, self.down = (normal(*shape) / 16 for shape in ((MLP, WIDTH), (MLP, WIDTH), (WIDTH, MLP)))
        self.main = {name: torch.zeros(MLP, WIDTH, device="cuda") for name in ("gate", "up")}

    def __call__(self):
        stream = blocks.enter_norm(self.x, self.norm)
        weights = {"gate_weight": self.gate, "up_weight": self.up}
        saved = training.gated_mlp_saved(stream, self.norm, **weights)
        gradient, _ = training.gated_mlp_backward(self.d, self.down, saved, training.saved_stream(stream), self.norm,
                                                  into=self.main, **weights)
        return saved.y, training.stream_backward(gradient, training.saved_stream(stream), self.norm)


def test_torch_counts_what_coda_holds():
    w = normal(1024, WIDTH)
    norm = blocks.RmsNorm(1 + normal(WIDTH), 1e-5)
    x = normal(4096, WIDTH)
    blocks.norm_linear(blocks.enter_norm(x, norm), norm, w)
    before = torch.cuda.memory_allocated()
    stream = blocks.enter_norm(x, norm)
    result = blocks.norm_linear(stream, norm, w)
    held = torch.cuda.memory_allocated() - before
    assert held >= result.nbytes + x.nbytes
    del stream, result
    assert torch.cuda.memory_allocated() == before


def test_blocks_in_a_cuda_graph():
    mlp = Mlp()
    eager = [tensor.clone() for tensor in mlp()]
    first = {name: tensor.clone() for name, tensor in mlp.main.items()}
    graph, results = capture(mlp)
    for tensor in mlp.main.values():
        tensor.zero_()
    held = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(16)]  # takes what is not the graph's
    graph.replay()
    torch.cuda.synchronize()
    assert len(held) == 16
    for got, expected in zip(results, eager):
        assert torch.equal(got, expected)
    for name, expected in first.items():
        assert torch.equal(mlp.main[name], expected)


def test_threads_with_streams_of_their_own():
    jobs = [Mlp() for _ in range(4)]
    wanted = [[tensor.clone() for tensor in job()] for job in jobs]
    torch.cuda.synchronize()
    wrong = []

    def work(job, expected):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(30):
                got = job()
                stream.synchronize()
                if not all(torch.equal(a, b) for a, b in zip(got, expected)):
                    wrong.append(job)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(jobs, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_too_little_memory_is_an_error_of_its_own_kind():
    norm, x, w = blocks.RmsNorm(1 + normal(64), 1e-5), normal(4096, 64), normal(1 << 18, 64)
    stream = blocks.enter_norm(x, norm)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1 / 128)
    try:
        with pytest.raises(coda.errors.OutOfMemoryError, match="allocate 2147483648 bytes on cuda:0"):
            blocks.norm_linear(stream, norm, w)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)

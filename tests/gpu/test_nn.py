"""coda_cpp.nn on the GPU: modules under the 2x rule, a model beside the stock one in fp64."""

import copy

import pytest
import torch

from coda_cpp import nn
from module_cases import D, F, HEADS, KV_HEADS, MODULES, check_loss_in_half_precision, check_module
from patched import VOCABULARY, draw_batch, exact_step, expect_no_worse, make_model, step

DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])


@DTYPES
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_no_worse_than_torch(name, dtype):
    check_module(name, dtype, "cuda")


@DTYPES
def test_loss_of_the_head(dtype):
    check_loss_in_half_precision(dtype, "cuda")


def test_a_whole_model_is_no_worse_than_stock():
    stock = make_model(tie_word_embeddings=True).to("cuda", torch.bfloat16)
    batch = draw_batch(device="cuda")
    ours = nn.LlamaModel(VOCABULARY, D, F, 2, HEADS, KV_HEADS, tied=True, dtype=torch.bfloat16, device="cuda")
    ours.load_state_dict(stock.state_dict())
    loss = ours(batch["input_ids"][:, :-1], batch["labels"][:, 1:])
    loss.backward()
    found = {"loss": loss.detach()} | {name: p.grad for name, p in ours.named_parameters()}
    theirs, truth = (dict([("loss", run[0]), *run[1].items()])
                     for run in (step(copy.deepcopy(stock), batch), exact_step(stock, batch)))
    expect_no_worse(found, theirs, truth, torch.bfloat16)

"""What measures errors is exact itself: no fp32 is left in a stock model's norms, angles, softmax and loss, nor in what
checkpoints make again; and the model is left as it was."""

import copy

import pytest
import torch

from coda_cpp import fp64
from patched import KINDS, draw_batch, exact_step, make_model, step

EXACT = 1e-13


def apart(ours, theirs):
    """The largest ‖a − b‖ ÷ ‖b‖ over tensors of two dictionaries."""
    return max(((ours[name] - value).norm() / value.norm()).item() for name, value in theirs.items())


# Biases of k move no softmax but for their rotation; dynamic frequencies are those of the longest call so far.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("bias", "qwen2", "qwen2_window", "dynamic")])
def test_two_orders_of_the_same_sums_agree(kind):
    """Attention by one op, and by two products around an fp32 softmax."""
    model, batch = make_model(kind), draw_batch(padded=True)
    loss, gradients = exact_step(model, batch)
    assert apart(step(copy.deepcopy(model).double(), batch)[1], gradients) > 1e3 * EXACT, "double() alone would do"
    model.set_attn_implementation("eager")
    eager_loss, eager = exact_step(model, batch)
    assert loss.dtype == eager_loss.dtype == torch.float64
    assert abs(loss - eager_loss) <= EXACT * loss
    assert apart(eager, gradients) <= EXACT


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_are_made_again_in_fp64(reentrant):
    model, batch = make_model(use_cache=False), draw_batch()
    _, expected = exact_step(model, batch)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    assert apart(exact_step(model, batch)[1], expected) <= EXACT


def test_the_model_is_left_as_it_was():
    model = make_model()
    model.model.norm.forward = model.model.norm.forward  # one of its own
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(KeyError), fp64.throughout(model):
        assert all("forward" in vars(module) for module in model.modules())
        raise KeyError
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before

"""Where the demo runs, and in which arithmetic."""

import pytest

from coda_cpp.demo import device
from coda_cpp.demo.errors import DemoError

GPU = device.Device("cuda:0", "NVIDIA H200")


@pytest.mark.parametrize(("where", "wanted", "dtypes"), [
    (device.CPU, None, ["f32"]), (device.CPU, "bf16", ["bf16"]), (device.CPU, "both", ["f32", "bf16"]),
    (GPU, None, ["bf16"]), (GPU, "bf16", ["bf16"])])
def test_dtypes_of_a_device(where, wanted, dtypes):
    assert device.dtypes_on(where, wanted) == dtypes


@pytest.mark.parametrize("wanted", ["f32", "both"])
def test_a_gpu_takes_no_f32(wanted):
    with pytest.raises(DemoError) as caught:
        device.dtypes_on(GPU, wanted)
    assert str(caught.value) == (
        f"demo: --dtype {wanted} does not run on NVIDIA H200, expected bf16: its tensor cores would round f32 to 11 bits; "
        "give --dtype bf16 or --device cpu")


def test_without_a_usable_gpu_the_cpu_is_taken(monkeypatch):
    monkeypatch.setattr(device, "_refusal", lambda: "torch sees no GPU")
    assert device.choose("auto") == device.choose("cpu") == device.CPU
    with pytest.raises(DemoError) as caught:
        device.choose("cuda")
    assert str(caught.value) == "demo: --device cuda cannot be used: torch sees no GPU; give --device cpu"

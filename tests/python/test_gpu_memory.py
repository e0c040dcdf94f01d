"""Memory of a GPU from functions of Python, as far as a machine without one shows: what is asked for and given back."""

import subprocess
import sys

import pytest
import torch

PROGRAM = """
import ctypes, sys
import torch
import coda_cpp as coda
sys.path.insert(0, sys.argv[1])
from patched import make_model

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
asked, given_back = [], []

def allocate(size, index, stream):
    if len(asked) == 1:
        raise RuntimeError("there is none")
    asked.append((libc.malloc(size), index, stream))
    return asked[-1][0]

def release(address):
    given_back.append(address)
    libc.free(address)

coda._core.use_gpu_memory(allocate, release)
model = make_model().bfloat16()
for _ in range(2):
    try:
        coda.LlamaModel(model.config.to_json_string(use_diff=False), model.state_dict(), device="cuda")
    except coda.Error as error:
        print(type(error).__name__, error)
assert [address for address, _, _ in asked] == given_back and asked[0][1:] == (0, 0)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which would be asked")
def test_addresses_go_back_and_failures_are_out_of_memory(request):
    folder = str(request.path.parent)
    done = subprocess.run([sys.executable, "-c", PROGRAM, folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    without_driver, without_memory = done.stdout.splitlines()[-2:]
    assert without_driver.startswith("NotImplementedError cuda: no NVIDIA driver is installed")
    assert without_memory == ("OutOfMemoryError tensor: out of GPU memory: could not allocate 12416 bytes on cuda:0 (there is "
                              "none): free some or use smaller tensors")

"""The Python examples run; the product of 02 is the one 01 prints. ctest runs the C++ ones."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))


def run(path):
    return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path):
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_first_prints_program_and_product():
    lines = run(next(path for path in EXAMPLES if path.name == "02_custom_epilogue.py")).stdout.splitlines()
    assert lines[0] == "program bias_gelu {"
    assert lines[-2:] == ["[[-0.1543  0.8413]", " [-0.1543  7.    ]]"]


def test_the_backward_prints_what_is_checked_in_and_the_right_gradient():
    printed = run(next(path for path in EXAMPLES if path.name == "05_backward.py")).stdout
    golden = EXAMPLES[0].parents[1] / "tests/golden/backward_bias_gelu.ir"
    assert printed.startswith(golden.read_text())
    assert "d_x (100, 8) d_weight (16, 8) d_bias (16,)" in printed
    assert float(printed.split()[-1]) < 1e-2

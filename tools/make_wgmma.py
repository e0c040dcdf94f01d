"""Writes src/cuda/device/sm90/wgmma.cuh: a wrapper of the warpgroup matrix product for each tile width.

    make_wgmma.py [FILE]      FILE "-": to standard output
"""

import pathlib
import sys
import textwrap

WIDTHS = range(64, 257, 16)
FILE = pathlib.Path(__file__).parents[1] / "src/cuda/device/sm90/wgmma.cuh"

HEAD = """\
// Warpgroup matrix products of m64 × n × k16, one wrapper a width: d (+)= A·B, both operands in shared memory.
// CODA_ELEMENT is "bf16" or "f16". Transpose 1: the operand is MN-major. accumulate 0: d is overwritten.
// Written by tools/make_wgmma.py: PTX takes each accumulator register by name.
// clang-format off
#pragma once

#include "ptx.cuh"

namespace coda {

template <int N>
struct Wgmma;
"""

WRAPPER = """
template <>
struct Wgmma<{width}> {{
  template <int TransposeA, int TransposeB>
  __device__ __forceinline__ static void multiply(float (&d)[{count}], u64 a, u64 b, int accumulate) {{
    asm volatile(
        "{{\\n\\t.reg .pred p;\\n\\tsetp.ne.b32 p, %{accumulate}, 0;\\n\\t"
        "wgmma.mma_async.sync.aligned.m64n{width}k16.f32." CODA_ELEMENT "." CODA_ELEMENT " {{"
{registers}
        "}}, %{a}, %{b}, p, 1, 1, %{transpose_a}, %{transpose_b};\\n\\t}}"
{operands}
        : "l"(a), "l"(b), "r"(accumulate), "n"(TransposeA), "n"(TransposeB));
  }}
}};
"""


def lines(items, width):
    """The items, joined by commas, in lines of at most `width` characters."""
    return textwrap.wrap(", ".join(items), width, break_long_words=False, break_on_hyphens=False)


def wrapper(width):
    count = width // 2  # accumulators of a thread: 64 × width over 128 threads
    registers = lines([f"%{i}" for i in range(count)], 100)
    operands = lines([f'"+f"(d[{i}])' for i in range(count)], 108)
    return WRAPPER.format(
        width=width, count=count, a=count, b=count + 1, accumulate=count + 2, transpose_a=count + 3,
        transpose_b=count + 4,
        registers="\n".join(f'        "{line} "' for line in registers),
        operands="\n".join(f"        {':' if i == 0 else ' '} {line}" for i, line in enumerate(operands)))


def text():
    return HEAD + "".join(map(wrapper, WIDTHS)) + "\n}  // namespace coda\n"


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else str(FILE)
    if target == "-":
        sys.stdout.write(text())
    else:
        pathlib.Path(target).write_text(text(), encoding="utf-8")

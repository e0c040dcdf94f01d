"""One case of the exact suite: a product, its operands in poisoned memory, a schedule, and the expected output."""

import dataclasses
import os

import torch

import coda_cpp as coda
from canvas import Canvas, integers
from coda_cpp import Builder

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
CODA = {"bf16": coda.bf16, "f16": coda.f16, "f32": coda.f32}

LARGEST = int(os.environ.get("CODA_GPU_LARGEST", "4104"))  # a sanitizer makes everything a hundred times slower


def extents(*more):
    return [extent for extent in (1, 7, 63, 64, 129, 200, 256, 384, 520, 1000, *more) if extent <= LARGEST]


AXES = {
    "m": extents(4097),
    "n": extents(4104),
    "k": extents(0, 2056),
    "layout": ["TN", "NN", "NT", "TT"],
    "element": ["bf16", "f16"],
    "view": ["single", "single", "pair", "concat_n", "concat_m", "concat_k"],
    "program": ["identity", "bias", "scale", "residual", "accumulate"],
    "out": ["same", "f32", "other"],
    "pad": [0, 8, 24, 3],
    "offset": [0, 8, 1],
    "tile": ["128x64", "128x80", "128x96", "128x128", "128x160", "128x192", "128x224", "128x256", "256x64", "256x96",
             "256x128"],
    "mode": ["cooperative", "ping-pong"],
    "cluster": ["1x1", "2x1", "1x2", "split"],
    "stages": [2, 3, 4, 6],
    "raster": [1, 4, 16],
    "sub": [64, 32, 16],
    "buffers": ["1+1", "2+2", "2+1", "3+2"],
}


def mend(case):
    """What no schedule does together is replaced by what it does."""
    if case["cluster"] == "split":
        case["mode"] = "cooperative"
        if case["view"] == "concat_k":
            case["view"] = "single"
    if case["mode"] == "ping-pong" and case["tile"].startswith("256"):
        case["tile"] = "128" + case["tile"][3:] if int(case["tile"][4:]) <= 128 else "128x128"
    if case["mode"] == "ping-pong" and int(case["tile"].split("x")[1]) > 192:
        case["tile"] = "128x192"
    tile_m, tile_n = map(int, case["tile"].split("x"))
    if case["view"] == "pair" and tile_n % 32:
        case["tile"], tile_n = f"{tile_m}x128", 128
    if case["layout"][0] == "N" and (tile_n // 2 if case["view"] == "pair" else tile_n) % 64:
        case["tile"], tile_n = f"{tile_m}x128", 128  # an N-major B comes in boxes of 64 columns
    columns = tile_n // 2 if case["view"] == "pair" else tile_n
    if columns % case["sub"]:
        case["sub"] = 16 if columns % 32 else 32
    return case


def schedule_text(case):
    split = case["cluster"] == "split"
    return (f"{case['tile']} {case['mode']}, {case['stages']} stages, cluster {'1x1' if split else case['cluster']}"
            f"{', split 2' if split else ''}, raster {case['raster']}, sub {case['sub']}, buffers {case['buffers']}")


def make_program(case, out):
    b = Builder(case["program"])
    z = b.acc(0)
    if case["view"] == "pair":
        z = z + b.acc(1) * 3.0
    if case["program"] == "bias":
        z = z + b.load_row("bias")
    if case["program"] == "scale":
        z = z * b.load_scalar("alpha") + b.load_col("shift")
    if case["program"] == "residual":
        z = z + b.load_tile("residual") * 2.0
    b.store("out", z, dtype=CODA[out], accumulate=case["program"] == "accumulate")
    return b.build()


@dataclasses.dataclass
class Segment:
    """One part of the output: its program's operands, the poisoned canvas, and what it must hold after one run."""

    program: object
    operands: dict
    out: Canvas
    before: torch.Tensor
    expected: torch.Tensor

    def reset(self):
        self.out.fill(self.before)


class Case:
    """Tensors of a case. The sum of a product's parts is taken in fp64, where integers are exact."""

    def __init__(self, axes, seed):
        self.axes = axes
        self.generator = torch.Generator("cuda").manual_seed(seed)
        self.element = TORCH[axes["element"]]
        self.out_name = {"same": axes["element"], "f32": "f32", "other": "f16" if axes["element"] == "bf16" else "bf16"}[
            axes["out"]]
        self.density = min(0.5, 64 / max(axes["k"], 1))
        self._make_factors()
        self.segments = [self._make_segment(*part) for part in self._parts()]

    def _matrix(self, rows, cols, transposed):
        canvas = Canvas(rows, cols, self.element, pad=self.axes["pad"], offset=self.axes["offset"], transposed=transposed)
        return canvas.fill(integers(rows, cols, self.element, self.generator, self.density))

    def _make_factors(self):
        m, n, k, view = (self.axes[name] for name in ("m", "n", "k", "view"))
        # BLAS's letters, of the column-major product (B first): TN is a forward, NN a data and NT a weight gradient.
        a_transposed, b_transposed = self.axes["layout"][1] == "T", self.axes["layout"][0] == "T"
        ks = [k, 2 * k + 8] if view == "concat_k" else [k]
        ms = [m, 96] if view == "concat_m" else [m]
        ns = [n, 72] if view == "concat_n" else [n]
        self.a = [self._matrix(rows, depth, a_transposed) for rows in ms for depth in ks]
        copies = 2 if view == "pair" else 1
        self.b = [self._matrix(depth, cols, b_transposed) for cols in ns for depth in ks for _ in range(copies)]

    def factors(self):
        view = self.axes["view"]
        a = {"concat_m": coda.concat, "concat_k": coda.concat_k}.get(view, lambda only: only)(*self.a)
        b = {"concat_n": coda.concat, "concat_k": coda.concat_k, "pair": coda.pair}.get(view, lambda only: only)(*self.b)
        return a, b

    def _parts(self):
        """(rows, cols, accumulator in fp64) of each segment."""
        view = self.axes["view"]
        a, b = [x.double() for x in self.a], [x.double() for x in self.b]
        if view == "concat_k":
            return [(a[0].shape[0], b[0].shape[1], a[0] @ b[0] + a[1] @ b[1])]
        if view == "pair":
            return [(a[0].shape[0], b[0].shape[1], a[0] @ b[0] + 3 * (a[0] @ b[1]))]
        return [(x.shape[0], y.shape[1], x @ y) for x in a for y in b]

    def _make_segment(self, rows, cols, z):
        dtype = TORCH[self.out_name]
        pad, offset = self.axes["pad"], self.axes["offset"]
        out = Canvas(rows, cols, dtype, pad=pad, offset=offset)
        before = torch.full((rows, cols), float("nan"), dtype=dtype, device="cuda")
        operands = {"out": out.view}
        draw = lambda r, c: integers(r, c, torch.float64, self.generator)  # noqa: E731
        if self.axes["program"] == "bias":
            bias = draw(1, cols)[0]
            operands["bias"], z = bias.to(self.element), z + bias
        if self.axes["program"] == "scale":
            shift = draw(rows, 1)
            operands["alpha"] = torch.tensor(2.0, device="cuda")
            operands["shift"], z = shift[:, 0].float(), 2 * z + shift
        if self.axes["program"] == "residual":
            residual = draw(rows, cols)
            held = Canvas(rows, cols, self.element, pad=pad, offset=offset)
            operands["residual"], z = held.fill(residual), z + 2 * residual
        if self.axes["program"] == "accumulate":
            old = draw(rows, cols)
            before, z = old.to(dtype), z + old
        return Segment(make_program(self.axes, self.out_name), operands, out, before, z.to(dtype))

    def prepare(self, schedule):
        a, b = self.factors()
        segments = [coda.segment(part.program, **part.operands) for part in self.segments]
        several = self.axes["view"] in ("concat_n", "concat_m")
        if several:
            return coda.prepare(a, b, segments, schedule=schedule)
        return coda.prepare(a, b, self.segments[0].program, schedule=schedule, **self.segments[0].operands)

    def check(self, plan):
        """Runs twice; both must give the expected numbers, to the bit, and touch nothing else."""
        for _ in range(2):
            for part in self.segments:
                part.reset()
            plan()
            for part in self.segments:
                got, expected = part.out.view, part.expected
                wrong = ~((got == expected) | (got.isnan() & expected.isnan()))
                assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} elements differ, the first at " \
                    f"{wrong.nonzero()[0].tolist()}: got {got[wrong][0].item()}, expected {expected[wrong][0].item()}"
                part.out.assert_untouched_outside()

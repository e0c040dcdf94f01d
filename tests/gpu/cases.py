"""One case of the exact suite: a product, its operands in poisoned memory, a schedule, and the expected outputs."""

import dataclasses
import math
import os

import torch

import coda_cpp as coda
from canvas import Canvas, integers
from programs import GROUP, OF_GROUPS, OF_HEADS, PROGRAMS, TORCH, Making

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
    "program": list(PROGRAMS),
    "pairs": ["halves", "interleaved"],
    "head": [16, 24, 36, 40, 64, 72, 80, 96, 120, 128],
    "rotary": ["whole", "part"],
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


def mend_columns(case):
    """Whole heads, or whole groups of reduced columns, in N and in a tile; B K-major where that tile asks for it."""
    unit = case["head"] if case["program"] in OF_HEADS else GROUP
    halves = 2 if case["view"] == "pair" else 1
    whole = math.lcm(unit, 16)
    if whole * halves > 256:  # a pair's tile has half the columns
        case["head"], unit, whole = 64, 64, 64
    if case["program"] in OF_HEADS:
        case["n"] = -(-case["n"] // unit) * unit
    wanted = int(case["tile"].split("x")[1]) // halves
    # What a program holds beside the accumulators leaves registers for 128 of them.
    most = 128 if case["mode"] == "ping-pong" else 256
    columns = max(min(wanted, most // halves) // whole, 1) * whole
    if columns * halves < 64:
        columns = -(-64 // halves // whole) * whole
    if columns * halves > most:
        case["mode"] = "cooperative"
    rows = case["tile"].split("x")[0] if columns * halves <= 128 else 128
    case["tile"] = f"{rows}x{columns * halves}"
    if columns % 64:
        case["layout"] = "T" + case["layout"][1]


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
    if case["program"] in OF_HEADS + OF_GROUPS:
        mend_columns(case)
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


@dataclasses.dataclass
class Segment:
    """One part of the output: its program, what is bound to its operands, and those of them it writes."""

    program: object
    operands: dict
    outputs: dict

    def reset(self):
        for output in self.outputs.values():
            output.reset()

    def check(self):
        for name, output in self.outputs.items():
            output.check(name)


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
        self.segments = [self._make_segment(image) for image in self._parts()]

    def _matrix(self, rows, cols, transposed):
        canvas = Canvas(rows, cols, self.element, pad=self.axes["pad"], offset=self.axes["offset"], transposed=transposed)
        return canvas.fill(integers(rows, cols, self.element, self.generator, self.density))

    def _make_factors(self):
        m, n, k, view = (self.axes[name] for name in ("m", "n", "k", "view"))
        # BLAS's letters, of the column-major product (B first): TN is a forward, NN a data and NT a weight gradient.
        a_transposed, b_transposed = self.axes["layout"][1] == "T", self.axes["layout"][0] == "T"
        ks = [k, 2 * k + 8] if view == "concat_k" else [k]
        ms = [m, 96] if view == "concat_m" else [m]
        ns = [n, 3 * self.axes["head"] if self.axes["program"] in OF_HEADS else 72] if view == "concat_n" else [n]
        self.a = [self._matrix(rows, depth, a_transposed) for rows in ms for depth in ks]
        copies = 2 if view == "pair" else 1
        self.b = [self._matrix(depth, cols, b_transposed) for cols in ns for depth in ks for _ in range(copies)]

    def factors(self):
        view = self.axes["view"]
        a = {"concat_m": coda.concat, "concat_k": coda.concat_k}.get(view, lambda only: only)(*self.a)
        b = {"concat_n": coda.concat, "concat_k": coda.concat_k, "pair": coda.pair}.get(view, lambda only: only)(*self.b)
        return a, b

    def _parts(self):
        """The accumulator of each segment, in fp64."""
        view = self.axes["view"]
        a, b = [x.double() for x in self.a], [x.double() for x in self.b]
        if view == "concat_k":
            return [a[0] @ b[0] + a[1] @ b[1]]
        if view == "pair":
            return [a[0] @ b[0] + 3 * (a[0] @ b[1])]
        return [x @ y for x in a for y in b]

    def _make_segment(self, image):
        making = Making(self.axes, self.out_name, image, self.generator)
        PROGRAMS[self.axes["program"]](making)
        return Segment(making.builder.build(), making.operands, making.outputs)

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
                part.check()

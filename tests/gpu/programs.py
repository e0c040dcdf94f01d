"""The programs of the exact suite: what each makes of the accumulator, and of its image in fp64, where integers are
exact. A program is a function of a Making; its name is its row in PROGRAMS."""

import coda_cpp as coda
import torch
from canvas import Canvas, integers
from coda_cpp import Builder

TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
CODA = {"bf16": coda.bf16, "f16": coda.f16, "f32": coda.f32}
GROUP = 64  # columns or rows of a partial


class Output:
    """A poisoned canvas that a program writes to, and what it must hold after one run."""

    def __init__(self, expected, dtype, before=None, **place):
        rows, cols = expected.shape
        self.canvas = Canvas(rows, cols, dtype, **place)
        self.before = torch.full((rows, cols), float("nan"), dtype=dtype, device=expected.device) if before is None else before
        self.expected = expected.to(dtype)

    def reset(self):
        self.canvas.fill(self.before)

    def check(self, name):
        got, expected = self.canvas.view, self.expected
        wrong = ~((got == expected) | (got.isnan() & expected.isnan()))
        assert not wrong.any(), f"{int(wrong.sum())} of {wrong.numel()} elements of '{name}' differ, the first at " \
            f"{wrong.nonzero()[0].tolist()}: got {got[wrong][0].item()}, expected {expected[wrong][0].item()}"
        self.canvas.assert_untouched_outside()


class Making:
    """A program of one segment as it is made: z and its image in fp64, operands so far, outputs so far."""

    def __init__(self, axes, out_name, image, generator):
        self.axes, self.out_name, self.image, self.generator = axes, out_name, image, generator
        self.element = TORCH[axes["element"]]
        self.place = {"pad": axes["pad"], "offset": axes["offset"]}
        self.rows, self.cols = image.shape
        self.builder = Builder(axes["program"])
        self.z = self.builder.acc(0)
        if axes["view"] == "pair":
            self.z = self.z + self.builder.acc(1) * 3.0
        self.operands, self.outputs = {}, {}

    def draw(self, rows, cols):
        return integers(rows, cols, torch.float64, self.generator)

    def tile(self, name):
        """A tile operand: the value and its image."""
        values = self.draw(self.rows, self.cols)
        self.operands[name] = Canvas(self.rows, self.cols, self.element, **self.place).fill(values)
        return self.builder.load_tile(name), values

    def row(self, name, values, **options):
        self.operands[name] = values.to(self.element)
        return self.builder.load_row(name, **options)

    def store(self, name, value, image, dtype="f32", before=None):
        self.builder.store(name, value, dtype=CODA[dtype], accumulate=before is not None)
        self.outputs[name] = Output(image, TORCH[dtype], before, **self.place)
        view = self.outputs[name].canvas.view
        self.operands[name] = view

    def store_col(self, name, value, image):
        """A column of its own: its operand has one extent."""
        self.builder.store(name, value, dtype=coda.f32)
        self.outputs[name] = Output(image[:, None], torch.float32, **self.place)
        self.operands[name] = self.outputs[name].canvas.view[:, 0]

    def store_out(self, value, image, before=None):
        self.store("out", value, image, self.out_name, before)

    def pairing(self):
        make = coda.halves if self.axes["pairs"] == "halves" else coda.interleaved
        return make(self.axes["head"], paired_columns(self.axes))


def paired_columns(axes):
    """The whole head, or an even part of it."""
    return axes["head"] if axes["rotary"] == "whole" else max(axes["head"] // 4 * 2, 2)


def groups(values, dim, reduce, fill):
    """reduce over each GROUP entries along dim."""
    size = values.shape[dim]
    padding = [0, 0, 0, 0]
    padding[2 * (1 - dim) + 1] = -size % GROUP
    padded = torch.nn.functional.pad(values, padding, value=fill)
    return reduce(padded.unflatten(dim, (-1, GROUP)), dim + 1)


def identity(m):
    m.store_out(m.z, m.image)


def bias(m):
    values = m.draw(1, m.cols)
    m.store_out(m.z + m.row("bias", values[0]), m.image + values)


def scale(m):
    shift = m.draw(m.rows, 1)
    m.operands["alpha"] = torch.tensor(2.0, device=shift.device)
    m.operands["shift"] = shift[:, 0].float()
    m.store_out(m.z * m.builder.load_scalar("alpha") + m.builder.load_col("shift"), 2 * m.image + shift)


def residual(m):
    value, image = m.tile("residual")
    m.store_out(m.z + value * 2.0, m.image + 2 * image)


def accumulate(m):
    old = m.draw(m.rows, m.cols)
    m.store_out(m.z, m.image + old, before=old.to(TORCH[m.out_name]))


def sums(m):
    """Of rows and of columns, beside a tile that comes in."""
    value, image = m.tile("x")
    m.store_out(m.z, m.image)
    m.store("across", coda.reduce_row(m.z + value, "sum", GROUP), groups(m.image + image, 1, torch.sum, 0))
    m.store("down", coda.reduce_col(m.z - value, "sum", GROUP), groups(m.image - image, 0, torch.sum, 0))


def extremes(m):
    """Largest entries; of the target's column, where not every row has one."""
    columns = torch.randint(-1, m.cols, (m.rows,), generator=m.generator, device=m.image.device)
    m.operands["target"] = columns
    target = coda.select_col(m.z, m.builder.load_col("target"), -1)
    m.store("across", coda.reduce_row(m.z, "max", GROUP), groups(m.image, 1, torch.amax, -torch.inf))
    m.store("down", coda.reduce_col(m.z, "max", GROUP), groups(m.image, 0, torch.amax, -torch.inf))
    chosen = m.image.gather(1, columns.clamp(min=0)[:, None])[:, 0]
    m.store_col("target_entry", target, torch.where(columns < 0, 0, chosen))


def turn(m):
    """Each pair (a, b) becomes (a·c − b·s, b·c + a·s), with c and s of −1, 0 and 1: a rotation, of z and of a tile."""
    value, image = m.tile("x")
    pairing, width = m.pairing(), paired_columns(m.axes)
    pairs = m.cols // m.axes["head"] * (width // 2)
    cos, sin = (m.draw(1, pairs)[0].sign() for _ in range(2))
    c, s = m.row("cos", cos, pairing=pairing), m.row("sin", sin, pairing=pairing)

    def turned(z):
        first, second = coda.split(z, pairing)
        rest = z if width < m.axes["head"] else None
        return coda.join(first * c - second * s, second * c + first * s, rest)

    def turned_image(z):
        heads = z.unflatten(1, (-1, m.axes["head"])).clone()
        if m.axes["pairs"] == "halves":
            first, second = heads[:, :, : width // 2], heads[:, :, width // 2 : width]
        else:
            first, second = heads[:, :, 0:width:2], heads[:, :, 1:width:2]
        cs, sn = (entries.view(1, -1, width // 2) for entries in (cos, sin))
        a, b = first * cs - second * sn, second * cs + first * sn
        first.copy_(a), second.copy_(b)
        return heads.flatten(1)

    m.store_out(turned(m.z) + turned(value), turned_image(m.image) + turned_image(image))


def head_sums(m):
    """Each entry plus its head's sum, which comes from the accumulator and a tile."""
    value, image = m.tile("x")
    summed = (m.image + image).unflatten(1, (-1, m.axes["head"])).sum(2, keepdim=True)
    spread = summed.expand(-1, -1, m.axes["head"]).flatten(1)
    m.store_out(m.z + coda.span_sum(m.z + value, m.axes["head"]), m.image + spread)


PROGRAMS = {function.__name__: function for function in
            (identity, bias, scale, residual, accumulate, sums, extremes, turn, head_sums)}
OF_HEADS = ("turn", "head_sums")
OF_GROUPS = ("sums", "extremes")

"""Matrices in the middle of poisoned memory: any pitch, any offset, and a check that nothing round them was touched."""

import torch

SENTINEL = {torch.bfloat16: 0x7FC5, torch.float16: 0x7E5A, torch.float32: 0x7FC0A5A5}  # NaNs of a rare pattern
BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


class Canvas:
    """A (rows, cols) view, row-major or transposed, inside memory filled with NaN. `pad` elements end each line;
    `offset` elements stand before the first, past those that align it to 256 bytes."""

    def __init__(self, rows, cols, dtype, *, pad=0, offset=0, transposed=False, device="cuda"):
        self.outer, self.inner = (cols, rows) if transposed else (rows, cols)
        pitch = max(self.inner + pad, 1)
        margin = 256
        self.memory = torch.empty(2 * margin + offset + self.outer * pitch, dtype=dtype, device=device)
        self.bits = self.memory.view(BITS[dtype])
        self.bits.fill_(SENTINEL[dtype])
        lines = self.memory.as_strided((self.outer, self.inner), (pitch, 1), margin + offset)
        self.view = lines.T if transposed else lines
        self._outside = torch.ones_like(self.bits, dtype=torch.bool)
        self._outside.as_strided((self.outer, self.inner), (pitch, 1), margin + offset).fill_(False)
        self._sentinel = SENTINEL[dtype]

    def fill(self, values):
        self.view.copy_(values)
        return self.view

    def assert_untouched_outside(self):
        touched = (self.bits != self._sentinel) & self._outside
        assert not touched.any(), f"{int(touched.sum())} elements outside the output were written, the first at " \
                                  f"{int(touched.nonzero()[0])} of {self.memory.numel()}"


def integers(rows, cols, dtype, generator, density=0.5):
    """Integers of −2 … 2, most of them zero where density is low, so that every sum of products is exact in fp32."""
    values = torch.randint(-2, 3, (rows, cols), generator=generator, device="cuda", dtype=torch.int32)
    keep = torch.rand((rows, cols), generator=generator, device="cuda") < density
    return (values * keep).to(dtype)

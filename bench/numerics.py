"""What the delayed norm costs in accuracy: norm(x)·Wᵀ and its backward as coda's blocks do it and in PyTorch's order.

coda stores x·γ, multiplies by W and then by r; its backward stores r·dz. PyTorch rounds x·r, then γ times that, then the
product. Both take the same rounded x, γ, W and dz, sum in fp32 and are compared with the same in double.

    python bench/numerics.py [--seed N] [--output FOLDER]
"""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from result_file import RESULTS

import coda_cpp
from coda_cpp import blocks, training
from coda_cpp.demo import machine

WIDTHS = (2048, 4096, 8192)
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
OUTLIERS = (0.0, 1e3, 1e4, 4e4, 1e5)  # size of OUTLIER_CHANNELS channels of x; the others are normal with deviation 1
GRADIENTS = (1.0, 1e-2, 1e-4, 1e-6)  # deviation of dz
OUTLIER_CHANNELS = 4
OUTLIER_GAMMA = 1.5  # of those channels; of the others 1 ± 0.2
TOKENS, COLUMNS = 64, 256
EPS = 1e-5


@dataclass(frozen=True)
class Case:
    """The inputs, all of one dtype: x (T,d), γ (d,), W (n,d) and dz (T,n)."""

    x: torch.Tensor
    gamma: torch.Tensor
    weight: torch.Tensor
    d_out: torch.Tensor


@dataclass(frozen=True)
class Row:
    """Root mean square errors ÷ the root mean square of the exact result, of z = norm(x)·Wᵀ and of its gradient by x."""

    dtype: str
    width: int
    outliers: float
    gradient: float
    forward_coda: float
    forward_stock: float
    backward_coda: float
    backward_stock: float


def draw(dtype: torch.dtype, width: int, outliers: float, gradient: float, generator: torch.Generator) -> Case:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x, gamma = normal(TOKENS, width), 1 + 0.2 * normal(width)
    if outliers:
        channels = torch.randperm(width, generator=generator)[:OUTLIER_CHANNELS]
        x[:, channels] = outliers * (1 + 0.1 * normal(TOKENS, OUTLIER_CHANNELS)) * normal(OUTLIER_CHANNELS).sign()
        gamma[channels] = OUTLIER_GAMMA
    parts = x, gamma, normal(COLUMNS, width) * width**-0.5, normal(TOKENS, COLUMNS) * gradient
    return Case(*(part.to(dtype) for part in parts))


def exact(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """z and its gradient by x, in double."""
    x, gamma, weight, d_out = (t.double() for t in (case.x, case.gamma, case.weight, case.d_out))
    x.requires_grad_(True)
    out = (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * gamma) @ weight.T
    out.backward(d_out)
    return out.detach(), x.grad


def coda(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    norm = blocks.RmsNorm(case.gamma, EPS)
    stream = blocks.enter_norm(case.x, norm)
    out = blocks.norm_linear(stream, norm, case.weight)
    saved = training.saved_stream(stream)
    gradient = training.norm_linear_backward(case.d_out, out, saved, norm, case.weight, into={})
    return out, training.stream_backward(gradient, saved, norm)


def stock(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """transformers' LlamaRMSNorm and a linear layer, and what autograd makes of them: each step rounded."""
    dtype, x, weight = case.x.dtype, case.x.float(), case.weight.float()
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS)
    normed = (x * r).to(dtype)
    out = ((case.gamma * normed).float() @ weight.T).to(dtype)
    d_normed = (case.gamma * (case.d_out.float() @ weight).to(dtype)).float()
    d_x = r * d_normed - x * r**3 * (d_normed * x).mean(-1, keepdim=True)
    return out, d_x.to(dtype)


def error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.double() - expected).square().mean().sqrt() / expected.square().mean().sqrt())


def measure(dtype: str, width: int, outliers: float, gradient: float, seed: int) -> Row:
    case = draw(DTYPES[dtype], width, outliers, gradient, torch.Generator().manual_seed(seed))
    expected, ours, theirs = exact(case), coda(case), stock(case)
    forward, backward = ([error(side[part], expected[part]) for side in (ours, theirs)] for part in (0, 1))
    return Row(dtype, width, outliers, gradient, *forward, *backward)


def study(seed: int) -> list[Row]:
    """Every size of outliers at every width, then every size of the gradient at one width."""
    rows = [measure(dtype, width, size, 1.0, seed) for dtype in DTYPES for size in OUTLIERS for width in WIDTHS]
    return rows + [measure(dtype, 4096, 1e4, size, seed) for dtype in DTYPES for size in GRADIENTS[1:]]


def table(rows: list[Row]) -> str:
    """Markdown, the widths of a cell in their order."""
    lines = ["| dtype | outliers | dz | forward: coda | PyTorch's order | backward: coda | PyTorch's order |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for key in dict.fromkeys((row.dtype, row.outliers, row.gradient) for row in rows):
        same = [row for row in rows if (row.dtype, row.outliers, row.gradient) == key]
        cells = [
            " · ".join(f"{getattr(row, f'{way}_{side}'):.1e}" for row in same)
            for way in ("forward", "backward")
            for side in ("coda", "stock")
        ]
        lines.append(f"| {key[0]} | {key[1]:g} | {key[2]:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(path: Path, title: str, rows: list[Row]) -> None:
    """Errors by the size of the outliers, forward and backward, and by the size of the gradient; width 4096."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    panels = figure.subplots(1, 3)
    by_outlier = [row for row in rows if row.width == 4096 and row.gradient == 1]
    by_gradient = [row for row in rows if row.width == 4096 and row.outliers == 1e4]
    views = [("forward", by_outlier, "outliers"), ("backward", by_outlier, "outliers"),
             ("backward", by_gradient, "gradient")]  # fmt: skip
    for axes, (way, found, by) in zip(panels, views, strict=True):
        for dtype, colour in zip(DTYPES, ("tab:blue", "tab:orange"), strict=True):
            mine = sorted((row for row in found if row.dtype == dtype), key=lambda row: getattr(row, by))
            at = [max(getattr(row, by), 1.0) if by == "outliers" else getattr(row, by) for row in mine]
            for side, style in (("coda", "s-"), ("stock", "o:")):
                label = f"{dtype}, {'coda' if side == 'coda' else 'PyTorch’s order'}"
                axes.plot(at, [getattr(row, f"{way}_{side}") for row in mine], style, color=colour, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("outliers in x (1: none)" if by == "outliers" else "size of dz, outliers 1e4")
        axes.set_title(f"{way}: relative error", fontsize="medium")
        axes.grid(True, alpha=0.25)
    panels[0].legend(frameon=False)
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path)


def write(folder: Path, seed: int, rows: list[Row]) -> Path:
    """Writes <date>-numerics.json, without a processor in its name for it holds no times, and the plot beside it."""
    path = folder / f"{machine.today()}-numerics.json"
    finite = [{k: v if v == v and abs(v) != float("inf") else str(v) for k, v in asdict(row).items() if k != "dtype"}
              | {"dtype": row.dtype} for row in rows]  # fmt: skip
    result = {"date": machine.today(), "suite": "numerics", "seed": seed, "cpu": machine.cpu_name(),
              "torch": torch.__version__, "coda": coda_cpp.__version__, "tokens": TOKENS, "columns": COLUMNS,
              "rows": finite}  # fmt: skip
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    plot(path.with_suffix(".svg"), f"norm(x)·Wᵀ and its backward against fp64, width 4096, {machine.today()}", rows)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder for the result file and the plot")
    options = parser.parse_args()
    rows = study(options.seed)
    print(table(rows))
    print(write(options.output, options.seed, rows))


if __name__ == "__main__":
    main()

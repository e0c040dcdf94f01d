"""The result as one HTML page that needs nothing beside it."""

import base64
import html
import io
from pathlib import Path

from . import tables
from .compare import ERROR_LIMIT, Comparison, Result
from .errors import DemoError
from .trained import LOSS_LIMIT, Training

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.2rem 0.8rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; } th { border-bottom: 2px solid #888; font-weight: 600; }
figure { margin: 1rem 0; } img { max-width: 100%; }
.note { color: #555; max-width: 48rem; } .passed { color: #0a6b2d; font-weight: 600; }
.failed { color: #b00020; font-weight: 600; } blockquote { border-left: 4px solid #ccc; margin: 0; padding: 0 1rem; }
.scroll { overflow-x: auto; }
"""


def write(path: Path, result: Result, facts: dict[str, str]) -> None:
    """Writes the page. Raises DemoError when it cannot."""
    try:
        path.write_text(page(result, facts), encoding="utf-8")
    except OSError as error:
        raise DemoError(
            f"demo: could not write --output '{path}' ({error.strerror}): give the path of a file that can be written"
        ) from error


def page(result: Result, facts: dict[str, str]) -> str:
    config = ", ".join(f"{name} {value}" for name, value in result.config.items())
    body = [
        f"<h1>coda and stock transformers: {_text(result.model)}</h1>",
        f'<p class="note">{_text(config)}</p>',
        *(f'<p class="{"passed" if line.startswith("passed") else "failed"}">{_text(line)}</p>'
          for line in tables.verdict(result)),
    ]  # fmt: skip
    body += [_table(table) for table in tables.tables(result)[:2]]
    body += [
        _figure(error_plot(c), f"Error per layer of stock and coda in {c.dtype}, log scale") for c in result.comparisons
    ]
    body += training(result)
    body += _continuation(result)
    body += [_table(table) for table in tables.tables(result)[2:]]
    body.append(_table(tables.Table("Machine", "", ["", ""], [[name, value] for name, value in facts.items()])))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>coda: {_text(result.model)}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def error_plot(comparison: Comparison) -> bytes:
    """Both errors of each layer, stock and coda, on a log scale: an SVG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    layers = [row.index for row in comparison.layers]
    for side, style in (("stock", "o-"), ("coda", "s-")):
        errors = [getattr(row, side) for row in comparison.layers]
        left.plot(layers, [e.largest for e in errors], style, markersize=4, label=side)
        right.plot(layers, [e.typical for e in errors], style, markersize=4, label=side)
    reordered = [row.reordered for row in comparison.layers]
    left.plot(layers, reordered, ":", color="tab:blue", label="stock, sums reordered")
    limits = (
        [ERROR_LIMIT * max(row.stock.largest, row.reordered) for row in comparison.layers],
        [ERROR_LIMIT * row.stock.typical for row in comparison.layers],
    )
    for axes, limit in zip((left, right), limits, strict=True):
        axes.plot(layers, limit, "--", color="0.5", linewidth=1, label=f"limit, {ERROR_LIMIT:g} × stock")
    left.set_title(f"largest error against fp64, {comparison.dtype}")
    right.set_title("typical error of a token, relative")
    for axes in (left, right):
        axes.set_yscale("log")
        axes.set_xlabel("layer")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(True, which="both", alpha=0.25)
        axes.legend(frameon=False)
    return _svg(figure)


def training_plot(training: Training) -> bytes:
    """Both losses of each step, and their relative difference on a log scale: an SVG."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    steps = range(1, training.steps + 1)
    for side, style in (("stock", "o-"), ("coda", "s--")):
        left.plot(steps, training.losses[side], style, markersize=4, label=side)
    right.plot(steps, training.loss_differences, "s", markersize=4, color="tab:orange", label="|coda − stock| ÷ stock")
    right.axhline(LOSS_LIMIT, linestyle="--", color="0.5", linewidth=1, label=f"limit, {LOSS_LIMIT:.0e}")
    right.set_yscale("log")
    right.margins(y=0.25)  # room for the legend above the limit
    left.set_title("loss while training, fp32")
    right.set_title("relative difference of the losses")
    for axes in (left, right):
        axes.set_xlabel("step")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(True, which="both", alpha=0.25)
        axes.legend(frameon=False)
    return _svg(figure)


def _svg(figure) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format="svg")
    return target.getvalue()


def _figure(plot: bytes, alt: str) -> str:
    image = base64.b64encode(plot).decode()
    return f'<figure><img alt="{_text(alt)}" src="data:image/svg+xml;base64,{image}"></figure>'


def training(result: Result) -> list[str]:
    if result.training is None:
        return [f'<p class="note">{_text(result.untrained.capitalize())}.</p>'] if result.untrained else []
    losses, *rest = tables.training(result.training)
    plot = _figure(training_plot(result.training), "Loss of stock and coda at each training step, and their difference")
    return [_table(losses), plot, *map(_table, rest)]


def _continuation(result: Result) -> list[str]:
    made = result.continuation
    if made is None:
        return []
    parts = [
        "<h2>A continued paragraph</h2>",
        f"<blockquote><p>{_text(made.prompt)}<b>{_text(made.text['coda'])}</b></p></blockquote>",
        f'<p class="note">Bold: coda in {made.dtype}, greedy. {_text(tables.agreement(made).capitalize())}. '
        f"{_text(tables.pace(made).capitalize())}.</p>",
    ]
    if not made.equal:
        parts.append(f"<blockquote><p>{_text(made.prompt)}<b>{_text(made.text['stock'])}</b></p></blockquote>")
    return parts


def _table(table: tables.Table) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.head) if any(table.head) else ""
    rows = "\n".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return f'<h2>{_text(table.title)}</h2>{note}\n<div class="scroll"><table>\n<tr>{head}</tr>\n{rows}\n</table></div>'


def _text(value: object) -> str:
    return html.escape(str(value)).replace("\n", "<br>")

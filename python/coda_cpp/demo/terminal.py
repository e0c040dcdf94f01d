"""The result on the terminal."""

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from . import tables
from .compare import Result


def show(console: Console, result: Result) -> None:
    for table in tables.tables(result):
        _show_table(console, table)
    for table in tables.training(result.training) if result.training else []:
        _show_table(console, table)
    if result.untrained:
        console.print(Text(result.untrained))
    if result.continuation:
        console.print(Text(tables.agreement(result.continuation)))
        if not result.continuation.equal:
            console.print(Text(f"stock: …{result.continuation.text['stock']}", style="italic"))
        console.print(Text(tables.pace(result.continuation)))
    for line in tables.verdict(result):
        console.print(Text(line, style="bold green" if line.startswith("passed") else "bold red"))


def _show_table(console: Console, table: tables.Table) -> None:
    grid = RichTable(title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    grid.padding = (0, 1, 0, 0)  # else the layers' table is wider than 80 columns
    for number, head in enumerate(table.head):
        grid.add_column(head, justify="left" if number == 0 else "right", min_width=_width(table, number))
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)
    console.print(Text(table.note, style="dim"))
    console.print()


def _width(table: tables.Table, column: int) -> int:
    """A number is never cut; heads wrap."""
    return max(len(row[column]) for row in table.rows)

"""The pool over time on a terminal: compact, and readable without colour."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvaudit.pictures.grid import Cell, Column, Grid, grid_of
from kvaudit.printable import one_line
from kvaudit.report import Finding

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red")
_FEW = 3  # blocks of a list
_WIDTH = 96  # what a picture may take of a terminal of 100 columns


def picture(finding: Finding) -> RenderableType | None:
    """The picture of a finding; None if it carries no pool."""
    grid = grid_of(finding)
    return drawn(grid) if grid is not None else None


def drawn(grid: Grid) -> RenderableType:
    """The picture of a grid."""
    columns, left_out = _that_fit(grid)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("after step", style="dim", no_wrap=True)
    for column in columns:
        table.add_column(column.label, no_wrap=True)
    for row, block in enumerate(grid.blocks):
        table.add_row(f"block {block}", *(_cell(grid, column.cells[row]) for column in columns))
    table.add_row("free list", *(_order(column.pool.free) for column in columns))
    table.add_row("LRU order", *(_order(column.pool.evictable) for column in columns))
    return Group(table, Text(_key(grid, left_out), style="dim"))


def _that_fit(grid: Grid) -> tuple[tuple[Column, ...], int]:
    """The last columns, as many as there is room for, and how many are left out."""
    room = _WIDTH - len("after step") - 2
    kept = 0
    for column in reversed(grid.columns):
        cells = [_cell(grid, cell) for cell in column.cells]
        lists = [_order(column.pool.free), _order(column.pool.evictable)]
        room -= max(len(text) for text in (column.label, *(text.plain for text in (*cells, *lists)))) + 2
        if room < 0 and kept:
            break
        kept += 1
    return grid.columns[-kept:], len(grid.columns) - kept


def _cell(grid: Grid, cell: Cell) -> Text:
    ref = "?" if cell.ref is None else str(cell.ref)
    text, style = {
        "held": (f"{grid.mark(cell)}{'' if cell.ref is None else cell.ref}", ""),
        "idle": (f"░{ref}", "dim"),
        "free": (f"·{'' if cell.ref == 0 else ref}", "dim"),
        "lost": (f"lost {ref}", ""),
        "unknown": ("?", "dim"),
    }[cell.kind]
    if cell.kind == "held":
        style = _COLOURS[grid.colour(cell.owners[0]) % len(_COLOURS)]
    if cell.odd:
        text += "!"
    return Text(f"[{text}]", "bold red") if cell.violated else Text(text, style)


def _order(blocks: list[int] | None) -> Text:
    if blocks is None:
        return Text("?", "dim")
    few = [str(block) for block in blocks[:_FEW]] + (["…"] if len(blocks) > _FEW else [])
    return Text(" ".join(few) or "-", "dim")


def _key(grid: Grid, left_out: int) -> str:
    """What the signs mean that are there."""
    cells = [cell for column in grid.columns for cell in column.cells]
    kinds = {cell.kind for cell in cells}
    signs = ["letters: who holds it, number: references"] if "held" in kinds else []
    signs += [f"{mark} = {one_line(name)}" for name, mark in grid.marks.items() if mark != name]
    signs += ["░ idle, cached"] if "idle" in kinds else []
    signs += ["· free"] if "free" in kinds else []
    signs += ["? not shown"] if "unknown" in kinds else []
    odd = dict.fromkeys(cell.odd for cell in cells if cell.odd)
    signs += [f"! cannot be: {', '.join(odd)}"] if odd else []
    signs += ["[] violated"] if any(cell.violated for cell in cells) else []
    signs += [grid.hidden] if grid.hidden else []
    signs += [f"the first {left_out} steps are left out"] if left_out else []
    return "; ".join(signs)

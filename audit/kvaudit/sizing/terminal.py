"""The split of a card as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kvaudit.printable import one_line
from kvaudit.quantities import bytes_shown
from kvaudit.sizing.report import CardSize, StageSize
from kvaudit.words import count


def show(card: CardSize, console: Console) -> None:
    """What a block is made of, what each stage takes and gets, what is to be known, and a line to sum up."""
    console.print(_blocks(card))
    console.print()
    console.print(_split(card))
    console.print()
    for note in _notes(card):
        console.print(note, style="yellow", markup=False, highlight=False)
    console.print(_summary(card), markup=False, highlight=False, soft_wrap=True)


def _blocks(card: CardSize) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage")
    table.add_column("layers", justify="right")
    table.add_column("keep of a token")
    table.add_column("as")
    table.add_column("bytes a token", justify="right")
    table.add_column("bytes a block", justify="right")
    for number, stage in enumerate(card.stages, start=1):
        for group in stage.groups:
            table.add_row(
                f"{number} {escape(_name(stage))}",
                f"{group.layers}",
                group.kind,
                escape(stage.dtype),
                f"{group.block_bytes / stage.block_size:,.10g}",
                f"{group.block_bytes:,}",
            )
    return table


def _split(card: CardSize) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stage")
    for heading in ("weights", "activations", "share", "blocks", "tokens", "KV cache"):
        table.add_column(heading, justify="right", style="bold" if heading == "blocks" else "")
    for number, stage in enumerate(card.stages, start=1):
        table.add_row(
            f"{number} {escape(_name(stage))}",
            bytes_shown(stage.weights_bytes),
            bytes_shown(stage.activation_bytes),
            f"{stage.share}",
            f"{stage.num_blocks:,}",
            f"{stage.num_tokens:,}",
            bytes_shown(stage.num_blocks * stage.block_bytes),
        )
    return table


def _notes(card: CardSize) -> Iterator[str]:
    for number, stage in enumerate(card.stages, start=1):
        yield from (f"{number} {_name(stage)}: {one_line(note)}" for note in stage.notes)


def _summary(card: CardSize) -> str:
    blocks = ", ".join(_blocks_of(stage) for stage in card.stages)
    return (
        f"{blocks}; {bytes_shown(card.usable_bytes)} of {bytes_shown(card.memory_bytes)} may be used, "
        f"{bytes_shown(card.left_bytes)} are left, in which no block fits"
    )


def _blocks_of(stage: StageSize) -> str:
    return f"{_name(stage)}: {count(stage.num_blocks, 'block')} of {count(stage.block_size, 'token')}"


def _name(stage: StageSize) -> str:
    """What the config calls the model, without what a terminal would obey."""
    return one_line(stage.model_type, 60)

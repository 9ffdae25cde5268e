"""The pool over time as a grid: a row a block, a column a step. What every picture shows, however it draws it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kvaudit.departure import FEW_BLOCKS, Departure
from kvaudit.report import Finding, PoolShown
from kvaudit.words import count

Kind = Literal["held", "idle", "free", "lost", "unknown"]
View = Literal["due", "came"]

MAX_ROWS = 32
"""Up to so many blocks each has a row; of a larger pool those that are free all the time have none."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Cell:
    """A block after a step.

    kind: held by sequences (`owners`), idle with its content still cached, free, lost (in no place at all), or unknown,
    as the target does not show it. ref and content: None where there is none, or it is not shown. odd: what about it
    cannot be. violated: whether the breach is about it.
    """

    block: int
    kind: Kind
    owners: tuple[str, ...]
    ref: int | None
    content: str | None
    odd: str
    violated: bool

    @property
    def says(self) -> str:
        """The cell in words."""
        says = {"idle": "idle, cached", "free": "free", "lost": "lost: in no list and no table", "unknown": "not shown"}
        parts = [f"held by {' and '.join(self.owners)}" if self.kind == "held" else says[self.kind]]
        parts += [count(self.ref, "reference")] if self.ref is not None else []
        parts += [f"content {self.content}"] if self.content is not None else []
        parts += [self.odd] if self.odd else []
        parts += ["violated"] if self.violated else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Column:
    """The pool after step `step`: as was due, or, at the last step, also as the target showed it (`came`)."""

    step: int
    view: View
    label: str
    pool: PoolShown
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """blocks: those that have a row. hidden: which have none, in words. marks: for each sequence a letter, in order."""

    blocks: tuple[int, ...]
    hidden: str
    columns: tuple[Column, ...]
    marks: dict[str, str]

    def mark(self, cell: Cell) -> str:
        """The letters of those who hold a block."""
        return "".join(self.marks[owner] for owner in cell.owners)

    def colour(self, owner: str) -> int:
        """The number of a sequence, by which it gets its colour."""
        return list(self.marks).index(owner)


def grid_of(finding: Finding) -> Grid | None:
    """The grid of a finding; None if it carries no pool. O(blocks × steps)."""
    pools = list(_pools(finding))
    if not pools:
        return None
    blocks = tuple(range(finding.num_blocks))
    violated = set(finding.steps[-1].blocks)
    if finding.num_blocks > MAX_ROWS:
        used = {b for _, _, _, pool in pools for b in blocks if _kind(pool, b) not in ("free", "unknown")}
        blocks = tuple(sorted(used | violated))
    hidden = finding.num_blocks - len(blocks)
    return _grid(pools, blocks, violated, f"{count(hidden, 'block')} that stay free have no row" if hidden else "")


def grid_of_departure(departure: Departure) -> Grid:
    """The grid of the line at which a recorded trace departs: the pool before it, as is due after it, and as it came.

    Of a pool of more than a few blocks, those have a row that the line is about.
    """
    step, shown = departure.step, departure.pools
    pools: list[_Pool] = [(step, "due", f"{step} due", shown.due), (step, "came", f"{step} came", shown.came)]
    if shown.before is not None:
        before = "start" if step == 1 else str(step - 1)
        pools.insert(0, (step - 1, "due", before, shown.before))
    blocks = tuple(sorted(shown.blocks[:FEW_BLOCKS]))
    hidden = shown.num_blocks - len(blocks)
    told = f"{count(hidden, 'other block')} {'has' if hidden == 1 else 'have'} no row" if hidden else ""
    return _grid(pools, blocks, set(shown.violated), told)


_Pool = tuple[int, View, str, PoolShown]


def _grid(pools: Sequence[_Pool], blocks: tuple[int, ...], violated: Collection[int], hidden: str) -> Grid:
    names = dict.fromkeys(seq for _, _, _, pool in pools for seq in pool.tables or {})
    last = len(pools) - 1
    columns = [
        Column(step, view, label, pool, tuple(_cell(pool, b, i == last and b in violated) for b in blocks))
        for i, (step, view, label, pool) in enumerate(pools)
    ]
    return Grid(blocks, hidden, tuple(columns), _marks(list(names)))


def _pools(finding: Finding) -> Iterator[_Pool]:
    for number, step in enumerate(finding.steps, start=1):
        if step.due is not None:
            yield number, "due", f"{number} due" if step.seen is not None else str(number), step.due
        if step.seen is not None:
            yield number, "came", f"{number} came", step.seen


def _marks(names: list[str]) -> dict[str, str]:
    """A name of one letter is its own mark; else letters in the order in which the sequences appear."""
    if all(len(name) == 1 and name.isalnum() for name in names):
        return {name: name for name in names}
    return {name: _LETTERS[i % 26] + (str(i // 26) if i >= 26 else "") for i, name in enumerate(names)}


def _owners(pool: PoolShown, block: int) -> tuple[str, ...]:
    return tuple(seq for seq, table in (pool.tables or {}).items() if block in table)


def _kind(pool: PoolShown, block: int) -> Kind:
    if _owners(pool, block):
        return "held"
    if block in (pool.evictable or ()):
        return "idle"
    if block in (pool.free or ()):
        return "free"
    return "unknown" if pool.evictable is None or pool.free is None else "lost"


def _cell(pool: PoolShown, block: int, violated: bool) -> Cell:
    return Cell(
        block,
        _kind(pool, block),
        _owners(pool, block),
        pool.ref[block] if pool.ref is not None else None,
        pool.content[block] if pool.content is not None else None,
        _odd(pool, block),
        violated,
    )


def _odd(pool: PoolShown, block: int) -> str:
    """What cannot be: a block in two places, or a wrong number of references."""
    owners = _owners(pool, block)
    times = {"held": bool(owners), "evictable": _times(pool.evictable, block), "free": _times(pool.free, block)}
    if sum(times.values()) > 1:
        places = {"held": "held", "evictable": "in the LRU order", "free": "in the free list"}
        said = [places[place] + (" twice" if times[place] > 1 else "") for place in times if times[place]]
        return " and ".join(said)
    if pool.ref is not None and pool.tables is not None:
        holders = sum(table.count(block) for table in pool.tables.values())
        if pool.ref[block] != holders:
            return f"{count(pool.ref[block], 'reference')}, held {count(holders, 'time')}"
    return ""


def _times(blocks: list[int] | None, block: int) -> int:
    return blocks.count(block) if blocks is not None else 0

"""A second simulation, for the tests: LRU over blocks that know their prefix, written from docs/simulate.md.

It shares nothing with the simulator but the trace: no manager, no tokens, no numbers of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Prefix = tuple[int, ...]


class Line(NamedTuple):
    """A line of a trace. path: what each block of the prompt holds; the last may be one that is not full."""

    path: Prefix
    input_length: int
    output_length: int
    timestamp: float = 0.0


class Counts(NamedTuple):
    """What a simulation comes to."""

    hit_blocks: int
    evicted: int
    waited: int
    unserved: int
    peak_blocks: int


class Block:
    """prefix: that of its content, if the block is full of something that a prompt can ask for."""

    def __init__(self, prefix: Prefix | None) -> None:
        self.prefix = prefix
        self.holders = 0


class Cache:
    def __init__(self, num_blocks: int) -> None:
        self.blank = num_blocks
        self.idle: list[Block] = []  # least recently used first
        self.of_prefix: dict[Prefix, Block] = {}
        self.evicted = 0

    def hits(self, line: Line, size: int) -> list[Block]:
        found: list[Block] = []
        for i in range((line.input_length - 1) // size):
            block = self.of_prefix.get(line.path[: i + 1])
            if block is None:
                break
            found.append(block)
        return found

    def room_for(self, number: int, hits: Sequence[Block]) -> bool:
        return number <= self.blank + len([block for block in self.idle if block not in hits])

    def take(self, prefix: Prefix | None) -> Block:
        if self.blank:
            self.blank -= 1
        else:
            oldest = self.idle.pop(0)
            self.evicted += 1
            if oldest.prefix is not None and self.of_prefix.get(oldest.prefix) is oldest:
                del self.of_prefix[oldest.prefix]
        block = Block(prefix)
        block.holders = 1
        return block

    def hold(self, block: Block) -> None:
        if block in self.idle:
            self.idle.remove(block)
        block.holders += 1

    def release(self, blocks: Sequence[Block], cached: Sequence[bool]) -> None:
        for block, is_cached in reversed(list(zip(blocks, cached, strict=True))):
            block.holders -= 1
            if block.holders == 0 and is_cached:
                self.idle.append(block)
            elif block.holders == 0:
                self.blank += 1


class Live(NamedTuple):
    end: float
    number: int
    blocks: list[Block]
    cached: list[bool]


def simulate(lines: Sequence[Line], num_blocks: int, size: int, *, live: int = 0, rate: float = 0.0) -> Counts:
    """The trace on one pool, `live` requests at once or, with a rate, by the clock."""
    cache, running = Cache(num_blocks), list[Live]()
    hit_blocks = waited = unserved = peak = 0
    now = 0.0

    def end_one() -> None:
        nonlocal now
        ending = min(running, key=lambda one: (one.end, one.number))
        running.remove(ending)
        now = max(now, ending.end) if rate else now
        cache.release(ending.blocks, ending.cached)

    for number, line in enumerate(lines):
        if rate:
            now = max(now, line.timestamp / 1000)
            while running and min(one.end for one in running) <= now:
                end_one()
        elif len(running) >= live:
            end_one()
        in_prompt = -(-line.input_length // size)
        waits = False
        while not cache.room_for(in_prompt - len(hits := cache.hits(line, size)), hits) and running:
            waits = True
            end_one()
        if not cache.room_for(in_prompt - len(hits), hits):
            unserved += 1
            continue
        hit_blocks += len(hits)
        for block in hits:
            cache.hold(block)
        full = line.input_length // size
        blocks = [*hits, *(cache.take(line.path[: i + 1] if i < full else None) for i in range(len(hits), in_prompt))]
        for block in blocks[:full]:
            if block.prefix is not None:
                cache.of_prefix.setdefault(block.prefix, block)
        in_all = -(-(line.input_length + line.output_length) // size)
        while len(blocks) < in_all:
            while not cache.room_for(1, ()) and running:
                waits = True
                end_one()
            if not cache.room_for(1, ()):
                break
            blocks.append(cache.take(None))
        length = min(line.input_length + line.output_length, len(blocks) * size)
        cached = [(i + 1) * size <= length for i in range(len(blocks))]
        if len(blocks) < in_all:
            unserved += 1
            cache.release(blocks, cached)
            continue
        waited += waits
        peak = max(peak, num_blocks - cache.blank - len(cache.idle))
        running.append(Live(now + line.output_length / rate if rate else 0.0, number, blocks, cached))
    return Counts(hit_blocks, cache.evicted, waited, unserved, peak)

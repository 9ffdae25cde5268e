"""Follows the passes of a step: what the model writes and reads, request by request, in the shadow memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.protocol import Pool
from kvaudit.scheduling.memory import Memory
from kvaudit.scheduling.requests import Request
from kvaudit.scheduling.work import Computed, Copied, Item
from kvspec.identity import Identity


class Begun(NamedTuple):
    """The first work of a request, or the first one after a preemption. tokens: those that it had then."""

    seq: str
    start: int
    tokens: tuple[int, ...]
    resumed: bool


class Passes:
    """The passes of one pool. live: the live requests, by their ids; it belongs to the oracle."""

    def __init__(self, pool: Pool, live: dict[str, Request]) -> None:
        self._pool = pool
        self._size = pool.block_size
        self._live = live
        self.memory = Memory(pool.block_size)
        self.begun: list[Begun] = []
        self.breaches: list[Breach] = []

    def follow(self, items: Sequence[Item], token: int) -> None:
        """One pass: the copies in order, then all writes, then all reads; then `token` is sampled."""
        for item in items:
            if isinstance(item, Copied):
                self._copy(item)
        computed = [item for item in items if isinstance(item, Computed)]
        sensible = [self._makes_sense(item) for item in computed]
        if not all(sensible):
            return  # what comes of it cannot be told
        for item in computed:  # a table may be new in this pass: a duplicate has been swapped for the older copy
            self._live[item.seq].table = item.table
        for item in computed:
            self._write(item)
        for item in computed:
            self._read(item)
        for item in computed:
            request = self._live[item.seq]
            if item.end == len(request.tokens):
                request.sample(token)

    def _break(self, obligation: str, detail: str, *blocks: int) -> None:
        self.breaches.append(Breach(obligation, detail, blocks))

    # --- what an item may be --------------------------------------------------------------------------------

    def _makes_sense(self, item: Computed) -> bool:
        """Whether it can be followed: what is only wrong is followed, since worse may come of it at once."""
        request = self._live.get(item.seq)
        if request is None:
            self._break("O2", f"{item.seq!r} is computed, and no such request is live", *self._known(item.table))
            return False
        length = len(request.tokens)
        if not 0 <= item.start < item.end <= length:
            what = f"positions {item.start} to {item.end - 1} of {item.seq!r} are computed; it has {length} tokens"
            self._break("I5" if item.start == length else "O4", what, *self._known(item.table))
            return False
        return self._table_is_right(item) and self._begins_right(item, request)

    def _table_is_right(self, item: Computed) -> bool:
        table, due = item.table, -(-item.end // self._size)
        strange = [b for b in table if not 0 <= b < self._pool.num_blocks]
        if strange:
            self._break("O5", f"the table of {item.seq!r} names {strange[0]}, which is no block of the pool")
        elif len(table) < due:
            what = f"the table of {item.seq!r} has {words.count(len(table), 'block')}, {due} are needed"
            self._break("O5", what, *table)
        elif len(set(table)) != len(table):
            twice = next(b for b in table if table.count(b) > 1)
            self._break("I7", f"the table of {item.seq!r} names block {twice} twice", twice)
            return True
        return not strange and len(table) >= due

    def _begins_right(self, item: Computed, request: Request) -> bool:
        """It may go on beyond where it ended: what is between was cached meanwhile, and is read in this pass.

        Who was preempted may have kept its blocks, since nobody needed them, even with the cache off.
        """
        if request.end is None:
            tokens = tuple(request.tokens)
            self.begun.append(Begun(item.seq, item.start, tokens, request.was_preempted))
            if item.start and not self._pool.enable_prefix_cache and not request.was_preempted:
                what = f"{item.seq!r} starts with {words.count(item.start, 'token')} cached, and the cache is off"
                self._break("O9", what, *item.table)
        elif item.start < request.end or (item.start > request.end and not self._pool.enable_prefix_cache):
            what = f"{item.seq!r} was computed up to position {request.end - 1}, and goes on at {item.start}"
            self._break("O4", what, *item.table)
        return True

    def _known(self, table: Iterable[int]) -> Iterator[int]:
        return (b for b in table if 0 <= b < self._pool.num_blocks)

    # --- the memory ----------------------------------------------------------------------------------------

    def _copy(self, item: Copied) -> None:
        blocks = range(self._pool.num_blocks)
        if item.source not in blocks or item.target not in blocks or not 0 < item.tokens <= self._size:
            self._break("O5", f"{item.tokens} tokens of block {item.source} are copied to block {item.target}")
            return
        base = item.source * self._size
        cells = [self.memory(base + offset) for offset in range(item.tokens)]
        self._overwrites(item.target, lambda offset: cells[offset], range(item.tokens), None)
        self.memory.copy(item.source, item.target, item.tokens)

    def _write(self, item: Computed) -> None:
        request, size = self._live[item.seq], self._size
        for index in range(item.start // size, (item.end - 1) // size + 1):
            first = index * size
            offsets = range(max(item.start - first, 0), min(item.end - first, size))
            prefixes = request.prefixes[first : first + size]
            self._overwrites(item.table[index], prefixes.__getitem__, offsets, item.seq)
        self.memory.write(item.table, request.prefixes[: item.end], item.start)
        request.end = item.end

    def _overwrites(
        self, block: int, content: Callable[[int], Identity | None], offsets: Iterable[int], writer: str | None
    ) -> None:
        """K2: a write to slots of a block, where another live request counts on other content.

        Who has its last token needs none, and may lose its blocks before it is said to be finished.
        """
        for seq, other in self._live.items():
            if seq == writer or other.is_done or other.end is None or other.table is None or block not in other.table:
                continue
            first = list(other.table).index(block) * self._size
            for offset in offsets:
                position = first + offset
                if position < other.end and other.prefixes[position] is not content(offset):
                    own = f"the KV of {other.prefixes[position]!r}, on which {seq!r} counts at position {position}"
                    by = "a copy" if writer is None else repr(writer)
                    self._break("K2", f"{by} writes {content(offset)!r} to block {block}, over {own}", block)
                    return

    def _read(self, item: Computed) -> None:
        """K1: everything up to the last position that is computed is read."""
        prefixes = self._live[item.seq].prefixes[: item.end]
        pos = self.memory.first_wrong(item.table, prefixes)
        if pos is None:
            return
        block = item.table[pos // self._size]
        held = self.memory(block * self._size + pos % self._size)
        what = "what nobody has written" if held is None else f"the KV of {held!r}"
        own = f"its own prefix is {prefixes[pos]!r}"
        self._break("K1", f"{item.seq!r} reads {what} at position {pos} (block {block}), {own}", block)

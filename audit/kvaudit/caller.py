"""What a caller does with a target's answers: compute what is not cached, write it, and read all of it.

It believes the target, not the specification: the tables and cached counts are those that the target gave. The
shadow memory then tells whether somebody reads what is not his own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kvaudit.breach import Breach
from kvaudit.protocol import Allocate, Append, Pool
from kvspec.extra import Extra
from kvspec.identity import Identity, identity
from kvspec.ledger import Ledger, SeqId
from kvspec.memory import ShadowMemory, prefixes_of

_MOST_KNOWN = 50_000
_known: dict[tuple[Identity | None, int], Identity] = {}
"""What `identity` said of a prefix and one more token. The prompts of one pool repeat those of the pools before."""

_kept: set[Identity] = set()
"""Identities of blocks, which would be forgotten with each pool, and made anew for the next."""


def keep(registered: Sequence[tuple[int, Identity]]) -> None:
    """Keep the identities of these blocks for the pools that follow."""
    for _, h in registered:
        _kept.add(h)


class Caller:
    """The tables, prefixes and memory of the live sequences of one pool.

    What a sequence reads can change only with a write to one of its blocks or with its table. Those to whom that has
    happened since they were last found to read well are suspects, and `misreads` looks at no others.
    """

    def __init__(self, pool: Pool) -> None:
        if len(_known) + len(_kept) > _MOST_KNOWN:
            _known.clear()
            _kept.clear()
        self._size = pool.block_size
        self._memory = ShadowMemory(pool.block_size)
        self._prefixes: dict[SeqId, list[Identity]] = {}
        self._tables: dict[SeqId, list[int]] = {}
        self._suspects: set[SeqId] = set()

    def resume(self, ledger: Ledger, blocks: Collection[int]) -> None:
        """Take up where others have been at work: who reads these blocks, and what they hold. O(tokens).

        What was written to a block that carries no identity and that nobody holds is taken to be forgotten.
        """
        for seq, record in ledger.sequences.items():
            if not set(record.table).isdisjoint(blocks):
                prefixes = self._prefixes[seq] = self._prefixes_of(record.tokens, record.extra)
                self._tables[seq] = list(record.table)
                self._memory.write(record.table, prefixes, 0)
        for block in blocks:
            h = ledger.block_hash[block]
            if h is not None and not ledger.ref[block]:
                prefixes = self._prefixes_of(h.prefix(), h.extra_of_all())
                self._memory.write([block] * len(h.path()), prefixes, len(prefixes) - self._size)
        self._suspects.update(self._tables)

    def allocated(self, op: Allocate, table: list[int], cached: Any) -> list[Breach]:
        """Write the tokens that are not cached, through the table that was answered."""
        prefixes = self._prefixes_of(op.tokens, op.extra.items)
        if len(table) * self._size < len(prefixes):
            return []  # there is no slot for the last tokens: broken enough without us
        start = cached if type(cached) is int and 0 <= cached <= len(prefixes) else 0
        breaches = self._held(table[start // self._size :])
        self._memory.write(table, prefixes, start)
        self._suspects.add(op.seq)
        self._prefixes[op.seq] = prefixes
        self._tables[op.seq] = table
        return breaches

    def appended(self, op: Append, block: int, is_new: bool) -> list[Breach]:
        """Write one token to the block of the slot that was answered."""
        breaches = self._held([block]) if is_new else []
        table, prefixes = self._tables[op.seq], self._prefixes[op.seq]
        if is_new:
            table = self._tables[op.seq] = [*table, block]
        else:
            self._suspects.update(self._readers((block,)))
        self._suspects.add(op.seq)
        prefixes += self._prefixes_of((op.token,), after=prefixes[-1])  # whose extra is in the prefix: see is_legal
        self._memory.write(table, prefixes, len(prefixes) - 1)
        return breaches

    def freed(self, seq: SeqId) -> None:
        """The sequence reads no more; what it wrote stays in the memory."""
        del self._tables[seq], self._prefixes[seq]
        self._suspects.discard(seq)

    def sees_table(self, seq: SeqId, table: list[int]) -> None:
        """The target now gives another table for a live sequence: reads go through that one."""
        if len(table) * self._size >= len(self._prefixes[seq]) and table != self._tables[seq]:
            self._tables[seq] = table
            self._suspects.add(seq)

    @property
    def tables(self) -> dict[Any, list[int]]:
        """The tables through which the live sequences read and write. Not to be changed."""
        return self._tables

    def misreads(self) -> list[Breach]:
        """K1: the first live sequence that reads anything but its own prefix. O(tokens of the suspects)."""
        for seq, prefixes in self._prefixes.items() if self._suspects else ():
            if seq not in self._suspects:
                continue
            table = self._tables[seq]
            pos = self._memory.first_wrong(table, prefixes)
            if pos is not None:
                block = table[pos // self._size]
                held = self._memory(block * self._size + pos % self._size)
                what = "what nobody has written" if held is None else f"the KV of {held!r}"
                own = f"its own prefix is {prefixes[pos]!r}"
                return [Breach("K1", f"{seq!r} reads {what} at position {pos} (block {block}), {own}", (block,))]
        self._suspects.clear()
        return []

    def _prefixes_of(self, tokens: Sequence[int], extra: Extra = (), after: Identity | None = None) -> list[Identity]:
        """`kvspec.memory.prefixes_of`, remembering what it said: prompts repeat each other all the time."""
        if extra:
            return prefixes_of(tokens, after, extra)
        prefixes: list[Identity] = []
        for token in tokens:
            prefix = _known.get((after, token))
            if prefix is None:
                prefix = _known[after, token] = identity(after, (token,))
            prefixes.append(prefix)
            after = prefix
        return prefixes

    def _readers(self, blocks: Sequence[int]) -> list[SeqId]:
        """The live sequences that hold any of these blocks."""
        wanted = set(blocks)
        return [seq for seq, table in self._tables.items() if not wanted.isdisjoint(table)]

    def _held(self, blocks: Sequence[int]) -> list[Breach]:
        """K2: the blocks that are to be written as new, though a live sequence holds them."""
        readers = self._readers(blocks)
        self._suspects.update(readers)
        breaches = []
        for block in blocks if readers else ():
            holder = next((seq for seq in readers if block in self._tables[seq]), None)
            if holder is not None:
                what = f"block {block}, which is to be written, is held by {holder!r}"
                breaches.append(Breach("K2", what, (block,)))
        return breaches

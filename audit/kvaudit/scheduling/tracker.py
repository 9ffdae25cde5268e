"""Watches an execution of a scheduler and tells when a reach goal is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kvaudit.execution import Played
from kvaudit.protocol import Cancel, Pool, Request, Step, Submit
from kvaudit.scheduling.oracle import Judgement
from kvaudit.scheduling.passes import Begun
from kvspec.identity import Identity
from kvspec.memory import prefixes_of


class _Past(NamedTuple):
    """A request that has ended: its tokens, of which so many were its prompt."""

    tokens: tuple[int, ...]
    num_prompt_tokens: int

    def begins(self, tokens: tuple[int, ...], length: int) -> bool:
        """Whether those tokens begin as this request did, so far."""
        return self.tokens[:length] == tokens[:length]


class Tracker:
    """Watches one execution and says which goals each operation reaches."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._size = pool.block_size
        self._prompts: dict[str, tuple[int, ...]] = {}  # of live requests
        self._ends: dict[str, int] = {}  # up to where each live request is computed
        self._past: list[_Past] = []
        self._used: set[str] = set()
        self._written: set[Identity] = set()
        self._there: set[Identity] = set()  # in whole blocks, before the operation

    def reached(self, played: Played[Request, Judgement]) -> set[str]:
        """The goals that this operation, the next of the execution, reaches."""
        operation, judgement = played.operation, played.judgement
        found: set[str] = set()
        if isinstance(operation, Submit):
            found |= {"id used again"} if operation.seq in self._used else set()
            self._prompts[operation.seq] = operation.tokens
        elif isinstance(operation, Cancel):
            found |= self._by_cancel(operation.seq)
        else:
            found |= self._by_step(operation, judgement)
        for seq, tokens in judgement.ended.items():
            self._past.append(_Past(tokens, len(self._prompts.pop(seq))))
            self._ends.pop(seq, None)
            self._used.add(seq)
        holders = Counter(block for table in judgement.tables.values() for block in table)
        if max(holders.values(), default=0) >= 3:
            found.add("shared three ways")
        if len(holders) == self._pool.num_blocks:
            found.add("pool full")
        self._there = _whole_blocks(judgement.cells, self._size)
        self._written |= self._there
        return found

    def _by_cancel(self, seq: str) -> set[str]:
        if seq not in self._ends:
            return {"cancelled while waiting"}
        return {"cancelled between chunks"} if self._ends[seq] < len(self._prompts[seq]) else set()

    def _by_step(self, operation: Step, judgement: Judgement) -> set[str]:
        found: set[str] = set()
        begun = {begun.seq for begun in judgement.begun}
        for item in judgement.work.computed:
            length = len(self._prompts[item.seq])
            if item.seq not in begun and 0 < item.start < length:
                found.add("chunked prefill")
            if item.seq in operation.cancel:
                found.add("cancelled during compute")
            self._ends[item.seq] = item.end
        first = [begun for begun in judgement.begun if not begun.resumed]
        if len({begun.tokens for begun in first}) < len(first):
            found.add("burst")
        for one in judgement.begun:
            found |= self._by_begin(one)
        return found

    def _by_begin(self, begun: Begun) -> set[str]:
        found: set[str] = {"preempted and resumed"} if begun.resumed else set()
        size, start, length = self._size, begun.start, len(begun.tokens)
        if start:
            found.add("hit")
            if length % size == 0 and length > size:
                found.add("whole blocks")
            if start == length - 1 and start % size == 0:
                found.add("whole blocks and one")
        for past in self._past:
            end = len(past.tokens)
            if past.num_prompt_tokens < start and past.begins(begun.tokens, start):
                found.add("second turn")
            if past.num_prompt_tokens < end < length and end % size == 0 and past.begins(begun.tokens, end):
                found.add("output continued")
        if length >= size:
            block = prefixes_of(begun.tokens[:size])[-1]
            if block in self._written and not self._pool.enable_prefix_cache:
                found.add("cache off")
            elif block in self._written and start < size and block not in self._there:
                found.add("forgotten")
        return found


def _whole_blocks(cells: Mapping[int, Identity], size: int) -> set[Identity]:
    """The prefixes that end with a block of which every slot holds its own."""
    last_slots = (slot for slot in cells if slot % size == size - 1)
    return {cells[slot] for slot in last_slots if all(_follows(cells, at) for at in range(slot - size + 2, slot + 1))}


def _follows(cells: Mapping[int, Identity], slot: int) -> bool:
    """Whether a slot holds the token behind that of the slot before it."""
    return cells[slot].parent is cells.get(slot - 1)

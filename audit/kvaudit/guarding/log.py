"""The operations since the last full check, and the trace that is made of them when something is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvaudit import words
from kvaudit.choices import block_list
from kvaudit.guarding.reads import number
from kvaudit.protocol import Allocate, Append, Free, Mutation, Outcome, Pool, Raised, Refused
from kvaudit.saved_ledger import saved_ledger
from kvaudit.trace import FORMAT, Answer, TraceHeader, TraceLine, write_trace
from kvspec.ledger import Ledger

Appended = tuple[Hashable, int, int]
"""An append inside a block, as it is logged on the way of most calls: sequence, token, slot."""


class Call(NamedTuple):
    """Any other operation, its outcome, and what was read after it; None for what the manager does not offer."""

    operation: Mutation
    outcome: Outcome
    cached: Any
    num_free_blocks: Any


def dump(
    folder: Path, target: str, profile: str, obligation: str, pool: Pool, start: Ledger, log: list[Appended | Call]
) -> Path:
    """Write the log as a trace that begins with the ledger `start`; its path. Raises OSError. O(pool + log)."""
    lines = list(_lines(log, pool.num_blocks))
    is_fresh = not start.sequences and not start.evictable and start.free == tuple(range(pool.num_blocks))
    header = TraceHeader(
        format=FORMAT,
        pool=pool,
        target=target,
        profile=profile,
        obligation=obligation,
        steps=len(lines),
        ledger=None if is_fresh else saved_ledger(start),
    )
    stamp = time.strftime("%Y%m%dT%H%M%S")
    path, number = folder / f"{obligation}-{stamp}-{os.getpid()}.jsonl", 1
    while path.exists():
        number += 1
        path = folder / f"{obligation}-{stamp}-{os.getpid()}-{number}.jsonl"
    write_trace(path, header, lines)
    return path


def _lines(log: list[Appended | Call], num_blocks: int) -> Iterator[TraceLine]:
    for step, entry in enumerate(log, start=1):
        if isinstance(entry, Call):
            yield TraceLine(step, _plain(entry.operation), came=_answer(entry, num_blocks))
        else:
            seq, token, slot = entry
            yield TraceLine(step, Append(str(seq), number(token)), came=Answer("completed", slot=int(slot)))


def _plain(operation: Mutation) -> Mutation:
    """The operation as JSON has it: ids are strings, numbers of other libraries are integers."""
    if isinstance(operation, Allocate):
        return Allocate(str(operation.seq), tuple(map(number, operation.tokens)))
    if isinstance(operation, Append):
        return Append(str(operation.seq), number(operation.token))
    return Free(str(operation.seq))


def _answer(entry: Call, num_blocks: int) -> Answer:
    outcome, free = entry.outcome, entry.num_free_blocks if type(entry.num_free_blocks) is int else None
    if isinstance(outcome, Refused):
        return Answer("refused", num_free_blocks=free, error=outcome.error)
    if isinstance(outcome, Raised):
        return Answer("raised", num_free_blocks=free, error=outcome.error, other=outcome.message)
    value = words.value(outcome)
    table = block_list(value, num_blocks) if isinstance(entry.operation, Allocate) else None
    slot = value if isinstance(entry.operation, Append) and type(value) is int else None
    strange = table is None and slot is None and not isinstance(entry.operation, Free)
    return Answer(
        "completed",
        table=tuple(table) if table is not None else None,
        slot=slot,
        num_cached_tokens=entry.cached if type(entry.cached) is int else None,
        num_free_blocks=free,
        other=words.short(value) if strange else "",
    )

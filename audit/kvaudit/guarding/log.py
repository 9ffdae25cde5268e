"""The operations since the last full check, and the trace that is made of them when something is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kvaudit import words
from kvaudit.choices import block_list
from kvaudit.guarding.reads import number
from kvaudit.protocol import MANAGER, Allocate, Append, Free, Mutation, Outcome, Raised, Refused
from kvaudit.saved_ledger import saved_ledger
from kvaudit.trace import EXTRA, Answer, TraceHeader, TraceLine, features_of, write_trace
from kvspec.ledger import Ledger

Appended = tuple[Hashable, int, int]
"""An append inside a block, as it is logged on the way of most calls: sequence, token, slot."""


class Call(NamedTuple):
    """Any other operation, its outcome, and what was read after it; None for what the manager does not offer."""

    operation: Mutation
    outcome: Outcome
    cached: Any
    num_free_blocks: Any


def dump(folder: Path, header: TraceHeader, start: Ledger, log: list[Appended | Call]) -> Path:
    """Write the log as a trace that begins with the ledger `start`; its path. Raises OSError. O(pool + log)."""
    num_blocks, obligation = header.pool.num_blocks, header.obligation
    lines = list(_lines(log, num_blocks))
    is_fresh = not start.sequences and not start.evictable and start.free == tuple(range(num_blocks))
    features = features_of(MANAGER, (line.operation for line in lines))
    if any(h.extra for h in start.block_hash if h is not None) or any(s.extra for s in start.sequences.values()):
        features = (EXTRA,)
    ledger = None if is_fresh else saved_ledger(start)
    header = msgspec.structs.replace(header, steps=len(lines), features=features, ledger=ledger)
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
            yield line_of(step, entry, num_blocks)
        else:
            seq, token, slot = entry
            yield TraceLine(step, Append(str(seq), number(token)), came=Answer("completed", slot=int(slot)))


def line_of(step: int, call: Call, num_blocks: int) -> TraceLine:
    """A call as a line of a trace."""
    return TraceLine(step, _plain(call.operation), came=_answer(call, num_blocks))


def _plain(operation: Mutation) -> Mutation:
    """The operation as JSON has it: ids are strings, numbers of other libraries are integers."""
    if isinstance(operation, Allocate):
        return Allocate(str(operation.seq), tuple(map(number, operation.tokens)), operation.extra)
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

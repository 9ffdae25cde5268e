"""The line at which a recorded trace departs from the specification: in words, and with the pool around it."""

from __future__ import annotations

import msgspec

from kvaudit import words
from kvaudit.breach import SEVERITY, gravest, gravity
from kvaudit.choices import block_list
from kvaudit.concerned import unequal
from kvaudit.findings import details
from kvaudit.oracle import Judgement
from kvaudit.protocol import Allocate, Append, Returned
from kvaudit.report import PoolShown
from kvaudit.rulings import own_step
from kvaudit.snapshots import around
from kvaudit.trace import TraceLine
from kvaudit.transcript import said
from kvspec.ledger import Ledger
from kvspec.live import snapshot
from kvspec.obligations import OBLIGATIONS
from kvspec.operations import OutOfBlocks

FEW_BLOCKS = 12
"""Such a pool is shown whole, of a larger one so many blocks: of those of a long prompt most are as they should be."""


class PoolsAround(msgspec.Struct, frozen=True):
    """The pool before the line, as is due after it, and as the answer has it.

    before: None where only a count was wrong, and the operation was followed already. blocks: those that the line is
    about, the gravest first; of contents and tables, only theirs are given. violated: those of the broken obligation.
    """

    num_blocks: int
    before: PoolShown | None
    due: PoolShown
    came: PoolShown
    blocks: list[int]
    violated: list[int]


class Departure(msgspec.Struct, frozen=True):
    """The first line that the specification does not allow."""

    line: int
    step: int
    call: str
    expected: str
    came: str
    obligation: str
    also: list[str]
    symptom: str
    details: list[str]
    pools: PoolsAround


def departure_of(line: TraceLine, judgement: Judgement, expected: str = "") -> Departure:
    """The departure of a line; `expected` is what the specification says of the operation unless it is given.

    The ledger of the judgement is that after the line if both agree on the step, else that before it. O(pool).
    """
    main = gravest(judgement.breaches).obligation
    return Departure(
        line=line.step + 1,
        step=line.step,
        call=words.clipped(words.call(line.operation)),
        expected=expected or words.expected(line.mutation, judgement),
        came=said(line.came) if line.came is not None else "",
        obligation=main,
        also=sorted({breach.obligation for breach in judgement.breaches} - {main}, key=SEVERITY.index),
        symptom=OBLIGATIONS[main].symptom,
        details=[words.clipped(detail) for detail in details(judgement.breaches)],
        pools=_pools_around(line, judgement),
    )


def _pools_around(line: TraceLine, judgement: Judgement) -> PoolsAround:
    op, ledger = line.mutation, snapshot(judgement.before)
    is_followed = judgement.step is not None or judgement.refused
    due = ledger if is_followed else _after(line, ledger)
    tables = {str(seq): list(record.table) for seq, record in ledger.sequences.items()}
    came = _table_that_came(line, ledger, judgement)
    if came is not None:
        tables[op.seq] = came
    violated = next((list(b.blocks) for b in sorted(judgement.breaches, key=gravity) if b.blocks), list[int]())
    record = due.sequences.get(op.seq)
    table = record.table if record is not None else ()
    differ = unequal(table, came, ledger.num_blocks) if came is not None else ()
    others = range(ledger.num_blocks) if ledger.num_blocks <= FEW_BLOCKS else ()
    blocks = list(dict.fromkeys([*violated, *differ, *(came or ()), *table, *others]))
    return PoolsAround(
        num_blocks=ledger.num_blocks,
        before=None if is_followed and judgement.step is not None else around(ledger, blocks),
        due=around(due, blocks),
        came=PoolShown(tables={seq: table for seq, table in tables.items() if not set(table).isdisjoint(blocks)}),
        blocks=blocks,
        violated=violated,
    )


def _after(line: TraceLine, ledger: Ledger) -> Ledger:
    """What was due after the line, by the specification's own choices."""
    try:
        return own_step(ledger, line.mutation).after
    except OutOfBlocks:
        return ledger


def _table_that_came(line: TraceLine, ledger: Ledger, judgement: Judgement) -> list[int] | None:
    """The table that the sequence has if the answer is believed; None if it has none."""
    op, answer = line.mutation, judgement.answer
    record = ledger.sequences.get(op.seq)
    table = list(record.table) if record is not None else None
    if not isinstance(answer, Returned):
        return table
    if isinstance(op, Allocate):
        return block_list(answer.value, ledger.num_blocks)
    if isinstance(op, Append):
        slot = answer.value
        if table is not None and type(slot) is int and 0 <= slot < ledger.num_blocks * ledger.block_size:
            block = slot // ledger.block_size
            return table if block in table else [*table, block]
        return table
    return None

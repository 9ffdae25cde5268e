"""Holds one answer to the specification: is it legal, and what does the operation then do?"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.caller import Caller
from kvaudit.choices import Appended, Illegal, ReadOff, Unseen, block_list
from kvaudit.concerned import blocks_of_slots, handled, table_of
from kvaudit.protocol import Allocate, Append, Free, Mutation, Outcome, Raised, Refused
from kvspec import operations
from kvspec.ledger import Change, Ledger
from kvspec.live import snapshot
from kvspec.operations import OutOfBlocks, Step
from kvspec.policy import SEED, Policy
from kvspec.variants import Variants


class Ruling(NamedTuple):
    """What is said of one answer.

    refused: the specification refuses the operation. step: what the operation did, if it completed and both agree on
    that. breaches: what is wrong with the answer.
    """

    refused: bool
    step: Step | None
    breaches: list[Breach]


def rule(
    ledger: Ledger, operation: Mutation, answer: Outcome, cached: Any, variants: Variants, caller: Caller | None
) -> Ruling:
    """Hold an answer to the specification, on the ledger before the operation.

    cached: the number of cached tokens that the target gives for a new sequence; None if it gives none. caller: acts
    on the answer, and says what it ran into.
    """
    if isinstance(answer, Raised):
        breach = Breach("O2", words.unexpected(answer), handled(operation, ledger, Change()))
        return Ruling(_refuses(ledger, operation), None, [breach])
    if isinstance(operation, Allocate):
        return _allocate(ledger, operation, answer, cached, variants, caller)
    if isinstance(operation, Append):
        return _append(ledger, operation, answer, variants, caller)
    return _free(ledger, operation, answer, caller)


def wrong_free_count(operation: Mutation, refused: bool, due: int, seen: Any) -> list[Breach]:
    """What `num_free_blocks` after an operation says, if it is not what is due."""
    if type(seen) is int and seen == due:
        return []
    what = f"num_free_blocks is to be {due}, not {words.short(seen)}"
    names = ("O1",) if refused else ("I8", "I4") if isinstance(operation, Free) else ("I8", "I1")
    return [Breach(name, what) for name in names]


def _allocate(
    ledger: Ledger, op: Allocate, answer: Outcome, cached: Any, variants: Variants, caller: Caller | None
) -> Ruling:
    table = block_list(words.value(answer), ledger.num_blocks)
    breaches: list[Breach] = []
    policy: Policy
    if isinstance(answer, Refused):
        policy = Unseen(variants)
    elif table is not None:
        if caller is not None:
            breaches = caller.allocated(op, table, cached)
        policy = ReadOff(op, table, cached, variants)
    else:
        numbers = f"a list of block numbers, 0 .. {ledger.num_blocks - 1} in this pool"
        what = f"allocate is to return {numbers}, not {words.short(words.value(answer))}"
        return Ruling(_refuses(ledger, op), None, [Breach("O5", what)])
    blocks = tuple(table or ())
    return _ask_specification(ledger, op, policy, answer, blocks, breaches)


def _append(ledger: Ledger, op: Append, answer: Outcome, variants: Variants, caller: Caller | None) -> Ruling:
    record = ledger.sequences[op.seq]
    is_new = len(record.tokens) // ledger.block_size == len(record.table)
    breaches: list[Breach] = []
    taken: tuple[int, ...] = ()
    policy: Policy
    if isinstance(answer, Refused):
        if not is_new:
            return Ruling(False, None, [Breach("O2", "refused, with no new block needed", record.table[-1:])])
        policy = Unseen(variants)
    else:
        block = _block_written(ledger, op, answer, is_new, breaches)
        if block is None:
            return Ruling(is_new and not ledger.num_free_blocks, None, breaches)
        if caller is not None:
            breaches = caller.appended(op, block, is_new)
        policy, taken = Appended(block, variants), (block,)
    return _ask_specification(ledger, op, policy, answer, taken, breaches)


def _block_written(ledger: Ledger, op: Append, answer: Outcome, is_new: bool, breaches: list[Breach]) -> int | None:
    """The block of the slot that an append answered; None if it is no slot that a caller could use."""
    size, record, slot = ledger.block_size, ledger.sequences[op.seq], words.value(answer)
    pos = len(record.tokens)
    is_slot = type(slot) is int and 0 <= slot < ledger.num_blocks * size
    if is_slot:
        block = slot // size if is_new else record.table[-1]
        if slot == block * size + pos % size:
            return block
    due = f"offset {pos % size} of a new block" if is_new else f"slot {record.table[-1] * size + pos % size}"
    what = f"append_slot is to return {due}, not {words.short(slot)}"
    if is_slot:
        what = f"token {pos} is to go to {due}, not to slot {slot}"
    breaches.append(Breach("O5", what, blocks_of_slots(size, ledger.num_blocks, record.table[-1] * size, slot)))
    return None


def _free(ledger: Ledger, op: Free, answer: Outcome, caller: Caller | None) -> Ruling:
    if isinstance(answer, Refused):
        return Ruling(False, None, [Breach("O2", "free was refused", table_of(ledger, op.seq))])
    if caller is not None:
        caller.freed(op.seq)
    return Ruling(False, operations.free(ledger, op.seq), [])


def _ask_specification(
    ledger: Ledger,
    op: Mutation,
    policy: Policy,
    answer: Outcome,
    blocks: tuple[int, ...],
    breaches: list[Breach],
) -> Ruling:
    """Whether the specification refuses, and what it does otherwise, on the choices of the answer (`blocks`)."""
    try:
        step = _step(ledger, op, policy)
    except OutOfBlocks as refusal:
        if not isinstance(answer, Refused):
            breaches.append(Breach("O2", f"completed, though {refusal}", blocks))
        return Ruling(True, None, breaches)
    except Illegal as illegal:
        return Ruling(_refuses(ledger, op), None, breaches + illegal.breaches)
    return Ruling(False, None if breaches else step, breaches)


def own_step(ledger: Ledger, operation: Mutation) -> Step:
    """What the specification does, left to its own choices. Raises OutOfBlocks."""
    return _step(ledger, operation, SEED)


def _step(ledger: Ledger, operation: Mutation, policy: Policy) -> Step:
    if isinstance(operation, Allocate):
        return operations.allocate(ledger, operation.seq, operation.tokens, policy, operation.extra.items)
    if isinstance(operation, Append):
        return operations.append_slot(ledger, operation.seq, operation.token, policy)
    return operations.free(ledger, operation.seq)


def _refuses(ledger: Ledger, operation: Mutation) -> bool:
    """Whether the specification, left to its own choices, refuses an operation. O(pool): asked of a copy."""
    try:
        own_step(snapshot(ledger), operation)
    except OutOfBlocks:
        return True
    return False

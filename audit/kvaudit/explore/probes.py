"""What must change nothing: every read, and every kind of misuse, at any state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.concerned import room
from kvaudit.misuse import BAD_TOKENS
from kvaudit.protocol import (
    Call,
    CanAllocate,
    Observe,
    Observed,
    Operation,
    Outcome,
    Raised,
    Refused,
    Returned,
    Scribble,
    Slot,
)
from kvspec import operations
from kvspec.ledger import Ledger


def reads(ledger: Ledger, capabilities: frozenset[str]) -> list[Operation]:
    """Every read with every argument that makes sense, between two observations; the lists returned are overwritten."""
    program: list[Operation] = [Observe(), Scribble()]
    if "slot" in capabilities:
        for seq, record in ledger.sequences.items():
            program += [Slot(str(seq), pos) for pos in range(len(record.tokens))]
    if "can_allocate" in capabilities:
        longest = (ledger.num_blocks + 1) * ledger.block_size
        program += [CanAllocate(length) for length in range(longest + 1)]
    return [*program, Observe()]


def wrong_read(ledger: Ledger, program: Sequence[Operation], outcomes: Sequence[Outcome]) -> Breach | None:
    """What is wrong with the answers to `reads`, if anything is."""
    first, last = outcomes[0], outcomes[-1]
    if len(outcomes) != len(program) or not isinstance(first, Observed) or not isinstance(last, Observed):
        return Breach("O2", words.unexpected(last))
    if first != last:
        return Breach("O11", f"reads change what is read next: {words.outcomes_differ(first, last)}")
    if first.num_free_blocks is not None and first.num_free_blocks != ledger.num_free_blocks:
        what = f"num_free_blocks is to be {ledger.num_free_blocks}, not {first.num_free_blocks!r}"
        return Breach("I8", what, room(ledger))
    for seq, record in ledger.sequences.items():
        table, cached = (first.tables or {}).get(str(seq)), (first.cached or {}).get(str(seq))
        if first.tables is not None and (not isinstance(table, (list, tuple)) or tuple(table) != record.table):
            what = f"the table of {seq!r} is to be {list(record.table)}, not {words.short(table)}"
            return Breach("O5", what, record.table)
        if first.cached is not None and (type(cached) is not int or cached != record.num_cached_tokens):
            due = record.num_cached_tokens
            what = f"num_cached_tokens of {seq!r} is to be {due}, not {words.short(cached)}"
            return Breach("O4", what, record.table)
    for read, outcome in zip(program, outcomes, strict=True):
        if isinstance(read, Slot):
            slot = operations.slot(ledger, read.seq, read.pos)
            if not isinstance(outcome, Returned) or type(outcome.value) is not int or outcome.value != slot:
                what = f"slot({read.seq!r}, {read.pos}) is to be {slot}, not {_said(outcome)}"
                return Breach("O5", what, (slot // ledger.block_size,))
        elif isinstance(read, CanAllocate):
            fits = operations.can_allocate(ledger, read.num_tokens)
            if not isinstance(outcome, Returned) or outcome.value is not fits:
                free = words.count(ledger.num_free_blocks, "block")
                what = f"can_allocate({read.num_tokens}) is to be {fits}, not {_said(outcome)}: {free} free"
                return Breach("O3", what, room(ledger))
    return None


def misuses(ledger: Ledger, ended: Sequence[str], new: str, capabilities: frozenset[str]) -> Iterator[tuple[str, Call]]:
    """Every kind of misuse, in words and as a call. `ended` and `new` are ids of no live sequence."""
    longest = ledger.num_blocks * ledger.block_size
    yield "allocate of an empty prompt", Call("allocate", (new, ()))
    for length in {1, longest}:
        tokens = (0,) * length
        yield "allocate of tokens whose iteration fails", Call("allocate", (new, tokens), fail_at=length - 1)
        for bad in BAD_TOKENS:
            yield f"allocate with the token id {bad!r}", Call("allocate", (new, (*tokens[1:], bad)))
    for seq, record in ledger.sequences.items():
        for tokens in ((0,), record.tokens):
            yield "allocate with an id that is live", Call("allocate", (seq, tokens))
        for bad in BAD_TOKENS:
            yield f"append_slot with the token id {bad!r}", Call("append_slot", (seq, bad))
        if "slot" in capabilities:
            for pos in (-1, len(record.tokens), len(record.table) * ledger.block_size):
                yield "slot of a position that is not there", Call("slot", (seq, pos))
    for seq in (*ended, new):
        yield "free with the id of no live sequence", Call("free", (seq,))
        yield "append_slot with the id of no live sequence", Call("append_slot", (seq, 0))
        yield "num_cached_tokens with the id of no live sequence", Call("num_cached_tokens", (seq,))
        if "slot" in capabilities:
            yield "slot with the id of no live sequence", Call("slot", (seq, 0))
        if "block_table" in capabilities:
            yield "block_table with the id of no live sequence", Call("block_table", (seq,))
    if "can_allocate" in capabilities:
        yield "can_allocate of -1 tokens", Call("can_allocate", (-1,))


def accepted(outcome: Outcome, is_unchanged: bool) -> str:
    """How a misuse was accepted; empty if it was refused cleanly."""
    if isinstance(outcome, Raised):
        if not outcome.named:
            return f"ends in {outcome.error}"
        return "" if is_unchanged else f"raises {outcome.error}, but changes the state"
    if isinstance(outcome, Refused):
        return "is refused for want of blocks, which is not what is wrong"
    return "is accepted" if is_unchanged else "is accepted, and changes the state"


def _said(outcome: Outcome) -> str:
    return words.short(outcome.value) if isinstance(outcome, Returned) else words.short(outcome)

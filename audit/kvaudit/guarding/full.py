"""The full check: everything that a manager shows, beside the ledger that is due. O(pool + tokens)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from kvaudit import words
from kvaudit.api import ApiTarget
from kvaudit.breach import Breach, gravity
from kvaudit.concerned import differing
from kvaudit.observation import Keys, agrees, as_ledger, check_sense
from kvaudit.protocol import Observe, Observed, State
from kvspec.ledger import Change, Ledger
from kvspec.variants import Variants


def look(target: ApiTarget, manager: Any, due: Ledger, variants: Variants) -> list[Breach]:
    """What is wrong with what can be seen; empty if nothing is, or nothing can be.

    Raises TargetError if observe() gives what can be the state of no pool.
    """
    target.adopt(manager, list(due.sequences))  # type: ignore[arg-type]  # ids of any kind, here
    seen = target.execute(Observe())
    if not isinstance(seen, Observed):
        return [Breach("O2", words.unexpected(seen))]
    breaches = list(_reads(seen, due))
    if seen.state is not None:
        breaches += _structures(seen.state, due, variants)
    return sorted(breaches, key=gravity)


def _reads(seen: Observed, due: Ledger) -> Iterator[Breach]:
    if seen.num_free_blocks != due.num_free_blocks:
        yield Breach("I8", f"num_free_blocks is to be {due.num_free_blocks}, not {words.short(seen.num_free_blocks)}")
    for seq, record in due.sequences.items():
        table = record.table if seen.tables is None else seen.tables.get(seq)  # type: ignore[call-overload]
        if table != record.table:
            what = f"the table of {seq!r} is to be {words.short(list(record.table))}, not {words.short(table)}"
            yield Breach("O5", what, record.table)
        count = record.num_cached_tokens
        cached = count if seen.cached is None else seen.cached.get(seq)  # type: ignore[call-overload]
        if cached != count:
            what = f"num_cached_tokens of {seq!r} is to be {count}, not {words.short(cached)}"
            yield Breach("O4", what, record.table)


def _structures(state: State, due: Ledger, variants: Variants) -> list[Breach]:
    """The keys are learnt anew at each check: what they stood for in an earlier one need not be remembered."""
    keys = Keys()
    with contextlib.suppress(TypeError, ValueError):  # what cannot even be compared makes no sense
        keys.learn(Change(registered=tuple(_carried(due))), state, due)
        if agrees(state, due, keys, variants):
            return []
    check_sense(state, due.num_blocks)
    seen = as_ledger(state, due, keys)
    detail, blocks = words.ledgers_differ(due, seen), differing(due, seen)
    return [Breach(name, detail, blocks) for name in dict.fromkeys(_names(due, seen))]


def _carried(due: Ledger) -> Iterator[tuple[int, Any]]:
    return ((block, h) for block, h in enumerate(due.block_hash) if h is not None)


def _names(due: Ledger, seen: Ledger) -> Iterator[str]:
    """The obligations that speak of the structures in which two ledgers differ.

    The clauses themselves are not asked: they are written for small pools, and a server waits for the answer.
    """
    for block in range(due.num_blocks):
        if due.ref[block] != seen.ref[block]:
            yield "I4"
        one, two = due.block_hash[block], seen.block_hash[block]
        if one is not two:
            if one is not None:
                yield "I7" if due.ref[block] else "O6"
            else:
                yield "O8" if due.enable_prefix_cache else "O9"
    if sorted(due.free) != sorted(seen.free) or sorted(due.evictable) != sorted(seen.evictable):
        yield "I8"
    elif due.evictable != seen.evictable or due.free != seen.free:
        yield "O7"
    for h in {**due.hash_to_block, **seen.hash_to_block}:
        mapped = seen.hash_to_block.get(h)
        if mapped != due.hash_to_block.get(h):
            stale = mapped is not None and not (0 <= mapped < due.num_blocks and seen.block_hash[mapped] is h)
            yield "I3" if stale else "O8"
            if mapped is None:  # never made, or lost: it cannot be told any more
                yield "O6"
    for seq in {**due.sequences, **seen.sequences}:
        yield from _names_of_records(due.sequences.get(seq), seen.sequences.get(seq))


def _names_of_records(due: Sequence[Any] | None, seen: Sequence[Any] | None) -> Iterator[str]:
    if due is None or seen is None:
        yield "O7" if due is None else "O1"
        return
    for name, one, two in zip(("O5", "O5", "O8", "O4"), due, seen, strict=False):
        if one != two:
            yield name

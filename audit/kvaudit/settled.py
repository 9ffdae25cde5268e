"""Takes over what a target says that it caches, where that is its own choice (`kvspec.own_cache`)."""

from __future__ import annotations

from typing import NamedTuple

from kvaudit import words
from kvaudit.breach import Breach
from kvaudit.observation import Keys, as_ledger, check_sense
from kvaudit.protocol import Free, Mutation, Observed, State
from kvspec.ledger import Ledger
from kvspec.operations import Step
from kvspec.own_cache import wrong_choices


class Settled(NamedTuple):
    """The ledger from which the next operation is judged, what the operation did, and what is wrong."""

    ledger: Ledger
    step: Step | None
    breaches: list[Breach]


def settle(before: Ledger, operation: Mutation, step: Step | None, seen: Observed, keys: Keys) -> Settled:
    """Hold what is seen after an operation to the rules. step: None if it was refused. O(pool + live tokens)."""
    state = seen.state or State()
    check_sense(state, before.num_blocks)
    due = step.after if step is not None else before
    _learn(before, due, state, keys)
    found = as_ledger(state, due, keys)
    asks = step is not None and not isinstance(operation, Free)
    hits = step.change.hit if step is not None else ()
    wrong = list(wrong_choices(before, due, found, operation.seq, hits, asks))
    breaches = [Breach("O1" if step is None else w.obligation, w.what, w.blocks) for w in wrong]
    free = found.num_blocks - len({b for record in found.sequences.values() for b in record.table})
    if not breaches and seen.num_free_blocks != free:
        what = f"num_free_blocks is to be {free}, not {words.short(seen.num_free_blocks)}"
        breaches += [Breach(name, what) for name in (("O1",) if step is None else ("I8", "I1"))]
    if breaches:
        return Settled(due, step, breaches)
    if step is not None:
        lost = tuple((b, h) for b, h in enumerate(before.block_hash) if h and found.block_hash[b] is not h)
        gone = tuple(h for h in before.hash_to_block if h not in found.hash_to_block)
        step = step._replace(after=found, change=step.change._replace(evicted=lost, unmapped=gone))
    return Settled(found, step, [])


def _learn(before: Ledger, due: Ledger, state: State, keys: Keys) -> None:
    """What a new key means: the content of the block of a table that carries it."""
    for ledger, tables in ((before, {}), (due, state.tables or {})):
        for seq, record in ledger.sequences.items():
            keys.learn_table(tables.get(str(seq), record.table), record.chain, state)

"""O3 and O5: what the reads are to answer, on real ledgers, right answers and wrong ones."""

from __future__ import annotations

import random

from kvspec import operations
from kvspec.ledger import Ledger
from kvspec.logic import Finite, LedgerView
from kvspec.postconditions import can_allocate_is_coarse, slot_is
from spec.walks import walk


def ledgers(seed: int, walks: int) -> list[Ledger]:
    rng = random.Random(seed)
    return [stride.after for _ in range(walks) for stride in walk(rng, 12)]


def test_can_allocate() -> None:
    answers = set()
    for ledger in ledgers(seed=1, walks=40):
        logic, view = Finite(ledger), LedgerView(ledger)
        for count in range((ledger.num_blocks + 1) * ledger.block_size + 2):
            right = operations.can_allocate(ledger, count)
            assert can_allocate_is_coarse(logic, view, count, right)
            assert not can_allocate_is_coarse(logic, view, count, not right)
            answers.add(right)
    assert answers == {True, False}


def test_can_allocate_is_conservative() -> None:
    """True means that allocate succeeds, whatever is hit; False is also said of prompts that fit thanks to hits."""
    surpassed = 0
    for ledger in ledgers(seed=2, walks=60):
        for tokens in [(0,) * n for n in range(1, ledger.num_blocks * ledger.block_size + 2)]:
            fits = True
            try:
                operations.allocate(ledger, "new", tokens)
            except operations.OutOfBlocks:
                fits = False
            coarse = operations.can_allocate(ledger, len(tokens))
            assert fits or not coarse
            surpassed += fits and not coarse
    assert surpassed > 20


def test_slot() -> None:
    checked = 0
    for ledger in ledgers(seed=3, walks=40):
        logic, view = Finite(ledger), LedgerView(ledger)
        for seq_id, record in ledger.sequences.items():
            slots = [operations.slot(ledger, seq_id, pos) for pos in range(len(record.tokens))]
            assert len(set(slots)) == len(slots)
            assert all(0 <= answer < ledger.num_blocks * ledger.block_size for answer in slots)
            for pos, right in enumerate(slots):
                assert slot_is(logic, view, seq_id, pos, right)
                for wrong in (right - 1, right + 1, right + ledger.block_size, pos + ledger.num_blocks * 9, -1):
                    assert not slot_is(logic, view, seq_id, pos, wrong)
                checked += 1
    assert checked > 1_000


def test_nobody_else_reads_a_slot_that_is_not_shared() -> None:
    for ledger in ledgers(seed=4, walks=30):
        owners: dict[int, set[object]] = {}
        for seq_id, record in ledger.sequences.items():
            for pos in range(len(record.tokens)):
                owners.setdefault(operations.slot(ledger, seq_id, pos), set()).add(seq_id)
        for answer, found in owners.items():
            assert len(found) <= ledger.ref[answer // ledger.block_size]

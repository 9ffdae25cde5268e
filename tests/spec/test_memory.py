"""The shadow memory knows what is written and read, and nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from kvspec.identity import Identity, identity
from kvspec.ledger import Ledger
from kvspec.logic import Finite, LedgerView
from kvspec.memory import ShadowMemory, prefixes_of
from kvspec.postconditions import memory_is_faithful
from spec.walks import walk


def test_prefixes() -> None:
    one = identity(None, (5,))
    two = identity(one, (6,))
    assert prefixes_of((5, 6)) == [one, two]
    assert prefixes_of((6,), after=one) == [two]
    assert prefixes_of(()) == []


def test_what_is_written_is_read() -> None:
    memory = ShadowMemory(2)
    prefixes = prefixes_of((7, 8, 9))
    assert memory.first_wrong([4, 1], prefixes) == 0
    memory.write([4, 1], prefixes, 0)
    assert [memory(slot) for slot in (8, 9, 2, 3)] == [*prefixes, None]
    assert memory.first_wrong([4, 1], prefixes) is None
    assert memory.first_wrong([1, 4], prefixes) == 0
    assert memory.first_wrong([4, 4], prefixes) == 2


def test_only_the_tokens_from_start_are_written() -> None:
    memory = ShadowMemory(2)
    prefixes = prefixes_of((7, 8, 9))
    memory.write([0, 1], prefixes, 2)
    assert [memory(slot) for slot in range(3)] == [None, None, prefixes[2]]
    assert memory.first_wrong([0, 1], prefixes) == 0


def test_equal_tokens_after_another_prefix_are_other_content() -> None:
    memory = ShadowMemory(1)
    memory.write([0, 1], prefixes_of((7, 9)), 0)
    assert memory.first_wrong([0, 1], prefixes_of((7, 9))) is None
    assert memory.first_wrong([0, 1], prefixes_of((8, 9))) == 0
    memory.write([0], prefixes_of((8,)), 0)
    assert memory.first_wrong([0, 1], prefixes_of((8, 9))) == 1


def with_memory(seed: int, steps: int) -> list[tuple[Ledger, ShadowMemory]]:
    """A walk with the caller's writes: each ledger with the memory at that time, the last one only being current."""
    memory: ShadowMemory | None = None
    found = []
    for stride in walk(random.Random(seed), steps):
        memory = memory or ShadowMemory(stride.before.block_size)
        if not stride.refused and stride.operation != "free":
            record = stride.after.sequences[stride.seq_id]
            start = record.num_cached_tokens if stride.operation == "allocate" else len(record.tokens) - 1
            memory.write(record.table, prefixes_of(record.tokens), start)
        assert memory_is_faithful(Finite(stride.after), LedgerView(stride.after, memory=memory))
        found.append((stride.after, memory))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_specification_never_serves_what_is_not_ones_own(seed: int) -> None:
    for ledger, memory in with_memory(seed, steps=25)[-1:]:
        for record in ledger.sequences.values():
            assert memory.first_wrong(record.table, prefixes_of(record.tokens)) is None


@dataclass(frozen=True)
class Spoilt:
    """A memory in which one slot holds something else."""

    memory: ShadowMemory
    slot: int
    wrong: Identity

    def __call__(self, slot: int) -> Identity | None:
        return self.wrong if slot == self.slot else self.memory(slot)


def test_k1_fails_wherever_one_slot_is_overwritten() -> None:
    checked = 0
    for seed in range(20):
        ledger, memory = with_memory(seed, steps=15)[-1]
        size = ledger.block_size
        for record in ledger.sequences.values():
            for pos in range(len(record.tokens)):
                own = prefixes_of(record.tokens)[pos]
                slot = record.table[pos // size] * size + pos % size
                spoilt = Spoilt(memory, slot, identity(own, (999,)))
                assert not memory_is_faithful(Finite(ledger), LedgerView(ledger, memory=spoilt))
                checked += 1
    assert checked > 50

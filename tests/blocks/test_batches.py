"""append_slots and extend: what the specification's appends in turn do, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvblocks import BlockManager, BlockManagerError, InvalidArgument, OutOfBlocks, UnknownSequence
from kvspec import operations
from kvspec.ledger import Ledger, empty_ledger

NUM_BLOCKS, BLOCK_SIZE = 6, 2
Prompts = dict[str, list[int]]

prompts = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.integers(0, 2), min_size=1, max_size=4), min_size=1, max_size=3
)
tokens = st.lists(st.integers(0, 2), max_size=7)


def both(starts: Prompts) -> tuple[BlockManager, Ledger]:
    """The manager and the specification after the same prompts, those that were refused left out."""
    manager, ledger = BlockManager(NUM_BLOCKS, BLOCK_SIZE), empty_ledger(NUM_BLOCKS, BLOCK_SIZE)
    for seq_id, prompt in starts.items():
        try:
            ledger = operations.allocate(ledger, seq_id, prompt).after
        except operations.OutOfBlocks:
            continue
        manager.allocate(seq_id, prompt)
    return manager, ledger


def agrees(manager: BlockManager, ledger: Ledger) -> None:
    seen = manager.observe()
    assert (seen.free, seen.evictable, seen.ref) == (ledger.free, ledger.evictable, ledger.ref)
    assert [key is not None for key in seen.block_hash] == [h is not None for h in ledger.block_hash]
    assert sorted(seen.hash_to_block.values()) == sorted(ledger.hash_to_block.values())
    assert {seq_id: (seen.tables[seq_id], seen.tokens[seq_id]) for seq_id in seen.tables} == {
        seq_id: (record.table, record.tokens) for seq_id, record in ledger.sequences.items()
    }


def check(manager: BlockManager, ledger: Ledger, ids: Sequence[Hashable], given_tokens: list[int], call: Any) -> None:
    """The call does what the specification does for these pairs in turn, or both refuse and nothing has changed."""
    before = manager.observe()
    try:
        after, slots = operations.append_slots(ledger, ids, given_tokens)
    except operations.OutOfBlocks:
        with pytest.raises(OutOfBlocks):
            call()
        assert manager.observe() == before
        return
    assert call() == list(slots)
    agrees(manager, after)
    for seq_id in after.sequences:  # an append is told from what was written whether a block is full
        try:
            after, slots = operations.append_slots(after, [seq_id], [1])
        except operations.OutOfBlocks:
            continue
        assert manager.append_slot(seq_id, 1) == slots[0]


@given(prompts, st.data())
def test_append_slots_is_an_append_for_each_in_turn(starts: Prompts, data: st.DataObject) -> None:
    manager, ledger = both(starts)
    ids = data.draw(st.permutations(list(ledger.sequences)))
    ids = ids[: data.draw(st.integers(0, len(ids)))]
    given_tokens = data.draw(st.lists(st.integers(0, 2), min_size=len(ids), max_size=len(ids)))
    check(manager, ledger, ids, given_tokens, lambda: manager.append_slots(iter(ids), iter(given_tokens)))


@given(prompts, tokens)
def test_extend_is_an_append_for_each_in_turn(starts: Prompts, more: list[int]) -> None:
    manager, ledger = both(starts)
    seq_id = next(iter(ledger.sequences))  # the first prompt always fits
    check(manager, ledger, [seq_id] * len(more), more, lambda: manager.extend(seq_id, iter(more)))


def busy() -> BlockManager:
    manager = BlockManager(5, 2)
    manager.allocate("full", [1, 2])
    manager.allocate("other", [3, 4])
    manager.allocate("half", [5])
    return manager


def broken() -> Iterator[int]:
    yield 1
    raise LookupError


Call = Callable[[BlockManager], object]
REFUSED: list[tuple[str, type[Exception], Call]] = [
    ("too many blocks for a batch", OutOfBlocks, lambda m: m.append_slots(["full", "other", "half"], [1, 2, 3])),
    ("too many blocks for a sequence", OutOfBlocks, lambda m: m.extend("half", [1, 2, 3, 4])),
    ("an unknown id at the end", UnknownSequence, lambda m: m.append_slots(["half", "nobody"], [1, 2])),
    ("an unknown id alone", UnknownSequence, lambda m: m.extend("nobody", [])),
    ("an id twice", InvalidArgument, lambda m: m.append_slots(["half", "half"], [1, 2])),
    ("a token left over", InvalidArgument, lambda m: m.append_slots(["half"], [1, 2])),
    ("an id left over", InvalidArgument, lambda m: m.append_slots(["half", "full"], [1])),
    ("a bad token at the end of a batch", InvalidArgument, lambda m: m.append_slots(["half", "full"], [1, -1])),
    ("a bool at the end of a batch", InvalidArgument, lambda m: m.append_slots(["half", "full"], [1, True])),
    ("a bad token at the end", InvalidArgument, lambda m: m.extend("half", [1, 2**32])),
    ("tokens that raise", LookupError, lambda m: m.append_slots(["half", "full"], broken())),
    ("tokens that raise, of one", LookupError, lambda m: m.extend("half", broken())),
]


@pytest.mark.parametrize(("error", "call"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_refused_changes_nothing(error: type[Exception], call: Call) -> None:
    manager = busy()
    manager.allocate("last but one", [7])  # one block is left
    before = manager.observe()
    with pytest.raises(error):
        call(manager)
    assert manager.observe() == before
    assert manager.append_slots(["half", "full"], [1, 2]) == [5, 8]


def test_a_batch_that_just_fits() -> None:
    manager = busy()
    assert manager.append_slots(["full", "half", "other"], [1, 2, 3]) == [6, 5, 8]
    assert manager.num_free_blocks == 0
    assert manager.extend("full", [9]) == [7]
    with pytest.raises(BlockManagerError, match="extend needs 1 new blocks, 0 are available"):
        manager.extend("full", [9])


def test_nothing_to_append_is_nothing() -> None:
    manager = busy()
    before = manager.observe()
    assert manager.append_slots([], []) == manager.extend("full", []) == []
    assert manager.observe() == before


def test_what_was_extended_can_be_hit() -> None:
    manager = BlockManager(8, 2)
    manager.allocate("a", [1])
    manager.extend("a", [2, 3, 4, 5])
    manager.allocate("b", [1, 2, 3, 4, 5])
    assert manager.num_cached_tokens("b") == 4

"""The three operations on the seed's own examples, numbers included, and what each `Change` says."""

from __future__ import annotations

import pytest

from kvspec.identity import Identity, chain_from
from kvspec.ledger import Change, Ledger, empty_ledger
from kvspec.operations import (
    OutOfBlocks,
    Step,
    allocate,
    append_slot,
    available,
    blocks_for,
    can_allocate,
    free,
    match_limit,
    slot,
)


def ids(size: int, *tokens: int) -> tuple[Identity, ...]:
    return tuple(chain_from(None, tokens, size))


def pools(ledger: Ledger) -> tuple[list[int], list[int], str]:
    return list(ledger.free), list(ledger.evictable), "".join(map(str, ledger.ref))


def test_example_1_prefix_cache_off() -> None:
    ledger = empty_ledger(6, 4, False)
    step = allocate(ledger, "x", (11, 12, 13, 14, 15, 16))
    assert step.result == (0, 1)
    assert step.change == Change(taken=(0, 1))
    assert pools(step.after) == ([2, 3, 4, 5], [], "110000")
    slots = []
    for token in (17, 18, 19):
        step = append_slot(step.after, "x", token)
        slots.append(step.result)
    assert slots == [6, 7, 8]
    assert step.change == Change(taken=(2,))
    assert slot(step.after, "x", 5) == 1 * 4 + 1
    step = free(step.after, "x")
    assert step.change == Change(released=(2, 1, 0))
    assert pools(step.after) == ([3, 4, 5, 2, 1, 0], [], "000000")
    assert allocate(step.after, "y", (1, 2, 3)).result == (3,)


def example_2() -> Step:
    step = allocate(empty_ledger(8, 2), "a", (1, 2, 3, 4, 5))
    return allocate(step.after, "b", (1, 2, 3, 4, 6))


def test_example_2_prefix_sharing() -> None:
    h0, h1 = ids(2, 1, 2, 3, 4)
    first = allocate(empty_ledger(8, 2), "a", (1, 2, 3, 4, 5))
    assert first.result == (0, 1, 2)
    assert first.change == Change(taken=(0, 1, 2), registered=((0, h0), (1, h1)))
    step = example_2()
    assert step.result == (0, 1, 3)
    assert step.change == Change(hit=(0, 1), taken=(3,))
    assert step.after.sequences["b"].num_cached_tokens == 4
    assert pools(step.after) == ([4, 5, 6, 7], [], "22110000")
    step = free(step.after, "a")
    assert pools(step.after) == ([4, 5, 6, 7, 2], [], "11010000")
    step = free(step.after, "b")
    assert pools(step.after) == ([4, 5, 6, 7, 2, 3], [1, 0], "00000000")
    step = allocate(step.after, "c", (1, 2, 3, 4))
    assert step.result == (0, 4)
    assert step.change == Change(hit=(0,), revived=(0,), taken=(4,), registered=((4, h1),), duplicates=(4,))
    assert step.after.sequences["c"].num_cached_tokens == 2
    assert step.after.hash_to_block == {h0: 0, h1: 1}
    assert step.after.block_hash[4] is h1


def test_example_3_hits_on_idle_blocks_use_up_places() -> None:
    step = free(allocate(empty_ledger(3, 2), "a", (1, 2, 3, 4, 5)).after, "a")
    before = step.after
    assert pools(before) == ([2], [1, 0], "000")
    with pytest.raises(OutOfBlocks, match="2 new blocks are needed and 1 are available"):
        allocate(before, "b", (1, 2, 3, 4, 5, 6, 7))
    assert step.after == before
    step = allocate(before, "b", (1, 2, 3, 4, 5, 6))
    assert step.result == (0, 1, 2)
    assert step.change.revived == (0, 1)
    assert pools(step.after) == ([], [], "111")


def test_trace_a_block_filled_by_append_enters_the_cache_and_is_evicted() -> None:
    h0, h1 = ids(2, 7, 8, 9, 10)
    step = append_slot(allocate(empty_ledger(3, 2), "a", (7, 8, 9)).after, "a", 10)
    assert (step.result, step.change) == (3, Change(registered=((1, h1),)))
    step = allocate(free(step.after, "a").after, "b", (7, 8, 9, 10, 11))
    assert step.result == (0, 1, 2)
    assert step.after.sequences["b"].num_cached_tokens == 4
    step = free(step.after, "b")
    assert pools(step.after) == ([2], [1, 0], "000")
    z0, z1, z2 = ids(2, 1, 2, 3, 4, 5, 6)
    step = allocate(step.after, "z", (1, 2, 3, 4, 5, 6))
    assert step.result == (2, 1, 0)
    assert step.change == Change(
        taken=(2, 1, 0), evicted=((1, h1), (0, h0)), unmapped=(h1, h0), registered=((2, z0), (1, z1), (0, z2))
    )
    assert step.after.hash_to_block == {z0: 2, z1: 1, z2: 0}


def test_a_mapping_that_points_elsewhere_outlives_the_eviction_of_a_copy() -> None:
    (h,) = ids(1, 7)
    step = allocate(allocate(empty_ledger(3, 1), "a", (7,)).after, "b", (7,))
    assert step.change.duplicates == (1,)
    step = allocate(free(step.after, "b").after, "c", (8, 9))
    assert step.change.evicted == ((1, h),)
    assert step.change.unmapped == ()
    assert step.after.hash_to_block[h] == 0


def test_an_append_that_needs_a_block_is_refused_where_none_is_left() -> None:
    ledger = allocate(empty_ledger(1, 2), "a", (1,)).after
    step = append_slot(ledger, "a", 2)
    assert step.result == 1
    with pytest.raises(OutOfBlocks):
        append_slot(step.after, "a", 3)


def test_an_append_may_evict() -> None:
    ledger = free(allocate(empty_ledger(2, 1), "a", (5,)).after, "a").after
    ledger = allocate(ledger, "b", (6,)).after
    step = append_slot(ledger, "b", 7)
    assert step.result == 0
    assert step.change.evicted == ((0, ids(1, 5)[0]),)


def test_operations_leave_the_ledger_that_they_are_given_alone() -> None:
    before = example_2().after
    copy = before._replace(hash_to_block=dict(before.hash_to_block), sequences=dict(before.sequences))
    allocate(before, "c", (9, 9, 9))
    append_slot(before, "a", 1)
    free(before, "b")
    assert before == copy


def test_arithmetic() -> None:
    assert [blocks_for(n, 4) for n in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
    assert [match_limit(n, 4) for n in (1, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]
    ledger = free(example_2().after, "a").after
    assert available(ledger, ()) == ledger.num_free_blocks == 5
    assert available(ledger, (0, 1)) == 5  # both are held by "b"
    ledger = free(ledger, "b").after
    assert available(ledger, (0, 1)) == 6
    assert [can_allocate(ledger, n) for n in (16, 17)] == [True, False]

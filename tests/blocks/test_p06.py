"""The seed, line by line: examples 1 to 3, the trace table, the self-check and the acceptance list.

Lay it beside the seed: every call stands there in this order, and `ledger` is what the seed says after it.
"""

from array import array
from collections.abc import Callable

import pytest

from kvblocks import BlockManager, Key, OutOfBlocks
from kvblocks.arithmetic import TOKEN
from kvblocks.hashing import STRATEGIES

Make = Callable[..., BlockManager]
CACHE_OFF = False


@pytest.fixture(params=["sha256", "builtin"])
def make(request: pytest.FixtureRequest) -> Make:
    def made(num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> BlockManager:
        return BlockManager(num_blocks, block_size, enable_prefix_cache, hasher=request.param)

    return made


def key(bm: BlockManager, *prefix: int) -> Key:
    """The hash chain of a prefix of full blocks: h_i = hash((h_{i-1}, tuple(tokens of block_i))), from None."""
    hasher = next(hasher for hasher in STRATEGIES.values() if hasher is bm._hasher)
    h: Key = None
    for start in range(0, len(prefix), bm.block_size):
        h = hasher(h, array(TOKEN, prefix[start : start + bm.block_size]).tobytes(), ())
    return h


def ledger(
    bm: BlockManager,
    *,
    free: list[int],
    evictable: list[int],
    ref: str,
    registered: dict[int, list[int]] | None = None,
) -> None:
    """The manager's whole pool is this: `registered` gives for each block with a hash the prefix it ends.

    No block of these tests is a duplicate, so each hash has its mapping.
    """
    state = bm.observe()
    assert state.free == tuple(free)
    assert state.evictable == tuple(evictable)
    assert "".join(map(str, state.ref)) == ref
    hashes = {block: key(bm, *prefix) for block, prefix in (registered or {}).items()}
    assert state.block_hash == tuple(hashes.get(block) for block in range(bm.num_blocks))
    assert state.hash_to_block == {h: block for block, h in hashes.items()}
    assert bm.num_free_blocks == len(free) + len(evictable)


def test_example_1_prefix_cache_off(make: Make) -> None:
    bm = make(6, 4, CACHE_OFF)
    ledger(bm, free=[0, 1, 2, 3, 4, 5], evictable=[], ref="000000")

    assert bm.allocate("x", [11, 12, 13, 14, 15, 16]) == [0, 1]  # ceil(6/4) = 2 blocks
    assert bm.num_free_blocks == 4
    ledger(bm, free=[2, 3, 4, 5], evictable=[], ref="110000")
    assert bm.slot("x", 5) == 5  # table[5//4]*4 + 5%4 = 1*4 + 1
    assert bm.append_slot("x", 17) == 6  # pos 6: block 1 has room
    assert bm.append_slot("x", 18) == 7  # pos 7: block 1 is full
    ledger(bm, free=[2, 3, 4, 5], evictable=[], ref="110000")
    assert bm.append_slot("x", 19) == 8  # pos 8: a third block
    assert bm.block_table("x") == [0, 1, 2]
    assert bm.num_free_blocks == 3
    ledger(bm, free=[3, 4, 5], evictable=[], ref="111000")
    assert bm.num_cached_tokens("x") == 0
    bm.free("x")  # returned in reverse: 2, 1, 0
    ledger(bm, free=[3, 4, 5, 2, 1, 0], evictable=[], ref="000000")
    assert bm.allocate("y", [1, 2, 3]) == [3]
    ledger(bm, free=[4, 5, 2, 1, 0], evictable=[], ref="000100")


def test_example_2_prefix_sharing(make: Make) -> None:
    bm = make(8, 2)
    h0, h1 = [1, 2], [1, 2, 3, 4]

    assert bm.allocate("a", [1, 2, 3, 4, 5]) == [0, 1, 2]  # 2 = [5] is not full: not registered
    assert bm.num_cached_tokens("a") == 0
    ledger(bm, free=[3, 4, 5, 6, 7], evictable=[], ref="11100000", registered={0: h0, 1: h1})

    assert bm.allocate("b", [1, 2, 3, 4, 6]) == [0, 1, 3]  # (5-1)//2 = 2 matchable, both hit; 3 is new
    assert bm.num_cached_tokens("b") == 4
    assert bm.num_free_blocks == 4
    ledger(bm, free=[4, 5, 6, 7], evictable=[], ref="22110000", registered={0: h0, 1: h1})

    bm.free("a")  # in reverse: block 2 to the free list, 1 and 0 to ref 1
    assert bm.num_free_blocks == 5
    ledger(bm, free=[4, 5, 6, 7, 2], evictable=[], ref="11010000", registered={0: h0, 1: h1})

    bm.free("b")  # in reverse: block 3 to the free list, then 1 (the oldest), then 0
    assert bm.num_free_blocks == 8
    ledger(bm, free=[4, 5, 6, 7, 2, 3], evictable=[1, 0], ref="00000000", registered={0: h0, 1: h1})

    # (4-1)//2 = 1 matchable: block 0 is revived. [3, 4] is cached in block 1 and may not be hit.
    assert bm.allocate("c", [1, 2, 3, 4]) == [0, 4]
    assert bm.num_cached_tokens("c") == 2
    state = bm.observe()
    assert (state.free, state.evictable, state.ref) == ((5, 6, 7, 2, 3), (1,), (1, 0, 0, 0, 1, 0, 0, 0))
    assert state.hash_to_block == {key(bm, *h0): 0, key(bm, *h1): 1}  # where one exists, the old one stays
    assert state.block_hash[4] == key(bm, *h1)  # and the copy carries the hash without the mapping


def test_example_3_hits_on_evictable_blocks_use_up_places(make: Make) -> None:
    bm = make(3, 2)
    registered = {0: [1, 2], 1: [1, 2, 3, 4]}
    assert bm.allocate("a", [1, 2, 3, 4, 5]) == [0, 1, 2]
    bm.free("a")
    assert bm.num_free_blocks == 3
    ledger(bm, free=[2], evictable=[1, 0], ref="000", registered=registered)

    before = bm.observe()
    with pytest.raises(OutOfBlocks):
        bm.allocate("b", [1, 2, 3, 4, 5, 6, 7])  # needs 4, hits 0 and 1, both evictable: 4-2 = 2 > 3-2 = 1
    assert bm.num_free_blocks == 3
    assert bm.observe() == before  # nothing has changed at all
    ledger(bm, free=[2], evictable=[1, 0], ref="000", registered=registered)

    assert bm.allocate("b", [1, 2, 3, 4, 5, 6]) == [0, 1, 2]
    assert bm.num_cached_tokens("b") == 4
    assert bm.num_free_blocks == 0
    ledger(bm, free=[], evictable=[], ref="111", registered={**registered, 2: [1, 2, 3, 4, 5, 6]})


def test_trace_a_block_filled_by_append_enters_the_cache_and_is_evicted(make: Make) -> None:
    bm = make(3, 2)
    h0, h1 = [7, 8], [7, 8, 9, 10]

    assert bm.allocate("a", [7, 8, 9]) == [0, 1]  # block 0 is full, 1 = [9] is not
    ledger(bm, free=[2], evictable=[], ref="110", registered={0: h0})
    assert bm.append_slot("a", 10) == 3  # block 1, offset 1: just full, h1 from its parent h0
    ledger(bm, free=[2], evictable=[], ref="110", registered={0: h0, 1: h1})
    bm.free("a")  # in reverse: block 1 enters first
    ledger(bm, free=[2], evictable=[1, 0], ref="000", registered={0: h0, 1: h1})
    assert bm.allocate("b", [7, 8, 9, 10, 11]) == [0, 1, 2]  # 2 matchable, both hit
    assert bm.num_cached_tokens("b") == 4
    ledger(bm, free=[], evictable=[], ref="111", registered={0: h0, 1: h1})
    bm.free("b")  # block 2 = [11] has no hash
    ledger(bm, free=[2], evictable=[1, 0], ref="000", registered={0: h0, 1: h1})
    assert bm.allocate("z", [50, 51, 52, 53, 54, 55]) == [2, 1, 0]  # the free one, then 1 and 0 are evicted
    z = {2: [50, 51], 1: [50, 51, 52, 53], 0: [50, 51, 52, 53, 54, 55]}
    ledger(bm, free=[], evictable=[], ref="111", registered=z)
    bm.free("z")
    ledger(bm, free=[], evictable=[0, 1, 2], ref="000", registered=z)
    assert bm.allocate("b2", [7, 8, 9, 10, 11]) == [0, 1, 2]  # three new blocks
    assert bm.num_cached_tokens("b2") == 0  # h0 and h1 went with the eviction
    ledger(bm, free=[], evictable=[], ref="111", registered={0: h0, 1: h1})


def test_self_check_the_first_free_of_a_shared_block_returns_the_unshared_ones_only(make: Make) -> None:
    bm = make(8, 2)
    assert bm.allocate("a", [1, 2, 3, 4, 5, 6, 7]) == [0, 1, 2, 3]
    assert bm.allocate("b", [1, 2, 8]) == [0, 4]  # shares block 0
    registered = {0: [1, 2], 1: [1, 2, 3, 4], 2: [1, 2, 3, 4, 5, 6]}
    ledger(bm, free=[5, 6, 7], evictable=[], ref="21111000", registered=registered)
    bm.free("a")
    assert bm.num_free_blocks == 3 + 3  # 3, 2 and 1, but not 0
    ledger(bm, free=[5, 6, 7, 3], evictable=[2, 1], ref="10001000", registered=registered)
    bm.free("b")
    assert bm.num_free_blocks == 8
    ledger(bm, free=[5, 6, 7, 3, 4], evictable=[2, 1, 0], ref="00000000", registered=registered)


# The acceptance list.


def test_slot_mapping(make: Make) -> None:
    bm = make(6, 4)
    bm.allocate("gap", [1])
    bm.allocate("x", [11, 12, 13, 14])
    bm.append_slot("gap", 2)
    bm.allocate("other", [3])
    for token in range(15, 21):
        bm.append_slot("x", token)
    table = bm.block_table("x")
    assert table == [1, 3, 4]  # the rooms of a group need not be adjacent
    assert [bm.slot("x", pos) for pos in range(10)] == [table[pos // 4] * 4 + pos % 4 for pos in range(10)]


def test_append_across_a_block_boundary(make: Make) -> None:
    bm = make(3, 2)
    bm.allocate("x", [1])
    assert [bm.append_slot("x", token) for token in (2, 3, 4, 5)] == [1, 2, 3, 4]
    assert bm.block_table("x") == [0, 1, 2]
    assert bm.num_free_blocks == 0


def test_out_of_blocks_is_atomic(make: Make) -> None:
    bm = make(2, 2)
    bm.allocate("x", [1, 2, 3, 4])
    before = bm.observe()
    with pytest.raises(OutOfBlocks):
        bm.append_slot("x", 5)
    with pytest.raises(OutOfBlocks):
        bm.allocate("y", [1, 2, 3])
    assert bm.observe() == before
    bm.free("x")
    assert bm.allocate("y", [1, 2, 3]) == [0, 1]
    assert bm.append_slot("y", 4) == 3


def test_free_returns_everything(make: Make) -> None:
    for cache in True, False:
        bm = make(7, 2, cache)
        bm.allocate("a", [1, 2, 3, 4, 5])
        bm.allocate("b", [1, 2, 3, 9])
        bm.append_slot("a", 6)
        bm.append_slot("a", 7)
        for seq_id in "a", "b":
            bm.free(seq_id)
        assert bm.num_free_blocks == 7
        state = bm.observe()
        assert sorted(state.free + state.evictable) == list(range(7))
        assert not (state.tables or state.tokens or state.hashes or state.cached)


def test_prefix_sharing_and_reference_counts(make: Make) -> None:
    bm = make(8, 2)
    assert bm.allocate("a", [1, 2, 3, 4, 5]) == [0, 1, 2]
    assert bm.allocate("b", [1, 2, 3, 4, 6]) == [0, 1, 3]
    assert bm.allocate("c", [1, 2, 9, 9, 9]) == [0, 4, 5]
    assert bm.observe().ref == (3, 2, 1, 1, 1, 1, 0, 0)
    assert [bm.num_cached_tokens(seq_id) for seq_id in "abc"] == [0, 4, 2]
    assert bm.allocate("other prefix", [7, 7, 3, 4]) == [6, 7]  # equal content, other prefix: no hit
    assert bm.num_cached_tokens("other prefix") == 0


def test_still_hittable_after_free_and_the_last_token_never_hits(make: Make) -> None:
    bm = make(8, 4)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8]
    bm.allocate("a", prompt)
    bm.free("a")
    assert bm.allocate("b", prompt) == [0, 2]  # (8-1)//4 = 1: one token at least is computed
    assert bm.num_cached_tokens("b") == 4
    bm.free("b")
    assert bm.allocate("c", [*prompt, 9]) == [0, 1, 3]
    assert bm.num_cached_tokens("c") == 8


def test_no_hit_after_eviction(make: Make) -> None:
    bm = make(2, 2)
    bm.allocate("a", [1, 2, 3, 4])
    bm.free("a")
    bm.allocate("b", [5])  # evicts block 1, the tail of "a"
    bm.free("b")
    bm.allocate("c", [1, 2, 3, 4])
    assert bm.num_cached_tokens("c") == 2  # block 0 is still there
    bm.free("c")
    bm.allocate("d", [5, 6, 7, 8])  # evicts both
    bm.free("d")
    bm.allocate("e", [1, 2, 3])
    assert bm.num_cached_tokens("e") == 0


def test_a_block_filled_by_append_enters_the_cache(make: Make) -> None:
    bm = make(8, 2)
    bm.allocate("a", [1])  # the very first block is filled by append, too: one sentinel for both
    for token in 2, 3, 4:
        bm.append_slot("a", token)
    assert bm.allocate("b", [1, 2, 3, 4, 5]) == [0, 1, 2]
    assert bm.num_cached_tokens("b") == 4


def test_eviction_spares_the_mapping_of_another_copy(make: Make) -> None:
    bm = make(4, 2)
    bm.allocate("a", [1, 2])
    assert bm.allocate("b", [1, 2]) == [1]  # the last token never hits: a copy
    bm.free("b")
    bm.free("a")
    assert bm.observe().evictable == (1, 0)
    assert bm.allocate("c", [3, 3, 3, 3, 3, 3]) == [2, 3, 1]  # evicts the copy
    assert bm.observe().hash_to_block[key(bm, 1, 2)] == 0
    bm.free("c")
    bm.allocate("d", [1, 2, 4])
    assert bm.num_cached_tokens("d") == 2


def test_can_allocate_is_coarse(make: Make) -> None:
    bm = make(4, 2)
    bm.allocate("a", [1, 2, 3, 4, 5])
    assert [bm.can_allocate(n) for n in (0, 1, 2, 3)] == [True, True, True, False]
    assert not bm.can_allocate(5)
    assert bm.allocate("b", [1, 2, 3, 4, 6]) == [0, 1, 3]  # allocate counts its hits


def test_prefix_cache_off(make: Make) -> None:
    bm = make(4, 2, CACHE_OFF)
    for _ in range(3):
        bm.allocate("a", [1, 2, 3])
        bm.append_slot("a", 4)
        assert bm.num_cached_tokens("a") == 0
        bm.free("a")
        state = bm.observe()
        assert (state.evictable, state.hash_to_block, state.block_hash) == ((), {}, (None,) * 4)
        assert sorted(state.free) == [0, 1, 2, 3]

"""Beyond the seed: misuse, exceptions from outside, copies, memory, and a long prompt."""

import gc
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

import kvblocks
from kvblocks import (
    BlockManager,
    BlockManagerError,
    InvalidArgument,
    OutOfBlocks,
    PositionOutOfRange,
    SequenceExists,
    UnknownSequence,
)
from kvblocks.hashing import STRATEGIES

NO_TOKENS: list[Any] = [-1, -(2**70), 2**32, 2**70, True, False, None, "1", b"1", 1.0, float("nan"), [1]]
NO_SIZES: list[Any] = [0, -1, True, None, "4", 4.0]


def busy() -> BlockManager:
    """A pool in which everything is there: free, evictable, shared and partial blocks."""
    manager = BlockManager(8, 2)
    manager.allocate("live", [1, 2, 3, 4])  # its next token needs a block
    manager.allocate("partial", [1, 2, 5])
    manager.allocate("gone", [6, 7, 8])
    manager.free("gone")
    assert (manager.num_free_blocks, manager.observe().evictable) == (5, (3,))
    return manager


Call = Callable[[BlockManager], object]
MISUSE: list[tuple[str, type[BlockManagerError], Call]] = [
    ("allocate a live id", SequenceExists, lambda m: m.allocate("live", [9])),
    ("allocate nothing", InvalidArgument, lambda m: m.allocate("new", [])),
    ("allocate no tokens left", InvalidArgument, lambda m: m.allocate("new", iter(()))),
    ("append to an unknown id", UnknownSequence, lambda m: m.append_slot("new", 1)),
    ("append to a freed id", UnknownSequence, lambda m: m.append_slot("gone", 1)),
    ("free an unknown id", UnknownSequence, lambda m: m.free("new")),
    ("free twice", UnknownSequence, lambda m: m.free("gone")),
    ("slot of an unknown id", UnknownSequence, lambda m: m.slot("new", 0)),
    ("cached tokens of an unknown id", UnknownSequence, lambda m: m.num_cached_tokens("gone")),
    ("table of an unknown id", UnknownSequence, lambda m: m.block_table("gone")),
    ("slot before the first", PositionOutOfRange, lambda m: m.slot("live", -1)),
    ("slot after the last", PositionOutOfRange, lambda m: m.slot("live", 4)),
    ("slot not written yet", PositionOutOfRange, lambda m: m.slot("partial", 3)),
    ("can_allocate less than nothing", InvalidArgument, lambda m: m.can_allocate(-1)),
    ("can_allocate True", InvalidArgument, lambda m: m.can_allocate(True)),
    ("allocate too much", OutOfBlocks, lambda m: m.allocate("new", list(range(11)))),
]


@pytest.mark.parametrize(("error", "call"), [row[1:] for row in MISUSE], ids=[row[0] for row in MISUSE])
def test_misuse_has_a_name_and_changes_nothing(error: type[BlockManagerError], call: Call) -> None:
    manager = busy()
    before = manager.observe()
    with pytest.raises(error) as caught:
        call(manager)
    assert type(caught.value) is error
    assert manager.observe() == before


@pytest.mark.parametrize("token", NO_TOKENS, ids=repr)
def test_what_is_no_token_id_is_refused_wherever_it_stands(token: Any) -> None:
    manager = busy()
    before = manager.observe()
    for seq_id in "live", "partial":  # the token would need a block, would fill a block
        with pytest.raises(InvalidArgument):
            manager.append_slot(seq_id, token)
    for place in range(4):
        prompt: list[Any] = [1, 2, 3]
        prompt.insert(place, token)
        with pytest.raises(InvalidArgument):
            manager.allocate("new", prompt)
    assert manager.observe() == before


def test_the_extreme_token_ids_are_valid() -> None:
    manager = BlockManager(4, 2)
    manager.allocate("a", [0, 2**32 - 1])
    manager.append_slot("a", 2**32 - 1)
    manager.append_slot("a", 0)
    assert manager.allocate("b", [0, 2**32 - 1, 2**32 - 1, 0, 1])[:2] == manager.block_table("a")


@pytest.mark.parametrize("size", NO_SIZES, ids=repr)
def test_bad_sizes(size: Any) -> None:
    with pytest.raises(InvalidArgument, match="num_blocks"):
        BlockManager(size, 4)
    with pytest.raises(InvalidArgument, match="block_size"):
        BlockManager(4, size)


def test_every_error_is_a_block_manager_error_and_the_builtin_one_expects() -> None:
    assert issubclass(BlockManagerError, Exception)
    for error, builtin in [
        (OutOfBlocks, Exception),
        (InvalidArgument, ValueError),
        (SequenceExists, ValueError),
        (UnknownSequence, KeyError),
        (PositionOutOfRange, IndexError),
    ]:
        assert issubclass(error, BlockManagerError)
        assert issubclass(error, builtin)
        assert getattr(kvblocks, error.__name__) is error
    faults = (InvalidArgument, SequenceExists, UnknownSequence, PositionOutOfRange)
    assert not issubclass(OutOfBlocks, faults)  # a refusal is no fault: `except OutOfBlocks` hides none
    assert not any(issubclass(fault, OutOfBlocks) for fault in faults)


MESSAGES: list[tuple[str, Call]] = [
    ("no live sequence 'new'", lambda m: m.free("new")),
    ("sequence 'live' is live: free it first", lambda m: m.allocate("live", [1])),
    ("position 4 is not in 0 .. 3", lambda m: m.slot("live", 4)),
    ("allocate needs 6 new blocks, 5 are available", lambda m: m.allocate("new", [9] * 11)),
    ("a token id is an integer in 0 .. 2**32 - 1, not -1", lambda m: m.append_slot("live", -1)),
]


@pytest.mark.parametrize(("message", "call"), MESSAGES, ids=[row[0] for row in MESSAGES])
def test_messages_say_what_is_wrong(message: str, call: Call) -> None:
    with pytest.raises(BlockManagerError) as caught:
        call(busy())
    assert str(caught.value) == message


# What others raise.


class Interrupted(Exception):
    """Not of our making."""


class FailingHasher:
    """SHA-256 that raises at its n-th call from now on."""

    def __init__(self) -> None:
        self.calls_left = -1

    def __call__(self, parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> object:
        self.calls_left -= 1
        if self.calls_left == 0:
            raise Interrupted
        return STRATEGIES["sha256"](parent, tokens, extra)


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4])
def test_a_hasher_that_raises_in_allocate_changes_nothing(fails_at: int) -> None:
    hasher = FailingHasher()
    manager = BlockManager(8, 2, hasher=hasher)
    manager.allocate("live", [1, 2, 3])
    manager.allocate("gone", [1, 2, 4, 4, 4])
    manager.free("gone")
    before = manager.observe()
    hasher.calls_left = fails_at
    prompt = [1, 2, 4, 4, 5, 5, 6, 6, 7]  # two hits, one of them idle, and two new full blocks
    with pytest.raises(Interrupted):
        manager.allocate("new", prompt)
    assert manager.observe() == before
    assert manager.allocate("new", prompt)[:2] == [0, 2]
    assert manager.num_cached_tokens("new") == 4


@pytest.mark.parametrize("block_size", [1, 2])  # the token that fills a block needs a new one, or does not
def test_a_hasher_that_raises_in_append_changes_nothing(block_size: int) -> None:
    hasher = FailingHasher()
    manager = BlockManager(2, block_size, hasher=hasher)
    manager.allocate("live", [1])
    before = manager.observe()
    hasher.calls_left = 1
    with pytest.raises(Interrupted):
        manager.append_slot("live", 2)
    assert manager.observe() == before
    assert manager.append_slot("live", 2) == 1


@pytest.mark.parametrize("read", range(6))
def test_tokens_that_raise_while_they_are_read_change_nothing(read: int) -> None:
    def tokens() -> Iterator[int]:
        yield from [1, 2, 3, 4, 5][:read]
        raise Interrupted

    manager = busy()
    before = manager.observe()
    with pytest.raises(Interrupted):
        manager.allocate("new", tokens())
    assert manager.observe() == before


UNUSABLE: list[tuple[object, type[Exception]]] = [([], TypeError), ({}, TypeError), (None, InvalidArgument)]


@pytest.mark.parametrize(("key", "error"), UNUSABLE, ids=["list", "dict", "None"])
def test_a_key_that_cannot_be_used_changes_nothing(key: Any, error: type[Exception]) -> None:
    keys: list[Any] = []
    manager = BlockManager(4, 2, hasher=lambda parent, tokens, extra: keys.pop(0))
    keys[:] = ["first"]
    manager.allocate("live", [1, 2, 3])
    before = manager.observe()
    keys[:] = ["second", key]
    with pytest.raises(error):
        manager.allocate("new", [4, 5, 6, 7])
    keys[:] = [key]
    with pytest.raises(error):
        manager.append_slot("live", 4)
    assert manager.observe() == before


@pytest.mark.parametrize("key", [0, False, "", b"", ()], ids=repr)
def test_a_falsy_key_is_a_key(key: Any) -> None:
    manager = BlockManager(2, 1, hasher=lambda parent, tokens, extra: key)
    manager.allocate("a", [1])
    manager.free("a")
    assert manager.observe().evictable == (0,)
    assert manager.allocate("b", [1, 2]) == [0, 1]


@pytest.mark.parametrize("seq_id", [0, "", None, ("user", 7), frozenset()], ids=repr)
def test_any_hashable_is_a_sequence_id(seq_id: Any) -> None:
    manager = BlockManager(2, 2)
    assert manager.allocate(seq_id, [1]) == [0]
    assert manager.append_slot(seq_id, 2) == 1
    assert manager.slot(seq_id, 1) == 1
    manager.free(seq_id)
    assert manager.num_free_blocks == 2


def test_an_unhashable_sequence_id_changes_nothing() -> None:
    manager = busy()
    before = manager.observe()
    unhashable: Any = ["live"]
    for call in (
        lambda: manager.allocate(unhashable, [1]),
        lambda: manager.append_slot(unhashable, 1),
        lambda: manager.free(unhashable),
    ):
        with pytest.raises(TypeError):
            call()
    assert manager.observe() == before


# Lists and copies.


def test_returned_lists_are_copies_and_the_callers_list_is_not_kept() -> None:
    manager = BlockManager(4, 2)
    prompt = [1, 2, 3]
    mine = manager.allocate("a", prompt)
    before = manager.observe()
    for own in prompt, mine, manager.block_table("a"):
        own.reverse()
        own.append(99)
    assert manager.observe() == before
    assert manager.block_table("a") == [0, 1]


def test_an_observation_is_a_copy() -> None:
    manager = busy()
    before, spoiled = manager.observe(), manager.observe()
    for part in spoiled:
        if isinstance(part, dict):
            assert not any(isinstance(value, list) for value in part.values())
            part.clear()
        else:
            assert type(part) is tuple
    assert manager.observe() == before
    assert manager.observe() is not manager.observe()


def test_reads_change_nothing() -> None:
    manager = busy()
    before = pickle.dumps(manager.observe())
    for _ in range(2):
        for seq_id, tokens in manager.observe().tokens.items():
            for pos in range(len(tokens)):
                manager.slot(seq_id, pos)
            manager.num_cached_tokens(seq_id)
            manager.block_table(seq_id)
        for length in range(20):
            manager.can_allocate(length)
        _ = manager.num_free_blocks
    assert pickle.dumps(manager.observe()) == before


def test_a_prompt_may_be_any_iterable() -> None:
    tables = []
    for prompt in [1, 2, 3], (1, 2, 3), iter([1, 2, 3]), range(1, 4), bytes([1, 2, 3]), {1: 0, 2: 0, 3: 0}:
        manager = BlockManager(4, 2)
        manager.allocate("a", prompt)
        tables.append(manager.observe())
    assert all(one == other for one, other in pairwise(tables))


# Endurance.


def work(manager: BlockManager, rounds: int) -> None:
    """Allocate, decode and free, so that everything is evicted again and again."""
    rng = random.Random(7)
    for i in range(rounds):
        try:
            manager.allocate(i, [rng.randrange(3) for _ in range(rng.randrange(1, 9))])
            for _ in range(rng.randrange(6)):
                manager.append_slot(i, rng.randrange(3))
        except OutOfBlocks:
            pass
        for seq_id in list(manager.observe().tables)[:-2]:
            manager.free(seq_id)


def test_memory_is_returned() -> None:
    manager = BlockManager(12, 2)
    work(manager, 300)
    gc.collect()
    tracemalloc.start()
    try:
        work(manager, 100)
        gc.collect()
        early, _ = tracemalloc.get_traced_memory()
        work(manager, 1000)
        gc.collect()
        late, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert late - early < 20_000
    for seq_id in manager.observe().tables:
        manager.free(seq_id)
    state = manager.observe()
    assert len(state.free) + len(state.evictable) == manager.num_free_blocks == 12
    assert len(state.hash_to_block) <= 12
    assert not (state.tables or state.tokens or state.hashes or state.cached)


@pytest.mark.parametrize("hasher", ["sha256", "builtin"])
def test_a_prompt_of_2000_blocks(hasher: str) -> None:
    manager = BlockManager(4_001, 1, hasher=hasher)
    prompt = [i % 5 for i in range(2_000)]
    assert manager.allocate("a", prompt) == list(range(2_000))
    assert manager.allocate("b", [*prompt, 9]) == list(range(2_001))
    assert manager.num_cached_tokens("b") == 2_000
    manager.free("a")
    manager.free("b")
    assert manager.observe().evictable == tuple(range(2_000, -1, -1))
    assert manager.num_free_blocks == 4_001


class TokenId(int):
    """As an enumeration of special tokens has them."""


def test_a_token_id_of_a_subclass_of_int_is_its_number() -> None:
    manager = BlockManager(8, 2)
    manager.allocate("a", [TokenId(1), 2, TokenId(3)])
    manager.append_slot("a", TokenId(0))
    manager.extend("a", [TokenId(2**32 - 1)])
    assert manager.observe().tokens["a"] == (1, 2, 3, 0, 2**32 - 1)
    with pytest.raises(InvalidArgument):
        manager.allocate("b", [1, TokenId(2**32)])
    with pytest.raises(InvalidArgument):
        manager.append_slot("a", TokenId(-1))

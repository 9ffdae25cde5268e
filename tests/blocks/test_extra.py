"""Extra keys of kvblocks: what is accepted, which block carries what, and that no two extras share a key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvblocks import BlockManager, Image, InvalidArgument, Lora
from kvblocks.extra import Extra, check_extra, parts_of_block
from kvspec.extra import Image as SpecImage
from kvspec.extra import Lora as SpecLora
from kvspec.extra import extra_of
from kvspec.identity import chain_from

Given = tuple[str | None, tuple[str, str] | None, tuple[tuple[bytes, int, int], ...]]
NUM_TOKENS = 12

names = st.text(min_size=1, max_size=2) | st.sampled_from(("salt", "lora", "image"))
cuts = st.sets(st.integers(0, NUM_TOKENS), max_size=6).map(sorted)
hashes = st.lists(st.binary(min_size=1, max_size=3), min_size=3, max_size=3)
images = st.builds(
    lambda at, found: tuple((h, start, end - start) for h, start, end in zip(found, at[::2], at[1::2], strict=False)),
    cuts,
    hashes,
)
given_extras = st.tuples(st.none() | names, st.none() | st.tuples(names, names), images)


def checked(given: Given, num_tokens: int = NUM_TOKENS) -> Extra:
    return check_extra(*given, num_tokens)


def test_nothing_is_nothing() -> None:
    assert check_extra(None, None, (), 1) == check_extra(None, None, [], 1) == ()
    assert parts_of_block((), 0, 4) == ()


def test_each_kind_is_named_in_the_block_in_which_it_begins() -> None:
    extra = checked(("x", Lora("sql", "2"), (Image(b"cat", 5, 4), Image(b"dog", 0, 2))))
    assert parts_of_block(extra, 0, 4) == ("salt", "x", "lora", "sql", "2", "image", b"dog", 0, 2)
    assert parts_of_block(extra, 1, 4) == ("image", b"cat", 5, 4)
    assert parts_of_block(extra, 2, 4) == ()


@given(given_extras, given_extras, st.integers(1, 5))
@example(("x", None, ()), (None, ("salt", "x"), ()), 1)
@example((None, ("x", "11"), ()), (None, ("x1", "1"), ()), 1)
@example((None, None, ((b"x", 0, 1),)), (None, None, ((b"x", 1, 1),)), 4)
@example((None, None, ((b"x", 0, 2),)), (None, None, ((b"x", 0, 1),)), 4)
def test_no_two_extras_have_the_same_parts_in_all_blocks(one: Given, other: Given, size: int) -> None:
    num_blocks = -(-NUM_TOKENS // size)
    parts = [[parts_of_block(checked(given), i, size) for i in range(num_blocks)] for given in (one, other)]
    assert (parts[0] == parts[1]) == (checked(one) == checked(other)) == (one == other)


@given(given_extras, given_extras, st.integers(1, 4))
def test_blocks_are_shared_exactly_where_the_specification_has_one_identity(
    one: Given, other: Given, size: int
) -> None:
    prompt = [0] * NUM_TOKENS
    manager = BlockManager(64, size)
    chains = []
    for seq, (salt, lora, pictures) in (("a", one), ("b", other)):
        manager.allocate(seq, prompt, salt=salt, lora=lora, images=pictures)
        extra = extra_of(salt, SpecLora(*lora) if lora else None, [SpecImage(*image) for image in pictures])
        chains.append(list(chain_from(None, prompt, size, extra)))
    keys = manager.observe().hashes
    for ours, theirs, h, k in zip(keys["a"], keys["b"], *chains, strict=True):
        assert (ours == theirs) == (h is k)


BAD: list[dict[str, Any]] = [
    {"salt": ""},
    {"salt": 5},
    {"salt": b"x"},
    {"lora": "xy"},
    {"lora": ("x",)},
    {"lora": ("x", 1)},
    {"lora": ("", "1")},
    {"lora": ("x", "")},
    {"images": 5},
    {"images": [(b"x", 0)]},
    {"images": [b"xyz"]},
    {"images": [("x", 0, 1)]},
    {"images": [(b"", 0, 1)]},
    {"images": [(b"x", -1, 1)]},
    {"images": [(b"x", True, 1)]},
    {"images": [(b"x", 0, 0)]},
    {"images": [(b"x", 1, 2)]},
    {"images": [(b"x", 0, 2), (b"y", 1, 1)]},
    {"images": [(b"y", 1, 1), (b"x", 0, 2)]},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("cache", [True, False])
def test_a_bad_extra_is_named_and_changes_nothing(bad: dict[str, Any], cache: bool) -> None:
    manager = BlockManager(4, 1, cache)
    manager.allocate("a", [1], salt="x")
    before = manager.observe()
    with pytest.raises(InvalidArgument):
        manager.allocate("b", [1, 2], **bad)
    assert manager.observe() == before


def test_with_the_cache_off_an_extra_is_taken_and_says_nothing() -> None:
    manager = BlockManager(4, 1, enable_prefix_cache=False)
    assert manager.allocate("a", [1, 2], salt="x", images=[Image(b"x", 0, 1)]) == [0, 1]
    assert set(manager.observe().block_hash) == {None}


def test_what_is_appended_goes_on_under_the_same_extra() -> None:
    manager = BlockManager(8, 2)
    manager.allocate("a", [1], salt="x")
    manager.append_slot("a", 2)
    manager.allocate("b", [1, 2, 3], salt="x")
    manager.allocate("c", [1, 2, 3])
    assert (manager.num_cached_tokens("b"), manager.num_cached_tokens("c")) == (2, 0)


def test_the_extra_goes_with_the_sequence() -> None:
    manager = BlockManager(8, 2)
    manager.allocate("a", [1], salt="x")
    assert manager.observe().extra == {"a": ((0, ("salt", "x")),)}
    manager.free("a")
    assert manager.observe().extra == {}


def test_one_that_is_refused_leaves_no_extra() -> None:
    from kvblocks import OutOfBlocks

    manager = BlockManager(1, 1)
    with pytest.raises(OutOfBlocks):
        manager.allocate("a", [1, 2], salt="x")
    assert manager.observe().extra == {}


@pytest.mark.parametrize("hasher", ["sha256", "builtin"])
def test_each_strategy_is_given_the_extra(hasher: str) -> None:
    manager = BlockManager(8, 1, hasher=hasher)
    manager.allocate("a", [1, 2], salt="x")
    manager.allocate("b", [1, 2], salt="y")
    manager.allocate("c", [1, 2], salt="x")
    assert (manager.num_cached_tokens("b"), manager.num_cached_tokens("c")) == (0, 1)

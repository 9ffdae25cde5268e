"""Hash strategies: the encoding tells all inputs apart, and what may be given as a hasher."""

from __future__ import annotations

import hashlib
import sys
from array import array
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvblocks import BlockManager, InvalidArgument
from kvblocks.arithmetic import TOKEN, TOKEN_BYTES
from kvblocks.hashing import STRATEGIES, builtin, encode, sha256, strategy, xxh3

Input = tuple[bytes | None, bytes, tuple[Any, ...]]

ADVERSARIAL = [0, 1, 255, 256, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**32 - 1]


def packed(*token_ids: int) -> bytes:
    """The token ids of a block, as a strategy is given them."""
    return array(TOKEN, token_ids).tobytes()


tokens = st.lists(st.sampled_from(ADVERSARIAL) | st.integers(0, 2**32 - 1), max_size=4).map(lambda ids: packed(*ids))
extras = st.lists(
    st.text(st.characters(), max_size=4)
    | st.text("019b\0", max_size=4)
    | st.binary(max_size=6)
    | st.integers()
    | st.sampled_from([0, 1, "0", "1", b"0", b"1", "", b""]),
    max_size=3,
).map(tuple)
inputs = st.tuples(st.none() | st.binary(max_size=40), tokens, extras)


def decode(raw: bytes) -> Input:
    """The inverse of `encode`, written from its docstring: that there is one makes the encoding injective."""

    def take(size: int) -> bytes:
        nonlocal raw
        assert len(raw) >= size
        taken, raw = raw[:size], raw[size:]
        return taken

    def number() -> int:
        return int.from_bytes(take(4), "little")

    extra: list[Any] = []
    head = take(1)[0]
    for _ in range(number() if head == 255 else 0):
        tag, item = take(1), take(number())
        if tag == b"b":
            extra.append(item)
        elif tag == b"s":
            extra.append(item.decode("utf-8", "surrogatepass"))
        else:
            assert tag == b"i"
            extra.append(int(item))
    if head == 255:
        head = take(1)[0]
    return None if head == 254 else take(head), raw, tuple(extra)


def typed(value: Input) -> object:
    """Equality that tells 1 from True and so on."""
    return value[0], value[1], [(type(item), item) for item in value[2]]


@given(inputs)
@example((None, b"", ()))
@example((b"", b"", ()))
@example((None, packed(1), ("\ud800",)))  # a lone surrogate
@example((b"\0" * 32, packed(0, 0), (-1, "-1", b"-1")))
def test_the_encoding_can_be_read_back(value: Input) -> None:
    assert typed(decode(encode(*value))) == typed(value)


@given(inputs, inputs)
@example((None, packed(0), ()), (b"", packed(0), ()))
@example((None, packed(1, 0), ()), (None, packed(1), ()))
@example((None, packed(1), ("a", "b")), (None, packed(1), ("ab",)))
@example((None, packed(1), (1,)), (None, packed(1), ("1",)))
@example((None, packed(65537), ()), (None, packed(1), ()))
@example((None, packed(1, 2), ()), (None, packed(2, 1), ()))
@example((b"\1\2", packed(), ()), (b"\1", b"\2", ()))
def test_no_two_inputs_share_an_encoding(one: Input, other: Input) -> None:
    assert (encode(*one) == encode(*other)) == (typed(one) == typed(other))


@pytest.mark.parametrize("item", [None, 1.0, True, ("a",), ["a"], bytearray(b"a")], ids=repr)
def test_an_extra_key_that_has_no_encoding(item: Any) -> None:
    with pytest.raises(InvalidArgument, match="extra keys"):
        encode(None, packed(1), (item,))


def test_a_parent_that_is_no_digest_has_no_encoding() -> None:
    assert decode(encode(b"p" * 253, packed(1), ())) == (b"p" * 253, packed(1), ())
    with pytest.raises(IndexError):
        encode(b"p" * 254, packed(1), ())


def test_a_token_id_is_four_bytes() -> None:
    assert array(TOKEN).itemsize == TOKEN_BYTES
    assert packed(1, 2**32 - 1) == b"".join(token.to_bytes(4, sys.byteorder) for token in (1, 2**32 - 1))


def test_the_digests() -> None:
    block = packed(1, 2**32 - 1)
    first = hashlib.sha256(b"\xfe" + block).digest()
    assert sha256(None, block, ()) == first
    assert sha256(first, block, ()) == hashlib.sha256(b"\x20" + first + block).digest()
    assert builtin(None, block, ()) == hash((None, block))
    assert builtin(7, block, ("lora",)) == hash((7, block, ("lora",)))


def test_the_builtin_hash_collides_as_its_docstring_says() -> None:
    block = packed(1)
    assert builtin(-1, block, ()) == builtin(-2, block, ())
    assert builtin(None, block, (-1,)) == builtin(None, block, (-2,))
    assert sha256(None, block, (-1,)) != sha256(None, block, (-2,))


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_strategy_depends_on_every_part(name: str) -> None:
    if name == "xxh3":
        pytest.importorskip("xxhash")
    hasher = STRATEGIES[name]
    block = packed(1, 2)
    parent = hasher(None, block, ())
    keys = [
        parent,
        hasher(None, packed(2, 1), ()),
        hasher(None, packed(1, 65538), ()),
        hasher(parent, block, ()),
        hasher(None, block, ("image",)),
        hasher(parent, block, ("image",)),
    ]
    assert len(set(keys)) == len(keys)
    assert hasher(None, block, ()) == parent


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_manager_shares_under_each_strategy(name: str) -> None:
    if name == "xxh3":
        pytest.importorskip("xxhash")
    manager = BlockManager(8, 2, hasher=name)
    manager.allocate("a", [1, 2, 3, 4])
    assert manager.allocate("b", [1, 2, 3, 4, 5]) == [0, 1, 2]


def test_xxh3_is_xxhash() -> None:
    xxhash = pytest.importorskip("xxhash")
    key = xxh3(None, packed(1, 2), ())
    assert type(key) is bytes
    assert key == xxhash.xxh3_128_digest(encode(None, packed(1, 2), ()))


def test_xxh3_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(InvalidArgument, match="pip install xxhash"):
        BlockManager(4, 2, hasher="xxh3")
    BlockManager(4, 2, hasher="sha256")


@pytest.mark.parametrize("hasher", ["md5", "", "SHA256", None, 7, ("sha256",), []], ids=repr)
def test_what_is_no_hasher(hasher: Any) -> None:
    with pytest.raises(InvalidArgument, match="hasher"):
        BlockManager(4, 2, hasher=hasher)


def test_a_named_strategy_is_the_function_itself() -> None:
    assert strategy("sha256") is sha256
    assert strategy("builtin") is builtin


def test_a_callable_gets_the_chain() -> None:
    calls: list[tuple[Any, ...]] = []

    def recording(*arguments: Any) -> int:
        calls.append(arguments)
        return len(calls)

    manager = BlockManager(8, 2, hasher=recording)
    manager.allocate("a", [1, 2, 3, 4, 5])
    manager.append_slot("a", 6)
    manager.append_slot("a", 7)
    assert calls == [(None, packed(1, 2), ()), (1, packed(3, 4), ()), (2, packed(5, 6), ())]


def test_with_the_cache_off_the_hasher_is_not_called() -> None:
    def never(*arguments: Any) -> int:
        raise AssertionError

    manager = BlockManager(4, 2, False, hasher=never)
    manager.allocate("a", [1, 2, 3])
    manager.append_slot("a", 4)

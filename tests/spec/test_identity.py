"""Identity: equal prefixes are one object, however long they are, and nothing recurses."""

from __future__ import annotations

import copy
import gc
import pickle
import sys

import pytest

from kvspec import identity as module
from kvspec.extra import Image, Salt
from kvspec.identity import Identity, chain_from, identity

LONG = 100_000


def chain(length: int, token: int = 0) -> Identity:
    node: Identity | None = None
    for _ in range(length):
        node = identity(node, (token,))
    assert node is not None
    return node


def test_equal_prefixes_are_one_object() -> None:
    one = identity(identity(None, (1, 2)), [3, 4])
    two = identity(identity(None, iter((1, 2))), (3, 4))
    assert one is two
    assert one == two
    assert hash(one) == hash(two)


def test_different_prefixes_are_different() -> None:
    first = identity(None, (1, 2))
    nodes = [
        first,
        identity(None, (2, 1)),
        identity(None, (1,)),
        identity(None, ()),
        identity(None, (1, 2), (Salt("x"),)),
        identity(first, (1, 2)),
        identity(identity(None, (1,)), (2,)),
        identity(None, (1, 2, 0)),
    ]
    assert len(set(nodes)) == len(nodes)
    assert all(one != two for i, one in enumerate(nodes) for two in nodes[:i])


def test_an_identity_is_no_tuple() -> None:
    node: object = identity(None, (1, 2))
    assert node != (None, (1, 2), ())


def test_pairs_that_a_builtin_hash_confuses_are_apart() -> None:
    assert hash((None, (-1,))) == hash((None, (-2,)))
    assert identity(None, (-1,)) is not identity(None, (-2,))


def test_path_prefix_and_repr() -> None:
    first = identity(None, (1, 2))
    second = identity(first, (3,))
    assert second.path() == [first, second]
    assert second.prefix() == (1, 2, 3)
    assert repr(second) == "<1 2 3>"
    assert second.parent is first
    assert first.parent is None


def test_full_blocks_only() -> None:
    first = identity(None, (1, 2))
    second = identity(first, (3, 4))
    assert list(chain_from(None, (1, 2, 3, 4), 2)) == [first, second]
    assert list(chain_from(None, (1, 2, 3, 4, 5), 2)) == [first, second]
    assert list(chain_from(first, (3, 4), 2)) == [second]
    assert list(chain_from(None, (1,), 2)) == []
    assert list(chain_from(None, (), 2)) == []


def test_a_deep_chain_is_built_compared_and_hashed_without_recursion() -> None:
    assert sys.getrecursionlimit() < LONG
    one, two = chain(LONG), chain(LONG)
    assert one is two
    assert len({one, two}) == 1
    assert one != chain(LONG - 1)
    assert len(one.prefix()) == LONG
    assert len(repr(one)) > LONG


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda node: pickle.loads(pickle.dumps(node))])
def test_a_copy_is_the_same_object_however_deep(again: object) -> None:
    assert callable(again)
    for node in (identity(None, (1, 2), (Salt("x"), Image(b"x", 0, 2))), chain(LONG)):
        assert again(node) is node


def test_a_pickle_is_read_where_nobody_holds_the_node() -> None:
    node = identity(identity(None, (901,)), (902,), (Salt("tenant"),))
    pickled = pickle.dumps([node, node.parent])
    del node
    gc.collect()
    loaded, parent = pickle.loads(pickled)
    assert loaded.parent is parent
    assert (loaded.prefix(), loaded.extra) == ((901, 902), (Salt("tenant"),))
    assert loaded is identity(identity(None, (901,)), (902,), (Salt("tenant"),))


def test_what_nobody_holds_is_forgotten() -> None:
    gc.collect()
    before = len(module._nodes)
    node: Identity | None = identity(identity(None, (777_001,)), (777_002,))
    assert len(module._nodes) == before + 2
    del node
    gc.collect()
    assert len(module._nodes) == before


def test_a_deep_chain_is_forgotten_without_recursion() -> None:
    gc.collect()
    before = len(module._nodes)
    node: Identity | None = chain(LONG, token=777_003)
    assert len(module._nodes) == before + LONG
    del node
    gc.collect()
    assert len(module._nodes) == before


def test_a_node_that_is_held_keeps_its_prefix() -> None:
    node = identity(identity(None, (777_004,)), (777_005,))
    gc.collect()
    assert node.prefix() == (777_004, 777_005)
    assert identity(identity(None, (777_004,)), (777_005,)) is node

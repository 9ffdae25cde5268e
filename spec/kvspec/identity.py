"""Identity of a block's content: structural, so that equal identity *is* equal prefix.

An identity is a node `(parent, tokens, extra)`. The KV of a token depends on everything before it, so the
node of a block stands for the whole prefix that ends with the block, with what it depends on beside tokens
(`kvspec.extra`). Nodes are interned: there is one node for
each prefix, equality is `is`, and hashing takes O(1) however long the prefix is. (Nested tuples would recurse:
comparing two prefixes of 2,000 blocks breaks the recursion limit.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import ref

from kvspec.extra import Extra, of_block


class Identity:
    """A prefix. Make one with `identity`; two are equal exactly when they are the same object."""

    __slots__ = ("__weakref__", "extra", "parent", "tokens")

    def __init__(self, parent: Identity | None, tokens: tuple[int, ...], extra: Extra) -> None:
        self.parent = parent
        self.tokens = tokens
        self.extra = extra

    def path(self) -> list[Identity]:
        """The nodes from the first block of the prefix to this one. O(blocks)."""
        nodes: list[Identity] = []
        node: Identity | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def prefix(self) -> tuple[int, ...]:
        """All tokens of the prefix. O(tokens)."""
        return tuple(token for node in self.path() for token in node.tokens)

    def extra_of_all(self) -> Extra:
        """What the whole prefix depends on beside its tokens. O(blocks)."""
        return tuple(item for node in self.path() for item in node.extra)

    @property
    def is_known(self) -> bool:
        """Whether it stands for a prefix. What stands for something else has no tokens."""
        return bool(self.tokens)

    def __repr__(self) -> str:
        words = (word for node in self.path() for word in (*(f"[{item}]" for item in node.extra), *node.tokens))
        return f"<{' '.join(map(str, words))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy or an unpickled node must be the interned one, or it would equal nothing.
        return _from_path, (tuple((node.tokens, node.extra) for node in self.path()),)


_Key = tuple[Identity | None, tuple[int, ...], Extra]


class _Node(ref[Identity]):
    """A weak reference that knows where it is kept: a prefix that nobody speaks of any more is forgotten."""

    __slots__ = ("key",)
    key: _Key


_nodes: dict[_Key, _Node] = {}


def _forget(node: _Node) -> None:
    if _nodes.get(node.key) is node:
        del _nodes[node.key]


def identity(parent: Identity | None, tokens: Iterable[int], extra: Extra = ()) -> Identity:
    """The one node of these tokens after `parent`; None stands before the first block. O(len(tokens))."""
    key = (parent, tuple(tokens), extra)
    known = _nodes.get(key)
    found = known() if known is not None else None
    if found is None:
        found = Identity(*key)
        node = _nodes[key] = _Node(found, _forget)
        node.key = key
    return found


def chain_from(
    parent: Identity | None, tokens: Sequence[int], size: int, extra: Extra = (), first: int = 0
) -> Iterator[Identity]:
    """The identities of the full blocks of `tokens`, following `parent`; a partial last block has none.

    extra: what the sequence depends on beside tokens. first: the place of the first of these blocks in it.
    """
    for i in range(len(tokens) // size):
        parent = identity(parent, tokens[i * size : (i + 1) * size], of_block(extra, first + i, size))
        yield parent


def _from_path(path: tuple[tuple[tuple[int, ...], Extra], ...]) -> Identity:
    node: Identity | None = None
    for tokens, extra in path:
        node = identity(node, tokens, extra)
    assert node is not None
    return node

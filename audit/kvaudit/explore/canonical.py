"""The canonical form of a ledger: equal for two states exactly if they differ in names alone.

What has no name of its own is described by where it stands:

- a token by the prefix that it ends: the trie of prefixes is written without tokens, children sorted;
- a sequence by the node of the trie where it ends, its cached count and the blocks of its table;
- a block by the node whose identity it carries, and there by its place in the LRU order if it is evictable, or by
  whether it is the copy that is mapped. Live copies that are not mapped can be told apart only by who holds them:
  where a node has several, the smallest form over their orders is taken.

A form is a complete description, so that two states of one form are the same up to names. Each of the three
symmetries can be switched off; then the names themselves are part of the form.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, NamedTuple

from kvaudit.explore.moves import prefix_of
from kvspec.identity import Identity
from kvspec.ledger import Ledger

_PRIVATE, _MAPPED, _COPY = -1, -2, -3
"""Places of live blocks: without identity, mapped to, and (downwards) the copies that are not."""


_END, _CACHED = 0, 1
"""What stands at a node of the trie: the end of a sequence, or a cached block."""

_Standing = tuple[tuple[int, ...], Any]
"""A prefix, and what stands at its node."""

Form = tuple[Any, ...]
"""A canonical form: tuples of tuples, to be compared and looked up."""


class Symmetries(NamedTuple):
    """Which names do not count: block numbers, sequence ids, token ids (at each node of the prefix trie)."""

    blocks: bool = True
    sequences: bool = True
    tokens: bool = True


def canonical(ledger: Ledger, symmetries: Symmetries) -> Form:
    """The form of a ledger that satisfies I1 - I8. Costs O(tokens log tokens) but for live copies (see above)."""
    if not symmetries.blocks:
        mapped = tuple(h is not None and ledger.hash_to_block.get(h) == b for b, h in enumerate(ledger.block_hash))
        places: list[Any] = list(range(ledger.num_blocks))
        return ledger.free, ledger.evictable, mapped, _form(ledger, places, symmetries)
    places, copies = _places(ledger)
    if not copies:
        return _form(ledger, places, symmetries)
    return min(_form(ledger, ordered, symmetries) for ordered in _orders(places, copies))


def _places(ledger: Ledger) -> tuple[list[Any], list[list[int]]]:
    """A place for each block, and the groups of blocks whose places are interchangeable."""
    places: list[Any] = [_PRIVATE] * ledger.num_blocks
    copies: dict[Identity, list[int]] = {}
    mapping, ref = ledger.hash_to_block, ledger.ref
    for b, h in enumerate(ledger.block_hash):
        if h is not None and ref[b]:
            if mapping.get(h) == b:
                places[b] = _MAPPED
            else:
                copies.setdefault(h, []).append(b)
                places[b] = _COPY
    for place, b in enumerate(ledger.evictable):
        places[b] = place
    return places, [group for group in copies.values() if len(group) > 1]


def _orders(places: list[Any], copies: list[list[int]]) -> Iterator[list[Any]]:
    for orders in product(*(permutations(group) for group in copies)):
        ordered = places[:]
        for group in orders:
            for place, b in enumerate(group):
                ordered[b] = _COPY - place
        yield ordered


def _form(ledger: Ledger, places: list[Any], symmetries: Symmetries) -> Form:
    """The trie of prefixes, with the ends of sequences and the cached blocks that stand at its nodes."""
    standing: list[_Standing] = []
    for seq, record in ledger.sequences.items():
        held = (record.num_cached_tokens, *[places[b] for b in record.table])
        standing.append((record.tokens, (_END, *held) if symmetries.sequences else (_END, seq, *held)))
    for b in ledger.evictable:
        h = ledger.block_hash[b]
        assert h is not None
        standing.append((prefix_of(h), (_CACHED, places[b], ledger.hash_to_block.get(h) == b)))
    return _written(standing, 0, symmetries.tokens) if standing else ()


def _written(standing: list[_Standing], depth: int, anonymous: bool) -> Form:
    """The trie below a node of that depth: the run of tokens to the first node where something stands or parts."""
    tokens = standing[0][0]
    if len(standing) == 1:
        return (len(tokens) - depth if anonymous else tokens[depth:]), (standing[0][1],), ()
    at = depth
    nearest = min([len(prefix) for prefix, _ in standing])
    while at < nearest and all(prefix[at] == tokens[at] for prefix, _ in standing):
        at += 1
    here: list[Any] = []
    children: dict[int, list[_Standing]] = {}
    for one in standing:
        if len(one[0]) == at:
            here.append(one[1])
        else:
            children.setdefault(one[0][at], []).append(one)
    below = [_written(child, at, anonymous) for child in children.values()]
    here.sort()
    below.sort()
    return (at - depth if anonymous else tokens[depth:at]), tuple(here), tuple(below)

"""The canonical form tells apart what differs, and nothing else; each symmetry agrees with a search without it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from explore.reachable import reachable
from kvaudit.explore.canonical import Symmetries, canonical
from kvspec.identity import Identity
from kvspec.ledger import Ledger

ALL = Symmetries()
NONE = Symmetries(blocks=False, sequences=False, tokens=False)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize(
    ("blocks", "size", "symmetries"),
    [
        (2, 1, ALL._replace(blocks=False)),
        (2, 1, ALL._replace(sequences=False)),
        (2, 1, ALL._replace(tokens=False)),
        (2, 1, NONE),
        (2, 2, ALL._replace(blocks=False)),
        (2, 2, ALL._replace(sequences=False)),
        (2, 2, ALL._replace(tokens=False)),
        (2, 2, NONE._replace(tokens=True)),
        (3, 1, ALL._replace(blocks=False)),
        (3, 1, ALL._replace(sequences=False)),
        (3, 1, ALL._replace(tokens=False)),
    ],
)
def test_each_symmetry_agrees_with_a_search_without_it(
    blocks: int, size: int, symmetries: Symmetries, cache: bool
) -> None:
    up_to_all = set(reachable(blocks, size, ALL, cache))
    without = reachable(blocks, size, symmetries, cache)
    assert len(without) > len(up_to_all)
    assert {canonical(ledger, ALL) for ledger in without.values()} == up_to_all


@pytest.mark.parametrize(
    ("blocks", "size", "symmetries"),
    [
        (2, 1, NONE),
        (2, 2, NONE._replace(tokens=True)),
        (2, 2, ALL._replace(tokens=False)),
        (3, 1, ALL._replace(blocks=False)),
    ],
)
def test_two_forms_are_equal_exactly_if_a_renaming_makes_the_states_equal(
    blocks: int, size: int, symmetries: Symmetries
) -> None:
    """Against every renaming of blocks and every order of sequences, tokens named as they are met."""
    ledgers = reachable(blocks, size, symmetries).values()
    pairs = {(canonical(ledger, ALL), _smallest(ledger)) for ledger in ledgers}
    assert len(pairs) == len({form for form, _ in pairs}) == len({form for _, form in pairs})


def test_three_live_copies_of_a_block_are_told_apart_by_their_holders_only() -> None:
    """One block of one token, allocated three times: the prompt's last token is never a hit."""
    forms = {form for form in reachable(3, 1, ALL) if "-4" in repr(form)}
    assert forms


def _smallest(ledger: Ledger) -> Any:
    return min(
        _read(ledger, blocks, order)
        for blocks in permutations(range(ledger.num_blocks))
        for order in permutations(ledger.sequences)
    )


def _read(ledger: Ledger, blocks: tuple[int, ...], order: tuple[Any, ...]) -> Any:
    """Everything that the ledger says, with these names of blocks and this order of sequences."""
    trie: dict[tuple[int, ...], dict[int, int]] = {}

    def named(tokens: tuple[int, ...]) -> tuple[int, ...]:
        names = []
        for i, token in enumerate(tokens):
            known = trie.setdefault(tokens[:i], {})
            names.append(known.setdefault(token, len(known)))
        return tuple(names)

    def identity(h: Identity | None) -> tuple[int, ...]:
        return named(h.prefix()) if h is not None else ()

    sequences = [
        (named(s.tokens), tuple(blocks[b] for b in s.table), s.num_cached_tokens)
        for s in (ledger.sequences[seq] for seq in order)
    ]
    evictable = [(blocks[b], identity(ledger.block_hash[b])) for b in ledger.evictable]
    hashes = sorted((blocks[b], identity(h)) for b, h in enumerate(ledger.block_hash))
    mapped = sorted((identity(h), blocks[b]) for h, b in ledger.hash_to_block.items())
    refs = sorted((blocks[b], n) for b, n in enumerate(ledger.ref))
    return tuple(sequences), tuple(evictable), tuple(hashes), tuple(mapped), tuple(refs)

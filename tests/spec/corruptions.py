"""Ledgers with one wrong entry."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, cast

from kvspec.extra import Salt
from kvspec.identity import identity
from kvspec.ledger import Ledger, Sequence


def corruptions(rng: random.Random, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
    """Every way to be wrong in one place: each field of the ledger, each record of each sequence."""
    blocks = range(ledger.num_blocks)
    block = rng.choice(blocks)
    other = identity(None, (7,) * ledger.block_size)
    known = [h for h in {*ledger.hash_to_block, *ledger.block_hash} if h is not None] + [other]
    for name in ("free", "evictable"):
        listed = getattr(ledger, name)
        if listed:
            yield f"{name} loses one", ledger._replace(**{name: cast(Any, listed[:-1])})
            yield f"{name} lists one twice", ledger._replace(**{name: cast(Any, (*listed, listed[0]))})
        if len(listed) > 1:
            yield f"{name} rotated", ledger._replace(**{name: cast(Any, (*listed[1:], listed[0]))})
        if block not in listed:
            yield f"{name} gains one", ledger._replace(**{name: cast(Any, (*listed, block))})
    if ledger.free and ledger.evictable:
        yield (
            "one moved to the free list",
            ledger._replace(free=(*ledger.free, ledger.evictable[0]), evictable=ledger.evictable[1:]),
        )
    for step in (-1, 1):
        yield "ref off", ledger._replace(ref=_with(ledger.ref, block, ledger.ref[block] + step))
    yield "identity dropped", ledger._replace(block_hash=_with(ledger.block_hash, block, None))
    yield "identity wrong", ledger._replace(block_hash=_with(ledger.block_hash, block, rng.choice(known)))
    h = rng.choice(known)
    yield "mapping added or moved", ledger._replace(hash_to_block={**ledger.hash_to_block, h: block})
    yield (
        "mapping dropped",
        ledger._replace(hash_to_block={k: b for k, b in ledger.hash_to_block.items() if k is not h}),
    )
    for seq_id, seq in ledger.sequences.items():
        yield "records gone", ledger._replace(sequences={k: s for k, s in ledger.sequences.items() if k != seq_id})
        for what, record in [
            ("table longer", seq._replace(table=(*seq.table, block))),
            ("table shorter", seq._replace(table=seq.table[:-1])),
            ("table wrong", seq._replace(table=_with(seq.table, 0, block))),
            ("tokens longer", seq._replace(tokens=(*seq.tokens, 0))),
            ("token wrong", seq._replace(tokens=_with(seq.tokens, -1, 9))),
            ("chain shorter", seq._replace(chain=seq.chain[:-1])),
            ("chain longer", seq._replace(chain=(*seq.chain, other))),
            ("extra wrong", seq._replace(extra=(Salt("z"),))),
            ("cached off by one", seq._replace(num_cached_tokens=seq.num_cached_tokens + 1)),
            ("cached off by a block", seq._replace(num_cached_tokens=seq.num_cached_tokens + ledger.block_size)),
        ]:
            yield what, ledger._replace(sequences={**ledger.sequences, seq_id: record})
    yield (
        "a sequence from nowhere",
        ledger._replace(sequences={**ledger.sequences, "ghost": Sequence((), (), (), 0)}),
    )


def _with(items: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    changed = list(items)
    changed[index] = value
    return tuple(changed)

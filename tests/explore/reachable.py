"""Every ledger that the specification can reach on a pool, by plain breadth-first search."""

from __future__ import annotations

from kvaudit.explore.canonical import Form, Symmetries, canonical
from kvaudit.explore.moves import moves, sequence_ids
from kvaudit.protocol import Allocate
from kvaudit.rulings import own_step
from kvspec.ledger import Ledger, empty_ledger
from kvspec.operations import OutOfBlocks


def reachable(num_blocks: int, block_size: int, symmetries: Symmetries, cache: bool = True) -> dict[Form, Ledger]:
    """One ledger for each form. Where token ids count there are as many as any state can tell apart, and one more."""
    alphabet = None if symmetries.tokens else tuple(range(num_blocks + 1))
    start = empty_ledger(num_blocks, block_size, cache)
    known = {canonical(start, symmetries): start}
    level = [start]
    while level:
        following: list[Ledger] = []
        for ledger in level:
            new = [seq for seq in sequence_ids(num_blocks) if seq not in ledger.sequences]
            for op in moves(ledger, new[:1] if symmetries.sequences else new, alphabet):
                if isinstance(op, Allocate) and len(op.tokens) > num_blocks * block_size:
                    continue  # refused
                try:
                    after = own_step(ledger, op).after
                except OutOfBlocks:
                    continue
                form = canonical(after, symmetries)
                if form not in known:
                    known[form] = after
                    following.append(after)
        level = following
    return known

"""Programs under other names, and the names that they get."""

from __future__ import annotations

import random

from kvaudit.explore.moves import Alphabet
from kvaudit.protocol import Allocate, Append, Free, ManagerProgram, Mutation

TOKEN_IDS: Alphabet = (0, 65536, 1, 2**31, 256, 2**32 - 1, 255, 65537)
"""Token ids that are easily confused: equal in 8, 16 or 31 bits, or extreme."""

BLOCKS, SEQUENCES, TOKENS, MAPPINGS = "blocks", "sequences", "tokens", "mappings"
"""What a search may take to make no difference: block numbers, sequence ids, token ids, the order of mappings."""


def under_other_names(program: ManagerProgram, seed: int) -> ManagerProgram:
    """The program with its sequence ids renamed, and its tokens, at each node of the trie of prefixes.

    Tokens get ids that are easily confused.
    """
    rng = random.Random(seed)
    names: dict[tuple[tuple[int, ...], int], int] = {}
    free: dict[tuple[int, ...], list[int]] = {}
    old: dict[str, tuple[int, ...]] = {}
    ids: dict[str, str] = {}

    def name(prefix: tuple[int, ...], token: int) -> int:
        if (prefix, token) not in names:
            if prefix not in free:
                free[prefix] = rng.sample(TOKEN_IDS, len(TOKEN_IDS)) if rng.random() < 0.5 else list(TOKEN_IDS)
                free[prefix] += range(2**20, 2**20 + 64)
            names[prefix, token] = free[prefix].pop(0)
        return names[prefix, token]

    def rename(op: Mutation) -> Mutation:
        seq = ids.setdefault(op.seq, f"{rng.randrange(10**6)}{op.seq}")
        if isinstance(op, Allocate):
            old[op.seq] = op.tokens
            return Allocate(seq, tuple(name(op.tokens[:i], token) for i, token in enumerate(op.tokens)))
        if isinstance(op, Append):
            prefix = old[op.seq]
            old[op.seq] = (*prefix, op.token)
            return Append(seq, name(prefix, op.token))
        return Free(seq)

    return tuple(map(rename, program))

"""The shadow memory: for every slot of the KV cache, the prefix whose K/V it would hold.

The memory knows nothing of identities, hashes or reference counts. It follows only what a caller does with the
manager's answers: compute the tokens that are not cached, write them through the table, and read everything
before. If a manager serves one sequence the KV of another, the memory sees it, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvspec.extra import Extra, of_block
from kvspec.identity import Identity, identity


class ShadowMemory:
    """Slots of a pool, each holding the prefix that ends with the token last written to it."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._cells: dict[int, Identity] = {}

    def __call__(self, slot: int) -> Identity | None:
        """The content of a slot; None if nothing was ever written there."""
        return self._cells.get(slot)

    def write(self, table: Sequence[int], prefixes: Sequence[Identity], start: int) -> None:
        """The caller computes the tokens from `start` on. `prefixes`: those that end with each token."""
        size = self._block_size
        for pos in range(start, len(prefixes)):
            self._cells[table[pos // size] * size + pos % size] = prefixes[pos]

    def first_wrong(self, table: Sequence[int], prefixes: Sequence[Identity]) -> int | None:
        """The first position at which reading through `table` would not give one's own prefix. O(tokens)."""
        size, cells = self._block_size, self._cells
        for pos, prefix in enumerate(prefixes):
            if cells.get(table[pos // size] * size + pos % size) is not prefix:
                return pos
        return None


def prefixes_of(
    tokens: Sequence[int], after: Identity | None = None, extra: Extra = (), first: int = 0
) -> list[Identity]:
    """For each token the prefix that ends with it; `after` is the prefix before the first, which stands at `first`.

    extra: what the sequence depends on beside tokens.
    """
    prefixes: list[Identity] = []
    for pos, token in enumerate(tokens, start=first):
        after = identity(after, (token,), of_block(extra, pos, 1))
        prefixes.append(after)
    return prefixes

"""The shadow memory at scheduler level: as at manager level, and blocks can be copied."""

from __future__ import annotations

from kvspec.identity import Identity
from kvspec.memory import ShadowMemory


class Memory(ShadowMemory):
    """Slots of a pool, each holding the prefix that ends with the token last written to it."""

    def copy(self, source: int, target: int, tokens: int) -> None:
        """The first slots of a block are copied to another one. What nobody has written is copied, too."""
        for offset in range(tokens):
            cell = self(source * self._block_size + offset)
            if cell is None:
                self._cells.pop(target * self._block_size + offset, None)
            else:
                self._cells[target * self._block_size + offset] = cell

    def cells(self) -> dict[int, Identity]:
        """What is in each slot that was ever written, as a copy."""
        return dict(self._cells)

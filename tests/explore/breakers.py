"""Bugs that hide behind names: a search that takes names to make no difference need not see them."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from kvblocks import BlockManager, OutOfBlocks
from mutants.identity import TruncatesTokenIds
from mutants.matching import TreatsBlockZeroAsMiss


class TakesLowestFreeBlock(BlockManager):
    """Of the free blocks the one with the lowest number is taken, not the one that was freed first."""

    def _take(self) -> int:
        if self._free:
            lowest = min(self._free)
            self._free.remove(lowest)
            self._free.appendleft(lowest)
        return super()._take()


class TakesLastFreedBlock(BlockManager):
    """Of the free blocks the one that was freed last is taken; those never used, in order."""

    def _take(self) -> int:
        if sorted(self._free) != list(self._free):
            self._free.rotate(1)
        return super()._take()


class RefusesThirdIdAlone(BlockManager):
    """One id among all is refused, where no other sequence is live."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        if seq_id == "c" and not self._sequences:
            raise OutOfBlocks("not you")
        return super().allocate(seq_id, token_ids, **extra)


@dataclass(frozen=True)
class Breaker:
    """A bug, the names that it does not treat alike, and whether a search up to these names misses it."""

    cls: type[BlockManager]
    names: str
    is_hidden: bool


BREAKERS = (
    Breaker(TakesLowestFreeBlock, "blocks", is_hidden=True),
    Breaker(TakesLastFreedBlock, "blocks", is_hidden=True),
    Breaker(TreatsBlockZeroAsMiss, "blocks", is_hidden=False),
    Breaker(RefusesThirdIdAlone, "sequences", is_hidden=True),
    Breaker(TruncatesTokenIds, "tokens", is_hidden=True),
)

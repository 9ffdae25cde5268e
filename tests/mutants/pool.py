"""Bugs in where a block goes: reference counts, the free list, the evictable pool and what eviction wipes."""

from collections.abc import Hashable

from kvblocks import BlockManager


class KeepsMappingOnEviction(BlockManager):
    """Eviction leaves the mapping: the old prefix hits a block that holds somebody else's KV."""

    def _forget(self, block: int) -> None:
        self._block_hash[block] = None


class KeepsHashOnEviction(BlockManager):
    """Eviction leaves the block's hash: half-full blocks pile up in the pool and outlive useful prefixes."""

    def _forget(self, block: int) -> None:
        key = self._block_hash[block]
        super()._forget(block)
        self._block_hash[block] = key


class EvictsNewest(BlockManager):
    """The pool is a stack: the prefix used last is evicted first, the stale ones stay for ever."""

    def _take(self) -> int:
        if not self._free and self._evictable:
            self._evictable.move_to_end(next(reversed(self._evictable)), last=False)
        return super()._take()


class EvictsBeforeFreeList(BlockManager):
    """New blocks come from the evictable pool first: the cache is wiped while free blocks lie unused."""

    def _take(self) -> int:
        if self._evictable:
            block, _ = self._evictable.popitem(last=False)
            self._forget(block)
            self._free.appendleft(block)
        return super()._take()


class EvictsOldestRegistered(BlockManager):
    """Eviction follows the order of registration, not of last use: the system prompt that all share goes first."""

    def _take(self) -> int:
        if not self._free:
            for block in self._hash_to_block.values():
                if block in self._evictable:
                    self._evictable.move_to_end(block, last=False)
                    break
        return super()._take()


class FreesDuplicateToFreeList(BlockManager):
    """A released duplicate is wiped at once and taken before older idle blocks: the LRU order is not kept."""

    def _release(self, blocks: list[int]) -> None:
        for block in blocks:
            key = self._block_hash[block]
            if self._ref[block] == 1 and key is not None and self._hash_to_block.get(key) != block:
                self._block_hash[block] = None
        super()._release(blocks)


class DropsCacheWhenIdle(BlockManager):
    """Freeing the last live sequence empties the cache: a server with little load never hits."""

    def free(self, seq_id: Hashable) -> None:
        super().free(seq_id)
        while self._evictable and not self._sequences:
            block, _ = self._evictable.popitem(last=False)
            self._forget(block)
            self._free.append(block)


class RevivingDropsIdentity(BlockManager):
    """Reviving an idle block resets it like a new one: a prefix is hit once and never again."""

    def _hit(self, blocks: list[int]) -> None:
        for block in blocks:
            if self._ref[block] == 0:
                self._forget(block)
        super()._hit(blocks)


class SharesWithoutReference(BlockManager):
    """A hit on a block in use does not count: when its first owner ends, the others' KV is overwritten."""

    def _hit(self, blocks: list[int]) -> None:
        super()._hit([block for block in blocks if self._ref[block] == 0])


class ReleasesSharedBlockTwice(BlockManager):
    """Freeing one holder of a shared block counts as two: the last holder's KV is overwritten under it."""

    def _release(self, blocks: list[int]) -> None:
        for block in blocks:
            if self._ref[block] > 1:
                self._ref[block] -= 1
        super()._release(blocks)


class LeaksSharedBlock(BlockManager):
    """A block that was ever shared is not returned: OutOfBlocks after a day, and only with the cache on."""

    def _release(self, blocks: list[int]) -> None:
        super()._release([block for block in blocks if self._ref[block] == 1])


class ListsFreeBlockTwice(BlockManager):
    """A block without identity is returned twice: later it is given to two sequences at once."""

    def _release(self, blocks: list[int]) -> None:
        super()._release(blocks)
        self._free.extend(block for block in blocks if self._ref[block] == 0 and self._block_hash[block] is None)

"""Bugs in what is refused, and in what a refusal leaves behind."""

from array import array
from collections.abc import Hashable, Iterable
from typing import Any

from kvblocks import BlockManager, OutOfBlocks
from kvblocks.arithmetic import TOKEN, blocks_for, check_size, check_tokens, match_limit
from kvblocks.manager import Sequence


class RefusesLastBlock(BlockManager):
    """append_slot wants a block to spare: a sequence is preempted although the pool could serve it."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        if len(self._live(seq_id).tokens) % self.block_size == 0 and self.num_free_blocks < 2:
            raise OutOfBlocks("no block to spare")
        return super().append_slot(seq_id, token_id)


class AppendIgnoresEvictable(BlockManager):
    """append_slot looks at the free list only: a warm cache makes running sequences fail."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        if len(self._live(seq_id).tokens) % self.block_size == 0 and not self._free:
            raise OutOfBlocks("the free list is empty")
        return super().append_slot(seq_id, token_id)


class CountsOnlyFreeList(BlockManager):
    """num_free_blocks forgets the evictable pool: once the cache is warm nothing is admitted any more."""

    @property
    def num_free_blocks(self) -> int:
        return len(self._free)


class CanAllocateIgnoresEvictable(BlockManager):
    """can_allocate looks at the free list only: the scheduler stops admitting once the cache is warm."""

    def can_allocate(self, num_tokens: int) -> bool:
        return blocks_for(check_size("num_tokens", num_tokens, least=0), self.block_size) <= len(self._free)


class CanAllocateRoundsDown(BlockManager):
    """can_allocate forgets the partial last block: it promises room, and allocate then refuses."""

    def can_allocate(self, num_tokens: int) -> bool:
        return super().can_allocate(num_tokens - num_tokens % self.block_size)


class KeepsPinsAfterRefusal(BlockManager):
    """A refused allocate does not let go of its hits: each retry leaks references until the pool is full."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        try:
            return super().allocate(seq_id, tokens, **extra)
        except OutOfBlocks:
            self._hit(self._match(self._hash_chain(tokens), match_limit(len(tokens), self.block_size)))
            raise


class RefusalFlushesCache(BlockManager):
    """allocate evicts everything idle before it gives up: one prompt too long, and the cache is cold."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        try:
            return super().allocate(seq_id, token_ids, **extra)
        except OutOfBlocks:
            while self._evictable:
                block, _ = self._evictable.popitem(last=False)
                self._forget(block)
                self._free.append(block)
            raise


class RefusedIdStaysLive(BlockManager):
    """allocate notes the id before it checks: the retry of a refused request is turned away for good."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        try:
            return super().allocate(seq_id, token_ids, **extra)
        except OutOfBlocks:
            self._sequences[seq_id] = Sequence([0], array(TOKEN), [], 0, (), self.block_size)
            self._sequences[seq_id].table.clear()
            raise

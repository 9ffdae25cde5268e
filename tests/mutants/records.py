"""Bugs in what is kept of a sequence and in the reads: slots, counts, lists shared with the caller."""

from array import array
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kvblocks import BlockManager, OutOfBlocks
from kvblocks.arithmetic import TOKEN, blocks_for, check_tokens
from kvblocks.manager import Sequence


class SlotOffsetOffByOne(BlockManager):
    """slot turns the offset inside the block by one: attention reads its neighbour's K/V."""

    def slot(self, seq_id: Hashable, pos: int) -> int:
        first = super().slot(seq_id, pos) - pos % self.block_size
        return first + (pos + 1) % self.block_size


class AppendReturnsSlotOfOldBlock(BlockManager):
    """At a block boundary append_slot answers with the block before: the first token there is overwritten."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        last = self._live(seq_id).table[-1]
        slot = super().append_slot(seq_id, token_id)
        return last * self.block_size if slot % self.block_size == 0 else slot


class TakesBlockForNextToken(BlockManager):
    """A prompt that fills its blocks gets one more in advance: every short request costs a block too many."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        super().allocate(seq_id, tokens, **extra)
        if len(tokens) % self.block_size == 0 and self.num_free_blocks > 0:
            self._sequences[seq_id].table.append(self._take())
        return self.block_table(seq_id)


class CountsFilledBlockAsCached(BlockManager):
    """A block filled by append_slot counts as cached: the engine skips the forward pass of real tokens."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        if slot % self.block_size == self.block_size - 1:
            self._sequences[seq_id].cached += self.block_size
        return slot


class CountsCachedInBlocks(BlockManager):
    """num_cached_tokens answers in blocks: the engine overwrites shared KV that it need not compute."""

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        return super().num_cached_tokens(seq_id) // self.block_size


class KeepsCachedCountAfterFree(BlockManager):
    """free leaves the cached count and allocate does not overwrite it: a re-used id skips uncomputed tokens."""

    _stale: Mapping[Hashable, int] = MappingProxyType({})

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        table = super().allocate(seq_id, token_ids, **extra)
        if seq_id in self._stale:
            self._sequences[seq_id].cached = self._stale[seq_id]
        return table

    def free(self, seq_id: Hashable) -> None:
        cached = self.num_cached_tokens(seq_id)
        super().free(seq_id)
        self._stale = {**self._stale, seq_id: cached}


class KeepsCallersList(BlockManager):
    """The caller's token list is kept, not copied: the caller appends its sample, and positions shift."""

    _kept: Mapping[Hashable, list[int]] = MappingProxyType({})

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        table = super().allocate(seq_id, token_ids, **extra)
        if isinstance(token_ids, list):
            self._kept = {**self._kept, seq_id: token_ids}
        return table

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        tokens = self._kept.get(seq_id)
        if tokens is None:
            return super().append_slot(seq_id, token_id)
        seq = self._live(seq_id)
        self._sequences[seq_id] = Sequence(
            seq.table, array(TOKEN, tokens), seq.hashes, seq.cached, seq.extra, self.block_size
        )
        slot = super().append_slot(seq_id, token_id)
        tokens.append(token_id)
        return slot


class ReturnsOwnTable(BlockManager):
    """allocate hands out its own table: the caller pads it for the kernel, and slots and free go astray."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        super().allocate(seq_id, token_ids, **extra)
        return self._sequences[seq_id].table


class BlockTableIsNotACopy(BlockManager):
    """block_table hands out the manager's own list: whoever sorts or pads it moves the KV of the sequence."""

    def block_table(self, seq_id: Hashable) -> list[int]:
        return self._live(seq_id).table


class CanAllocateTouchesPool(BlockManager):
    """Asking can_allocate renews the oldest idle block: a polling scheduler shuffles the LRU order."""

    def can_allocate(self, num_tokens: int) -> bool:
        if self._evictable:
            self._evictable.move_to_end(next(iter(self._evictable)))
        return super().can_allocate(num_tokens)


class CanAllocateEvicts(BlockManager):
    """can_allocate makes the room that it promises: the question alone wipes prefixes that would be hit."""

    def can_allocate(self, num_tokens: int) -> bool:
        fits = super().can_allocate(num_tokens)
        while fits and len(self._free) < blocks_for(num_tokens, self.block_size):
            block, _ = self._evictable.popitem(last=False)
            self._forget(block)
            self._free.append(block)
        return fits


class CachedCountIsReadOnce(BlockManager):
    """num_cached_tokens answers 0 from the second call on: metrics read it, and the engine recomputes."""

    def num_cached_tokens(self, seq_id: Hashable) -> int:
        cached = super().num_cached_tokens(seq_id)
        self._sequences[seq_id].cached = 0
        return cached


class NextSlotIsNotAdvanced(BlockManager):
    """A token inside a block, neither its first nor its last, leaves next_slot: the one after it is written over it."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        if slot % self.block_size not in (0, self.block_size - 1):
            self._sequences[seq_id].next_slot = slot
        return slot


class EndIsNotMoved(BlockManager):
    """A block is taken and the end of the last one stays: appends run on into the blocks of others."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        seq = self._live(seq_id)
        end = seq.end
        slot = super().append_slot(seq_id, token_id)
        seq.end = end
        return slot


class RefusalMovesNextSlot(BlockManager):
    """A refused append has moved next_slot back: its retry writes over the last block, and takes none."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        try:
            return super().append_slot(seq_id, token_id)
        except OutOfBlocks:
            self._sequences[seq_id].next_slot -= self.block_size
            raise


class SharesRecordWithTwin(BlockManager):
    """A prompt that is live already gets the record of its twin: what one sequence says, the other has said too."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        twins = [seq for seq in self._sequences.values() if seq.tokens == tokens]
        if not twins or seq_id in self._sequences:
            return super().allocate(seq_id, tokens, **extra)
        self._hit(twins[0].table)
        self._sequences[seq_id] = twins[0]
        return list(twins[0].table)

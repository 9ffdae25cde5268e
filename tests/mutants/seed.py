"""The mistakes that the seed calls easy to make, a class each; a line of the seed that holds two gives two."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import Any

from kvblocks import BlockManager, Key, OutOfBlocks
from kvblocks.arithmetic import TOKEN, blocks_for, check_tokens, match_limit
from kvblocks.extra import Extra, parts_of_block
from kvblocks.manager import Sequence


class HashesPartialBlock(BlockManager):
    """1: the half-full last block is hashed over its zeroed buffer; a longer prompt hits slots nobody wrote."""

    def _hash_chain(self, tokens: array[int], extra: Extra = ()) -> list[Key]:
        return super()._hash_chain(tokens + array(TOKEN, [0] * (-len(tokens) % self.block_size)), extra)


class MatchesWholePrompt(BlockManager):
    """2: the match limit is len // bs; with everything hit there is no token left to forward, so no logits."""

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        return super()._match(hashes, len(hashes))


class ChainStartsElsewhere(BlockManager):
    """3: allocate starts the chain at b"", append_slot at None; a first block that decode filled never hits."""

    def _hash_chain(self, tokens: array[int], extra: Extra = ()) -> list[Key]:
        hashes: list[Key] = [b""]
        size = self.block_size
        for i in range(len(tokens) // size if self.enable_prefix_cache else 0):
            block, parts = tokens[i * size : (i + 1) * size], parts_of_block(extra, i, size)
            hashes.append(self._hasher(hashes[-1], block.tobytes(), parts))
        return hashes[1:]


class DeletesMappingUnconditionally(BlockManager):
    """4: evicting a duplicate deletes the mapping to the other copy; a cached prefix stops being hit."""

    def _forget(self, block: int) -> None:
        self._hash_to_block.pop(self._block_hash[block], None)
        self._block_hash[block] = None


class FreesInForwardOrder(BlockManager):
    """5: free walks the table forward; the shared first block of a prefix is the first to be evicted."""

    def free(self, seq_id: Hashable) -> None:
        self._live(seq_id).table.reverse()
        super().free(seq_id)


class AllocateUsesCoarseCheck(BlockManager):
    """6, allocate uses can_allocate's check: a prompt that fits thanks to its hits is refused."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        if not self.can_allocate(len(tokens)):
            raise OutOfBlocks("the coarse check ignores hits")
        return super().allocate(seq_id, tokens, **extra)


class CanAllocateCountsHits(BlockManager):
    """6, can_allocate hopes for hits as allocate does: it promises room, and allocate then refuses."""

    def can_allocate(self, num_tokens: int) -> bool:
        hits = min(num_tokens // self.block_size, len(self._hash_to_block))
        return blocks_for(num_tokens, self.block_size) - hits <= self.num_free_blocks


class AllocateUsesNaiveCheck(BlockManager):
    """6, example 3: idle hits count as available too; the refusal comes midway, and blocks leak."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        hits = self._match(self._hash_chain(tokens), match_limit(len(tokens), self.block_size))
        needed = blocks_for(len(tokens), self.block_size) - len(hits)
        idle = sum(self._ref[block] == 0 for block in hits)
        if self.num_free_blocks - idle < needed <= self.num_free_blocks:  # naive says yes, exact says no
            self._hit(hits)
            for _ in range(needed):
                self._take()  # raises OutOfBlocks sooner or later
        return super().allocate(seq_id, tokens, **extra)


class LeavesHitInPool(BlockManager):
    """7, a hit on an idle block does not leave the evictable pool: a block in use is evicted as a spare."""

    def _hit(self, blocks: list[int]) -> None:
        for block in blocks:
            self._ref[block] += 1


class AppendsTokenBeforeTaking(BlockManager):
    """7, append_slot writes the token before it takes the block: a refusal leaves one token too many."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        try:
            return super().append_slot(seq_id, token_id)
        except OutOfBlocks:
            seq = self._sequences[seq_id]
            seq.tokens.append(token_id)
            self._sequences[seq_id] = Sequence(
                seq.table, seq.tokens, seq.hashes, seq.cached, seq.extra, self.block_size
            )
            raise

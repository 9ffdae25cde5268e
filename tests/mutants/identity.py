"""Bugs in what a block is called: the key, the chain, and when and where a key is registered."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import Any

from kvblocks import BlockManager, HashStrategy, Key, OutOfBlocks
from kvblocks.arithmetic import TOKEN, blocks_for, check_tokens, match_limit
from kvblocks.extra import Extra, parts_of_block
from kvblocks.manager import Sequence


def packed(token_ids: Iterable[int]) -> bytes:
    return array(TOKEN, token_ids).tobytes()


def unpacked(tokens: bytes) -> array[int]:
    return array(TOKEN, tokens)


class IdentifiesBlockByItsTokensAlone(BlockManager):
    """No chain: equal tokens after another prefix hit, and the model attends to another context's KV."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self._hasher
        self._hasher = lambda parent, tokens, extra: right(None, tokens, extra)


class IgnoresTokenOrder(BlockManager):
    """The key is made of the sorted tokens: "man bites dog" is served the KV of "dog bites man"."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self._hasher
        self._hasher = lambda parent, tokens, extra: right(parent, packed(sorted(unpacked(tokens))), extra)


class TruncatesTokenIds(BlockManager):
    """The key keeps 16 bits of a token id: with a large vocabulary two different prompts share blocks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        right = self._hasher
        self._hasher = lambda parent, tokens, extra: right(parent, packed(t & 0xFFFF for t in unpacked(tokens)), extra)


class ChainsThroughPartialBlock(BlockManager):
    """A partial last block enters the chain: what decode fills after it has the wrong parent and never hits."""

    def _hash_chain(self, tokens: array[int], extra: Extra = ()) -> list[Key]:
        hashes = super()._hash_chain(tokens, extra)
        rest = tokens[len(hashes) * self.block_size :]
        if rest and self.enable_prefix_cache:
            parts = parts_of_block(extra, len(hashes), self.block_size)
            hashes.append(self._hasher(hashes[-1] if hashes else None, rest.tobytes(), parts))
        return hashes


class FilledBlockHasOldWindow(BlockManager):
    """append_slot hashes the bs tokens before the new one: the filled block answers for another text."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        seq = self._sequences[seq_id]
        tokens, hashes = seq.tokens, seq.hashes
        if self.enable_prefix_cache and len(tokens) % self.block_size == 0:
            self._forget(slot // self.block_size)
            parent = hashes[-2] if len(hashes) > 1 else None
            parts = parts_of_block(seq.extra, len(hashes) - 1, self.block_size)
            hashes[-1] = self._hasher(parent, tokens[-1 - self.block_size : -1].tobytes(), parts)
            self._register(slot // self.block_size, hashes[-1])
        return slot


class FilledBlockIsNotRegistered(BlockManager):
    """A block filled by append_slot gets no identity: the next turn of a chat recomputes every answer."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        slot = super().append_slot(seq_id, token_id)
        if slot % self.block_size == self.block_size - 1:
            self._forget(slot // self.block_size)
        return slot


class AppendDoesNotExtendChain(BlockManager):
    """append_slot registers but drops the key: its next block is named as if the one before were not there."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        known = list(self._live(seq_id).hashes)
        slot = super().append_slot(seq_id, token_id)
        self._sequences[seq_id].hashes = known
        return slot


class SharesChainWithTwin(BlockManager):
    """Two live sequences with one prompt share one chain list: their answers are hashed into each other."""

    def _hash_chain(self, tokens: array[int], extra: Extra = ()) -> list[Key]:
        for seq in self._sequences.values():
            if seq.tokens == tokens:
                return seq.hashes
        return super()._hash_chain(tokens, extra)


class NewestMappingWins(BlockManager):
    """Registering a duplicate redirects the mapping: readers move to the copy that may be gone first."""

    def _register(self, block: int, key: Key) -> None:
        self._block_hash[block] = key
        self._hash_to_block[key] = block


class TakesAndRegistersBlockByBlock(BlockManager):
    """allocate registers each block before taking the next, which may evict the older copy: no mapping stays."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        hashes = self._hash_chain(tokens)
        hits = self._match(hashes, match_limit(len(tokens), self.block_size))
        needed = blocks_for(len(tokens), self.block_size) - len(hits)
        if needed > self.num_free_blocks - sum(self._ref[block] == 0 for block in hits):
            raise OutOfBlocks("too few blocks")
        self._hit(hits)
        table = list(hits)
        for i in range(len(hits), len(hits) + needed):
            table.append(self._take())
            if i < len(hashes):
                self._register(table[i], hashes[i])
        cached = len(hits) * self.block_size
        self._sequences[seq_id] = Sequence(table, tokens, hashes, cached, (), self.block_size)
        return list(table)


class RegistersOnlyWhenFreed(BlockManager):
    """Blocks of a running sequence cannot be hit: a burst of equal prompts computes each from scratch."""

    def _register(self, block: int, key: Key) -> None:
        self._block_hash[block] = key

    def _release(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            key = self._block_hash[block]
            if self._ref[block] == 1 and key is not None:
                self._hash_to_block.setdefault(key, block)
        super()._release(blocks)


class RegistersWithCacheOff(BlockManager):
    """enable_prefix_cache=False is not heeded: who switched the cache off to isolate tenants still shares."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_cache: bool = True,
        *,
        hasher: str | HashStrategy = "sha256",
    ) -> None:
        super().__init__(num_blocks, block_size, True, hasher=hasher)

"""Bugs in which cached blocks a prompt shares."""

from collections.abc import Hashable, Iterable
from typing import Any

from kvblocks import BlockManager, Key
from kvblocks.arithmetic import check_tokens
from kvblocks.manager import Sequence


class MatchesPastMiss(BlockManager):
    """A miss is skipped, not the end of the run: the blocks after it slide to the wrong place in the table."""

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        return [self._hash_to_block[key] for key in hashes[:limit] if key in self._hash_to_block]


class MatchesOneBlockTooFew(BlockManager):
    """The match limit is len // bs - 1: unless bs divides the prompt, its last full block is computed again."""

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        return super()._match(hashes, len(hashes) - 1)


class TreatsBlockZeroAsMiss(BlockManager):
    """`if not block` instead of `if block is None`: what lies in block 0 is never hit, nor what follows it."""

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        hits = super()._match(hashes, limit)
        return hits[: hits.index(0)] if 0 in hits else hits


class NeverHitsIdleBlocks(BlockManager):
    """Only blocks in use are hit: the cache is lost between two turns of a chat."""

    def _match(self, hashes: list[Key], limit: int) -> list[int]:
        hits = super()._match(hashes, limit)
        idle = [i for i, block in enumerate(hits) if self._ref[block] == 0]
        return hits[: idle[0]] if idle else hits


class SharesPartialBlock(BlockManager):
    """Equal prompts share the partial last block too, without a copy on write: they overwrite each other."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = check_tokens(token_ids)
        twins = [seq for seq in self._sequences.values() if seq.tokens == tokens]
        table = super().allocate(seq_id, tokens, **extra)
        if twins and len(tokens) % self.block_size != 0:
            self._release(table[-1:])
            table[-1] = twins[0].table[-1]
            self._hit(table[-1:])
            seq = self._sequences[seq_id]
            self._sequences[seq_id] = Sequence(
                list(table), seq.tokens, seq.hashes, seq.cached, seq.extra, self.block_size
            )
        return table

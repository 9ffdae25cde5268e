"""Bugs that only a caller's mistake brings out; every legal call is answered as it should be."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from typing import Any

from kvblocks import BlockManager, HashStrategy, InvalidArgument
from kvblocks.arithmetic import MAX_TOKEN_ID, TOKEN
from kvblocks.manager import Sequence


class ReallocatesLiveId(BlockManager):
    """allocate overwrites a live sequence: the blocks of the first one leak."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        seq = self._sequences.pop(seq_id, None)
        try:
            return super().allocate(seq_id, token_ids, **extra)
        except Exception:
            if seq is not None:
                self._sequences[seq_id] = seq
            raise


class AcceptsEmptyPrompt(BlockManager):
    """A prompt without tokens makes a sequence without blocks: the engine samples from nothing."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        tokens = list(token_ids)
        if tokens or seq_id in self._sequences:
            return super().allocate(seq_id, tokens, **extra)
        self._sequences[seq_id] = Sequence([0], array(TOKEN), [], 0, (), self.block_size)
        self._sequences[seq_id].table.clear()
        return []


class AcceptsNegativePosition(BlockManager):
    """slot counts a negative position from the end, as Python lists do: an off-by-one reads the last token."""

    def slot(self, seq_id: Hashable, pos: int) -> int:
        return super().slot(seq_id, pos + len(self._live(seq_id).tokens) if pos < 0 else pos)


class AcceptsPositionPastTheEnd(BlockManager):
    """slot checks against the table, not the tokens: it answers for slots of the last block not yet written."""

    def slot(self, seq_id: Hashable, pos: int) -> int:
        seq = self._live(seq_id)
        length = len(seq.tokens)
        if length <= pos < len(seq.table) * self.block_size:
            return super().slot(seq_id, length - 1) + pos - (length - 1)
        return super().slot(seq_id, pos)


class WrapsTokenIds(BlockManager):
    """A token id is cut to 32 bits, not checked: -1 and 2**32 - 1 are one token, and one hits the other's KV."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        return super().allocate(seq_id, [token & MAX_TOKEN_ID for token in token_ids], **extra)

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        return super().append_slot(seq_id, token_id & MAX_TOKEN_ID)


class AppendTakesBeforeChecking(BlockManager):
    """append_slot checks the token after taking the block: the refused token costs a block."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        try:
            return super().append_slot(seq_id, token_id)
        except InvalidArgument:
            seq = self._sequences[seq_id]
            if seq.next_slot == seq.end:
                seq.table.append(self._take())
                seq.next_slot = seq.table[-1] * self.block_size
                seq.end = seq.next_slot + self.block_size
            raise


class FreesTwice(BlockManager):
    """free remembers the last sequence that it freed and frees it again: its blocks may be in use by then."""

    _last: tuple[Hashable, Sequence] | None = None

    def free(self, seq_id: Hashable) -> None:
        if seq_id not in self._sequences and self._last is not None and self._last[0] == seq_id:
            self._sequences[seq_id] = self._last[1]
        self._last = (seq_id, self._live(seq_id))
        super().free(seq_id)


class RoundsSizesUp(BlockManager):
    """A size below 1 becomes 1: a failed memory profile starts a server of one block instead of an error."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        enable_prefix_cache: bool = True,
        *,
        hasher: str | HashStrategy = "sha256",
    ) -> None:
        super().__init__(max(1, num_blocks), max(1, block_size), enable_prefix_cache, hasher=hasher)

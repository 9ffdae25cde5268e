"""Bugs in what the key of a block says beside its tokens: salt, LoRA, images."""

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kvblocks import BlockManager, Key
from kvblocks.extra import Extra
from kvblocks.hashing import sha256


class Keyed(BlockManager):
    """Hands on what it was given as it is; a bug changes something on the way to the keys."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        super().__init__(num_blocks, block_size, enable_prefix_cache, hasher=self.key)

    def key(self, parent: Any, tokens: bytes, extra: tuple[Any, ...]) -> Key:
        return sha256(parent, tokens, self.parts(extra))

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        return extra


def _at_lora(extra: tuple[Any, ...]) -> int:
    """Where the adapter begins, behind the salt if there is one; else the end."""
    return extra.index("lora") if "lora" in extra[:3:2] else len(extra)


class SaltIsNoKey(Keyed):
    """The salt is taken and left out of the key: whoever asks the same sees from the time what others have asked."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        return extra[2:] if extra[:1] == ("salt",) else extra


class LoraIsNoKey(Keyed):
    """The adapter is no part of the key: a request reads KV that other weights have made."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        at = _at_lora(extra)
        return extra[:at] + extra[at + 3 :]


class LoraVersionIsNoKey(BlockManager):
    """Only the id of an adapter is in the key: loaded anew under its id, it goes on with the KV of the old weights."""

    def allocate(
        self,
        seq_id: Hashable,
        token_ids: Iterable[int],
        *,
        salt: str | None = None,
        lora: tuple[str, str] | None = None,
        images: Iterable[tuple[bytes, int, int]] = (),
    ) -> list[int]:
        lora = None if lora is None else (lora[0], "any")
        return super().allocate(seq_id, token_ids, salt=salt, lora=lora, images=images)


class LoraIsUntagged(Keyed):
    """Nothing says that it is an adapter that is named: one with the id "salt" passes for a salt."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        at = _at_lora(extra)
        return extra[:at] + extra[at + 1 :]


class LoraRunsTogether(Keyed):
    """Id and version are written one after the other: version 11 of x is version 1 of x1."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        at = _at_lora(extra)
        return (*extra[:at], "".join(extra[at + 1 : at + 3]), *extra[at + 3 :])


class ImageIsNoKey(Keyed):
    """The key has placeholders for images, the same for all: who shows a cat is told of somebody else's passport."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        return extra[: next((i for i, part in enumerate(extra) if part == "image"), len(extra))]


class ImageHashIsCutShort(Keyed):
    """Eight bytes of the digest are kept: images can be made that are taken for one another."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part[:8] if isinstance(part, bytes) else part for part in extra)


class ImagePlaceIsNoKey(Keyed):
    """The key does not say where in the block an image begins: a token further on it passes for the same prompt."""

    def parts(self, extra: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(part for i, part in enumerate(extra) if not (isinstance(part, int) and _follows(extra, i)))


def _follows(extra: tuple[Any, ...], i: int) -> bool:
    """Part i is the place of an image: it stands behind the hash."""
    return isinstance(extra[i - 1], bytes)


class ImageIsKeyedWhereItEnds(BlockManager):
    """An image is in the key of its last block alone: the blocks before are served to prompts with another image."""

    def allocate(
        self,
        seq_id: Hashable,
        token_ids: Iterable[int],
        *,
        salt: str | None = None,
        lora: tuple[str, str] | None = None,
        images: Iterable[tuple[bytes, int, int]] = (),
    ) -> list[int]:
        ends = [(content, start + length - 1, 1) for content, start, length in images]
        return super().allocate(seq_id, token_ids, salt=salt, lora=lora, images=ends)


class FilledBlockForgetsExtra(BlockManager):
    """append_slot hashes tokens alone: an image in the partial last block of a prompt is forgotten when it is full."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        seq = self._live(seq_id)
        known, seq.extra = seq.extra, ()
        try:
            return super().append_slot(seq_id, token_id)
        finally:
            seq.extra = known


class KeepsExtraAfterFree(BlockManager):
    """free leaves the extra, and allocate what is there: an id used again fills its blocks under its former salt."""

    _left: Mapping[Hashable, Extra] = MappingProxyType({})

    def allocate(
        self,
        seq_id: Hashable,
        token_ids: Iterable[int],
        *,
        salt: str | None = None,
        lora: tuple[str, str] | None = None,
        images: Iterable[tuple[bytes, int, int]] = (),
    ) -> list[int]:
        table = super().allocate(seq_id, token_ids, salt=salt, lora=lora, images=images)
        self._sequences[seq_id].extra = self._left.get(seq_id) or self._sequences[seq_id].extra
        return table

    def free(self, seq_id: Hashable) -> None:
        known = self._live(seq_id).extra
        super().free(seq_id)
        if known:
            self._left = {**self._left, seq_id: known}

"""What KV depends on beside the tokens: a cache salt, a LoRA adapter, images.

Equal tokens after equal tokens are not yet equal KV. An adapter changes every K and V; the tokens of an image are
placeholders, all the same number, and what is computed for them is the image. A salt changes nothing that is computed:
it keeps apart those who are not to learn from the cache what others have asked.

Each kind is a type of its own, and equal are only values of one type: a LoRA that is named like a salt is no salt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Salt:
    """Who may share: only sequences of equal salt do."""

    value: str

    @property
    def start(self) -> int:
        """The token from which on it counts: the first."""
        return 0

    def __str__(self) -> str:
        return f"salt {self.value!r}"


@dataclass(frozen=True, slots=True)
class Lora:
    """The adapter under which the sequence runs. Weights that are loaded anew under an old id are another version."""

    id: str
    version: str

    @property
    def start(self) -> int:
        """The token from which on it counts: the first."""
        return 0

    def __str__(self) -> str:
        return f"LoRA {self.id!r} {self.version!r}"


@dataclass(frozen=True, slots=True)
class Image:
    """An image in place of the tokens start .. start + length - 1; any other input that is embedded likewise.

    content_hash: a digest of what the model is given for it, which it stands for. Equal hashes have equal lengths.
    """

    content_hash: bytes
    start: int
    length: int

    @property
    def end(self) -> int:
        """The first token after it."""
        return self.start + self.length

    def __str__(self) -> str:
        return f"image {hash_in_words(self.content_hash)} at {self.start}"


def hash_in_words(content_hash: bytes) -> str:
    """In hexadecimal; of a long one the begin and the end."""
    if len(content_hash) <= 8:
        return content_hash.hex()
    return f"{content_hash[:4].hex()}...{content_hash[-4:].hex()}"


Item = Salt | Lora | Image
Extra = tuple[Item, ...]
"""The salt, then the LoRA, then the images in the order of their places: what says the same is equal."""


def extra_of(salt: str | None = None, lora: Lora | None = None, images: Iterable[Image] = ()) -> Extra:
    """All that a sequence depends on beside its tokens. The order in which images are listed says nothing."""
    given: list[Item] = [] if salt is None else [Salt(salt)]
    if lora is not None:
        given.append(lora)
    return (*given, *sorted(images, key=lambda image: image.start))


def is_legal(extra: Extra, num_tokens: int) -> bool:
    """Whether a prompt of so many tokens can depend on that: names that say something, images within it, apart."""
    free_from = 0
    for item in extra:
        if isinstance(item, Image):
            if not item.content_hash or item.start < free_from or item.length < 1 or item.end > num_tokens:
                return False
            free_from = item.end
        elif not (item.value if isinstance(item, Salt) else item.id and item.version):
            return False
    return True


def of_block(extra: Extra, i: int, size: int) -> Extra:
    """What begins in block i, hence what it adds to what the blocks before it depend on. With size 1: token i.

    One rule for all kinds, since the identity of a block has those of all blocks before it in it: later blocks need
    not say again under which salt they are, nor that an image goes on.
    """
    return tuple(item for item in extra if i * size <= item.start < (i + 1) * size) if extra else ()

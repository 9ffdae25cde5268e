"""Extra keys: what the KV of a sequence depends on beside its tokens. Nothing here touches state.

A salt keeps apart those who are not to share, an adapter changes every K and V, and the tokens of an image are
placeholders: what is computed for them is the image. In the key of a block each of these stands behind the name of its
kind, so that none can pass for another, and a kind has a fixed number of parts, so that nothing runs together.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from kvblocks.arithmetic import check_size
from kvblocks.errors import InvalidArgument

Part = str | bytes | int
Extra = tuple[tuple[int, tuple[Part, ...]], ...]
"""Of one sequence: each position from which on its KV depends on something, with the parts that say on what."""


class Lora(NamedTuple):
    """A LoRA adapter. Weights that are loaded anew under an old id are another version."""

    id: str
    version: str


class Image(NamedTuple):
    """An image, or another input that is embedded likewise, in place of the tokens start .. start + length - 1.

    content_hash: a digest of what the model is given for it, all of the digest.
    """

    content_hash: bytes
    start: int
    length: int


def check_extra(salt: str | None, lora: Any, images: Iterable[Any], num_tokens: int) -> Extra:
    """What a caller gave for a prompt of so many tokens.

    Raises InvalidArgument for a salt that is no string, an adapter that is no pair of strings, an empty one of these,
    and images that are no triples, do not lie within the prompt or overlap. O(images).
    """
    if salt is None and lora is None and not images:
        return ()
    extra: list[tuple[int, tuple[Part, ...]]] = []
    if salt is not None:
        extra.append((0, ("salt", _check_name("salt", salt))))
    if lora is not None:
        if not isinstance(lora, tuple | list) or len(lora) != 2:
            raise InvalidArgument(f"lora is the id and the version of an adapter, not {lora!r}")
        names = _check_name("the id of a LoRA", lora[0]), _check_name("the version of a LoRA", lora[1])
        extra.append((0, ("lora", *names)))
    extra += ((image.start, ("image", *image)) for image in _check_images(images, num_tokens))
    return tuple(extra)


def parts_of_block(extra: Extra, i: int, block_size: int) -> tuple[Part, ...]:
    """What begins in block i: the extra keys that its hash strategy is given. O(images).

    Later blocks need not repeat it, since their keys have the key of this block in them.
    """
    parts: tuple[Part, ...] = ()
    for start, begins in extra:
        if i * block_size <= start < (i + 1) * block_size:
            parts += begins
    return parts


def _check_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{what} is a string of at least one character, not {name!r}")
    return name


def _check_images(images: Iterable[Any], num_tokens: int) -> tuple[Image, ...]:
    if not isinstance(images, Iterable):
        raise InvalidArgument(f"images is a list of content hash, start and length each, not {images!r}")
    found = sorted(map(_check_image, images), key=lambda image: image.start)
    free_from = 0
    for image in found:
        if image.start < free_from:
            raise InvalidArgument(f"the image at {image.start} overlaps the one before it, which ends at {free_from}")
        free_from = image.start + image.length
    if free_from > num_tokens:
        raise InvalidArgument(f"an image ends at {free_from}, after the {num_tokens} tokens of the prompt")
    return tuple(found)


def _check_image(image: Any) -> Image:
    if not isinstance(image, tuple | list) or len(image) != 3:
        raise InvalidArgument(f"an image is its content hash, start and length, not {image!r}")
    content_hash, start, length = image
    if not isinstance(content_hash, bytes) or not content_hash:
        raise InvalidArgument(f"the content hash of an image is at least one byte, not {content_hash!r}")
    return Image(content_hash, check_size("start", start, least=0), check_size("length", length))

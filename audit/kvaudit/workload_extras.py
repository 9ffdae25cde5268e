"""What generated sequences depend on beside their tokens: few values, meant to be taken for one another."""

from __future__ import annotations

from collections.abc import Collection

from kvaudit.choosing import Choices
from kvaudit.protocol import NOTHING, Extras
from kvspec.extra import Image, Lora

_HOW_MANY = (0, 0, 0, 1, 2, 3)
"""Of half of the examples nothing depends on more than its tokens."""

SALTS = ("x", "x1", "1", "salt", "\0")
LORAS = (Lora("x", "1"), Lora("x", "2"), Lora("x1", "1"), Lora("x", "11"), Lora("salt", "x"), Lora("1", "x"))
"""A LoRA that is named like a salt, one of another version, and pairs that run together when one writes them so."""

_BEGIN = bytes(range(1, 17))
_CONTENTS = (
    (_BEGIN * 2, 1),
    (_BEGIN + _BEGIN[::-1], 1),
    (_BEGIN[:8] * 4, 2),
    (_BEGIN[:8] * 3 + b"\0" * 8, 2),
    (b"x", 1),
    (_BEGIN[::-1] + _BEGIN, 3),
)
"""Hashes of images, each with the number of its tokens: some begin alike, some end alike, one is a name as well."""

_LAST_START = 6
_OUT_OF_THREE = 2


def some_extras(choices: Choices, kinds: Collection[str]) -> tuple[Extras, ...]:
    """The extras of an example, of these kinds: none at all, and up to three others."""
    extras = [NOTHING]
    for _ in range(choices.one_of(_HOW_MANY)):
        salt = choices.one_of(SALTS) if "salt" in kinds and choices.number(_OUT_OF_THREE) == 0 else None
        lora = choices.one_of(LORAS) if "lora" in kinds and choices.number(_OUT_OF_THREE) == 0 else None
        images = _images(choices) if "images" in kinds and choices.number(_OUT_OF_THREE) else ()
        extras.append(Extras(salt, lora, images))
    return tuple(extras)


def _images(choices: Choices) -> tuple[Image, ...]:
    images: list[Image] = []
    start = choices.number(_LAST_START)
    for content_hash, length in choices.some_of(_CONTENTS, 2):
        images.append(Image(content_hash, start, length))
        start += length + choices.number(1)
    return tuple(images)

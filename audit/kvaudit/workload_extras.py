"""What generated sequences depend on beside their tokens: look-alikes, meant to be taken for one another."""

from __future__ import annotations

from collections.abc import Collection

from kvaudit.choosing import Choices
from kvaudit.protocol import NOTHING, Extras
from kvspec.extra import Image, Lora

_HALF = (False, True)
_MOST = 3
_LAST_START = 6

_BEGIN, _END = bytes(range(1, 17)), bytes(range(17, 33))
_SHORT, _LONG = 1, 3


def _salt(value: str) -> Extras:
    return Extras(salt=value)


def _lora(id: str, version: str) -> Extras:
    return Extras(lora=Lora(id, version))


def _image(content_hash: bytes, start: int, length: int = _SHORT) -> Extras:
    return Extras(images=(Image(content_hash, start, length),))


def _look_alikes(at: int) -> tuple[tuple[Extras, ...], ...]:
    """Groups of extras, in each of which some careless key takes one for another; with images from `at` on."""
    one, other = Image(_BEGIN + _END, at, _SHORT), Image(_END + _BEGIN, at + 1, _SHORT)
    return (
        (_salt("x"), _salt("y"), _salt("xx"), _salt("X")),
        (_lora("x", "1"), _lora("x", "2"), _lora("y", "1"), _lora("1", "x")),
        (_lora("x", "11"), _lora("x1", "1"), _lora("x\0", "11"), _lora("x", "\0" + "11")),
        (_salt("x"), _lora("salt", "x"), _lora("x", "x"), _lora("lora", "salt")),
        (_salt("x1"), _lora("x", "1"), Extras("x", Lora("x", "1")), Extras("1", Lora("x", "1"))),
        (_image(_BEGIN * 2, at), _image(_BEGIN + _END, at), _image(_END + _BEGIN, at), _image(_BEGIN, at)),
        (_image(_BEGIN[:8] * 4, at), _image(_BEGIN[:8] * 3 + _END[:8], at), _image(_BEGIN[:8], at)),
        (_image(_BEGIN, at), _image(_BEGIN, at + 1), _image(_BEGIN, at + 2), _image(_BEGIN, 0)),
        (_image(_END, at, _LONG), _image(_BEGIN, at, _LONG), _image(_END, at + 1, _LONG)),
        (Extras(images=(one, other)), Extras(images=(one,)), Extras(images=(other,))),
        (_image(b"salt", at), _image(b"x", at), _salt("x"), Extras("x", images=(one,))),
        (Extras("x", Lora("x", "1"), (one,)), Extras("x", Lora("x", "2"), (one,)), Extras("x", None, (one,))),
    )


def some_extras(choices: Choices, kinds: Collection[str]) -> tuple[Extras, ...]:
    """The extras of an example, of these kinds: none at all, and in half of the examples some look-alikes, too."""
    if not choices.one_of(_HALF):
        return (NOTHING,)
    group = choices.one_of(_look_alikes(choices.number(_LAST_START)))
    drawn = [extra for extra in choices.some_of(group, _MOST) if all(kind in kinds for kind in extra.named())]
    return (NOTHING, *dict.fromkeys(drawn))

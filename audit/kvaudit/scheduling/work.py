"""What a step did: the passes of the model, who was finished, and who was preempted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Computed(msgspec.Struct, frozen=True, tag_field="did", tag="computed"):
    """Through `table` the KV of positions start .. end-1 of a sequence is written, and 0 .. end-1 is read."""

    seq: str
    start: int
    end: int
    table: tuple[int, ...]


class Copied(msgspec.Struct, frozen=True, tag_field="did", tag="copied"):
    """The first `tokens` slots of block `source` are copied to block `target`."""

    source: int
    target: int
    tokens: int


Item = Computed | Copied


class Work(msgspec.Struct, frozen=True):
    """The passes in order: in each, first the copies in order, then all writes, then all reads."""

    passes: tuple[tuple[Item, ...], ...] = ()
    finished: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()

    @property
    def computed(self) -> list[Computed]:
        """The items of all passes that compute something."""
        return [item for items in self.passes for item in items if isinstance(item, Computed)]


class _Answer(msgspec.Struct):
    """A step's answer before its items are told apart."""

    passes: list[list[dict[str, Any]]]
    finished: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()


class Nonsense(Exception):
    """What a step answered is no work. The message says what is wrong with it."""


_MOST_PASSES = 1_000
"""Of one step. The tiny pools of an audit ask for a few."""


def read_work(answer: Any) -> Work:
    """The work that a step answered with. Raises Nonsense."""
    told = _read(answer, _Answer, "")
    if len(told.passes) > _MOST_PASSES:
        raise Nonsense(f"passes: {len(told.passes):,} in one step, more than {_MOST_PASSES:,}")
    passes = tuple(
        tuple(_item(item, f"passes[{i}][{j}]") for j, item in enumerate(items)) for i, items in enumerate(told.passes)
    )
    return Work(passes, told.finished, told.preempted)


def _item(item: Mapping[str, Any], where: str) -> Item:
    if "seq" in item and "source" in item:
        raise Nonsense(f"{where}: it has seq and source: something is computed or copied, not both")
    found: Item = _read(item, Computed if "seq" in item else Copied, where)
    return found


def _read(value: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        at = where + path.rstrip("`")
        raise Nonsense(f"{at.lstrip('.')}: {said}" if at else said) from None

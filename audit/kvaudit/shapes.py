"""What kind of value an operation returns. A value of another kind is the harness's fault, not the manager's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kvaudit.protocol import Allocate, Append, CanAllocate, Free, Observed, Operation, Outcome, Returned, Scribble, Slot

_VALUES: dict[type[Any], tuple[Any, str]] = {
    Allocate: (list[int], "the block table, a list of block numbers"),
    Append: (int, "the slot, block * block_size + offset"),
    Free: (None, "null"),
    Slot: (int, "the slot, block * block_size + offset"),
    CanAllocate: (bool, "true or false"),
    Scribble: (None, "null"),
}
_READS: dict[str, tuple[Any, str]] = {
    "num_free_blocks": (int | None, "a number"),
    "tables": (dict[str, list[int]] | None, "an object with the block table of each live sequence"),
    "cached": (dict[str, int] | None, "an object with a number for each live sequence"),
}


def misshapen(program: Sequence[Operation], outcomes: Sequence[Outcome], num_blocks: int) -> str:
    """What is wrong with the kind of a value in the outcomes of a program; empty if nothing is."""
    for i, (operation, outcome) in enumerate(zip(program, outcomes, strict=False)):
        if isinstance(outcome, Returned) and type(operation) in _VALUES:
            kind, due = _VALUES[type(operation)]
            if not _is(outcome.value, kind):
                op = type(operation).__struct_config__.tag
                return f"outcomes[{i}].value: {op} returns {due}, not {_json(outcome.value)}"
        elif isinstance(outcome, Observed):
            what = _reads(outcome) or _state(outcome, num_blocks)
            if what:
                return f"outcomes[{i}].{what}"
    return ""


def _reads(seen: Observed) -> str:
    for name, (kind, due) in _READS.items():
        if not _is(getattr(seen, name), kind):
            return f"{name}: {due} is due, not {_json(getattr(seen, name))}"
    return ""


def _state(seen: Observed, num_blocks: int) -> str:
    """Lists that have an entry for each block have as many as there are blocks."""
    for name in ("ref", "block_hash"):
        entries = getattr(seen.state, name, None)
        if entries is not None and len(entries) != num_blocks:
            return f"state.{name}: {num_blocks} entries are due, one for each block, not {len(entries)}"
    return ""


def _is(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:77] + "..."

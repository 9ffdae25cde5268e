"""Reads of a caller: what they are to answer, by the ledger that is due."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kvaudit.guarding.lockstep import Lockstep
from kvaudit.protocol import NOTHING, Extras
from kvspec import operations
from kvspec.extra import Image, Lora

READS = ("slot", "can_allocate", "num_cached_tokens", "block_table", "num_free_blocks")


class Due(NamedTuple):
    """The answer that is due, the obligation that says so, and the blocks that it is about."""

    answer: Any
    obligation: str
    blocks: tuple[int, ...] = ()


def due(lockstep: Lockstep, name: str, args: Sequence[Any]) -> Due | None:
    """What a read is to answer; None of misuse, of which nothing is said. O(1), and O(table) for a table."""
    ledger = lockstep.ledger
    if name == "num_free_blocks":
        return Due(ledger.num_free_blocks, "I8")
    if len(args) != (2 if name == "slot" else 1):  # it has defaults, or options of its own
        return None
    if name == "can_allocate":
        num_tokens = number(args[0])
        is_number = type(num_tokens) is int and num_tokens >= 0
        return Due(operations.can_allocate(ledger, num_tokens), "O3") if is_number else None
    try:
        record, tail = ledger.sequences.get(args[0]), lockstep.tails.get(args[0])
    except TypeError:  # no hashable id
        return None
    if record is None or tail is None:
        return None
    if name == "block_table":
        return Due(list(record.table), "O5", record.table)
    if name == "num_cached_tokens":
        return Due(record.num_cached_tokens, "O4", record.table[: record.num_cached_tokens // ledger.block_size])
    pos = number(args[1])
    if type(pos) is not int or not 0 <= pos < tail.start + len(tail.tokens):
        return None
    return Due(operations.slot(ledger, args[0], pos), "O5", (record.table[pos // ledger.block_size],))


def in_order(method: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments of a call that went well, in the order of the parameters."""
    if not named:
        return args
    bound = inspect.signature(method).bind(*args, **named)
    return (*bound.args, *bound.kwargs.values())


def numbers(answer: Any) -> Any:
    """A list or an array of blocks as a list of integers, an integer of another library as an integer."""
    if isinstance(answer, (str, bool)) or answer is None:
        return answer
    try:
        return [operator.index(block) for block in answer]
    except TypeError:
        return number(answer)


def extras(named: Mapping[str, Any]) -> Extras:
    """What an allocate was given beside id and tokens, as far as it is of the kinds that there are.

    What is none of them is left to the manager: it says so, or it is an argument of its own.
    """
    if not named:
        return NOTHING
    try:
        lora, images = named.get("lora"), named.get("images") or ()
        return msgspec.convert(
            Extras(
                named.get("salt"), Lora(*lora) if lora is not None else None, tuple(Image(*image) for image in images)
            ),
            Extras,
        )
    except (TypeError, msgspec.ValidationError):
        return NOTHING


def number(answer: Any) -> Any:
    try:
        return operator.index(answer) if type(answer) is not bool else answer
    except TypeError:
        return answer

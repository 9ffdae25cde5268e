"""The manager's pure arithmetic and argument checks. Nothing here touches state."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from kvblocks.errors import InvalidArgument

MAX_TOKEN_ID = 2**32 - 1
TOKEN = "I"  # the item of an `array`: an unsigned integer of 32 bits
TOKEN_BYTES = 4

Unchecked = int | Any
"""Where an int is due. Any as well: a compiled build would take True for 1 before it is looked at."""


def blocks_for(num_tokens: int, block_size: int) -> int:
    """How many blocks hold `num_tokens` tokens: their quotient rounded up."""
    return (num_tokens + block_size - 1) // block_size


def match_limit(num_tokens: int, block_size: int) -> int:
    """How many blocks of a prompt may be hits: one token at least is left to compute, for its logits."""
    return (num_tokens - 1) // block_size


def check_size(name: str, value: Unchecked, least: int = 1) -> int:
    """`value` if it is an integer >= least, else InvalidArgument."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(f"{name} must be an integer >= {least}, not {value!r}")
    return value


def check_token(token_id: Unchecked) -> int:
    """`token_id` if it is an integer in 0 .. 2**32 - 1, else InvalidArgument."""
    if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id <= MAX_TOKEN_ID:
        raise InvalidArgument(f"a token id is an integer in 0 .. 2**32 - 1, not {token_id!r}")
    return token_id


def check_tokens(token_ids: Iterable[int]) -> array[int]:
    """The prompt as an array of our own: at least one token, each of them valid, else InvalidArgument. O(n).

    A buffer of unsigned 32-bit integers (of `array`, NumPy, a memoryview) is copied as it is; of anything else each
    item is looked at.
    """
    tokens = _packed(token_ids)
    if not tokens:
        raise InvalidArgument("a prompt has at least one token")
    return tokens


def _packed(token_ids: Iterable[Unchecked]) -> array[int]:
    view = None if isinstance(token_ids, list) else _buffer(token_ids)
    if view is not None and view.format == TOKEN:
        return array(TOKEN, view.tobytes())
    items = list(token_ids) if view is None else view.tolist()
    if list(map(type, items)).count(int) == len(items):  # so none is a bool, which an array would take
        try:
            return array(TOKEN, items)
        except OverflowError:
            pass  # one is out of range: which one is said below
    return array(TOKEN, [check_token(item) for item in items])


def _buffer(token_ids: Any) -> memoryview | None:
    """A view of what offers a buffer of one dimension, None of anything else."""
    try:
        view = memoryview(token_ids)
    except TypeError:
        return None
    return view if view.ndim == 1 else None

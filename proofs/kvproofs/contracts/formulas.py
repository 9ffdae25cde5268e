"""Contracts on the arithmetic of kvblocks and kvspec, for numbers of any size.

The functions come in pairs, one that calls kvblocks and one that calls kvspec: each meets its contract, and
`crosshair diffbehavior` compares the two. It knows no preconditions, so what has no meaning raises NoMeaning in both.
"""

from __future__ import annotations

from typing import NamedTuple

from kvblocks import BlockManager, arithmetic
from kvspec import operations
from kvspec.ledger import Ledger, Sequence, empty_ledger


class NoMeaning(Exception):
    """The arguments are none that the function is called with."""


def meaning(*claims: bool) -> None:
    """Raises NoMeaning where one of the claims on the arguments does not hold."""
    for claim in claims:
        if not claim:
            raise NoMeaning


# --- how many blocks a prompt needs, and how many may be hits -----------------------------------------------


def kvblocks_blocks_for(num_tokens: int, block_size: int) -> int:
    """The last block is not empty.

    post: 0 <= __return__ * block_size - num_tokens < block_size
    raises: NoMeaning
    """
    meaning(num_tokens >= 0, block_size >= 1)
    return arithmetic.blocks_for(num_tokens, block_size)


def kvspec_blocks_for(num_tokens: int, block_size: int) -> int:
    """The last block is not empty.

    post: 0 <= __return__ * block_size - num_tokens < block_size
    raises: NoMeaning
    """
    meaning(num_tokens >= 0, block_size >= 1)
    return operations.blocks_for(num_tokens, block_size)


def kvblocks_match_limit(num_tokens: int, block_size: int) -> int:
    """One token is left to compute, and no whole block more than that.

    post: 1 <= num_tokens - __return__ * block_size <= block_size
    raises: NoMeaning
    """
    meaning(num_tokens >= 1, block_size >= 1)
    return arithmetic.match_limit(num_tokens, block_size)


def kvspec_match_limit(num_tokens: int, block_size: int) -> int:
    """One token is left to compute, and no whole block more than that.

    post: 1 <= num_tokens - __return__ * block_size <= block_size
    raises: NoMeaning
    """
    meaning(num_tokens >= 1, block_size >= 1)
    return operations.match_limit(num_tokens, block_size)


# --- capacity -----------------------------------------------------------------------------------------------


def kvblocks_can_allocate(num_tokens: int, block_size: int, free: int, evictable: int) -> bool:
    """True exactly if all idle blocks together have room.

    post: __return__ == (num_tokens <= (free + evictable) * block_size)
    raises: NoMeaning
    """
    meaning(num_tokens >= 0, block_size >= 1, free >= 0, evictable >= 0)
    return _manager(block_size, _free=range(free), _evictable=range(evictable)).can_allocate(num_tokens)


def kvspec_can_allocate(num_tokens: int, block_size: int, free: int, evictable: int) -> bool:
    """True exactly if all idle blocks together have room.

    post: __return__ == (num_tokens <= (free + evictable) * block_size)
    raises: NoMeaning
    """
    meaning(num_tokens >= 0, block_size >= 1, free >= 0, evictable >= 0)
    return operations.can_allocate(_ledger(block_size, free=range(free), evictable=range(evictable)), num_tokens)


def kvspec_available(free: int, evictable: int, first: int, second: int) -> int:
    """Two hits that have `first` and `second` holders: each that is idle is one block less to take.

    post: free + evictable - __return__ == (first == 0) + (second == 0)
    raises: NoMeaning
    """
    meaning(free >= 0, evictable >= 0, first >= 0, second >= 0)
    return operations.available(_ledger(1, free=range(free), evictable=range(evictable), ref=(first, second)), (0, 1))


# --- slots --------------------------------------------------------------------------------------------------


def kvblocks_slot(first: int, second: int, block_size: int, pos: int) -> int:
    """Of a table of two blocks: the block, and the offset in it, can be read off the slot.

    post: __return__ // block_size == (first if pos < block_size else second)
    post: __return__ % block_size == (pos if pos < block_size else pos - block_size)
    raises: NoMeaning
    """
    meaning(first >= 0, second >= 0, block_size >= 1, 0 <= pos < 2 * block_size)
    return _manager(block_size, _sequences={"a": _Sequence([first, second], range(2 * block_size))}).slot("a", pos)


def kvspec_slot(first: int, second: int, block_size: int, pos: int) -> int:
    """Of a table of two blocks: the block, and the offset in it, can be read off the slot.

    post: __return__ // block_size == (first if pos < block_size else second)
    post: __return__ % block_size == (pos if pos < block_size else pos - block_size)
    raises: NoMeaning
    """
    meaning(first >= 0, second >= 0, block_size >= 1, 0 <= pos < 2 * block_size)
    return operations.slot(_ledger(block_size, sequences={"a": Sequence((first, second), (), (), 0)}), "a", pos)


# --- states of which only what is read is filled in -----------------------------------------------------------


class _Sequence(NamedTuple):
    table: list[int]
    tokens: range


def _manager(block_size: int, **attributes: object) -> BlockManager:
    """`range(n)` stands for any n blocks or tokens: only how many there are is read."""
    manager = BlockManager(2, 1)
    vars(manager).update(attributes, block_size=block_size)
    return manager


def _ledger(block_size: int, **fields: object) -> Ledger:
    return empty_ledger(2, 1)._replace(block_size=block_size, **fields)  # type: ignore[arg-type]

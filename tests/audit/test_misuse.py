"""What counts as a clean refusal of a misuse (O10), and what the audit tries."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from audit.auditing import target_of
from kvaudit.misuse import Accepted, in_words, try_misuse
from kvblocks import BlockManager


def as_int(value: int) -> int:
    return int(value) if isinstance(value, bool) else value


class CountsBools(BlockManager):
    """A bool is an int in Python: True is the token 1, and a pool of True blocks has one."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        super().__init__(as_int(num_blocks), as_int(block_size), enable_prefix_cache)

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        return super().allocate(seq_id, map(as_int, token_ids))

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        return super().append_slot(seq_id, as_int(token_id))


class Stumbles(BlockManager):
    """What is not there is not looked for: a list or a dict somewhere inside stumbles over it."""

    def free(self, seq_id: Hashable) -> None:
        if seq_id not in self._sequences:
            raise KeyError(17)
        super().free(seq_id)

    def slot(self, seq_id: Hashable, pos: int) -> int:
        if not 0 <= pos < len(self._live(seq_id).tokens):
            return [0][10**9]
        return super().slot(seq_id, pos)


class SaysWhat(BlockManager):
    """The same builtin exceptions, about what the caller gave."""

    def free(self, seq_id: Hashable) -> None:
        if seq_id not in self._sequences:
            raise KeyError(seq_id)
        super().free(seq_id)

    def slot(self, seq_id: Hashable, pos: int) -> int:
        if seq_id not in self._sequences or not 0 <= pos < len(self._sequences[seq_id].tokens):
            raise IndexError(f"{seq_id!r} has no position {pos}")
        return super().slot(seq_id, pos)


def accepted(manager: type[BlockManager]) -> list[Accepted]:
    return try_misuse(target_of(manager))[1]


def test_bools_are_tried_as_sizes_and_as_tokens() -> None:
    assert in_words(accepted(CountsBools)).splitlines() == [
        "accepted: a pool of True blocks of 2 tokens; a pool of 4 blocks of True tokens",
        "accepted, and changes the state: allocate with the token id True; append_slot with the token id True; "
        "append_slot with the token id True, where it would take a block",
    ]


def test_an_error_that_speaks_of_nothing_the_caller_gave_is_an_accident() -> None:
    found = accepted(Stumbles)
    assert {what.how for what in found} == {"ends in KeyError", "ends in IndexError"}
    assert {what.what.split()[0] for what in found} == {"free", "slot"}


@pytest.mark.parametrize("manager", [SaysWhat, BlockManager])
def test_an_error_that_names_it_is_clean(manager: type[BlockManager]) -> None:
    assert not accepted(manager)

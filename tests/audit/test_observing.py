"""What a target shows is copied, and what stands for a number is one: however it is shown, the same is seen."""

from __future__ import annotations

from collections import OrderedDict, deque
from types import SimpleNamespace
from typing import Any

import pytest

from kvaudit.api import ApiTarget, as_state
from kvaudit.errors import TargetError
from kvaudit.protocol import Allocate, Observe, Observed, Pool
from kvblocks import BlockManager


class Number:
    """An integer of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def shown() -> dict[str, Any]:
    """An observation in containers of the manager's own."""
    return {
        "free": deque([2]),
        "evictable": OrderedDict({1: None}),
        "ref": [1, 0, 0],
        "block_hash": [b"x", (1, "y"), None],
        "hash_to_block": {b"x": 0, (1, "y"): 1},
        "tables": {"a": [0]},
        "tokens": {"a": [7, 8]},
        "hashes": {"a": [b"x"]},
        "cached": {"a": 0},
    }


def test_the_same_is_seen_in_any_container_and_of_any_number() -> None:
    state = as_state(shown())
    plain = {name: tuple(value) if not isinstance(value, dict) else value for name, value in shown().items()}
    plain["evictable"] = (1,)
    assert as_state(plain) == as_state(SimpleNamespace(**plain)) == state
    assert state.tables == {"a": (0,)} and state.evictable == (1,)
    other = as_state({**shown(), "ref": [Number(1), 0, 0], "tables": {"a": [Number(0)]}, "cached": {"a": Number(0)}})
    assert other == state
    assert other.ref is not None and type(other.ref[0]) is int


def test_what_is_seen_does_not_change_with_the_manager() -> None:
    for containers in (shown(), {**shown(), "free": [2], "evictable": [1]}):
        state = as_state(containers)
        for value in containers.values():
            value.clear()
        assert state == as_state(shown())


def test_nonsense_is_named() -> None:
    with pytest.raises(TargetError, match=r"observe\(\) gives 5 for 'free'"):
        as_state({**shown(), "free": 5})


@pytest.mark.parametrize("kind", [list, tuple, lambda table: [*map(Number, table)]])
def test_tables_and_counts_are_plain(kind: Any) -> None:
    class Shown(BlockManager):
        def block_table(self, seq_id: Any) -> Any:
            return kind(super().block_table(seq_id))

        def num_cached_tokens(self, seq_id: Any) -> Any:
            return kind([super().num_cached_tokens(seq_id)])[0]

    target = ApiTarget(Shown, name="shown")
    target.open(Pool(3, 2))
    _, seen = target.run([Allocate("a", (1, 2, 3)), Observe()])
    assert isinstance(seen, Observed)
    assert (seen.tables, seen.cached) == ({"a": (0, 1)}, {"a": 0})
    assert seen.cached is not None and type(seen.cached["a"]) is int

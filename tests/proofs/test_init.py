"""The beginning: what a new manager is, and that a wrong constructor is not proved."""

from __future__ import annotations

from typing import Any

import pytest

from kvproofs import sources
from kvproofs.init import is_empty_pool
from kvproofs.operations import OPERATIONS
from kvproofs.theorems import DECLARED, theorems
from kvspec.identity import identity
from kvspec.ledger import Sequence, empty_ledger
from kvspec.logic import Finite, LedgerView

KEY = identity(None, (1, 2))


def is_empty(**changes: Any) -> bool:
    ledger = empty_ledger(3, 2)._replace(**changes)
    return bool(is_empty_pool(Finite(ledger), LedgerView(ledger)))


def test_a_new_manager_is_proved() -> None:
    found = theorems("init", OPERATIONS["init"](sources.manager_class(), {}))
    assert {t.name for t in found} == DECLARED["init"]
    assert [t for t in found if not t.proved] == []


@pytest.mark.parametrize(
    ("old", "new", "theorem"),
    [
        ('check_size("block_size", block_size)', "block_size", "O10"),
        ('check_size("num_blocks", num_blocks)', 'check_size("num_blocks", num_blocks, least=2)', "O10"),
        ("bool(enable_prefix_cache)", "True", "state"),
        ("deque(range(num_blocks))", "deque(range(1, num_blocks))", "I8"),
        ("deque(range(num_blocks))", "deque(range(1, num_blocks + 1))", "empty"),
        ("[0] * num_blocks", "[1] * num_blocks", "I4"),
        ("[None] * num_blocks", "[None] * (num_blocks - 1)", "state"),
        ("self._hasher =", "self._last = self._hasher =", "state"),
        ("self._sequences: dict[Hashable, Sequence] = {}", "self._sequences: dict[Key, int] = {}", "state"),
    ],
)
def test_a_wrong_constructor_is_not_proved(old: str, new: str, theorem: str) -> None:
    goals = list(OPERATIONS["init"](sources.variant((old, new)), {"rlimit": 200_000}))
    assert theorem in {goal.theorem for goal in goals if not goal.proved}


def test_kvspecs_empty_ledger_is_the_empty_pool() -> None:
    assert is_empty()


@pytest.mark.parametrize(
    "changes",
    [
        {"free": (0, 1)},
        {"free": (0, 2, 1)},
        {"free": (0, 1, 1)},
        {"free": (0, 1), "evictable": (2,)},
        {"ref": (0, 1, 0)},
        {"block_hash": (None, KEY, None)},
        {"hash_to_block": {KEY: 0}},
        {"sequences": {"a": Sequence((), (), (), 0)}},
    ],
    ids=str,
)
def test_no_other_ledger_is_the_empty_pool(changes: dict[str, Any]) -> None:
    assert not is_empty(**changes)

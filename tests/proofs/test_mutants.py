"""Planted bugs do not prove: each leaves a theorem open, or does what the executor has no model of."""

from __future__ import annotations

import sys

import pytest
from mutants import MUTANTS

from kvproofs import sources
from kvproofs.operations import OPERATIONS

CAUGHT = {
    "DeletesMappingUnconditionally": ("append", "O6"),
    "AppendsTokenBeforeTaking": ("append", "O1"),
    "FilledBlockIsNotRegistered": ("append", "O8"),
    "NewestMappingWins": ("append", "O8"),
    "KeepsMappingOnEviction": ("append", "O6"),
    "KeepsHashOnEviction": ("append", "O6"),
    "EvictsBeforeFreeList": ("append", "O6"),
    "RefusesLastBlock": ("append", "O2"),
    "AppendIgnoresEvictable": ("append", "O2"),
    "AppendReturnsSlotOfOldBlock": ("append", "O5"),
    "CountsFilledBlockAsCached": ("append", "O4"),
    "FreesDuplicateToFreeList": ("free", ""),
    "ReleasesSharedBlockTwice": ("free", ""),
    "LeaksSharedBlock": ("free", ""),
    "ListsFreeBlockTwice": ("free", ""),
    "KeepsCachedCountAfterFree": ("free", "N1"),
    "SlotOffsetOffByOne": ("slot", "O5"),
    "AcceptsPositionPastTheEnd": ("slot", "O10"),
    "CountsCachedInBlocks": ("num_cached_tokens", "O4"),
    "CachedCountIsReadOnce": ("num_cached_tokens", "O11"),
    "BlockTableIsNotACopy": ("block_table", "O11"),
    "CanAllocateIgnoresEvictable": ("can_allocate", "O3"),
    "CanAllocateRoundsDown": ("can_allocate", "O3"),
}
"""The operation and the theorem in which it shows; "" is the execution itself, a loop invariant say."""

CLASSES = {mutant.cls.__name__: mutant.cls for mutant in MUTANTS}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_planted_bug_leaves_its_theorem_open(name: str) -> None:
    operation, theorem = CAUGHT[name]
    cls = sources.subclass(sys.modules[CLASSES[name].__module__], name)
    goals = OPERATIONS[operation](cls, {})
    assert any(not goal.proved and goal.theorem == theorem for goal in goals)

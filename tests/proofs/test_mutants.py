"""Planted bugs do not prove: each leaves a theorem open, or does what the executor has no model of."""

from __future__ import annotations

import sys

import pytest

from kvproofs import sources
from mutants import MUTANTS
from proofs.controls import to_the_first_open

CAUGHT = {
    "append": (
        "DeletesMappingUnconditionally",
        "AppendsTokenBeforeTaking",
        "FilledBlockHasOldWindow",
        "FilledBlockIsNotRegistered",
        "NewestMappingWins",
        "RegistersOnlyWhenFreed",
    ),
    "free": (
        "FreesDuplicateToFreeList",
        "ReleasesSharedBlockTwice",
        "LeaksSharedBlock",
        "ListsFreeBlockTwice",
        "KeepsCachedCountAfterFree",
        "CountsOnlyFreeList",
        "FreesTwice",
    ),
    "init": ("RegistersWithCacheOff", "IdentifiesBlockByItsTokensAlone"),
    "slot": ("SlotOffsetOffByOne", "AcceptsPositionPastTheEnd"),
    "num_cached_tokens": ("CountsCachedInBlocks", "CachedCountIsReadOnce"),
    "block_table": ("BlockTableIsNotACopy",),
    "can_allocate": ("CanAllocateIgnoresEvictable", "CanAllocateRoundsDown"),
}
"""By the operation in which it shows."""

CLASSES = {mutant.cls.__name__: mutant.cls for mutant in MUTANTS}


@pytest.mark.parametrize(
    ("operation", "name"), [(operation, name) for operation in CAUGHT for name in CAUGHT[operation]]
)
def test_a_planted_bug_leaves_a_goal_open(operation: str, name: str) -> None:
    cls = sources.subclass(sys.modules[CLASSES[name].__module__], name)
    assert not to_the_first_open(operation, cls)[-1].proved

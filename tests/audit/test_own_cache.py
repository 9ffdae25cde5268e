"""A manager that chooses what it caches is held to what it shows: each planted bug that is no choice is found."""

from __future__ import annotations

import pytest

from audit.auditing import audit, audited, row, target_of
from kvaudit.errors import UsageError
from kvaudit.report import HOLDS, VIOLATION
from kvaudit.targets import TargetSpec
from mutants import MUTANTS, Mutant

CHOICES = {
    "CanAllocateTouchesPool",
    "EvictsBeforeFreeList",
    "EvictsNewest",
    "EvictsOldestRegistered",
    "FilledBlockIsNotRegistered",
    "FreesDuplicateToFreeList",
    "FreesInForwardOrder",
    "NewestMappingWins",
}
"""Planted bugs that only choose otherwise than the seed: what is kept, in which copy, and what is given up first."""


def test_kvblocks_conforms() -> None:
    report = audited(TargetSpec("kvblocks"), profile="own-cache", max_steps=3_000)
    assert report.exit_code == 0
    assert row(report, "O6").form == "free list: any order; cache: its own"
    assert all(r.verdict == HOLDS for r in report.rows if r.obligation in ("I7", "O4", "O7", "O8", "K1"))


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if not m.misuse], ids=lambda mutant: mutant.cls.__name__)
def test_what_is_no_choice_is_found(mutant: Mutant) -> None:
    is_choice = mutant.cls.__name__ in CHOICES
    steps = 1_000 if is_choice else 6_000
    report = audit(target_of(mutant.cls), profile="own-cache", max_steps=steps, stop_at_first=True)
    assert (report.exit_code == VIOLATION) is not is_choice


def test_without_observe_nothing_can_be_read_off() -> None:
    with pytest.raises(UsageError, match=r"what is cached is read off observe\(\)"):
        audited(TargetSpec("kvblocks", black_box=True), profile="own-cache", max_steps=10)

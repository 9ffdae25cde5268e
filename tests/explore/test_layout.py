"""A manager that keeps its sequences in dicts or in records is restored in full, or it is said why it is not."""

from __future__ import annotations

from typing import Any

import pytest

from explore.exploring import explored
from explore.keeping import (
    CountsInRecords,
    DeclaresHalf,
    DeclaresWhatIsNotThere,
    Exchanged,
    InDicts,
    KeepsByName,
    KeepsLists,
    KeepsOwned,
    Mixes,
    Named,
    NotesInRecords,
)
from kvaudit.explore.layout import Records
from kvaudit.explore.report import BOUNDED, EXHAUSTIVE
from kvaudit.report import CONFORMS, VIOLATION
from kvblocks import BlockManager
from mutants.records import EndIsNotMoved, NextSlotIsNotAdvanced, RefusalMovesNextSlot, SharesRecordWithTwin


@pytest.mark.parametrize("cls", [InDicts, KeepsByName])
def test_however_it_is_kept_the_search_is_the_same(cls: Any) -> None:
    ours, theirs = (explored(each, 2, 2, profile="seed") for each in (BlockManager, cls))
    assert ours.exit_code == theirs.exit_code == CONFORMS
    for one, other in zip(ours.pools, theirs.pools, strict=True):
        assert one.kind == other.kind == EXHAUSTIVE
        assert one.symmetries == other.symmetries == ["blocks", "sequences", "tokens"]
        for name in ("states", "transitions", "refused", "reads", "misuses", "renamed", "depth"):
            assert getattr(one, name) == getattr(other, name)


STALE = [
    (bug, size)
    for bug in (NextSlotIsNotAdvanced, EndIsNotMoved, RefusalMovesNextSlot)
    for size in (1, 2, 3)
    if bug is not NextSlotIsNotAdvanced or size == 3  # else each token is the first or the last of its block
    if bug is not EndIsNotMoved or size > 1  # each token of a block of one is at its edge, wherever the end is
]


@pytest.mark.parametrize(("cls", "size"), STALE)
def test_a_stale_field_is_found_by_what_it_leads_to(cls: Any, size: int) -> None:
    """No read shows it, and a restored state would not have it."""
    result = explored(cls, 2, size, profile="seed")
    assert result.exit_code == VIOLATION
    assert {pool.kind for pool in result.pools} == {EXHAUSTIVE}
    assert len(result.findings) == 1


def test_a_record_under_two_ids_is_found() -> None:
    result = explored(SharesRecordWithTwin, 2, 1, profile="seed")
    assert result.exit_code == VIOLATION
    assert {pool.kind for pool in result.pools} == {EXHAUSTIVE}


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (CountsInRecords, "a Counted has the appends 1, and 0 follows from its other fields"),
        (NotesInRecords, "a ByName has got a field after it was made"),
        (KeepsOwned, "the constructor of its Owned needs owner, which its STATE does not name"),
        (DeclaresHalf, "neither an attribute each nor fields of one record a sequence"),
        (DeclaresWhatIsNotThere, "its Sequence has no field texts"),
        (KeepsLists, "the notes of a WithList is no plain value"),
        (Exchanged, "what its STATE names cannot be compared"),
        (Mixes, "not every record in its _sequences is a Sequence"),
    ],
)
def test_what_is_more_than_declared_is_not_searched_exhaustively(cls: Any, why: str) -> None:
    result = explored(cls, 2, 2, profile="seed", depth=2)
    assert result.exit_code == CONFORMS
    assert result.pools[0].kind == BOUNDED
    assert why in result.pools[0].why


def test_a_field_of_a_named_tuple_that_need_not_be_given_is_looked_at() -> None:
    """Else what it remembers would be forgotten in a restored state, and the search called exhaustive."""
    declared = {"tables": "_s.table", "tokens": "_s.tokens", "hashes": "_s.hashes", "cached": "_s.cached"}
    layout = Records(declared, "_s", Named([0], [1], [], 0), 2)
    [fresh] = (layout.read({"_s": {"a": Named([0], [1], [], 0)}}) or {}).values()
    assert layout.differs(fresh) == ""
    [later] = (layout.read({"_s": {"a": Named([0], [1, 2], [], 0, 1)}}) or {}).values()
    assert layout.differs(later) == "a Named has the appends 1, and 0 follows from its other fields"
    [other] = (layout.read({"_s": {"a": Named([0], [1], [], 0, False)}}) or {}).values()
    assert layout.differs(other) == "a Named has the appends False, and 0 follows from its other fields"


class WithoutDict(BlockManager):
    """As a compiled class, it has no `__dict__` to be looked at."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_a_manager_without_a_dict_is_searched_by_programs() -> None:
    result = explored(WithoutDict, 2, 2, profile="seed", depth=2)
    assert result.exit_code == CONFORMS
    assert "it has no __dict__" in result.pools[0].why

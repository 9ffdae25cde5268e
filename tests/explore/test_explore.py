"""A good manager is searched to the end; what is not so good falls, or is not called exhaustive."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from explore.breakers import BREAKERS, Breaker, TakesLastFreedBlock, TakesLowestFreeBlock
from explore.exploring import explored, searched
from kvaudit.explore.canonical import Symmetries
from kvaudit.explore.exploration import pools
from kvaudit.explore.report import BOUNDED, EXHAUSTIVE
from kvaudit.protocol import Pool
from kvaudit.report import CONFORMS, INCONCLUSIVE, VIOLATION
from kvblocks import BlockManager, OutOfBlocks
from mutants import MUTANTS, Mutant
from second.manager import LifoManager, SecondManager

LEGAL = [mutant for mutant in MUTANTS if not mutant.misuse and not mutant.by_extra]  # a search gives no extra
MISUSE = [mutant for mutant in MUTANTS if mutant.misuse]
POOLS = [
    pool for size in ((1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)) for pool in pools(*size, smaller=False)
]


def each(mutants: list[Mutant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mutant", mutants, ids=lambda mutant: mutant.cls.__name__)


def test_kvblocks_conforms_to_the_letter_on_small_pools() -> None:
    result = explored(BlockManager, 2, 2, smaller=True)
    assert result.exit_code == CONFORMS
    assert not result.misuse
    assert {pool.kind for pool in result.pools} == {EXHAUSTIVE}
    assert all(not pool.why and not pool.ended and not pool.notes and not pool.waiting for pool in result.pools)
    assert all("blocks" not in pool.symmetries for pool in result.pools)
    assert all(pool.refused and pool.renamed and pool.misuses and pool.reads for pool in result.pools)


@pytest.mark.parametrize(("blocks", "size", "states"), [(2, 1, 23), (2, 2, 48), (3, 1, 227), (3, 2, 674)])
def test_the_number_of_states_up_to_symmetry(blocks: int, size: int, states: int) -> None:
    result = explored(BlockManager, blocks, size, profile="seed")
    assert result.exit_code == CONFORMS
    assert [(pool.kind, pool.symmetries) for pool in result.pools] == [
        (EXHAUSTIVE, ["blocks", "sequences", "tokens"])
    ] * 2
    assert result.pools[0].states == states


def test_several_processes_find_the_same() -> None:
    one, two = (explored(BlockManager, 3, 1, profile="seed", processes=n) for n in (1, 2))
    for first, second in zip(one.pools, two.pools, strict=True):
        for name in ("kind", "states", "transitions", "refused", "reads", "misuses", "renamed", "depth"):
            assert getattr(first, name) == getattr(second, name)


@each(LEGAL)
def test_every_mutant_falls_within_5_s_of_processor_time(mutant: Mutant) -> None:
    began = time.process_time()
    result = explored(mutant.cls, 0, 0, profile="seed", every=POOLS)
    assert time.process_time() - began < 5
    assert result.exit_code == VIOLATION
    [finding] = result.findings
    assert finding.details
    assert 1 <= len(finding.steps) <= 9


@each(MISUSE)
def test_every_misuse_is_found(mutant: Mutant) -> None:
    for misuse, code in ((False, CONFORMS), (True, VIOLATION)):
        result = explored(mutant.cls, 1, 2, profile="seed", misuse=misuse)
        assert result.exit_code == code
        assert not result.findings
        assert result.misuse


@pytest.mark.parametrize("name", ["EvictsNewest", "CountsOnlyFreeList", "CanAllocateEvicts"])
def test_mutants_fall_as_black_boxes_too(name: str) -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.cls.__name__ == name]
    result = explored(mutant.cls, 2, 1, profile="seed", black_box=True, depth=4)
    assert result.exit_code == VIOLATION
    assert {pool.kind for pool in result.pools} == {BOUNDED}


def test_the_counterexample_is_a_shortest_one() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.cls.__name__ == "KeepsMappingOnEviction"]
    [finding] = explored(mutant.cls, 1, 1).findings
    assert [step.call for step in finding.steps] == ["allocate('a', [0])", "free('a')", "allocate('a', [1])"]


# --- symmetries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("breaker", BREAKERS, ids=lambda breaker: breaker.cls.__name__)
def test_a_search_without_the_symmetry_sees_what_breaks_it(breaker: Breaker) -> None:
    up_to_all = searched(breaker.cls, 2, 2, Symmetries())
    assert (up_to_all.found.failure is None) is breaker.is_hidden
    without = searched(breaker.cls, 2, 2, Symmetries()._replace(**{breaker.names: False}))
    assert without.found.failure is not None


@pytest.mark.parametrize("cls", [TakesLowestFreeBlock, TakesLastFreedBlock])
def test_where_block_numbers_are_laid_down_they_count(cls: Any) -> None:
    assert explored(cls, 2, 2).exit_code == VIOLATION
    assert explored(cls, 2, 2, profile="seed").exit_code == CONFORMS


def test_what_does_not_commute_is_searched_without_the_symmetry() -> None:
    result = explored(TakesLowestFreeBlock, 4, 1, every=[Pool(4, 1, enable_prefix_cache=False)])
    assert result.exit_code == VIOLATION
    assert "blocks" not in result.pools[0].symmetries
    assert "does not commute with renaming of blocks" in result.pools[0].notes[0]


@pytest.mark.parametrize("breaker", [b for b in BREAKERS if b.names == "tokens"], ids=lambda b: b.cls.__name__)
def test_token_ids_that_are_easily_confused_are_tried(breaker: Breaker) -> None:
    result = explored(breaker.cls, 2, 1)
    assert result.exit_code == VIOLATION


# --- what may be called exhaustive -------------------------------------------------------------------------


class Counts(BlockManager):
    """Has state that it does not declare."""

    calls = 0

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        self.calls += 1
        return super().append_slot(seq_id, token_id)


class CountsInAList(BlockManager):
    """The same in an attribute that is always there."""

    def __init__(self, num_blocks: int, block_size: int, enable_prefix_cache: bool = True) -> None:
        super().__init__(num_blocks, block_size, enable_prefix_cache)
        self.calls = [0]


class Undeclared(BlockManager):
    """Does not say what its state is."""

    STATE = {}


class ShowsSomethingElse(BlockManager):
    """observe() shows a free list of its own."""

    def observe(self) -> Any:
        return super().observe()._replace(free=())


class KeepsOldLists(BlockManager):
    """A list in two places."""

    def allocate(self, seq_id: Hashable, token_ids: Iterable[int], **extra: Any) -> list[int]:
        table = super().allocate(seq_id, token_ids, **extra)
        new = self._sequences[seq_id]
        new.tokens = next(seq.tokens for seq in self._sequences.values() if seq.tokens == new.tokens)
        return table


class RefusesLatecomers(BlockManager):
    """Looks at which live sequence was allocated last: the others may not go on, if their block is a later one."""

    def append_slot(self, seq_id: Hashable, token_id: int) -> int:
        last = [*self._sequences.values()][-1]
        if self._live(seq_id).table[0] > last.table[0] and self.num_free_blocks == 0:
            raise OutOfBlocks("the last shall be first")
        return super().append_slot(seq_id, token_id)


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (Counts, "calls"),
        (CountsInAList, "calls"),
        (Undeclared, "does not declare"),
        (KeepsOldLists, "one list"),
        (SecondManager, "no observe()"),
    ],
)
def test_only_a_whole_declared_state_is_searched_exhaustively(cls: Any, why: str) -> None:
    result = explored(cls, 2, 1, profile="seed", depth=3)
    assert {pool.kind for pool in result.pools if pool.why} == {BOUNDED}
    assert why in " ".join(pool.why for pool in result.pools)


def test_the_order_in_which_a_mapping_was_filled_is_state_as_well() -> None:
    """A search up to all names merges states that differ in it only; here one of the two is searched first."""
    result = explored(RefusesLatecomers, 2, 2, profile="seed")
    assert {pool.kind for pool in result.pools} == {BOUNDED}
    assert all("the order in which a mapping was filled" in pool.why for pool in result.pools)


def test_observe_has_to_show_the_declared_state() -> None:
    result = explored(ShowsSomethingElse, 2, 1, depth=3)
    assert result.exit_code == VIOLATION  # the free list is to be seen


def test_another_manager_conforms_as_deep_as_it_is_searched() -> None:
    for cls in (SecondManager, LifoManager):
        result = explored(cls, 2, 1, profile="seed", depth=3)
        assert result.exit_code == CONFORMS
        assert not result.misuse
        assert {(pool.kind, pool.depth) for pool in result.pools} == {(BOUNDED, 3)}


def test_less_than_everything_is_inconclusive() -> None:
    result = explored(BlockManager, 3, 1, depth=2)
    assert result.exit_code == INCONCLUSIVE
    assert result.reasons == ["no more than 2 operations"]
    late = explored(BlockManager, 4, 1, max_time_s=0.2)
    assert late.exit_code == INCONCLUSIVE
    assert late.reasons[0] == "the time is up"
    assert late.pools[0].waiting


def test_pools() -> None:
    assert pools(2, 1, smaller=True) == [Pool(1, 1, True), Pool(1, 1, False), Pool(2, 1, True), Pool(2, 1, False)]

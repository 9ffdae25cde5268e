"""The oracle and its parts, asked directly: what is legal under which rules, and what is said of what is not."""

from __future__ import annotations

from typing import Any

import pytest

from audit.auditing import target_of
from kvaudit import words
from kvaudit.caller import Caller
from kvaudit.choices import block_list
from kvaudit.levels import play
from kvaudit.observation import Keys, agrees, as_ledger
from kvaudit.oracle import Judgement, Oracle
from kvaudit.profiles import SEED, STRICT, VLLM, VLLM_ONE_QUEUE, Profile
from kvaudit.protocol import (
    Allocate,
    Append,
    CanAllocate,
    Free,
    Mutation,
    Observe,
    Observed,
    Outcome,
    Pool,
    Raised,
    Refused,
    Returned,
    Scribble,
    Slot,
    State,
)
from kvaudit.scenario import Scenario
from kvspec import operations
from kvspec.identity import identity
from kvspec.ledger import Change, empty_ledger
from kvspec.variants import SEED_VARIANTS, Variants
from mutants import records

READS = frozenset({"num_free_blocks", "num_cached_tokens"})


class Play:
    """A black box whose answers are given by hand, under a profile."""

    def __init__(self, num_blocks: int, block_size: int, profile: Profile = SEED, *, cache: bool = True) -> None:
        self.oracle = Oracle(Pool(num_blocks, block_size, cache), profile, READS)
        self._cached: dict[str, Any] = {}

    def judged(self, operation: Mutation, answer: Outcome, *, cached: int = 0, free: int | None = None) -> Judgement:
        """The judgement of an answer; num_free_blocks is right unless it is given."""
        assert self.oracle.ask(operation) == [operation, Scribble(), Observe()]
        if isinstance(operation, Allocate) and isinstance(answer, Returned):
            self._cached[operation.seq] = cached
        if isinstance(operation, Free):
            self._cached.pop(operation.seq)
        if free is None:
            free = self._free_after(operation, answer)
        return self.oracle.judge(operation, [answer, Returned(), Observed(free, None, dict(self._cached))])

    def _free_after(self, operation: Mutation, answer: Outcome) -> int:
        before = self.oracle.ledger
        if isinstance(operation, Free):
            return operations.free(before, operation.seq).after.num_free_blocks
        if isinstance(operation, Append):
            record = before.sequences[operation.seq]
            is_new = len(record.tokens) == len(record.table) * before.block_size
            return before.num_free_blocks - (is_new and isinstance(answer, Returned))
        table: list[int] = answer.value if isinstance(answer, Returned) else []
        return before.num_free_blocks - sum(before.ref[b] == 0 for b in set(table) if b < before.num_blocks)

    def allocate(self, seq: str, tokens: tuple[int, ...], table: list[int], cached: int = 0) -> set[str]:
        return broken(self.judged(Allocate(seq, tokens), Returned(table), cached=cached))

    def refuse(self, seq: str, tokens: tuple[int, ...]) -> set[str]:
        return broken(self.judged(Allocate(seq, tokens), Refused()))

    def append(self, seq: str, token: int, slot: int) -> set[str]:
        return broken(self.judged(Append(seq, token), Returned(slot)))

    def free(self, seq: str) -> set[str]:
        return broken(self.judged(Free(seq), Returned()))


def broken(judgement: Judgement) -> set[str]:
    return {breach.obligation for breach in judgement.breaches}


# --- free blocks ---------------------------------------------------------------------------------------------


def test_any_free_block_is_as_good_as_another_except_under_strict() -> None:
    assert Play(4, 2, SEED).allocate("a", (1, 2, 3), [3, 1]) == set()
    assert Play(4, 2, STRICT).allocate("a", (1, 2, 3), [3, 1]) == {"O6"}
    assert Play(4, 2, STRICT).allocate("a", (1, 2, 3), [0, 1]) == set()
    assert Play(4, 2, VLLM).allocate("a", (1, 2, 3), [3, 1]) == set()


def idle_and_free(profile: Profile) -> Play:
    """Block 0 is cached and idle, blocks 1 and 2 are free and were so before it."""
    play = Play(3, 1, profile)
    assert play.allocate("a", (7,), [0]) == set()
    assert play.free("a") == set()
    return play


def test_free_blocks_go_before_cached_ones_except_from_one_queue() -> None:
    assert idle_and_free(SEED).allocate("b", (8,), [0]) == {"O6"}
    assert idle_and_free(VLLM).allocate("b", (8,), [0]) == {"O6"}
    assert idle_and_free(VLLM_ONE_QUEUE).allocate("b", (8,), [0]) == set()
    for profile in (SEED, VLLM, VLLM_ONE_QUEUE):
        assert idle_and_free(profile).allocate("b", (8,), [2]) == set()


@pytest.mark.parametrize("profile", [SEED, STRICT, VLLM, VLLM_ONE_QUEUE], ids=lambda profile: profile.name)
def test_the_oldest_cached_block_goes_first_under_all(profile: Profile) -> None:
    for block, names in ((0, {"O6"}), (1, set())):
        play = Play(2, 1, profile)
        assert play.allocate("a", (1, 2), [0, 1]) == set()
        assert play.free("a") == set()  # block 1, the deeper one, is the older
        assert play.allocate("b", (3,), [block]) == names


# --- copies --------------------------------------------------------------------------------------------------


def two_copies(profile: Profile) -> Play:
    """Blocks 0 and 1 carry the same content; both are held."""
    play = Play(4, 1, profile)
    assert play.allocate("a", (7,), [0]) == set()
    assert play.allocate("b", (7,), [1]) == set()
    return play


def test_only_the_older_copy_is_a_hit_unless_all_are_kept() -> None:
    for profile, names in ((SEED, {"O4"}), (VLLM, set()), (VLLM_ONE_QUEUE, set())):
        assert two_copies(profile).allocate("c", (7, 8), [0, 2], cached=1) == set()
        assert two_copies(profile).allocate("c", (7, 8), [1, 2], cached=1) - {"K1"} == names


def test_where_all_are_kept_a_copy_is_hit_after_the_other_was_evicted() -> None:
    for profile in (SEED, VLLM):
        play = Play(3, 1, profile)
        assert play.allocate("a", (7,), [0]) == set()
        assert play.allocate("b", (7,), [1]) == set()
        assert play.free("a") == set()
        assert play.allocate("c", (8, 9), [2, 0]) == set()  # evicts the mapped one
        assert play.free("c") == set()
        hit = play.allocate("d", (7, 5), [1, 0], cached=1)
        assert (hit == set()) is (profile is VLLM), hit


def test_a_refusal_is_legal_where_only_an_idle_copy_makes_it_so() -> None:
    """Three blocks: a held copy 0, an idle one 1, and one free. A prompt that hits needs 2 new blocks."""
    for profile, names in ((SEED, {"O2"}), (VLLM, set())):
        play = Play(3, 1, profile)
        assert play.allocate("a", (7,), [0]) == set()
        assert play.allocate("b", (7,), [1]) == set()
        assert play.free("b") == set()
        assert play.refuse("c", (7, 8, 9)) == names


# --- refusals ------------------------------------------------------------------------------------------------


def test_refusing_what_fits_and_completing_what_does_not() -> None:
    assert Play(2, 2).refuse("a", (1, 2, 3)) == {"O2"}
    assert Play(2, 2).refuse("a", (1, 2, 3, 4, 5)) == set()
    assert "O2" in Play(2, 2).allocate("a", (1, 2, 3, 4, 5), [0, 1, 0])
    full = Play(1, 2)
    assert full.allocate("a", (1, 2), [0]) == set()
    assert full.judged(Append("a", 3), Refused()).refused
    assert broken(full.judged(Append("a", 3), Refused())) == set()
    assert "O2" in full.append("a", 3, 0)


def test_what_is_expected_is_a_refusal_also_where_the_answer_is_wrong_in_other_ways() -> None:
    """The target hits what is not cached, and so has room where the specification has none."""
    play = Play(3, 1)
    assert play.allocate("a", (0,), [0]) == set()
    assert play.allocate("b", (0, 1), [0, 1], 1) == set()
    operation = Allocate("c", (1, 1))
    judgement = play.judged(operation, Returned([1, 2]), cached=1)
    assert broken(judgement) == {"K1", "O4"}
    assert words.expected(operation, judgement) == "refusal: needs 2 new blocks, 1 available"
    full = Play(1, 1)
    assert full.allocate("a", (0,), [0]) == set()
    assert full.judged(Append("a", 0), Returned([0])).refused
    assert full.judged(Allocate("b", (0,)), Returned("nonsense"), free=0).refused


def test_an_append_within_a_block_and_a_free_cannot_be_refused() -> None:
    play = Play(1, 2)
    assert play.allocate("a", (1,), [0]) == set()
    assert broken(play.judged(Append("a", 2), Refused())) == {"O2"}
    play = Play(1, 2)
    assert play.allocate("a", (1,), [0]) == set()
    assert broken(play.judged(Free("a"), Refused(), free=0)) == {"O2"}


def test_an_exception_is_named_with_its_place() -> None:
    for error, advice in (
        ("KeyError", ""),
        ("NoRoom", ". Is it meant as a refusal? --refusal NoRoom, or refusals=[NoRoom] in Python"),
    ):
        judgement = Play(1, 1).judged(Allocate("a", (1,)), Raised(error, "'a'", True, "pool.py:7 in take"))
        [breach] = judgement.breaches
        assert breach[:2] == ("O2", f"a legal call raised {error}: 'a' (pool.py:7 in take){advice}")


def test_a_wrong_number_of_free_blocks_is_named_after_the_operation() -> None:
    assert broken(Play(3, 1).judged(Allocate("a", (1,)), Returned([0]), free=3)) == {"I8", "I1"}
    assert broken(Play(3, 1).judged(Allocate("a", (1,) * 9), Refused(), free=2)) == {"O1"}
    play = Play(3, 1)
    assert play.allocate("a", (1,), [0]) == set()
    assert broken(play.judged(Free("a"), Returned(), free=2)) == {"I8", "I4"}


# --- tables --------------------------------------------------------------------------------------------------


def test_tables_that_no_caller_could_use() -> None:
    assert "O5" in Play(3, 2).allocate("a", (1, 2, 3), [0])
    assert "O5" in Play(3, 2).allocate("a", (1, 2, 3), [0, 1, 2])
    assert "I8" in Play(3, 2).allocate("a", (1, 2, 3), [1, 1])
    assert block_list([0, 3], 3) is None
    assert block_list([0, -1], 3) is None
    assert block_list([True], 3) is None
    assert block_list("01", 3) is None
    assert block_list((2, 0), 3) == [2, 0]
    assert block_list([], 3) == []


def test_a_block_in_use_is_no_new_block() -> None:
    play = Play(3, 2)
    assert play.allocate("a", (1, 2), [0]) == set()
    assert {"I8", "K2"} <= play.allocate("b", (3, 4), [0])
    off = Play(3, 2, cache=False)
    assert off.allocate("a", (1, 2), [0]) == set()
    assert {"I8", "O9"} <= off.allocate("b", (1, 2, 3), [0, 1])


def test_cached_counts_that_are_wrong() -> None:
    assert "I5" in Play(3, 2).allocate("a", (1, 2), [0], cached=2)
    assert {"I5", "O4"} <= Play(3, 2).allocate("a", (1, 2, 3), [0, 1], cached=1)
    assert "O9" in Play(3, 2, cache=False).allocate("a", (1, 2, 3), [0, 1], cached=2)


def test_slots_that_are_wrong() -> None:
    for slot, names in ((1, set()), (0, {"O5"}), (2, {"O5"}), (6, {"O5"}), (-1, {"O5"})):
        play = Play(3, 2)
        assert play.allocate("a", (1,), [0]) == set()
        assert play.append("a", 2, slot) == names


# --- the memory ----------------------------------------------------------------------------------------------


def test_k1_where_a_hit_has_been_overwritten() -> None:
    caller = Caller(Pool(2, 1))
    assert caller.allocated(Allocate("a", (7,)), [0], 0) == []
    caller.freed("a")
    assert caller.allocated(Allocate("b", (8,)), [0], 0) == []
    caller.freed("b")
    assert caller.allocated(Allocate("c", (7, 5)), [0, 1], 1) == []
    [breach] = caller.misreads()
    assert breach.obligation == "K1"
    assert breach.detail == "'c' reads the KV of <8> at position 0 (block 0), its own prefix is <7>"


def test_k1_where_nobody_wrote() -> None:
    caller = Caller(Pool(2, 1))
    caller.allocated(Allocate("a", (7, 8)), [0, 1], 1)
    [breach] = caller.misreads()
    assert "'a' reads what nobody has written at position 0" in breach.detail


def test_k1_where_a_table_changes_under_a_live_sequence() -> None:
    caller = Caller(Pool(3, 1))
    caller.allocated(Allocate("a", (7,)), [0], 0)
    caller.allocated(Allocate("b", (8,)), [1], 0)
    assert caller.misreads() == []
    caller.sees_table("a", [1])
    assert [breach.obligation for breach in caller.misreads()] == ["K1"]
    caller.sees_table("a", [])  # too short to read through: that is told elsewhere
    assert len(caller.misreads()) == 1


def test_k2_where_a_block_is_written_while_it_is_held() -> None:
    caller = Caller(Pool(3, 2))
    assert caller.allocated(Allocate("a", (7, 8, 9)), [0, 1], 0) == []
    [breach] = caller.allocated(Allocate("b", (7, 8, 6)), [0, 1], 2)
    assert breach == ("K2", "block 1, which is to be written, is held by 'a'", (1,))
    assert [b.obligation for b in caller.misreads()] == ["K1"]


def test_k2_at_an_append_that_takes_a_held_block() -> None:
    caller = Caller(Pool(3, 1))
    caller.allocated(Allocate("a", (7,)), [0], 0)
    caller.allocated(Allocate("b", (8,)), [1], 0)
    assert [breach.obligation for breach in caller.appended(Append("b", 9), 0, True)] == ["K2"]
    assert caller.appended(Append("b", 9), 2, True) == []


def test_sharing_what_is_cached_is_no_conflict() -> None:
    caller = Caller(Pool(4, 1))
    caller.allocated(Allocate("a", (7, 8)), [0, 1], 0)
    assert caller.allocated(Allocate("b", (7, 9)), [0, 2], 1) == []
    assert caller.appended(Append("b", 5), 3, True) == []
    assert caller.misreads() == []


# --- observations --------------------------------------------------------------------------------------------


def test_keys_are_learnt_where_an_identity_is_registered() -> None:
    due = empty_ledger(2, 1)
    keys, h, other = Keys(), identity(None, (1,)), identity(None, (2,))
    assert keys.of(h) not in (None, "k1")
    keys.learn(Change(registered=((0, h),)), State(block_hash=("k1", None)), due)
    assert (keys.of(h), keys.meaning("k1")) == ("k1", h)
    keys.learn(Change(registered=((1, other),)), State(block_hash=("k1", "k1")), due)
    assert keys.of(other) != "k1"  # one key cannot stand for two
    keys.learn(Change(registered=((1, h),)), State(block_hash=("k1", "another")), due)
    assert keys.of(h) == "k1"  # nor one identity have two
    assert keys.of(None) is None
    assert keys.meaning(None) is None
    assert keys.meaning("unknown") is keys.meaning("unknown") is not h


def test_an_observation_is_compared_as_far_as_it_goes() -> None:
    step = operations.allocate(empty_ledger(3, 1), "a", (5, 6))
    ledger, keys = step.after, Keys()
    state = State(free=(2,), ref=(1, 1, 0), block_hash=("h0", "h1", None), hash_to_block={"h0": 0, "h1": 1})
    keys.learn(step.change, state, ledger)
    assert agrees(state, ledger, keys, SEED_VARIANTS)
    assert as_ledger(state, ledger, keys) == ledger
    assert agrees(State(), ledger, keys, SEED_VARIANTS)
    for wrong in (
        State(free=(1,)),
        State(evictable=(0,)),
        State(ref=(1, 1, 1)),
        State(block_hash=("h0", "h0", None)),
        State(hash_to_block={"h0": 1, "h1": 1}),
        State(hash_to_block={"h0": 0}),
        State(tables={"a": (1, 0)}),
        State(tokens={"a": (5,)}),
        State(hashes={"a": ("h1", "h0")}),
        State(cached={"a": 1}),
        State(cached={}),
    ):
        assert not agrees(wrong, ledger, keys, SEED_VARIANTS), wrong
        assert as_ledger(wrong, ledger, keys) != ledger, wrong


def test_the_order_of_the_free_list_counts_where_it_is_laid_down() -> None:
    ledger, any_order = empty_ledger(3, 1), Variants(free_list="any order")
    assert not agrees(State(free=(2, 0, 1)), ledger, Keys(), SEED_VARIANTS)
    assert agrees(State(free=(2, 0, 1)), ledger, Keys(), any_order)
    assert not agrees(State(free=(2, 0, 0)), ledger, Keys(), any_order)


def test_who_has_a_record_that_he_is_not_to_have_is_live() -> None:
    ledger = operations.allocate(empty_ledger(2, 1), "a", (5,)).after
    seen = as_ledger(State(tables={"a": (0,), "b": (1,)}, cached={"a": 0}), ledger, Keys())
    assert set(seen.sequences) == {"a", "b"}
    seen = as_ledger(State(tables={"a": (0,)}, cached={}), ledger, Keys())
    assert set(seen.sequences) == set()


# --- probes, and O11 -----------------------------------------------------------------------------------------


def test_what_is_asked_at_every_step() -> None:
    oracle = Oracle(Pool(2, 2), SEED, READS | {"slot", "can_allocate"})
    first = oracle.ask(Allocate("a", (1, 2)))
    assert first[:2] == [Allocate("a", (1, 2)), Scribble()]
    assert first[-1] == Observe()
    assert [type(probe) for probe in first[2:-1]] == [CanAllocate]  # no sequence is there for sure


def test_a_free_is_not_followed_by_a_read_of_what_it_ends() -> None:
    oracle = Oracle(Pool(2, 2), SEED, READS | {"slot"})
    oracle.ask(Allocate("a", (1, 2)))
    oracle.judge(Allocate("a", (1, 2)), [Returned([0]), Returned(), Observed(1, None, {"a": 0})])
    assert [type(asked) for asked in oracle.ask(Free("a"))] == [Free, Scribble, Observe]
    assert Slot in [type(asked) for asked in oracle.ask(Append("a", 3))]


@pytest.mark.parametrize(
    "cls",
    [records.ReturnsOwnTable, records.BlockTableIsNotACopy, records.CanAllocateTouchesPool, records.KeepsCallersList],
)
def test_a_quiet_replay_tells_reads_that_change_things_from_operations_that_are_wrong(cls: type) -> None:
    program: tuple[Mutation, ...] = (
        Allocate("a", (1, 2, 3)),
        Append("a", 4),
        Append("a", 5),
        Free("a"),
        Allocate("b", (1, 2, 3, 4, 5)),
        Append("b", 6),
        Allocate("c", (7, 8, 9, 9, 9, 9)),
        Free("b"),
        Allocate("d", (6, 6, 6, 6)),
    )
    found: set[str] = set()
    for pool in (Pool(8, 1), Pool(6, 1), Pool(4, 2), Pool(3, 2)):
        found |= {breach.obligation for breach in play(target_of(cls), Scenario(pool, program), SEED).breaches}
    assert found == {"O11"}


def test_an_operation_that_is_wrong_by_itself_is_not_blamed_on_reads() -> None:
    execution = play(
        target_of(records.SlotOffsetOffByOne), Scenario(Pool(3, 2), (Allocate("a", (1,)), Append("a", 2))), SEED
    )
    assert {breach.obligation for breach in execution.breaches} == {"O5"}

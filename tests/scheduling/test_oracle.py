"""The oracle of the scheduler level on scripted answers: what it says of each wrong one, and of right ones nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvaudit.protocol import Cancel, Observed, Outcome, Pool, Raised, Refused, Request, Returned, State, Step, Submit
from kvaudit.scheduling.oracle import IDLE_STEPS, Oracle

Item = dict[str, Any]
Said = tuple[Request, Any]
POOL, SMALL = Pool(6, 2), Pool(2, 2)
A = Submit("a", (7, 8, 9), 2)
B = Submit("b", (7, 8, 9), 2)


def item(seq: str, start: int, end: int, *table: int) -> Item:
    return {"seq": seq, "start": start, "end": end, "table": list(table)}


def copy(source: int, target: int, tokens: int) -> Item:
    return {"source": source, "target": target, "tokens": tokens}


def did(*passes: Sequence[Item], finished: Sequence[str] = (), preempted: Sequence[str] = ()) -> Any:
    return {"passes": list(map(list, passes)), "finished": list(finished), "preempted": list(preempted)}


def broken(*said: Said, pool: Pool = POOL) -> list[str]:
    """What the last of these answers breaks; the ones before break nothing."""
    oracle = Oracle(pool)
    names: list[str] = []
    for operation, answer in said:
        assert not names
        outcome: Outcome = answer if isinstance(answer, Returned | Refused | Raised) else Returned(answer)
        seen = answer if isinstance(answer, Observed) else Observed()
        judgement = oracle.judge(operation, [outcome, seen])
        names = list(dict.fromkeys(breach.obligation for breach in judgement.breaches))
    return names


def shown(*said: Said, pool: Pool = SMALL, **seen: Any) -> list[str]:
    """What the pool breaks that is shown after the last of these answers."""
    oracle = Oracle(pool)
    for operation, answer in said[:-1]:
        assert not oracle.judge(operation, [Returned(answer), Observed()]).breaches
    operation, answer = said[-1]
    free = seen.pop("num_free_blocks", None)
    outcomes: list[Outcome] = [Returned(answer), Observed(free, state=State(**seen))]
    return [breach.obligation for breach in oracle.judge(operation, outcomes).breaches]


def test_what_is_right_breaks_nothing() -> None:
    assert not broken(
        (A, None),
        (B, None),
        (Step(1), did([item("a", 0, 3, 0, 1), item("b", 2, 3, 0, 2)])),  # a hit on what is written in the same pass
        (Step(2), did([item("a", 3, 4, 0, 1), item("b", 3, 4, 0, 2)], finished=["a", "b"])),
        (Submit("c", (7, 8, 9, 1), 1), None),
        (Step(1), did([item("c", 2, 3, 0, 1)])),
        (Step(1), did([item("c", 3, 4, 0, 1)], finished=["c"])),
    )


WRONG: dict[str, tuple[str, list[Said]]] = {
    "a hit on what nobody wrote": ("K1", [(A, None), (Step(1), did([item("a", 2, 3, 0, 1)]))]),
    "a hit on another prefix": (
        "K1",
        [
            (Submit("c", (5, 6), 1), None),
            (Step(1), did([item("c", 0, 2, 0)], finished=["c"])),
            (A, None),
            (Step(1), did([item("a", 2, 3, 0, 1)])),
        ],
    ),
    "a hit on what a later pass writes": (
        "K1",
        [(A, None), (B, None), (Step(1), did([item("b", 2, 3, 0, 2)], [item("a", 0, 3, 0, 1)]))],
    ),
    "a write over another's": (
        "K2",
        [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)])), (B, None), (Step(1), did([item("b", 0, 3, 1, 2)]))],
    ),
    "two in one slot": (
        "K1",
        [(A, None), (Submit("c", (1, 2), 1), None), (Step(1), did([item("a", 0, 3, 0, 1), item("c", 0, 2, 0)]))],
    ),
    "a copy over another's": (
        "K2",
        [
            (A, None),
            (Step(1), did([item("a", 0, 3, 0, 1)])),
            (Submit("c", (1, 2, 3), 1), None),
            (Step(1), did([copy(1, 0, 1), item("c", 0, 3, 3, 4)])),
        ],
    ),
    "a table that is too short": ("O5", [(A, None), (Step(1), did([item("a", 0, 3, 0)]))]),
    "a table of no block": ("O5", [(A, None), (Step(1), did([item("a", 0, 3, 0, 6)]))]),
    "a copy of no block": ("O5", [(A, None), (Step(1), did([copy(9, 0, 1), item("a", 0, 3, 0, 1)]))]),
    "a block twice": ("I7", [(A, None), (Step(1), did([item("a", 0, 2, 0, 0)]))]),
    "nothing left to compute": ("I5", [(A, None), (Step(1), did([item("a", 3, 3, 0, 1)]))]),
    "beyond the end": ("O4", [(A, None), (Step(1), did([item("a", 0, 4, 0, 1)]))]),
    "a gap": ("K1", [(A, None), (Step(1), did([item("a", 0, 1, 0)])), (Step(1), did([item("a", 2, 3, 0, 1)]))]),
    "a gap with the cache off": (
        "O4",
        [(A, None), (Step(1), did([item("a", 0, 1, 0)])), (Step(1), did([item("a", 2, 3, 0, 1)]))],
    ),
    "once more": ("O4", [(A, None), (Step(1), did([item("a", 0, 2, 0)])), (Step(1), did([item("a", 1, 3, 0, 1)]))]),
    "somebody who is not there": ("O2", [(Step(1), did([item("a", 0, 1, 0)]))]),
    "finished too early": ("O2", [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)], finished=["a"]))]),
    "preempted and not there": ("O2", [(Step(1), did(preempted=["a"]))]),
    "a refusal of what fits": ("O2", [(A, Refused())]),
    "a refused step": ("O2", [(Step(1), Refused())]),
    "an exception": ("O2", [(A, None), (Cancel("a"), Raised("KeyError", "'a'"))]),
    "a deadlock": ("O2", [(A, None), *[(Step(1), did())] * IDLE_STEPS]),
    "a livelock": ("O2", [(A, None), *[(Step(1), did([item("a", 0, 1, 0)], preempted=["a"]))] * 11]),
    "work with the cache off, begun in the middle": ("O9", [(A, None), (Step(1), did([item("a", 2, 3, 0, 1)]))]),
    "no work": ("O2", [(Step(1), None)]),
    "passes of another kind": ("O2", [(Step(1), {"passes": 3})]),
    "an item without an end": ("O2", [(A, None), (Step(1), did([{"seq": "a", "start": 0, "table": []}]))]),
    "blocks that are no numbers": ("O2", [(A, None), (Step(1), did([{**item("a", 0, 3), "table": ["x"]}]))]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_called_by_its_name(name: str) -> None:
    obligation, said = WRONG[name]
    names = broken(*said, pool=Pool(6, 2, enable_prefix_cache="cache off" not in name))
    assert obligation in names


def test_a_copy_may_be_read() -> None:
    begun: list[Said] = [
        (A, None),
        (Step(1), did([item("a", 0, 3, 0, 1)])),
        (Submit("c", (7, 8, 9, 5), 1), None),
    ]
    assert not broken(*begun, (Step(1), did([copy(1, 3, 1), item("c", 3, 4, 0, 3)])))
    assert broken(*begun, (Step(1), did([copy(0, 3, 1), item("c", 3, 4, 0, 3)]))) == ["K1"]


def test_whoever_is_preempted_begins_anew() -> None:
    begun: list[Said] = [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)]))]
    assert not broken(*begun, (Step(1), did(preempted=["a"])), (Step(1), did([item("a", 2, 4, 0, 3)])))
    assert broken(*begun, (Step(1), did(preempted=["a"])), (Step(1), did([item("a", 3, 4, 0, 3)]))) == ["K1"]


def test_whoever_is_preempted_may_keep_its_blocks_even_with_the_cache_off() -> None:
    begun: list[Said] = [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)])), (Step(1), did(preempted=["a"]))]
    assert not broken(*begun, (Step(1), did([item("a", 2, 4, 0, 1)])), pool=Pool(6, 2, enable_prefix_cache=False))


def test_nobody_counts_on_the_blocks_of_the_preempted_or_the_cancelled() -> None:
    other: Said = (Submit("c", (1, 2, 3), 1), None)
    begun: list[Said] = [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)])), other]
    over = item("c", 0, 3, 1, 0)
    assert broken(*begun, (Step(1), did([over]))) == ["K2"]
    assert not broken(*begun, (Step(1), did([over], preempted=["a"], finished=["c"])))
    assert not broken(*begun, (Cancel("a"), None), (Step(1), did([over], finished=["c"])))


def test_who_is_cancelled_during_compute_is_computed_once_more() -> None:
    begun: list[Said] = [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)]))]
    assert not broken(*begun, (Step(1, ("a",)), did([item("a", 3, 4, 0, 1)])), (Step(1), did()))
    assert broken(*begun, (Step(1, ("a",)), did()), (Step(1), did([item("a", 3, 4, 0, 1)]))) == ["O2"]


def test_an_end_may_be_reported_late() -> None:
    late: list[Said] = [(Submit("a", (7,), 1), None), (Step(1), did([item("a", 0, 1, 0)]))]
    assert not broken(*late, (Step(1), did(finished=["a"])))
    assert not broken(*late, (Step(1), did([item("a", 1, 2, 0)], finished=["a"])))


def test_what_others_have_computed_meanwhile_is_passed_over() -> None:
    long = (7, 8, 9, 1, 5)
    begun: list[Said] = [(Submit("a", long, 1), None), (Submit("b", long, 1), None)]
    both = (Step(1), did([item("a", 0, 2, 0), item("b", 0, 4, 0, 1)]))
    assert not broken(*begun, both, (Step(1), did([item("a", 4, 5, 0, 1, 2)])))
    assert broken(*begun, both, (Step(1), did([item("a", 4, 5, 0, 3, 2)]))) == ["K1"]


def test_a_table_may_be_new_in_the_pass_in_which_its_old_block_goes_to_another() -> None:
    begun: list[Said] = [
        (A, None),
        (B, None),
        (Step(1), did([item("a", 0, 2, 0), item("b", 0, 2, 1)])),
        (Submit("c", (5, 6), 1), None),
    ]
    assert not broken(*begun, (Step(1), did([item("c", 0, 2, 0), item("a", 2, 3, 1, 2)])))
    assert "K2" in broken(*begun, (Step(1), did([item("c", 0, 2, 0), item("a", 2, 3, 0, 2)])))


def test_who_has_its_last_token_may_lose_its_blocks_before_it_is_said_to_be_finished() -> None:
    done: list[Said] = [(Submit("a", (7, 8), 1), None), (Step(1), did([item("a", 0, 2, 0)])), (B, None)]
    assert not broken(*done, (Step(1), did([item("b", 0, 3, 1, 0)], finished=["a"])))


def test_the_pool_that_is_shown() -> None:
    running: list[Said] = [(A, None), (Step(1), did([item("a", 0, 3, 0, 1)]))]
    tables = {"a": (0, 1)}
    assert not shown(*running, num_free_blocks=0, free=(), ref=(1, 1), tables=tables)
    assert shown(*running, free=(), ref=(1, 2), tables=tables) == ["I4"]
    assert shown(*running, free=(1,), ref=(1, 1), tables=tables) == ["I8"]
    assert shown(*running, free=(), ref=(1, 0), tables={"a": (0,)}) == ["I8"]
    assert shown(*running, num_free_blocks=1, free=(), ref=(1, 1), tables=tables) == ["I1"]
    assert shown(*running, free=(), ref=(1,), tables=tables) == ["O5"]
    assert shown(*running, free=(7,), tables=tables) == ["O5"]
    assert shown(*running, free=(), tables={"a": (0, 0), "z": ()})[0] == "I7"
    assert shown(*running, (Cancel("a"), None), free=(), ref=(1, 1), tables=tables) == ["I4"]
    assert shown(*running, (Cancel("a"), None), num_free_blocks=1) == ["I4"]
    assert not shown(*running, (Cancel("a"), None), num_free_blocks=2, free=(1, 0), ref=(0, 0), tables={})
    assert shown(*running, (Cancel("a"), None), num_free_blocks="x") == ["I1"]
    off = Pool(2, 2, enable_prefix_cache=False)
    twice = {"a": (0, 1), "b": (1,)}
    assert "O9" in shown((B, None), *running, pool=off, free=(), tables=twice)


def test_a_table_may_be_swapped_by_its_manager() -> None:
    """Of two copies the older one is kept, and the other block goes to somebody else."""
    oracle = Oracle(Pool(3, 1))
    for seq in ("a", "b", "c"):
        oracle.judge(Submit(seq, (7,) if seq != "c" else (5,), 2), [Returned(), Observed()])
    both = did([item("a", 0, 1, 0), item("b", 0, 1, 1)])
    swapped = Observed(state=State(tables={"a": (0,), "b": (0,)}))
    assert not oracle.judge(Step(1), [Returned(both), swapped]).breaches
    assert not oracle.judge(Step(1), [Returned(did([item("c", 0, 1, 1)])), Observed()]).breaches

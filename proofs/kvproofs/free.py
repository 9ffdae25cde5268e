"""free: the blocks of one table, the last one first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs.backend import StateView, Step
from kvproofs.executor import Goal
from kvproofs.loops import Loop
from kvproofs.operation import SEQ_ID, Run, answered, completed, ghosts_after, prove_operation
from kvproofs.state import State, capture
from kvproofs.terms import INT, SeqTerm, lift
from kvspec import postconditions as post


def release_loop(before: State, manager: Any, loop: Loop, local: dict[str, Any]) -> dict[str, Any]:
    """After i blocks: those of the last i places have one holder less, and where that was the only one, are idle."""
    free, evictable = manager._free, manager._evictable
    start = loop.memo.setdefault("start", (free.high, evictable.high))
    b, c = z3.Ints("b c")

    def released(x: Any) -> Any:
        return z3.And(before.contains(SEQ_ID, x), before.place(SEQ_ID, x) >= before.tables_len[SEQ_ID] - loop.i)

    def joins(x: Any, keyed: Any) -> Any:
        return z3.And(released(x), before.ref[x] == 1, before.hash_has[x] == keyed)

    def order(pool: Any, member: Any, stamp: Any, high: Any, keyed: bool) -> Any:
        deeper = before.place(SEQ_ID, b) > before.place(SEQ_ID, c)
        return z3.And(
            high <= pool.high,
            z3.ForAll([b], pool.member[b] == z3.Or(member[b], joins(b, keyed)), patterns=[pool.member[b]]),
            z3.ForAll([b], z3.Implies(member[b], pool.stamp[b] == stamp[b]), patterns=[pool.stamp[b]]),
            z3.ForAll([b], z3.Implies(joins(b, keyed), pool.stamp[b] >= high), patterns=[pool.stamp[b]]),
            z3.ForAll(
                [b, c],
                z3.Implies(z3.And(joins(b, keyed), joins(c, keyed), deeper), pool.stamp[b] < pool.stamp[c]),
                patterns=[z3.MultiPattern(pool.stamp[b], pool.stamp[c])],
            ),
        )

    ref = manager._ref
    return {
        "counts": z3.ForAll([b], ref.array[b] == before.ref[b] - z3.If(released(b), 1, 0), patterns=[ref.array[b]]),
        "the free list": order(free, before.free_member, before.free_stamp, start[0], False),
        "the evictable pool": order(evictable, before.evictable_member, before.evictable_stamp, start[1], True),
        "no block is lost": free.count + evictable.count + ref.positive == before.num_blocks,
    }


def free(cls: Any, options: dict[str, Any]) -> Iterator[Goal]:
    """free, with any sequence id."""

    def program(manager: Any) -> Any:
        return manager.free(SeqTerm(SEQ_ID))

    def at_end(run: Run) -> None:
        before = run.before.state
        if not answered(run, before.live(SEQ_ID), (errors.UnknownSequence,), may_refuse=False):
            return
        run.prove("O5", "nothing is answered", z3.BoolVal(run.outcome.value is None))
        after = capture(run.manager)
        prompt = (z3.K(INT, z3.IntVal(-1)), z3.IntVal(0))
        step: Any = Step(run.before, StateView(after), SeqTerm(SEQ_ID), prompt)
        run.executor.require(lift(post.others_unchanged(run.logic, step)), "no other table changes")
        ghost = ghosts_after(run, after, SEQ_ID, before.memory)
        completed(run, "free", Step(run.before, StateView(ghost), SeqTerm(SEQ_ID), prompt))

    return prove_operation(cls, program, at_end, options, {"BlockManager._release#1": release_loop})

"""append_slot: no loop; one token, and one block at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs import theory
from kvproofs.backend import StateView, Step
from kvproofs.executor import Executor, Goal, executing
from kvproofs.formulas import one
from kvproofs.operation import SEQ_ID, Run, answered, completed, ghosts_after, prove_operation, refused
from kvproofs.state import State, capture
from kvproofs.terms import INT, SIZE, Argument, SeqTerm, div, lift, mod, times
from kvspec import postconditions as post


def append(cls: Any, executor_options: dict[str, Any]) -> Iterator[Goal]:
    """append_slot, with any sequence id and anything for a token."""
    token = Argument(z3.Int("token"), *(z3.Bool(f"token_is_{kind}") for kind in ("int", "bool", "plain")))

    def program(manager: Any) -> Any:
        executing().assume(token.facts())
        return manager.append_slot(SeqTerm(SEQ_ID), token)

    def at_end(run: Run) -> None:
        before = run.before.state
        legal = z3.And(before.live(SEQ_ID), token.is_token())
        if not answered(run, legal, (errors.UnknownSequence, errors.InvalidArgument)):
            return
        prompt = (z3.K(INT, token.term), z3.IntVal(1))
        after = capture(run.manager)
        if run.outcome.error is not None:
            refused(run, "append", Step(run.before, StateView(after), SeqTerm(SEQ_ID), prompt, refused=True))
            run.prove("O2", "refused: it does not fit", z3.Not(fits(before, SEQ_ID)))
            return
        if run.outcome.value is None:
            run.prove("O5", "a slot is answered", z3.BoolVal(False))
            return
        step: Any = Step(run.before, StateView(after), SeqTerm(SEQ_ID), prompt, slot=run.outcome.value)
        run.executor.require(lift(post.others_unchanged(run.logic, step)), "no other table changes")
        pos = before.tokens_len[SEQ_ID]
        row, old = after.tokens[SEQ_ID], before.tokens[SEQ_ID]
        i = z3.Int("i")
        run.executor.require(after.tables_len[SEQ_ID] - 1 == div(pos), "the token is in the last block")
        run.executor.require(
            z3.ForAll([i], z3.Implies(z3.And(0 <= i, i < pos), row[i] == old[i])), "the tokens before stay"
        )
        extra = before.extra[SEQ_ID]
        run.executor.require(after.extra[SEQ_ID] == extra, "so does what it depends on beside them")
        for fact in theory.agreement(row, old, extra, pos):
            run.executor.assume(fact)
        block = after.tables[SEQ_ID][div(pos)]
        ghost = ghosts_after(
            run,
            after,
            SEQ_ID,
            lambda b, o: z3.If(z3.And(b == block, o == mod(pos)), theory.reading(row, extra, pos), before.cell(b, o)),
        )
        _append_hints(run.executor, before, ghost)
        completed(run, "append", Step(run.before, StateView(ghost), SeqTerm(SEQ_ID), prompt, slot=run.outcome.value))
        for label, claim in effects(before, after, SEQ_ID).items():
            run.prove("O5", label, claim)

    return prove_operation(cls, program, at_end, executor_options)


def fits(before: State, q: Any) -> Any:
    """The sequence has room in its last block, or a block can be had. Of these two, appends in a row speak."""
    return z3.Or(mod(before.tokens_len[q]) != 0, before.num_free_blocks >= 1)


def effects(before: State, after: State, q: Any) -> dict[str, Any]:
    """What one append leaves to the next."""
    length = before.tokens_len[q]
    return {
        "the same sequences are live": after.tables_has == before.tables_has,
        "one is a token longer": after.tokens_len == z3.Store(before.tokens_len, q, length + 1),
        "a block less can be had, if the last one was full": after.num_free_blocks
        == before.num_free_blocks - one(mod(length) == 0),
    }


def _append_hints(run: Executor, before: State, after: State) -> None:
    """Goals on the way: the key of a block that becomes full, and what the memory then holds there."""
    pos, k = before.tokens_len[SEQ_ID], div(before.tokens_len[SEQ_ID])
    row, old = after.tokens[SEQ_ID], before.tokens[SEQ_ID]
    extra, keys, count = before.extra[SEQ_ID], before.hashes[SEQ_ID], before.hashes_len[SEQ_ID]
    fills, o = z3.And(before.cache_on, mod(pos + 1) == 0), z3.Int("o")
    here, cell = times(k) + o, after.cell(after.tables[SEQ_ID][k], o)

    def everywhere(claim: Any) -> Any:
        return z3.ForAll([o], z3.Implies(z3.And(0 <= o, o < SIZE), claim))

    for label, claim in {
        "the block begins where the full ones end": pos + 1 - SIZE == times(k),
        "its parent is the key of the full ones": z3.Implies(k >= 1, keys[count - 1] == theory.prefix(old, extra, k)),
        "which the new token leaves as it is": theory.prefix(row, extra, k) == theory.prefix(old, extra, k),
        "its key is the next of the chain": after.hashes[SEQ_ID][count] == theory.prefix(row, extra, k + 1),
        "the memory holds the sequence's own prefix": everywhere(
            z3.And(
                div(here) == k,
                mod(here) == o,
                cell == theory.reading(row, extra, here),
                theory.reading(row, extra, here) == theory.content(theory.prefix(row, extra, k + 1), o),
            )
        ),
        "which is what the key stands for": everywhere(cell == theory.content(theory.prefix(row, extra, k + 1), o)),
    }.items():
        run.require(z3.Implies(fills, claim), label)

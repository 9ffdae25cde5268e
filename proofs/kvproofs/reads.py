"""The reads: slot, can_allocate, num_cached_tokens and block_table, with any argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from kvblocks import errors
from kvproofs.containers import List
from kvproofs.executor import Goal
from kvproofs.operation import SEQ_ID, Run, prove_operation, unchanged
from kvproofs.terms import BOOL, Argument, Int, SeqTerm, lift
from kvspec import postconditions as post

NUMBER = Argument(z3.Int("argument"), z3.Const("argument_is_int", BOOL), z3.Const("argument_is_bool", BOOL))
POSITION = Int(z3.Int("pos"))

_MISUSE = errors.UnknownSequence | errors.InvalidArgument | errors.PositionOutOfRange


def _read(
    call: Callable[[Any], Any], legal: Callable[[Run], Any], answer: Callable[[Run], tuple[str, Any]]
) -> Callable[[Any, dict[str, Any]], Iterator[Goal]]:
    def at_end(run: Run) -> None:
        error = run.outcome.error
        unchanged(run, "O11")
        if isinstance(error, _MISUSE):
            run.prove("O10", "a legal call is no misuse", z3.Not(legal(run)))
        elif error is not None:
            run.prove("O2", f"a read does not raise {type(error).__name__}", z3.BoolVal(False))
        else:
            run.prove("O10", "misuse is named", legal(run))
            is_answered = run.outcome.value is not None
            theorem, claim = answer(run) if is_answered else ("O2", z3.BoolVal(False))
            run.prove(theorem, "the answer", claim)

    return lambda cls, options: prove_operation(cls, call, at_end, options)


def _is_live(run: Run) -> Any:
    return run.before.state.live(SEQ_ID)


def _position_exists(run: Run) -> Any:
    return z3.And(_is_live(run), 0 <= POSITION.term, POSITION.term < run.before.state.tokens_len[SEQ_ID])


def _is_size(run: Run) -> Any:
    return z3.And(NUMBER.is_int, z3.Not(NUMBER.is_bool), NUMBER.term >= 0)


def _the_table(run: Run) -> tuple[str, Any]:
    answer, state = run.outcome.value, run.before.state
    if not isinstance(answer, List) or not answer.is_private:
        return "O11", z3.BoolVal(False)
    array, start, length = answer.snapshot()
    i = z3.Int("i")
    same = z3.ForAll([i], z3.Implies(z3.And(0 <= i, i < length), array[i] == state.tables[SEQ_ID][i]))
    return "O11", z3.And(start == 0, length == state.tables_len[SEQ_ID], same)


slot = _read(
    lambda m: m.slot(SeqTerm(SEQ_ID), POSITION),
    _position_exists,
    lambda run: ("O5", post.slot_is(run.logic, run.before, SeqTerm(SEQ_ID), POSITION, run.outcome.value)),
)
can_allocate = _read(
    lambda m: m.can_allocate(NUMBER),
    _is_size,
    lambda run: ("O3", post.can_allocate_is_coarse(run.logic, run.before, NUMBER, run.outcome.value)),
)
num_cached_tokens = _read(
    lambda m: m.num_cached_tokens(SeqTerm(SEQ_ID)),
    _is_live,
    lambda run: ("O4", lift(run.outcome.value == run.before.cached(SeqTerm(SEQ_ID)))),
)
block_table = _read(lambda m: m.block_table(SeqTerm(SEQ_ID)), _is_live, _the_table)
